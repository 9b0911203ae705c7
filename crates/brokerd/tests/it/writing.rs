//! `write_file`: what it writes, what it refuses, and the labels that stay on what was written.

use crate::support::{Started, TestHome, owner, raise, session};
use brokerd::ledger::{Durability, Ledger, MAX_LABELLED_FILES, Spot, WHOLE};
use bxcore::code::Code;
use bxcore::label::{Class, Label};
use bxcore::transcript::CallOutcome;
use bxcore::wire::brokerd::{CallResult, Endorse};
use serde_json::json;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::PathBuf;

const SECRET: Label = Label::new(Class::Secret, false);

/// A home where files may be written, also in the owner's `notes`.
struct Desk {
    test: TestHome,
    notes: PathBuf,
}

impl Desk {
    fn new() -> Self {
        let test = TestHome::new();
        let (notes, fixed) = (test.beside("notes"), test.beside("fixed"));
        test.configure(&format!(
            "[[grant]]\ntool = \"write_file\"\nmax_taint = \"secret\"\n\n\
             [[workspace]]\npath = \"{}\"\nwritable = true\n\n[[workspace]]\npath = \"{}\"\n",
            notes.display(),
            fixed.display()
        ));
        Self { test, notes }
    }
}

async fn write(
    started: &Started,
    id: &str,
    call: u64,
    path: &str,
    content: &str,
    mode: &str,
) -> CallResult {
    let arguments = json!({"path": path, "content": content, "mode": mode}).to_string();
    started.call(id, call, "write_file", &arguments).await
}

#[tokio::test]
async fn files_are_made_replaced_and_added_to() {
    let desk = Desk::new();
    let started = desk.test.start();
    started.register("s", owner()).await;
    let own = desk.test.workspace("s");
    let check = async |call, path: &str, content: &str, mode: &str, said: &str| {
        let result = write(&started, "s", call, path, content, mode).await;
        assert_eq!(
            (result.outcome, result.content.as_str()),
            (CallOutcome::Ok, said)
        );
        assert_eq!(result.session_label, Label::OWNER, "it only acknowledges");
    };
    check(
        1,
        "d/e/a.txt",
        "one",
        "create",
        "Wrote 3 bytes to `d/e/a.txt`.",
    )
    .await;
    check(
        2,
        "d/e/a.txt",
        "two!",
        "replace",
        "Wrote 4 bytes to `d/e/a.txt`.",
    )
    .await;
    check(
        3,
        "d/e/a.txt",
        "+ü",
        "append",
        "Added 3 bytes to `d/e/a.txt`, which has 7 now.",
    )
    .await;
    check(
        4,
        "new.txt",
        "x",
        "append",
        "Added 1 bytes to `new.txt`, which has 1 now.",
    )
    .await;
    check(
        5,
        "notes/n.txt",
        "",
        "replace",
        "Wrote 0 bytes to `notes/n.txt`.",
    )
    .await;
    // What is there already, to the byte, has been made.
    check(
        6,
        "d/e/a.txt",
        "two!+ü",
        "create",
        "Wrote 7 bytes to `d/e/a.txt`.",
    )
    .await;
    let file = own.join("d/e/a.txt");
    assert_eq!(std::fs::read_to_string(&file).unwrap(), "two!+ü");
    assert_eq!(
        std::fs::metadata(&file).unwrap().permissions().mode() & 0o777,
        0o600
    );
    assert!(desk.notes.join("n.txt").is_file());

    // Rights are kept, except those that make a program run as somebody else.
    std::fs::set_permissions(&file, PermissionsExt::from_mode(0o4755)).unwrap();
    check(
        7,
        "d/e/a.txt",
        "3",
        "replace",
        "Wrote 1 bytes to `d/e/a.txt`.",
    )
    .await;
    assert_eq!(
        std::fs::metadata(&file).unwrap().permissions().mode() & 0o7777,
        0o755
    );
    assert_eq!(
        std::fs::read_dir(own.join("d/e")).unwrap().count(),
        1,
        "nothing beside it"
    );
    started.stop().await;
    desk.test.verify();
}

