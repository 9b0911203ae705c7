//! The commands against the whole house and a scripted model server.

use crate::support::workspace_file;
use bxtest::home::TestHome;
use bxtest::llama::{LlamaServer, Reply};
use serde_json::{Value, json};

fn ask(home: &TestHome, words: &[&str]) -> Value {
    let mut all = vec!["ask", "--json"];
    all.extend(words);
    home.cmd("boxmaker").args(all).run().success().json()
}

fn json(home: &TestHome, words: &[&str]) -> Value {
    home.cmd("boxmaker")
        .args(words)
        .arg("--json")
        .run()
        .success()
        .json()
}

#[test]
fn a_session_from_its_first_question_to_its_end() {
    let server = LlamaServer::builder()
        .replies([
            Reply::tool_call("clock", json!({})),
            Reply::text("It is late."),
            Reply::text("Still late."),
        ])
        .start_blocking();
    let home = TestHome::with_server(&server);
    let up = home.up();

    let first = ask(&home, &["what time is it", "--session", "chat-1"]);
    assert_eq!(first["answer"], "It is late.");
    assert_eq!(
        first["calls"],
        json!([{"call": 1, "tool": "clock", "outcome": "ok"}])
    );
    let second = home
        .cmd("boxmaker")
        .args(["ask", "-", "--session", "chat-1"])
        .input("and now?\n")
        .run()
        .success();
    assert_eq!(second.stdout, "Still late.\n");
    assert!(
        second.stderr.contains("chat-1 · completed · private"),
        "{}",
        second.stderr
    );

    let rows = json(&home, &["sessions"]);
    assert_eq!(rows[0]["id"], "chat-1");
    assert_eq!(rows[0]["turns"], 2);
    let cache = json(&home, &["session", "cache", "chat-1"]);
    assert_eq!(cache.as_array().unwrap().len(), 3);
    let log = home
        .cmd("boxmaker")
        .args(["session", "log", "chat-1"])
        .run()
        .success();
    for word in ["what time is it", "clock", "It is late.", "Still late."] {
        assert!(log.stdout.contains(word), "{word}: {}", log.stdout);
    }
    let file = home.path().join("export.jsonl");
    home.cmd("boxmaker")
        .args(["session", "export", "chat-1"])
        .arg(&file)
        .run()
        .success();
    let exported = std::fs::read(&file).unwrap();
    assert_eq!(exported, std::fs::read(home.transcript("chat-1")).unwrap());
    home.cmd("boxmaker")
        .args(["session", "export", "chat-1"])
        .arg(&file)
        .run()
        .exited(2);

    assert_eq!(json(&home, &["session", "stop", "chat-1"])["stopped"], 0);
    let slots = json(&home, &["slots"]);
    assert_eq!(slots["gate"], json!([]));
    let file = workspace_file(&home, "chat-1", "note.txt");
    std::fs::write(&file, "mine").unwrap();
    json(&home, &["backup"]);
    let backup = json(&home, &["backup", "one"]);
    let folder = std::path::PathBuf::from(backup["folder"].as_str().unwrap());
    assert!(folder.join("config/inferproxy.toml").is_file(), "{backup}");
    assert!(folder.join("brokerd.db").is_file(), "{backup}");
    assert!(
        folder.join("workspaces/chat-1/note.txt").is_file(),
        "{backup}"
    );
    let again = home.cmd("boxmaker").args(["backup", "one"]).run().exited(2);
    assert!(
        again.stderr.contains("error[bad-usage]"),
        "{}",
        again.stderr
    );

    home.cmd("boxmaker")
        .args(["session", "delete", "chat-1"])
        .run()
        .exited(2);
    let deleted = json(&home, &["session", "delete", "chat-1", "--yes"]);
    assert_eq!(deleted, json!({"deleted": "chat-1", "files": 1}));
    assert!(!file.exists());
    assert_eq!(json(&home, &["sessions"]), json!([]));
    let gone = home
        .cmd("boxmaker")
        .args(["session", "log", "chat-1"])
        .run()
        .exited(2);
    assert!(
        gone.stderr.contains("error[session-unknown]"),
        "{}",
        gone.stderr
    );
    assert_eq!(up.terminate().code(), Some(0));
    server.assert_clean();
    restored(&home, &folder);
}

