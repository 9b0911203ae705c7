//! What somebody or something damaged, filled up or left out: a clear error with a code, and nothing
//! that was stored is lost.

use crate::support::{asked, verify_audit};
use bxcore::transcript::parse_line;
use bxtest::fault::SmallDisk;
use bxtest::home::{Child, TestHome};
use bxtest::llama::{LlamaServer, Reply};
use serde_json::json;
use std::fs;
use std::io::Write;
use std::path::Path;

const SESSION: &str = "chat-b";

#[test]
fn what_is_damaged_while_everything_is_down_is_put_right_or_named() {
    let server = LlamaServer::builder()
        .respond(|request| Reply::text(format!("You said: {}", request.last_text())))
        .start_blocking();
    let home = TestHome::with_server(&server);
    let up = home.up();
    asked(&home, SESSION, "first");
    assert_eq!(up.terminate().code(), Some(0));

    let log = home.transcript(SESSION);
    let whole = fs::read(&log).unwrap();
    let mut file = fs::OpenOptions::new().append(true).open(&log).unwrap();
    file.write_all(b"{\"v\":1,\"n\":6,\"kind\":\"us\xff")
        .unwrap();
    let up = home.up();
    let report = asked(&home, SESSION, "second");
    assert_eq!(report["answer"], "You said: second", "{report}");
    assert_eq!(up.terminate().code(), Some(0));
    let now = fs::read(&log).unwrap();
    assert!(now.starts_with(&whole), "nothing that was stored is lost");
    let text = String::from_utf8(now).unwrap();
    for line in text.lines() {
        parse_line(line).unwrap();
    }
    let torn = fs::read(log.with_file_name("log.jsonl.torn-1")).unwrap();
    assert!(torn.ends_with(b"\xff"), "what was cut off is kept");

    let db = home.state_dir().join("boxmaker.db");
    let good = fs::read(&db).unwrap();
    let cases: [(&str, Vec<u8>); 3] = [
        ("malformed", good[..good.len() / 2].to_vec()),
        ("not a database", b"half written".to_vec()),
        ("it is damaged", {
            let mut page = good.clone();
            page[8_192..12_288].fill(0xa5);
            page
        }),
    ];
    for (says, bytes) in cases {
        fs::write(&db, &bytes).unwrap();
        let up = home.cmd("boxmaker").arg("up").run().exited(78);
        for words in ["error[state-broken]", says, "boxmaker.db"] {
            assert!(up.stderr.contains(words), "{words}: {}", up.stderr);
        }
        assert_eq!(fs::read(&db).unwrap(), bytes, "{says}: it is left alone");
        assert_eq!(home.processes(), Vec::<u32>::new(), "{says}");
    }
    // `ask`, which starts everything by itself, tells the same.
    let ask = home.cmd("boxmaker").args(["ask", "hi"]).run();
    assert_ne!(ask.code(), Some(0));
    assert!(ask.stderr.contains("error[state-broken]"), "{}", ask.stderr);
    fs::write(&db, good).unwrap();
    let up = home.up();
    let report = asked(&home, SESSION, "third");
    assert_eq!(report["answer"], "You said: third");
    assert_eq!(report["outcome"], "completed");
    assert_eq!(up.terminate().code(), Some(0));
    assert!(fs::read_to_string(&log).unwrap().starts_with(&text));
    server.assert_clean();
}

/// A file that takes all that is left of a disk.
fn fill(folder: &Path) {
    let mut file = fs::File::create(folder.join("ballast")).unwrap();
    let block = vec![7; 64 * 1024];
    while file.write_all(&block).is_ok() {}
    let last = [7; 512];
    while file.write_all(&last).is_ok() {}
}

