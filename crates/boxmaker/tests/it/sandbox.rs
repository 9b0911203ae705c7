//! Commands in the whole house: they run where a grant says so, and end with whoever runs them.

use crate::support::{asked, audit_records, verify_audit, workspace_file};
use bxtest::home::TestHome;
use bxtest::llama::{LlamaServer, Reply, Request};
use serde_json::json;
use std::time::{Duration, Instant};

const SESSION: &str = "chat-x";
const GRANT: &str = "[[grant]]\ntool = \"shell\"\nmax_taint = \"private\"\nuntrusted = false\n";
/// How long a killed command may still be seen.
const GONE: Duration = Duration::from_secs(30);

/// A model that runs what it is told to, and repeats what came of it.
fn model(request: &Request) -> Reply {
    if request.last_role() == "tool" {
        return Reply::text(request.last_text());
    }
    let call = json!({"name": "shell", "arguments": {"command": request.last_text()}});
    Reply::tool_calls([("call_tool", call)])
}

fn house(grants: &str) -> (LlamaServer, TestHome) {
    let server = LlamaServer::builder().respond(model).start_blocking();
    let home = TestHome::with_server(&server);
    home.write_config("brokerd.toml", grants);
    (server, home)
}

fn runs(words: &str) -> bool {
    let entries = std::fs::read_dir("/proc").unwrap().flatten();
    let mut lines = entries.filter_map(|entry| std::fs::read(entry.path().join("cmdline")).ok());
    lines.any(|line| {
        String::from_utf8_lossy(&line)
            .replace('\0', " ")
            .contains(words)
    })
}

#[test]
fn a_granted_command_runs_and_one_without_a_grant_does_not() {
    let (server, home) = house(GRANT);
    let up = home.up();
    let report = asked(&home, SESSION, "echo $((6 * 7)) > a.txt; cat a.txt; ls /");
    let answer = report["answer"].as_str().unwrap();
    assert!(answer.contains("[exit code 0]\n42\n"), "{report}");
    assert!(answer.contains("work"), "{report}");
    let file = workspace_file(&home, SESSION, "a.txt");
    assert_eq!(std::fs::read_to_string(file).unwrap(), "42\n");
    assert_eq!(up.terminate().code(), Some(0));

    home.write_config("brokerd.toml", "");
    let up = home.up();
    let report = asked(&home, SESSION, "touch ran");
    assert!(
        report["answer"].as_str().unwrap().contains("no-grant"),
        "{report}"
    );
    assert!(!workspace_file(&home, SESSION, "ran").exists());
    assert_eq!(up.terminate().code(), Some(0));
    verify_audit(&home);
    server.assert_clean();
}

#[test]
fn a_command_ends_with_the_house_and_is_on_record_as_unknown() {
    let (_server, home) = house(GRANT);
    let up = home.up();
    let began = workspace_file(&home, SESSION, "began");
    let asking = home
        .cmd("boxmaker")
        .args([
            "ask",
            "--session",
            SESSION,
            "touch began; sleep 86361 & sleep 86361",
        ])
        .spawn();
    asking.until("the command begins", || began.exists());
    up.kill9();
    drop((asking, up));
    let end = Instant::now() + GONE;
    while runs("sleep 86361") {
        assert!(Instant::now() < end, "the command outlives the house");
        std::thread::sleep(Duration::from_millis(10));
    }
    let up = home.up();
    assert_eq!(up.terminate().code(), Some(0));
    let unknown = audit_records(&home)
        .into_iter()
        .filter(|record| record["outcome"] == "unknown")
        .count();
    assert_eq!(unknown, 1);
    verify_audit(&home);
}