#[tokio::test]
async fn what_must_not_be_written_is_not() {
    let desk = Desk::new();
    let (own, outside) = (desk.test.workspace("s"), desk.test.beside("outside"));
    std::fs::write(outside.join("a.txt"), "untouched").unwrap();
    std::fs::write(own.join("there.txt"), "untouched").unwrap();
    std::fs::create_dir(own.join("folder")).unwrap();
    symlink(outside.join("a.txt"), own.join("link")).unwrap();
    symlink(&outside, own.join("way")).unwrap();
    symlink("folder", own.join("inner")).unwrap();
    symlink("nowhere", own.join("dangling")).unwrap();
    rustix::fs::mkfifoat(rustix::fs::CWD, own.join("fifo"), rustix::fs::Mode::RUSR).unwrap();
    let long = std::fs::File::create(own.join("long")).unwrap();
    long.set_len(brokerd::tools::MAX_WRITTEN_BYTES).unwrap();

    let started = desk.test.start();
    started.register("s", owner()).await;
    let mut call = 0;
    let mut check = async |path: &str, mode: &str, code, expect: &str| {
        call += 1;
        let result = write(&started, "s", call, path, "x", mode).await;
        assert_eq!(result.code, Some(code), "{path}: {}", result.content);
        assert!(
            result.content.contains(expect),
            "{path}: {}",
            result.content
        );
    };
    for mode in ["create", "replace", "append"] {
        check("link", mode, Code::ToolFailed, "a link").await;
        check("dangling", mode, Code::ToolFailed, "a link").await;
        check("way/a.txt", mode, Code::ToolFailed, "behind a link").await;
        check("inner/a.txt", mode, Code::ToolFailed, "behind a link").await;
        check(
            "there.txt/a.txt",
            mode,
            Code::ToolFailed,
            "behind a link or a file",
        )
        .await;
        check("folder", mode, Code::ToolFailed, "a folder").await;
        check(".", mode, Code::ToolFailed, "a folder").await;
        check("notes", mode, Code::ToolFailed, "a folder").await;
        check("fifo", mode, Code::ToolFailed, "not a file").await;
        check("fixed/a.txt", mode, Code::ToolFailed, "only to be read").await;
        check("../a.txt", mode, Code::PathOutsideWorkspace, "`..`").await;
        check("/tmp/a.txt", mode, Code::PathOutsideWorkspace, "absolute").await;
    }
    check("there.txt", "create", Code::ToolFailed, "exists already").await;
    check("long", "append", Code::ToolFailed, "longer than").await;
    check("a.txt", "overwrite", Code::InvalidArguments, "mode").await;
    started.stop().await;
    let text = |path: PathBuf| std::fs::read_to_string(path).unwrap();
    assert_eq!(text(outside.join("a.txt")), "untouched");
    assert_eq!(text(own.join("there.txt")), "untouched");
    assert_eq!(std::fs::read_dir(&outside).unwrap().count(), 1);
    assert!(!desk.test.root.path().join("fixed/a.txt").exists());
}

#[tokio::test]
async fn without_a_grant_and_from_strangers_nothing_is_written() {
    let desk = Desk::new();
    let started = desk.test.start();
    started
        .register("s", raise(Label::new(Class::Private, true)))
        .await;
    let result = write(&started, "s", 1, "a.txt", "x", "create").await;
    assert_eq!(result.code, Some(Code::UntrustedSession));
    started.stop().await;
    desk.test.configure("");
    let started = desk.test.start();
    started.register("t", owner()).await;
    let result = write(&started, "t", 1, "a.txt", "x", "create").await;
    assert_eq!(result.code, Some(Code::NoGrant));
    started.stop().await;
    assert!(!desk.test.workspace("s").join("a.txt").exists());
    assert!(!desk.test.workspace("t").join("a.txt").exists());
}

