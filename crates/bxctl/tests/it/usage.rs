//! Commands that need nothing that runs, and what is said where nothing does.

use std::path::Path;
use std::process::{Command, Output};

fn bxctl(home: &Path, words: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_bxctl"))
        .args(words)
        .env_clear()
        .env("BOXMAKER_HOME", home)
        .env("PATH", "/usr/bin:/bin")
        .output()
        .unwrap()
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8(bytes.to_vec()).unwrap()
}

#[test]
fn help_is_an_answer_and_a_wrong_word_is_not() {
    let home = tempfile::tempdir().unwrap();
    let help = bxctl(home.path(), &["--help"]);
    assert_eq!(help.status.code(), Some(0));
    assert!(
        text(&help.stdout).contains("Usage: bxctl"),
        "{}",
        text(&help.stdout)
    );
    let wrong = bxctl(home.path(), &["aks", "hello"]);
    assert_eq!(wrong.status.code(), Some(2));
    assert!(wrong.stdout.is_empty());
    assert!(
        text(&wrong.stderr).contains("unrecognized subcommand 'aks'"),
        "{}",
        text(&wrong.stderr)
    );
}

#[test]
fn without_anything_that_runs_it_is_said_how_to_start_it() {
    let home = tempfile::tempdir().unwrap();
    for words in [
        &["sessions"][..],
        &["slots"],
        &["status"],
        &["ask", "hi"],
        &["session", "log", "chat-1"],
    ] {
        let output = bxctl(home.path(), words);
        assert_eq!(output.status.code(), Some(5), "{words:?}");
        assert!(output.stdout.is_empty(), "{words:?}");
        insta::allow_duplicates! {
            insta::assert_snapshot!(text(&output.stderr), @"
            error[role-unreachable]: Boxmaker is not running in this home
              try: `boxmaker up` starts it; `boxmaker ask`, `chat` and most others start it by themselves
              see: docs/runbook/role-unreachable.md
            ");
        }
    }
    let down = bxctl(home.path(), &["down"]);
    assert_eq!(
        (down.status.code(), text(&down.stdout).as_str()),
        (Some(0), "Boxmaker was not running.\n")
    );
    let json = bxctl(home.path(), &["status", "--json"]);
    let problem: serde_json::Value = serde_json::from_slice(&json.stderr).unwrap();
    assert_eq!(problem["code"], "role-unreachable");
}

#[test]
fn up_needs_the_full_executable() {
    let home = tempfile::tempdir().unwrap();
    let output = bxctl(home.path(), &["up"]);
    assert_eq!(output.status.code(), Some(2));
    insta::assert_snapshot!(text(&output.stderr), @"
    error[bad-usage]: `up` is a command of the `boxmaker` executable
      bxctl is the client alone: it can't be the roles
      try: boxmaker up
      see: docs/runbook/bad-usage.md
    ");
}

#[test]
fn init_writes_what_is_missing_and_keeps_what_is_there() {
    let home = tempfile::tempdir().unwrap();
    let first = bxctl(home.path(), &["init", "--json"]);
    assert_eq!(first.status.code(), Some(0), "{}", text(&first.stderr));
    let answer: serde_json::Value = serde_json::from_slice(&first.stdout).unwrap();
    assert_eq!(answer["written"].as_array().unwrap().len(), 4);
    let mine = home.path().join("config/loopd.toml");
    std::fs::write(&mine, "# mine\n").unwrap();
    std::fs::remove_file(home.path().join("config/brokerd.toml")).unwrap();
    let second = bxctl(home.path(), &["init", "--json"]);
    let answer: serde_json::Value = serde_json::from_slice(&second.stdout).unwrap();
    assert_eq!(answer["written"].as_array().unwrap().len(), 1);
    assert_eq!(std::fs::read_to_string(&mine).unwrap(), "# mine\n");
}

#[test]
fn templates_are_valid_with_and_without_their_settings() {
    for role in bxcore::role::Role::ALL {
        let text = bxctl::template(role);
        assert_eq!(
            toml::from_str::<toml::Table>(text).unwrap(),
            toml::Table::new(),
            "{role}: all is comment"
        );
        let set: String = text
            .lines()
            .filter_map(|line| line.strip_prefix('#'))
            .filter(|line| line.starts_with(|c: char| c == '[' || c.is_ascii_lowercase()))
            .flat_map(|line| [line, "\n"])
            .collect();
        toml::from_str::<toml::Table>(&set).unwrap_or_else(|error| panic!("{role}: {error}"));
    }
}

#[test]
fn a_reader_that_had_enough_is_no_failure() {
    let home = tempfile::tempdir().unwrap();
    let (reader, writer) = std::io::pipe().unwrap();
    drop(reader);
    let output = Command::new(env!("CARGO_BIN_EXE_bxctl"))
        .args(["completions", "bash"])
        .env("BOXMAKER_HOME", home.path())
        .stdout(writer)
        .output()
        .unwrap();
    assert_eq!(output.status.code(), Some(0));
    assert_eq!(text(&output.stderr), "");
}

#[test]
fn the_manual_and_completions_know_every_command() {
    let home = tempfile::tempdir().unwrap();
    let folder = home.path().join("man");
    let man = bxctl(home.path(), &["man", folder.to_str().unwrap()]);
    assert_eq!(man.status.code(), Some(0), "{}", text(&man.stderr));
    let pages: Vec<_> = std::fs::read_dir(folder)
        .unwrap()
        .map(|page| page.unwrap().file_name())
        .collect();
    assert!(
        pages.iter().any(|page| page == "bxctl-backend-add.1"),
        "{pages:?}"
    );
    for shell in ["bash", "zsh", "fish"] {
        let script = bxctl(home.path(), &["completions", shell]);
        assert!(text(&script.stdout).contains("backend"), "{shell}");
    }
}

#[test]
fn verifying_an_audit_log_needs_nothing_that_runs() {
    let home = tempfile::tempdir().unwrap();
    let audit = home.path().join("state/audit");
    std::fs::create_dir_all(&audit).unwrap();
    let (line, head) = bxcore::audit::Head::GENESIS
        .seal(r#"{"v":1,"seq":1,"ts":"2026-11-30T10:00:00Z","boot":"b","kind":"config""#);
    std::fs::write(audit.join("000001.jsonl"), format!("{line}\n")).unwrap();
    let good = bxctl(home.path(), &["audit", "verify"]);
    assert_eq!(good.status.code(), Some(0), "{}", text(&good.stderr));
    assert!(text(&good.stdout).contains(&format!("1:{}", head.hex())));
    std::fs::write(
        audit.join("000001.jsonl"),
        format!("{}\n", line.replace("config", "confit")),
    )
    .unwrap();
    let bad = bxctl(home.path(), &["audit", "verify"]);
    assert_eq!(bad.status.code(), Some(1));
    assert!(
        text(&bad.stderr).contains("audit-chain-broken"),
        "{}",
        text(&bad.stderr)
    );
}