/// Puts a backup into an empty home as the guide says it, and looks whether the session is there.
fn restored(home: &TestHome, backup: &std::path::Path) {
    let state = home.state_dir();
    let aside = state.with_extension("aside");
    std::fs::rename(&state, &aside).unwrap();
    let backup = aside.join(backup.strip_prefix(&state).unwrap());
    let copied = std::process::Command::new("cp")
        .arg("-a")
        .arg(&backup)
        .arg(&state)
        .status();
    assert!(copied.unwrap().success());
    assert_eq!(json(home, &["sessions"])[0]["turns"], 2);
    let authority = ["grants", "explain", "list_dir", "--session", "chat-1"];
    home.cmd("boxmaker").args(authority).run().success();
    home.cmd("boxmaker")
        .args(["audit", "verify"])
        .run()
        .success();
    home.cmd("boxmaker").arg("down").run().success();
}

#[test]
fn authority_is_explained_and_the_log_verified() {
    let server = LlamaServer::builder()
        .replies([
            Reply::tool_call(
                "call_tool",
                json!({"name": "list_dir", "arguments": {"path": "."}}),
            ),
            Reply::text("Nothing there."),
        ])
        .start_blocking();
    let home = TestHome::with_server(&server);
    home.write_config(
        "brokerd.toml",
        "[[grant]]\ntool = \"http_fetch\"\nmax_taint = \"private\"\n",
    );
    let up = home.up();
    let report = ask(&home, &["what is in the folder"]);
    assert_eq!(
        report["calls"],
        json!([{"call": 1, "tool": "list_dir", "outcome": "ok"}])
    );

    assert_eq!(json(&home, &["grants", "list"])[0]["tool"], "http_fetch");
    let allowed = home
        .cmd("boxmaker")
        .args(["grants", "explain", "list_dir", "--label", "secret"])
        .run()
        .success();
    assert!(
        allowed.stdout.contains("list_dir may run"),
        "{}",
        allowed.stdout
    );
    let denied = home
        .cmd("boxmaker")
        .args(["grants", "explain", "nothing"])
        .run()
        .exited(3);
    assert!(denied.stdout.contains("unknown-tool"), "{}", denied.stdout);

    let verified = json(&home, &["audit", "verify"]);
    assert!(verified["records"].as_u64().unwrap() >= 2, "{verified}");
    let seq = verified["seq"].to_string();
    let record = json(&home, &["audit", "show", &seq]);
    assert!(record.is_object(), "{record}");
    let none = home
        .cmd("boxmaker")
        .args(["audit", "show", "99999"])
        .run()
        .exited(2);
    assert!(none.stderr.contains("error[not-found]"), "{}", none.stderr);
    let head = format!("{}:{}", verified["seq"], verified["head"].as_str().unwrap());
    up.terminate();
    home.cmd("boxmaker")
        .args(["audit", "verify", "--head", &head])
        .run()
        .success();
    server.assert_clean();
}

#[test]
fn ctrl_c_stops_the_turn() {
    let server = LlamaServer::builder()
        .reply(Reply::stall())
        .start_blocking();
    let home = TestHome::with_server(&server);
    let up = home.up();
    let ask = home
        .cmd("boxmaker")
        .args(["ask", "tell me everything", "--session", "chat-1"])
        .spawn();
    server.until_blocking("the model is asked", |server| server.requests().len() == 1);
    assert_eq!(ask.interrupt().code(), Some(130));
    server.until_blocking("its slot is free", |server| server.busy_slots() == 0);
    let log = home
        .cmd("boxmaker")
        .args(["session", "log", "chat-1"])
        .run()
        .success();
    assert!(log.stdout.contains("stopped"), "{}", log.stdout);
    assert_eq!(up.terminate().code(), Some(0));
}

#[test]
fn without_a_model_it_is_said_how_to_point_at_one() {
    let home = TestHome::new();
    let ask = home
        .cmd("boxmaker")
        .args(["ask", "hi"])
        .env("BOXMAKER_STARTER", "never")
        .run()
        .exited(5);
    assert!(ask.stderr.contains("error[no-backend]"), "{}", ask.stderr);
    assert!(
        ask.stderr.contains("boxmaker backend add NAME URL"),
        "{}",
        ask.stderr
    );
    assert_eq!(ask.stdout, "");
    home.cmd("boxmaker").arg("down").run().success();
}

