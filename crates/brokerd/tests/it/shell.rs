//! `shell` through the broker: decided, labelled, recorded, and gone with brokerd.

use crate::support::{Started, TestHome, owner, raise, session};
use bxcore::code::Code;
use bxcore::label::{Class, Label};
use bxcore::transcript::CallOutcome;
use bxcore::wire::brokerd::CallResult;
use serde_json::json;

const GRANT: &str = "[[grant]]\ntool = \"shell\"\nmax_taint = \"private\"\n";
/// Commands of a session of the owner's that the owner calls trusted.
const TRUSTED: &str = "untrusted = false\n";

async fn shell(started: &Started, id: &str, call: u64, command: &str) -> CallResult {
    let arguments = json!({"command": command, "timeout_s": 60}).to_string();
    started.call(id, call, "shell", &arguments).await
}

#[tokio::test]
async fn a_command_is_decided_run_and_recorded() {
    let test = TestHome::new();
    test.configure(&format!("{GRANT}{TRUSTED}"));
    let started = test.start_with_sandbox();
    started.register("s", owner()).await;
    let check = async |call, command: &str, code, expect: &str| {
        let result = shell(&started, "s", call, command).await;
        assert_eq!(
            (result.code, result.content.as_str()),
            (code, expect),
            "{command}"
        );
    };
    check(1, "echo hello | tee a.txt", None, "[exit code 0]\nhello\n").await;
    check(
        2,
        "cat a.txt missing",
        None,
        "[exit code 1]\nhello\ncat: missing: No such file or directory\n",
    )
    .await;
    check(3, "true", None, "[exit code 0; no output]").await;
    check(
        4,
        "printf 'a\\377b'; kill -9 $$",
        None,
        "[ended by signal 9]\na\u{fffd}b",
    )
    .await;
    let slow = started
        .call(
            "s",
            5,
            "shell",
            r#"{"command":"echo begun; sleep 86381","timeout_s":1}"#,
        )
        .await;
    assert_eq!(
        (slow.outcome, slow.code, slow.content.as_str()),
        (
            CallOutcome::Failed,
            Some(Code::ToolFailed),
            "[stopped after 1 s]\nbegun\n"
        )
    );
    let long = shell(&started, "s", 6, "seq 1 100000").await;
    assert!(long.content.len() <= 8192, "{}", long.content.len());
    assert!(
        long.content.starts_with("[exit code 0]\n1\n2\n"),
        "{}",
        long.content
    );
    assert!(
        long.content.ends_with("99999\n100000\n"),
        "{}",
        &long.content[8000..]
    );
    // Read by the other tools, and read again from the record.
    let read = started
        .call("s", 7, "read_file", r#"{"path":"a.txt"}"#)
        .await;
    assert_eq!(
        (read.content.as_str(), read.session_label),
        ("hello\n", Label::OWNER)
    );
    check(1, "echo hello | tee a.txt", None, "[exit code 0]\nhello\n").await;
    started.stop().await;
    test.verify();
    let intent = &test.records()[1];
    assert_eq!(
        (&intent["tool"], &intent["grant"]),
        (&"shell".into(), &1.into())
    );
}

#[tokio::test]
async fn what_a_command_gives_is_untrusted_unless_the_grant_says_otherwise() {
    let test = TestHome::new();
    test.configure(GRANT);
    let started = test.start_with_sandbox();
    started.register("s", owner()).await;
    let first = shell(&started, "s", 1, "echo x > a.txt").await;
    assert_eq!(first.session_label, Label::new(Class::Private, true));
    let second = shell(&started, "s", 2, "true").await;
    assert_eq!(second.code, Some(Code::UntrustedSession));
    started.stop().await;
}

#[tokio::test]
async fn without_a_grant_or_a_sandbox_nothing_runs() {
    let test = TestHome::new();
    let started = test.start_with_sandbox();
    started.register("s", owner()).await;
    let is_offered = async |started: &Started| {
        let tools = started.broker.tools(session("s")).await.unwrap();
        tools.iter().any(|tool| tool.name.as_str() == "shell")
    };
    assert!(!is_offered(&started).await);
    let result = shell(&started, "s", 1, "touch ran").await;
    assert_eq!(result.code, Some(Code::NoGrant));
    started.stop().await;
    test.configure(GRANT);
    let started = test.start();
    assert!(is_offered(&started).await);
    let result = shell(&started, "s", 2, "touch ran").await;
    assert_eq!(
        (result.outcome, result.code),
        (CallOutcome::Failed, Some(Code::SandboxUnavailable))
    );
    started.stop().await;
    assert!(!test.workspace("s").join("ran").exists());
}

#[tokio::test]
async fn a_command_sees_only_folders_that_its_sessions_label_covers() {
    let test = TestHome::new();
    let (notes, vault) = (test.beside("notes"), test.beside("vault"));
    std::fs::write(notes.join("n.txt"), "a note").unwrap();
    std::fs::write(vault.join("key"), "swordfish").unwrap();
    test.configure(&format!(
        "[[grant]]\ntool = \"shell\"\nmax_taint = \"secret\"\n{TRUSTED}\n\
         [[workspace]]\npath = \"{}\"\n\n[[workspace]]\npath = \"{}\"\nclass = \"secret\"\n",
        notes.display(),
        vault.display()
    ));
    let started = test.start_with_sandbox();
    for (id, label, expect) in [
        ("low", Label::OWNER, "[exit code 0]\nnotes\n"),
        (
            "high",
            Label::new(Class::Secret, false),
            "[exit code 0]\nnotes\nvault\n",
        ),
    ] {
        started.register(id, raise(label)).await;
        let result = shell(&started, id, 1, "ls /owner").await;
        assert_eq!(
            (result.content.as_str(), result.session_label),
            (expect, label)
        );
    }
    started.stop().await;
}

/// What a command wrote carries what it could read, whatever became of its session's label.
#[tokio::test]
async fn files_that_a_command_wrote_keep_its_label() {
    let test = TestHome::new();
    let folder = test.home.broker_db();
    test.configure(GRANT);
    let started = test.start_with_sandbox();
    started.register("s", owner()).await;
    shell(&started, "s", 1, "echo x > a.txt").await;
    started.stop().await;
    let db = rusqlite::Connection::open(folder).unwrap();
    db.execute_batch("DROP TRIGGER labels_only_rise; UPDATE sessions SET untrusted = 0")
        .unwrap();
    drop(db);
    let started = test.start_with_sandbox();
    let read = started
        .call("s", 2, "read_file", r#"{"path":"a.txt"}"#)
        .await;
    assert_eq!(read.session_label, Label::new(Class::Private, true));
    started.stop().await;
}