#[test]
fn a_home_on_a_full_disk_fails_with_a_code_and_goes_on_when_there_is_space() {
    let server = LlamaServer::builder()
        .respond(|request| Reply::text(format!("You said: {}", request.last_text())))
        .start_blocking();
    let home = TestHome::with_server(&server);
    let disk = SmallDisk::new(&home.state_dir(), 8 * 1024);
    let up: Child<'_> = disk.wrap(home.cmd("boxmaker").arg("up")).spawn();
    for role in ["inferproxy", "memoryd", "brokerd", "loopd"] {
        up.until(role, || home.role_pid(role).is_some());
    }
    let loopd = home.role_pid("loopd").unwrap();
    let state = disk.seen_by(loopd);
    assert_eq!(asked(&home, SESSION, "first")["outcome"], "completed");

    fill(&state);
    // A message as long as this doesn't fit into what files have reserved.
    let long = "word ".repeat(100_000);
    let refused = home
        .cmd("boxmaker")
        .args(["ask", "-", "--session", SESSION])
        .input(long)
        .run()
        .exited(1);
    assert!(
        refused.stderr.contains("error[disk-full]"),
        "{}",
        refused.stderr
    );
    // A session that brokerd does not know yet can't be made known.
    let new = home
        .cmd("boxmaker")
        .args(["ask", "hello", "--session", "chat-new"])
        .run()
        .exited(1);
    assert!(new.stderr.contains("error[disk-full]"), "{}", new.stderr);
    fs::remove_file(state.join("ballast")).unwrap();
    let report = asked(&home, SESSION, "second");
    assert_eq!(report["answer"], "You said: second", "{report}");
    assert_eq!(
        asked(&home, "chat-new", "hello")["answer"],
        json!("You said: hello")
    );
    let status = home
        .cmd("boxmaker")
        .args(["status", "--json"])
        .run()
        .success()
        .json();
    for role in status["roles"].as_array().unwrap() {
        assert_eq!(role["restarts"], 0, "{status}");
    }
    assert_eq!(up.terminate().code(), Some(0));
    server.assert_clean();
}

#[test]
fn an_audit_log_without_space_stops_everything_and_loses_nothing() {
    let server = LlamaServer::builder()
        .respond(|request| match request.last_role() {
            "tool" => Reply::text("There are no files."),
            _ => Reply::tool_call(
                "call_tool",
                // More than the last page of the log's file has room for.
                json!({"name": "list_dir", "arguments": {"path": "./".repeat(2_000)}}),
            ),
        })
        .start_blocking();
    let home = TestHome::with_server(&server);
    let disk = SmallDisk::new(&home.state_dir().join("audit"), 64);
    let up: Child<'_> = disk.wrap(home.cmd("boxmaker").arg("up")).spawn();
    for role in ["inferproxy", "memoryd", "brokerd", "loopd"] {
        up.until(role, || home.role_pid(role).is_some());
    }
    let audit = disk.seen_by(home.role_pid("brokerd").unwrap());
    let report = asked(&home, SESSION, "what is here?");
    assert_eq!(report["answer"], "There are no files.", "{report}");

    fill(&audit);
    // The turn may still hear of it, or be cut off with everything else.
    home.cmd("boxmaker")
        .args(["ask", "and now?", "--session", SESSION])
        .run();
    assert_eq!(up.wait().code(), Some(78), "{}", up.stderr());
    assert!(
        up.stderr().contains("error[audit-unavailable]"),
        "{}",
        up.stderr()
    );
    assert_eq!(home.processes(), Vec::<u32>::new());
    if !audit.exists() {
        // A disk that only the processes of this `up` had has gone with them.
        return;
    }
    let again = home.cmd("boxmaker").arg("up").run().exited(78);
    let says = "error[audit-unavailable]";
    assert!(again.stderr.contains(says), "{}", again.stderr);
    fs::remove_file(audit.join("ballast")).unwrap();
    let up = home.up();
    up.until("the second turn has its end", || {
        let text = fs::read_to_string(home.transcript(SESSION)).unwrap();
        text.matches(r#""kind":"turn_end""#).count() == 2
    });
    let report = asked(&home, SESSION, "and now?");
    assert_eq!(report["answer"], "There are no files.", "{report}");
    assert_eq!(report["calls"][0]["outcome"], "ok", "{report}");
    assert_eq!(up.terminate().code(), Some(0));
    verify_audit(&home);
    server.assert_clean();
}

#[test]
fn without_a_backend_doctor_says_how_to_add_one() {
    let home = TestHome::new();
    let up = home.up();
    let doctor = home.cmd("boxmaker").arg("doctor").run();
    for words in ["model server", "backend add NAME URL"] {
        assert!(doctor.stdout.contains(words), "{words}: {}", doctor.stdout);
    }
    assert_eq!(up.terminate().code(), Some(0));
}
