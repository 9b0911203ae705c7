//! Approvals in the whole house: asked in place on a real terminal, answered from elsewhere, over a
//! restart, and stopped.

use crate::support::{audit_records, up_with_fault, verify_audit, workspace_file};
use bxtest::fault::FaultPoint;
use bxtest::home::{Child, TestHome};
use bxtest::llama::{LlamaServer, Reply, Request};
use bxtest::provider::{Answer, Provider};
use serde_json::{Value, json};

const GRANT: &str =
    "[[grant]]\ntool = \"write_file\"\nmax_taint = \"private\"\napproval = \"always\"\n";

/// A model that adds a line to a file, and repeats what came of it.
fn model(request: &Request) -> Reply {
    if request.last_role() == "tool" {
        return Reply::text(request.last_text());
    }
    let add = json!({"path": "log", "content": "ran\n", "mode": "append"});
    Reply::tool_calls([("call_tool", json!({"name": "write_file", "arguments": add}))])
}

fn server() -> LlamaServer {
    LlamaServer::builder().respond(model).start_blocking()
}

fn house(server: &LlamaServer) -> TestHome {
    let home = TestHome::with_server(server);
    home.write_config("brokerd.toml", GRANT);
    home
}

fn ran(home: &TestHome) -> String {
    std::fs::read_to_string(workspace_file(home, "chat-1", "log")).unwrap_or_default()
}

fn ask_on_terminal(home: &TestHome) -> Child<'_> {
    let ask = home
        .cmd("boxmaker")
        .args(["ask", "--session", "chat-1", "write"]);
    ask.spawn_on_terminal()
}

fn ask_in_script(home: &TestHome) -> Child<'_> {
    let ask = home.cmd("boxmaker");
    ask.args(["ask", "--session", "chat-1", "write"]).spawn()
}

/// The one approval that waits, once it does.
fn pending(home: &TestHome, asking: &Child<'_>) -> Value {
    let list = || {
        let list = home.cmd("boxmaker").args(["approvals", "--json"]).run();
        list.success().json()
    };
    asking.until("a call waits for approval", || list()[0].is_object());
    list()[0].clone()
}

fn words(home: &TestHome, args: &[&str]) -> String {
    home.cmd("boxmaker").args(args).run().success().stdout
}

#[test]
fn on_a_terminal_it_is_asked_in_place() {
    for (typed, expect) in [("y", "ran\n"), ("no", "")] {
        let server = server();
        let home = house(&server);
        let up = home.up();
        let ask = ask_on_terminal(&home);
        ask.until("the question is there", || {
            ask.stdout().contains("once? [y/N]")
        });
        let screen = ask.stdout();
        assert!(
            screen.contains("write_file") && screen.contains("│ ran"),
            "{screen}"
        );
        assert_eq!(ran(&home), "", "nothing has run");
        ask.type_line(typed);
        let status = ask.wait();
        assert!(status.success(), "{}", ask.stdout());
        assert_eq!(ran(&home), expect);
        let denied = ask.stdout().contains("approval-denied");
        assert_eq!(denied, typed == "no", "{}", ask.stdout());
        verify_audit(&home);
        up.terminate();
    }
}

#[test]
fn what_was_typed_before_the_question_is_no_answer() {
    let server = server();
    let home = house(&server);
    let _up = home.up();
    let ask = ask_on_terminal(&home);
    ask.type_line("y");
    ask.until("the question is there", || {
        ask.stdout().contains("once? [y/N]")
    });
    let waiting = pending(&home, &ask);
    assert_eq!(ran(&home), "");
    // Answered elsewhere, the question goes away and the turn goes on.
    words(
        &home,
        &["approve", waiting["id"].as_str().unwrap(), "--yes"],
    );
    assert!(ask.wait().success(), "{}", ask.stdout());
    assert!(
        ask.stdout().contains("the question is answered"),
        "{}",
        ask.stdout()
    );
    assert_eq!(ran(&home), "ran\n");
}

#[test]
fn without_a_terminal_it_is_answered_from_elsewhere() {
    let server = server();
    let home = house(&server);
    let _up = home.up();
    let ask = ask_in_script(&home);
    let waiting = pending(&home, &ask);
    let id = waiting["id"].as_str().unwrap();
    let hint = format!("boxmaker approve {id}");
    ask.until("the way to answer is told", || ask.stderr().contains(&hint));
    assert!(words(&home, &["approvals"]).contains(id));
    assert!(words(&home, &["approvals", &id[..4]]).contains("│ ran"));
    // Who has no terminal is not taken to have said yes.
    let unsure = home.cmd("boxmaker").args(["approve", id]).run();
    assert!(!unsure.status.success());
    assert_eq!(ran(&home), "");
    let blind = home.cmd("boxmaker").args(["approve", "--yes"]).run();
    assert!(
        blind.stderr.contains("neither seen nor named"),
        "{}",
        blind.stderr
    );
    let said = words(&home, &["approve", &id[..6], "--yes"]);
    assert_eq!(said, format!("{id} (write_file) is approved\n"));
    assert!(ask.wait().success(), "{}", ask.stderr());
    assert_eq!(ran(&home), "ran\n");
    let twice = home.cmd("boxmaker").args(["approve", id, "--yes"]).run();
    assert!(twice.stderr.contains("it is used"), "{}", twice.stderr);
    assert_eq!(
        words(&home, &["approvals"]),
        "nothing waits for your approval\n"
    );
    verify_audit(&home);
}

