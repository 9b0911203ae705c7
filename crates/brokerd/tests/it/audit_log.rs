//! The log on disk: every flipped byte is found, by both readers; heads; showing records.

use crate::support::{TestHome, owner, second_reader};
use bxcore::audit::AUDIT_VERSION;
use bxcore::code::Code;
use bxkit::audit_reader::{self, Expected};
use std::path::{Path, PathBuf};

/// A log with every kind of line that there is yet, and a payload file.
async fn written() -> TestHome {
    let test = TestHome::new();
    std::fs::write(test.workspace("s").join("a.txt"), "ü\u{1b}<|x|>\n").unwrap();
    let started = test.start();
    started.register("s", owner()).await;
    started
        .call("s", 1, "read_file", r#"{"path":"a.txt"}"#)
        .await;
    started.call("s", 2, "shell", &"x".repeat(70_000)).await;
    started.stop().await;
    test.verify();
    test
}

fn flip(path: &Path, at: usize, by: u8) -> impl FnOnce() + use<> {
    let path = path.to_owned();
    let whole = std::fs::read(&path).unwrap();
    let mut flipped = whole.clone();
    flipped[at] ^= by;
    std::fs::write(&path, flipped).unwrap();
    move || std::fs::write(path, whole).unwrap()
}

#[tokio::test]
async fn each_flipped_byte_is_found() {
    let test = written().await;
    let folder = test.home.audit_dir();
    let segment = test.segments().remove(0);
    let length = std::fs::read(&segment).unwrap().len();
    for at in 0..length {
        for by in [1, 0x80].into_iter().take(1 + usize::from(at % 16 == 0)) {
            let restore = flip(&segment, at, by);
            let found = audit_reader::verify(&folder, None).is_err();
            assert!(found, "byte {at} of {length} flipped by {by:#x}");
            restore();
        }
    }
    let payloads = folder.join("payloads");
    let payload = std::fs::read_dir(payloads)
        .unwrap()
        .next()
        .unwrap()
        .unwrap()
        .path();
    let restore = flip(&payload, 69_999, 4);
    let fault = audit_reader::verify(&folder, None).unwrap_err();
    assert_eq!(fault.code(), Code::AuditChainBroken);
    assert!(fault.to_string().contains("payload file"), "{fault}");
    restore();
    test.verify();
}

/// The second reader starts a process each time, so it sees a sample.
#[tokio::test]
async fn the_second_reader_finds_them_too() {
    let test = written().await;
    let folder = test.home.audit_dir();
    let segment = test.segments().remove(0);
    let length = std::fs::read(&segment).unwrap().len();
    for at in (0..length).step_by(length / 12).chain([length - 1]) {
        let restore = flip(&segment, at, 1);
        let Some(said) = second_reader(&folder) else {
            return restore();
        };
        assert!(said.is_err(), "byte {at}: {said:?}");
        restore();
    }
}

#[tokio::test]
async fn a_flipped_byte_keeps_brokerd_from_starting() {
    let test = written().await;
    let segment = test.segments().remove(0);
    let restore = flip(&segment, 200, 1);
    assert_eq!(test.try_open().unwrap_err().code, Code::AuditChainBroken);
    restore();
    test.start().stop().await;
}

#[tokio::test]
async fn a_cut_tail_is_found_by_whoever_knows_the_head() {
    let test = written().await;
    let folder = test.home.audit_dir();
    let head = test.verify().head;
    let expected = Expected {
        seq: head.seq,
        hash: head.hex(),
    };
    audit_reader::verify(&folder, Some(&expected)).unwrap();
    let segment = test.segments().remove(0);
    let text = std::fs::read_to_string(&segment).unwrap();
    let cut = text.trim_end().rfind('\n').unwrap() + 1;
    std::fs::write(&segment, &text[..cut]).unwrap();
    audit_reader::verify(&folder, None).unwrap();
    let fault = audit_reader::verify(&folder, Some(&expected)).unwrap_err();
    assert!(
        fault.to_string().contains("is missing or has another hash"),
        "{fault}"
    );
}

#[tokio::test]
async fn showing_a_record_gives_exact_bytes_and_is_recorded() {
    let test = written().await;
    let started = test.start();
    let shown = started.broker.show(2).await.unwrap();
    assert_eq!(
        (&shown["seq"], &shown["kind"]),
        (&2.into(), &"intent".into())
    );
    assert_eq!(shown["outcome"]["intent"], 2);
    // Asked for by its outcome it is the same record.
    assert_eq!(started.broker.show(3).await.unwrap(), shown);
    let denied = started.broker.show(4).await.unwrap();
    assert_eq!(
        denied["body"].as_str().unwrap().len(),
        70_000,
        "read from its file"
    );
    assert_eq!(denied["outcome"], serde_json::Value::Null);
    let problem = started.broker.show(9_999).await.unwrap_err();
    assert_eq!(problem.code, Code::NotFound);
    started.stop().await;
    test.verify();
    let records = test.records();
    let readings: Vec<_> = records
        .iter()
        .filter(|r| r["tool"] == "audit:show")
        .collect();
    assert_eq!(readings.len(), 8, "an intent and an outcome for each");
    assert_eq!(readings[0]["body"], r#"{"seq":2}"#);
    assert_eq!(readings[7]["reason"], "not-found");
}

#[tokio::test]
async fn files_and_folders_are_the_owners_alone() {
    use std::os::unix::fs::PermissionsExt;
    let test = written().await;
    let mode = |path: &Path| path.metadata().unwrap().permissions().mode() & 0o777;
    let folder = test.home.audit_dir();
    assert_eq!(mode(&folder), 0o700);
    assert_eq!(mode(&folder.join("payloads")), 0o700);
    assert_eq!(mode(&test.segments()[0]), 0o600);
    let payload = std::fs::read_dir(folder.join("payloads"))
        .unwrap()
        .next()
        .unwrap()
        .unwrap();
    assert_eq!(mode(&payload.path()), 0o600);
    assert_eq!(mode(&test.home.broker_db()), 0o600);
    let started = test.start();
    started.register("t", owner()).await;
    started.call("t", 1, "list_dir", "{}").await;
    started.stop().await;
    assert_eq!(mode(&test.workspace("t")), 0o700);
}

/// A log of each version of the format: five records, of which one has its body in a payload file.
fn golden(version: u32) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("tests/golden")
        .join(format!("audit-v{version}"))
}

#[test]
fn a_log_of_every_version_holds_for_both_readers() {
    for version in 1..=AUDIT_VERSION {
        let verified = audit_reader::verify(&golden(version), None).unwrap();
        assert_eq!(verified.records, 5, "version {version}");
        if let Some(said) = second_reader(&golden(version)) {
            said.unwrap();
        }
    }
}

/// An update of Boxmaker must be able to go on with the log that is there.
#[test]
fn a_log_of_every_version_is_gone_on_with() {
    for version in 1..=AUDIT_VERSION {
        let test = TestHome::new();
        let folder = test.home.audit_dir();
        let payloads = Path::new("payloads");
        std::fs::create_dir_all(folder.join(payloads)).unwrap();
        for below in [Path::new(""), payloads] {
            for file in std::fs::read_dir(golden(version).join(below)).unwrap() {
                let file = file.unwrap();
                if file.file_type().unwrap().is_file() {
                    std::fs::copy(file.path(), folder.join(below).join(file.file_name())).unwrap();
                }
            }
        }
        test.start_and_stop();
        // The configuration of this start, and the checkpoint of its end.
        assert_eq!(test.verify().records, 7, "version {version}");
        assert_eq!(test.records()[5]["kind"], "config");
    }
}
