//! Tables for files that lack something or have too much.

use super::*;
use std::fs;
use tempfile::TempDir;

/// A journal of two rows, for a file of which 4 bytes are not in the journal any more.
fn pieces() -> [Piece; 2] {
    let piece = |first_byte, text: &str| Piece {
        first_byte,
        text: text.to_owned(),
    };
    [piece(4, "one\n"), piece(8, "two\n")]
}

fn with_file(content: &[u8]) -> (TempDir, PathBuf) {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("log.jsonl");
    fs::write(&path, content).unwrap();
    (folder, path)
}

#[test]
fn a_file_gets_what_it_lacks_and_keeps_what_is_in_the_way() {
    let check = |content: &str, added: u64, aside: Option<&str>, expect: &str| {
        let (_folder, path) = with_file(content.as_bytes());
        let completion = complete(&path, &pieces(), Trust::Whole).unwrap();
        let Completion::Done {
            added: told,
            set_aside,
        } = completion
        else {
            panic!("{completion:?}")
        };
        assert_eq!(told, added, "{content:?}");
        let kept = set_aside.map(|(to, bytes)| {
            let kept = fs::read_to_string(to).unwrap();
            assert_eq!(kept.len() as u64, bytes);
            kept
        });
        assert_eq!(kept.as_deref(), aside, "{content:?}");
        assert_eq!(fs::read_to_string(&path).unwrap(), expect);
    };
    check("old\n", 8, None, "old\none\ntwo\n");
    check("old\none\n", 4, None, "old\none\ntwo\n");
    check("old\none\ntw", 2, None, "old\none\ntwo\n");
    check("old\none\ntwo\n", 0, None, "old\none\ntwo\n");
    check(
        "old\none\0\0\0\0\0",
        5,
        Some("\0\0\0\0\0"),
        "old\none\ntwo\n",
    );
    check(
        "old\nxxx\ntwo\nmore",
        8,
        Some("xxx\ntwo\nmore"),
        "old\none\ntwo\n",
    );
    // What comes after the journal is none of its business.
    check("old\none\ntwo\nmore", 0, None, "old\none\ntwo\nmore");
}

#[test]
fn a_file_whose_sync_failed_is_written_again() {
    let (_folder, path) = with_file(b"old\none\ntwo\n");
    let completion = complete(&path, &pieces(), Trust::UpToJournal).unwrap();
    assert_eq!(
        completion,
        Completion::Done {
            added: 8,
            set_aside: None
        }
    );
    assert_eq!(fs::read(&path).unwrap(), b"old\none\ntwo\n");
}

#[test]
fn a_gap_before_the_journal_is_not_closed() {
    let (_folder, path) = with_file(b"ol");
    let completion = complete(&path, &pieces(), Trust::Whole).unwrap();
    assert_eq!(completion, Completion::TooShort { file_bytes: 2 });
    fs::remove_file(&path).unwrap();
    let completion = complete(&path, &pieces(), Trust::Whole).unwrap();
    assert_eq!(completion, Completion::TooShort { file_bytes: 0 });
    assert!(!path.exists());
}

#[test]
fn pieces_kept_beside_a_file_have_names_of_their_own() {
    let (_folder, path) = with_file(b"");
    let first = keep_beside(&path, b"a").unwrap();
    let second = keep_beside(&path, b"b").unwrap();
    assert_eq!(first.file_name().unwrap(), "log.jsonl.torn-1");
    assert_eq!(second.file_name().unwrap(), "log.jsonl.torn-2");
    assert_eq!(fs::read(first).unwrap(), b"a");
}