#[tokio::test]
async fn a_file_keeps_its_writers_label() {
    let desk = Desk::new();
    let started = desk.test.start();
    started.register("high", raise(SECRET)).await;
    write(
        &started,
        "high",
        1,
        "notes/plan/a.txt",
        "the plan",
        "create",
    )
    .await;
    write(&started, "high", 2, "notes/b.txt", "b", "create").await;
    started.stop().await;

    // Over a restart, for every way of reading, for as much as is read.
    std::fs::write(desk.notes.join("plan/other.txt"), "mine").unwrap();
    std::fs::write(desk.notes.join("plan.txt"), "mine").unwrap();
    symlink("plan/a.txt", desk.notes.join("shortcut")).unwrap();
    let started = desk.test.start();
    let mut session_number = 0;
    let mut check = async |tool: &str, arguments: &str, expect| {
        session_number += 1;
        let id = format!("low-{session_number}");
        started.register(&id, owner()).await;
        let result = started.call(&id, 1, tool, arguments).await;
        assert_eq!(result.outcome, CallOutcome::Ok, "{}", result.content);
        assert_eq!(result.label, expect, "{tool} {arguments}");
        assert_eq!(result.session_label, expect, "{tool} {arguments}");
    };
    check("read_file", r#"{"path":"notes/plan/a.txt"}"#, SECRET).await;
    check("read_file", r#"{"path":"notes/shortcut"}"#, SECRET).await;
    check(
        "read_file",
        r#"{"path":"notes/plan/other.txt"}"#,
        Label::OWNER,
    )
    .await;
    check("read_file", r#"{"path":"notes/plan.txt"}"#, Label::OWNER).await;
    check("list_dir", r#"{"path":"notes/plan"}"#, SECRET).await;
    check("list_dir", r#"{"path":"notes"}"#, SECRET).await;
    check("list_dir", "{}", Label::OWNER).await;
    check(
        "search_files",
        r#"{"pattern":"x","path":"notes/plan"}"#,
        SECRET,
    )
    .await;
    check("search_files", r#"{"pattern":"x"}"#, SECRET).await;
    // Whoever adds to it learns how long it is; who replaces it, nothing.
    check(
        "write_file",
        r#"{"path":"notes/plan/a.txt","content":"!","mode":"append"}"#,
        SECRET,
    )
    .await;
    check(
        "write_file",
        r#"{"path":"notes/b.txt","content":"b","mode":"create"}"#,
        SECRET,
    )
    .await;
    check(
        "write_file",
        r#"{"path":"notes/b.txt","content":"c","mode":"replace"}"#,
        Label::OWNER,
    )
    .await;
    check("read_file", r#"{"path":"notes/plan/a.txt"}"#, SECRET).await;
    started.stop().await;
    desk.test.verify();
}

/// That a file is there already tells of it too, and so may what it holds be guessed.
#[tokio::test]
async fn a_refusal_to_write_over_a_file_has_its_label() {
    let desk = Desk::new();
    let started = desk.test.start();
    started.register("high", raise(SECRET)).await;
    write(&started, "high", 1, "notes/pin.txt", "4711", "create").await;
    started.register("low", owner()).await;
    let guess = write(&started, "low", 1, "notes/pin.txt", "4710", "create").await;
    assert_eq!(guess.code, Some(Code::ToolFailed), "{}", guess.content);
    assert_eq!(guess.session_label, SECRET);
    started.stop().await;
}

/// The label is on disk before the first byte of the file: a crash in between leaves no file
/// without one.
#[tokio::test]
async fn a_file_is_labelled_before_it_is_written() {
    let desk = Desk::new();
    let started = desk.test.start();
    started.register("high", raise(SECRET)).await;
    // It fails after the label is put: nothing is written through a link.
    symlink("elsewhere", desk.notes.join("a.txt")).unwrap();
    let result = write(&started, "high", 1, "notes/a.txt", "x", "create").await;
    assert_eq!(result.code, Some(Code::ToolFailed));
    started.stop().await;
    let ledger = Ledger::open(&desk.test.home.broker_db()).unwrap();
    let root = format!(
        "owner:{}",
        std::fs::canonicalize(&desk.notes).unwrap().display()
    );
    assert_eq!(
        ledger
            .written_label(&[spot(&root, "a.txt", false)])
            .unwrap(),
        SECRET
    );
}

/// A call whose end a crash hid is made again where that changes nothing, and else reported.
#[tokio::test]
async fn only_adding_is_not_made_again_after_a_crash() {
    for (mode, outcome, content) in [
        ("create", CallOutcome::Ok, "x"),
        ("replace", CallOutcome::Ok, "x"),
        ("append", CallOutcome::Interrupted, "x"),
    ] {
        let desk = Desk::new();
        let started = desk.test.start();
        started.register("s", owner()).await;
        write(&started, "s", 1, "a.txt", "x", mode).await;
        started.stop().await;
        let db = rusqlite::Connection::open(desk.test.home.broker_db()).unwrap();
        assert_eq!(db.execute("UPDATE calls SET result = NULL", []).unwrap(), 1);
        drop(db);
        let started = desk.test.start();
        let result = write(&started, "s", 1, "a.txt", "x", mode).await;
        assert_eq!(result.outcome, outcome, "{mode}: {}", result.content);
        let file = desk.test.workspace("s").join("a.txt");
        assert_eq!(std::fs::read_to_string(file).unwrap(), content, "{mode}");
        started.stop().await;
    }
}

fn spot(root: &str, path: &str, below: bool) -> Spot {
    Spot {
        root: root.to_owned(),
        path: path.to_owned(),
        below,
    }
}

#[test]
fn labels_of_files_join_and_the_owner_changes_them() {
    let folder = tempfile::tempdir().unwrap();
    let mut ledger = Ledger::open(&folder.path().join("l.db")).unwrap();
    ledger.begin(Durability::Disk).unwrap();
    let untrusted = Label::new(Class::Public, true);
    let a = spot("owner:/n", "d/a", false);
    ledger.raise_written(&a, SECRET).unwrap();
    ledger.raise_written(&a, untrusted).unwrap();
    ledger
        .raise_written(&spot("owner:/n", "d%/b", false), untrusted)
        .unwrap();
    ledger.commit().unwrap();
    let check = |ledger: &Ledger, root, path, below, expect| {
        let found = ledger.written_label(&[spot(root, path, below)]).unwrap();
        assert_eq!(found, expect, "{root} {path} {below}");
    };
    for (root, path, below, expect) in [
        ("owner:/n", "d/a", false, Label::TOP),
        ("owner:/n", "d/a/x", false, Label::TOP),
        ("owner:/n", "d", true, Label::TOP),
        ("owner:/n", "d", false, Label::BOTTOM),
        ("owner:/n", WHOLE, true, Label::TOP),
        ("owner:/n", "d/ab", false, Label::BOTTOM),
        ("owner:/n", "D/A", true, Label::BOTTOM),
        ("owner:/n", "d%", true, untrusted),
        ("owner:/m", "d/a", true, Label::BOTTOM),
    ] {
        check(&ledger, root, path, below, expect);
    }
    ledger.begin(Durability::Disk).unwrap();
    let never = spot("owner:/n", "never", false);
    assert_eq!(ledger.endorse_written(&never, Label::BOTTOM).unwrap(), None);
    assert_eq!(
        ledger.endorse_written(&a, Label::OWNER).unwrap(),
        Some(Label::TOP)
    );
    ledger.commit().unwrap();
    check(&ledger, "owner:/n", "d/a", false, Label::OWNER);
    assert_eq!(ledger.written_label(&[]).unwrap(), Label::BOTTOM);
}

#[test]
fn more_files_than_are_kept_apart_share_the_folders_label() {
    let folder = tempfile::tempdir().unwrap();
    let mut ledger = Ledger::open(&folder.path().join("l.db")).unwrap();
    ledger.begin(Durability::Disk).unwrap();
    for n in 0..MAX_LABELLED_FILES {
        ledger
            .raise_written(&spot("r", &n.to_string(), false), Label::BOTTOM)
            .unwrap();
    }
    ledger
        .raise_written(&spot("r", "one more", false), SECRET)
        .unwrap();
    ledger.commit().unwrap();
    for path in ["one more", "0", "any"] {
        let found = ledger.written_label(&[spot("r", path, false)]).unwrap();
        assert_eq!(found, SECRET, "{path}");
    }
}

#[tokio::test]
async fn the_arguments_are_judged_as_they_are() {
    let desk = Desk::new();
    let started = desk.test.start();
    started.register("s", owner()).await;
    for (call, arguments) in [
        (1, r#"{"path":"a"}"#),
        (2, r#"{"path":"","content":"x"}"#),
        (3, r#"{"path":"a","content":"x","append":true}"#),
        (4, r#"{"path":"a","content":5}"#),
    ] {
        let result = started.call("s", call, "write_file", arguments).await;
        assert_eq!(result.code, Some(Code::InvalidArguments), "{arguments}");
    }
    let authority = started.broker.authority(session("s")).await.unwrap();
    assert_eq!(authority.label, Label::OWNER);
    started.stop().await;
}

/// What the owner says of a file counts from then on, is on record before it does, and is said of
/// that file alone.
#[tokio::test]
async fn the_owner_lowers_the_label_of_one_file_on_the_record() {
    let desk = Desk::new();
    let started = desk.test.start();
    started.register("secret", raise(SECRET)).await;
    for (call, path) in [(1, "notes/a.txt"), (2, "notes/b.txt"), (3, "own.txt")] {
        write(&started, "secret", call, path, "text", "create").await;
    }
    let read = async |call: u64, id: &str, path: &str| {
        started.register(id, owner()).await;
        let arguments = json!({ "path": path }).to_string();
        let result = started.call(id, call, "read_file", &arguments).await;
        assert_eq!(
            result.outcome,
            CallOutcome::Ok,
            "{path}: {}",
            result.content
        );
        result.session_label
    };
    assert_eq!(read(1, "r1", "notes/a.txt").await, SECRET);
    let endorse = |session: Option<&str>, path: &str, why: &str| Endorse {
        session: session.map(crate::support::session),
        path: path.to_owned(),
        label: Label::OWNER,
        why: why.to_owned(),
    };
    let done = started
        .broker
        .endorse(endorse(None, "notes/a.txt", "I read it"));
    let done = done.await.unwrap();
    assert_eq!((done.before, done.after), (SECRET, Label::OWNER));
    assert_eq!(read(1, "r2", "notes/a.txt").await, Label::OWNER);
    assert_eq!(read(1, "r3", "notes/b.txt").await, SECRET, "another file");
    assert_eq!(
        started.broker.authority(session("r1")).await.unwrap().label,
        SECRET,
        "what a session has read stays read"
    );
    // A session's own folder is one object.
    let own = started.broker.endorse(endorse(Some("secret"), ".", "mine"));
    assert_eq!(own.await.unwrap().before, SECRET);
    for (session, path, why, code) in [
        (None, "notes/none.txt", "x", Code::NotFound),
        (None, "nowhere/a.txt", "x", Code::NotFound),
        (None, "../notes/a.txt", "x", Code::NotFound),
        (None, "notes", "x", Code::NotFound),
        (Some("never"), ".", "x", Code::SessionUnknown),
        (Some("r1"), ".", "x", Code::NotFound),
        // One file can't be lifted out of a folder with one label, there or not.
        (Some("secret"), "own.txt", "x", Code::BadRequest),
        (Some("secret"), "none.txt", "x", Code::BadRequest),
        // It has that label already.
        (None, "notes/a.txt", "x", Code::BadRequest),
        (None, "notes/b.txt", " ", Code::BadRequest),
    ] {
        let refused = started.broker.endorse(endorse(session, path, why)).await;
        assert_eq!(refused.unwrap_err().code, code, "{path}");
    }
    // Who writes it again with more on its mind raises it again.
    write(&started, "secret", 4, "notes/a.txt", "more", "append").await;
    assert_eq!(read(1, "r4", "notes/a.txt").await, SECRET);
    started.stop().await;
    let records = desk.test.records();
    let endorsed: Vec<_> = records
        .iter()
        .filter(|record| record["kind"] == "endorse")
        .collect();
    assert_eq!(endorsed.len(), 2);
    assert_eq!(endorsed[0]["seq"], done.audit);
    let body: serde_json::Value =
        serde_json::from_str(endorsed[0]["body"].as_str().unwrap()).unwrap();
    assert_eq!(
        (&body["path"], &body["why"]),
        (&json!("notes/a.txt"), &json!("I read it"))
    );
    desk.test.verify();
}

#[tokio::test]
async fn what_is_being_written_is_not_endorsed() {
    let test = TestHome::new();
    test.configure("[[grant]]\ntool = \"shell\"\nmax_taint = \"secret\"\n");
    let started = test.start_with_sandbox();
    started.register("s", raise(SECRET)).await;
    let own = test.workspace("s");
    let command =
        json!({"command": "touch began; until [ -e go ]; do sleep 0.01; done; echo x > f"});
    let broker = started.broker.clone();
    let call = crate::support::request("s", 1, "shell", &command.to_string());
    let writing = tokio::spawn(async move { broker.call(call).await.unwrap().result().unwrap() });
    while !own.join("began").exists() {
        assert!(!writing.is_finished(), "{:?}", writing.await);
        tokio::time::sleep(std::time::Duration::from_millis(5)).await;
    }
    let endorse = || Endorse {
        session: Some(session("s")),
        path: ".".to_owned(),
        label: Label::OWNER,
        why: "I looked at it".to_owned(),
    };
    let refused = started.broker.endorse(endorse()).await.unwrap_err();
    assert_eq!(refused.code, Code::BadRequest, "{refused}");
    std::fs::write(own.join("go"), "").unwrap();
    assert_eq!(writing.await.unwrap().outcome, CallOutcome::Ok);
    let done = started.broker.endorse(endorse()).await.unwrap();
    let written = Label::new(Class::Secret, true);
    assert_eq!(done.before, written);
    started.stop().await;
    let endorsed = |record: &&serde_json::Value| record["kind"] == "endorse";
    assert_eq!(test.records().iter().filter(endorsed).count(), 1);
    test.verify();
}
