//! The transcript's format: the golden file of each version is read, entry by entry.

use crate::support::*;
use bxcore::transcript::{Entry, TRANSCRIPT_VERSION};
use bxcore::wire::loopd::SessionStatus;
use loopd::store::Counters;
use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

fn golden(version: u32) -> String {
    let path = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("tests/golden")
        .join(format!("transcript-v{version}.jsonl"));
    fs::read_to_string(path).unwrap()
}

fn kind(entry: &Entry) -> &'static str {
    match entry {
        Entry::Open(_) => "open",
        Entry::Epoch(_) => "epoch",
        Entry::User(_) => "user",
        Entry::Assistant(_) => "assistant",
        Entry::Tool(_) => "tool",
        Entry::TurnEnd(_) => "turn_end",
    }
}

#[test]
fn every_version_is_read() {
    for version in 1..=TRANSCRIPT_VERSION {
        let text = golden(version);
        let lines = loopd::session::read(&id("chat-golden"), text.as_bytes()).unwrap();
        let kinds: BTreeSet<_> = lines.iter().map(|line| kind(&line.entry)).collect();
        assert_eq!(kinds.len(), 6, "version {version} has only {kinds:?}");
        assert!(lines.iter().all(|line| line.v == version));
    }
}

/// What is written today is what the newest golden file has, byte for byte.
#[test]
fn the_newest_version_is_written_as_it_stands() {
    let text = golden(TRANSCRIPT_VERSION);
    let lines = loopd::session::read(&id("chat-golden"), text.as_bytes()).unwrap();
    let written: String = lines
        .iter()
        .map(|line| loopd::session::encode(line).unwrap())
        .collect();
    for (written, golden) in written.lines().zip(text.lines()) {
        assert_eq!(written, golden);
    }
    assert_eq!(written, text);
}

#[test]
fn a_golden_transcript_is_taken_up_by_a_store() {
    let folder = Folder::new();
    let session = id("chat-golden");
    fs::create_dir_all(folder.log(&session).parent().unwrap()).unwrap();
    fs::write(folder.log(&session), golden(TRANSCRIPT_VERSION)).unwrap();
    block_on(async {
        let (store, recovery) = folder.open();
        assert_eq!(recovery.repaired.len(), 1);
        let row = store.session(&session).await.unwrap();
        let parent = row.parent.map(String::from);
        assert_eq!(parent.as_deref(), Some("heartbeat"));
        assert_eq!((row.title.as_str(), row.turns), ("What time is it?", 2));
        assert_eq!((row.label, row.status), (SECRET, SessionStatus::Idle));
        let counters = store.counters(&session).await.unwrap();
        let Counters {
            turn,
            epoch,
            call,
            model_call,
        } = counters;
        assert_eq!((turn.0, epoch.0, call.0, model_call.0), (2, 2, 2, 4));
    });
}