#[test]
fn the_owner_is_told_elsewhere_that_a_call_waits() {
    let hook = Provider::start(|_, _| Answer::Text(204, Vec::new(), Vec::new()));
    let server = server();
    let home = house(&server);
    let url = hook.url("127.0.0.1", "/hook");
    let webhook = format!("[approvals.webhook]\nurl = \"{url}\"\n\n{GRANT}");
    home.write_config("brokerd.toml", &webhook);
    let _up = home.up();
    let ask = ask_in_script(&home);
    ask.until("the owner is told", || hook.seen().len() == 1);
    let told: Value = serde_json::from_slice(&hook.seen()[0].body).unwrap();
    words(&home, &["deny", told["approval"].as_str().unwrap()]);
    assert!(ask.wait().success(), "{}", ask.stderr());
    assert_eq!(ran(&home), "");
}

#[test]
fn a_turn_that_is_stopped_takes_its_question_with_it() {
    let server = server();
    let home = house(&server);
    let _up = home.up();
    let ask = ask_in_script(&home);
    let waiting = pending(&home, &ask);
    ask.interrupt();
    assert_eq!(
        words(&home, &["approvals"]),
        "nothing waits for your approval\n"
    );
    let id = waiting["id"].as_str().unwrap();
    let late = home.cmd("boxmaker").args(["approve", id, "--yes"]).run();
    assert!(late.stderr.contains("withdrawn"), "{}", late.stderr);
    assert_eq!(ran(&home), "");
    verify_audit(&home);
}

#[test]
fn a_question_survives_the_death_of_those_who_asked() {
    for role in ["loopd", "brokerd"] {
        let server = server();
        let home = house(&server);
        let _up = home.up();
        let ask = ask_in_script(&home);
        let waiting = pending(&home, &ask);
        home.kill_role(role);
        ask.until("the role is back", || {
            let status = home.cmd("boxmaker").args(["approvals", "--json"]).run();
            status.status.success() && status.json()[0]["id"] == waiting["id"]
        });
        words(
            &home,
            &["approve", waiting["id"].as_str().unwrap(), "--yes"],
        );
        assert!(ask.wait().success(), "{role}: {}", ask.stderr());
        assert_eq!(ran(&home), "ran\n", "{role}");
        verify_audit(&home);
    }
}

#[test]
fn a_house_with_an_open_question_goes_down_at_once_and_whole() {
    let server = server();
    let home = house(&server);
    let up = home.up();
    let ask = ask_in_script(&home);
    let waiting = pending(&home, &ask);
    assert_eq!(up.terminate().code(), Some(0));
    let records = audit_records(&home);
    assert_eq!(
        records.last().unwrap()["kind"],
        "checkpoint",
        "the log was closed"
    );
    // The next start goes on with the turn, and with the question.
    let up = home.up();
    let list = home.cmd("boxmaker").args(["approvals", "--json"]).run();
    assert_eq!(list.success().json()[0]["id"], waiting["id"]);
    words(&home, &["deny", waiting["id"].as_str().unwrap()]);
    up.until("the turn ends", || {
        let listed = home.cmd("boxmaker").args(["sessions", "--json"]).run();
        listed.success().json()[0]["status"] == "idle"
    });
    assert_eq!(ran(&home), "");
    assert_eq!(up.terminate().code(), Some(0));
    verify_audit(&home);
}

/// Killed between the yes and the end of the call: it runs once or not at all, and where it did not
/// run for sure, the owner is asked again.
#[test]
fn a_call_that_was_approved_never_runs_twice() {
    for (point, asked_again) in [
        ("brokerd.before-intent", true),
        ("brokerd.after-intent", false),
        ("brokerd.after-run", false),
        ("brokerd.after-outcome", false),
    ] {
        let server = server();
        let home = house(&server);
        let up = up_with_fault(&home, &FaultPoint::first(point));
        let ask = ask_in_script(&home);
        let first = pending(&home, &ask);
        // brokerd dies of this, and with it the answer to the command.
        let approve = |id: &Value| {
            let id = id.as_str().unwrap();
            home.cmd("boxmaker").args(["approve", id, "--yes"]).run()
        };
        approve(&first["id"]);
        if asked_again {
            let second = pending(&home, &ask);
            assert_ne!(first["id"], second["id"], "{point}");
            assert_eq!(ran(&home), "", "{point}");
            approve(&second["id"]).success();
        }
        assert!(ask.wait().success(), "{point}: {}", ask.stderr());
        let times = ran(&home).lines().count();
        let intents = audit_records(&home)
            .iter()
            .filter(|record| record["kind"] == "intent" && record["tool"] == "write_file")
            .count();
        assert_eq!(intents, 1, "{point}");
        let expect = usize::from(point != "brokerd.after-intent");
        assert_eq!(times, expect, "{point}");
        verify_audit(&home);
        up.terminate();
    }
}