#[test]
fn a_configured_backend_that_is_not_there_is_not_replaced() {
    let home = TestHome::new();
    home.write_backends(&[bxtest::home::BackendConfig::openai("http://127.0.0.1:9", 1)]);
    let ask = home.cmd("boxmaker").args(["ask", "hi"]).run().exited(5);
    assert!(
        ask.stderr.contains("error[backend-unreachable]"),
        "{}",
        ask.stderr
    );
    let doctor = home
        .cmd("boxmaker")
        .args(["doctor", "--json"])
        .run()
        .exited(1);
    let findings = doctor.json();
    let broken: Vec<&Value> = findings
        .as_array()
        .unwrap()
        .iter()
        .filter(|found| found["level"] == "fail")
        .collect();
    assert!(
        broken.iter().any(|found| found["what"] == "backend local"),
        "{findings}"
    );
    home.cmd("boxmaker").arg("down").run().success();
}

#[test]
fn doctor_tests_the_slots() {
    let server = LlamaServer::builder()
        .respond(|_| Reply::text("ok"))
        .start_blocking();
    let home = TestHome::with_server(&server);
    let up = home.up();
    let findings = home.cmd("boxmaker").args(["doctor", "--json"]).run().json();
    let slots = findings
        .as_array()
        .unwrap()
        .iter()
        .find(|found| found["what"] == "slots of local");
    assert_eq!(slots.unwrap()["level"], "ok", "{findings}");
    up.terminate();
}

#[test]
fn a_chat_reads_lines_until_its_input_ends() {
    let server = LlamaServer::builder()
        .replies([Reply::text("One."), Reply::text("Two.")])
        .start_blocking();
    let home = TestHome::with_server(&server);
    let up = home.up();
    let chat = home
        .cmd("boxmaker")
        .args(["chat", "--session", "chat-1"])
        .input("first\n/label\n/nonsense\nsecond\n/quit\nnever\n")
        .run()
        .success();
    assert_eq!(chat.stdout, "One.\nTwo.\n");
    assert!(
        chat.stderr.contains("/nonsense is no command"),
        "{}",
        chat.stderr
    );
    up.terminate();
    server.assert_clean();
}

#[test]
fn what_needs_the_house_starts_it_even_while_one_leaves() {
    let server = LlamaServer::builder()
        .respond(|_| Reply::text("Hello."))
        .start_blocking();
    let home = TestHome::with_server(&server);
    assert_eq!(json(&home, &["backend", "list"])[0]["state"], "ready");
    home.cmd("boxmaker").arg("down").run().success();
    for _ in 0..3 {
        // It starts a house of its own and ends it again, unless somebody else came meanwhile.
        let doctor = home.cmd("boxmaker").args(["doctor", "--quick"]).spawn();
        assert_eq!(ask(&home, &["hi"])["answer"], "Hello.");
        assert_eq!(doctor.wait().code(), Some(0));
    }
    home.cmd("boxmaker").arg("down").run().success();
}

#[test]
fn a_chat_of_lines_tells_a_program_what_failed_and_shows_it_nothing_to_act_on() {
    let server = LlamaServer::builder()
        .replies([
            Reply::text("a\u{1b}]0;x\u{7}b"),
            Reply::text("two"),
            Reply::server_error(),
        ])
        .start_blocking();
    let home = TestHome::with_server(&server);
    let up = home.up();
    let chat = |input: &[u8]| home.cmd("boxmaker").arg("chat").input(input).run();
    let bad_line = chat(b"one\n\xff\xfe\ntwo\n").exited(2);
    assert_eq!(bad_line.stdout, "ab\ntwo\n");
    assert!(
        bad_line.stderr.contains("it is not UTF-8 text"),
        "{}",
        bad_line.stderr
    );
    chat(b"three\n/quit\n").exited(1);
    chat(b"/help\n").success();
    assert_eq!(up.terminate().code(), Some(0));
}
