//! What needs a look inside: small segments, a device in place of the file.

use super::{AuditError, Boot, Log, Opened, Record, Synced};
use bxcore::audit::Kind;
use bxcore::code::Code;
use bxkit::audit_reader;
use jiff::Timestamp;
use std::fs::File;
use std::path::Path;

const SMALL_SEGMENT_BYTES: u64 = 1_000;

fn open(folder: &Path) -> Log {
    let boot = Boot("boot".to_owned());
    let Opened { log, .. } =
        Log::open_with(folder, boot, Timestamp::UNIX_EPOCH, SMALL_SEGMENT_BYTES).unwrap();
    log
}

fn stage(log: &mut Log, body: &str, now: Timestamp) -> Result<u64, AuditError> {
    let record = Record {
        body: Some(body),
        ..Record::default()
    };
    log.stage(Kind::Config, &record, now)
}

#[test]
fn a_segment_that_is_full_is_followed_by_one_that_repeats_its_hash() {
    let folder = tempfile::tempdir().unwrap();
    let mut log = open(folder.path());
    for number in 0..20 {
        // One batch, so that a segment ends in the middle of it.
        stage(&mut log, &format!("body {number}"), Timestamp::UNIX_EPOCH).unwrap();
    }
    log.flush(Synced::Now).unwrap();
    drop(log);
    let mut log = open(folder.path());
    assert_eq!(log.head().seq, 20);
    stage(&mut log, "after a restart", Timestamp::UNIX_EPOCH).unwrap();
    log.flush(Synced::Now).unwrap();
    let segments = audit_reader::segments(folder.path()).unwrap();
    assert!(segments.len() > 4, "{}", segments.len());
    for (index, path) in segments.iter().enumerate() {
        let text = std::fs::read_to_string(path).unwrap();
        assert_eq!(
            text.lines().next().unwrap().contains("\"prev\":\""),
            index > 0
        );
        assert!(text.len() < 1_500, "{}", text.len());
    }
    assert_eq!(
        audit_reader::verify(folder.path(), None).unwrap().records,
        21
    );

    // A segment that is swapped for another, or missing, is found.
    let aside = folder.path().join("aside");
    std::fs::rename(&segments[1], &aside).unwrap();
    audit_reader::verify(folder.path(), None).unwrap_err();
    std::fs::rename(&aside, &segments[1]).unwrap();
    audit_reader::verify(folder.path(), None).unwrap();
}

#[test]
fn a_death_right_after_a_new_segment_was_made_is_no_fault() {
    let folder = tempfile::tempdir().unwrap();
    let mut log = open(folder.path());
    stage(&mut log, "one", Timestamp::UNIX_EPOCH).unwrap();
    log.flush(Synced::Now).unwrap();
    drop(log);
    File::create(folder.path().join("000002.jsonl")).unwrap();
    let mut log = open(folder.path());
    stage(&mut log, "two", Timestamp::UNIX_EPOCH).unwrap();
    log.flush(Synced::Now).unwrap();
    assert_eq!(
        audit_reader::verify(folder.path(), None).unwrap().records,
        2
    );
    let text = std::fs::read_to_string(folder.path().join("000002.jsonl")).unwrap();
    assert!(text.contains("\"prev\":\""));
}

#[test]
fn a_failed_write_or_sync_is_never_tried_again() {
    for device in ["/dev/full", "/dev/null"] {
        let folder = tempfile::tempdir().unwrap();
        let mut log = open(folder.path());
        // The first refuses writing, the second syncing.
        log.segment
            .divert(File::options().append(true).open(device).unwrap());
        stage(&mut log, "lost", Timestamp::UNIX_EPOCH).unwrap();
        let error = log.flush(Synced::Now).unwrap_err();
        assert!(matches!(error, AuditError::Io { .. }), "{device}: {error}");
        assert_eq!(error.code(), Code::AuditUnavailable);
        let error = log.flush(Synced::Now).unwrap_err();
        assert!(matches!(error, AuditError::Stopped));
        let error = stage(&mut log, "more", Timestamp::UNIX_EPOCH).unwrap_err();
        assert_eq!(error.code(), Code::AuditUnavailable);
    }
}

#[test]
fn the_chain_holds_whatever_the_clock_does() {
    let folder = tempfile::tempdir().unwrap();
    let mut log = open(folder.path());
    for seconds in [1_800_000_000, 1_799_900_000, 1_830_000_000, 0] {
        stage(&mut log, "x", Timestamp::from_second(seconds).unwrap()).unwrap();
    }
    log.flush(Synced::Now).unwrap();
    let verified = audit_reader::verify(folder.path(), None).unwrap();
    assert_eq!((verified.records, verified.head), (4, log.head()));
}

#[test]
fn a_body_of_any_size_and_kind_comes_back_as_it_was() {
    let folder = tempfile::tempdir().unwrap();
    let mut log = open(folder.path());
    let bodies = [
        String::new(),
        "\u{0}\u{1f}\"\\\u{2028}ü\u{10ffff}".to_owned(),
        "x".repeat(65_536),
        "\u{1}".repeat(65_536),
        "y".repeat(65_537),
        "z".repeat(3_000_000),
    ];
    let seqs: Vec<u64> = bodies
        .iter()
        .map(|body| stage(&mut log, body, Timestamp::UNIX_EPOCH).unwrap())
        .collect();
    log.flush(Synced::Now).unwrap();
    audit_reader::verify(folder.path(), None).unwrap();
    for (seq, body) in seqs.iter().zip(&bodies) {
        let found = audit_reader::find(folder.path(), *seq).unwrap().unwrap();
        let record: serde_json::Value = serde_json::from_str(&found.record).unwrap();
        let whole = if let Some(inline) = record["body"].as_str() {
            inline.to_owned()
        } else {
            let name = record["body_sha256"].as_str().unwrap();
            audit_reader::payload(folder.path(), name).unwrap()
        };
        assert_eq!(&whole, body);
        assert_eq!(record["body"].is_null(), body.len() > 65_536);
    }
}

/// The text of a record is the format: it changes only together with its version.
#[test]
fn a_record_is_written_like_this() {
    let folder = tempfile::tempdir().unwrap();
    let mut log = open(folder.path());
    stage(&mut log, "[[grant]]\n", Timestamp::UNIX_EPOCH).unwrap();
    log.flush(Synced::Now).unwrap();
    let text = std::fs::read_to_string(folder.path().join("000001.jsonl")).unwrap();
    insta::assert_snapshot!(text, @r#"{"v":1,"seq":1,"ts":"1970-01-01T00:00:00.000Z","boot":"boot","kind":"config","session":null,"call":null,"tool":null,"label":null,"grant":null,"decision":null,"reason":null,"body":"[[grant]]\n","body_len":10,"body_sha256":"966ec7522875db2f48003500b08bf20776bb260d2e21466cae03e9217e16a6f0","h":"033c84efd7f691dfa606ea260a36d2ae63956bf26f9c636248cdfe43cc063602"}"#);
}
