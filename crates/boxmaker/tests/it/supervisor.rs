//! Starting, dying, starting again and stopping, with real processes.

use bxtest::home::TestHome;
use bxtest::llama::{LlamaServer, Reply};
use serde_json::Value;
use std::time::{Duration, Instant};

const ROLES: [&str; 4] = ["inferproxy", "memoryd", "brokerd", "loopd"];

/// How long something may take that has no reason to take long.
const SOON: Duration = Duration::from_secs(30);

fn until(what: &str, holds: impl FnMut() -> bool) {
    until_within(SOON, what, holds);
}

fn until_within(within: Duration, what: &str, mut holds: impl FnMut() -> bool) {
    let end = Instant::now() + within;
    while !holds() {
        assert!(Instant::now() < end, "waited in vain: {what}");
        std::thread::sleep(Duration::from_millis(10));
    }
}

fn status(home: &TestHome) -> Value {
    home.cmd("boxmaker")
        .args(["status", "--json"])
        .run()
        .success()
        .json()
}

fn role<'a>(status: &'a Value, name: &str) -> &'a Value {
    status["roles"]
        .as_array()
        .unwrap()
        .iter()
        .find(|row| row["role"] == name)
        .unwrap()
}

fn all_ready(home: &TestHome) -> bool {
    ROLES
        .iter()
        .all(|name| role(&status(home), name)["state"] == "ready")
}

/// The names of what is left in the folder of sockets.
fn left(home: &TestHome) -> Vec<String> {
    let entries = std::fs::read_dir(home.run_dir()).unwrap();
    entries
        .map(|entry| entry.unwrap().file_name().to_string_lossy().into_owned())
        .collect()
}

#[test]
fn two_ups_on_one_home_and_the_second_is_told_who_holds_it() {
    let home = TestHome::new();
    let first = home.up();
    let second = home.cmd("boxmaker").arg("up").run().exited(1);
    assert!(
        second.stderr.contains("error[home-held]"),
        "{}",
        second.stderr
    );
    assert!(
        second.stderr.contains(&format!("process {}", first.pid())),
        "{}",
        second.stderr
    );
    assert_eq!(status(&home)["pid"], first.pid());
}

/// What can become of the owner's token or the socket while the house is up: it is told, and `down`
/// stops the house even so.
#[test]
fn a_house_whose_door_is_broken_is_named_and_can_be_stopped() {
    use std::os::unix::fs::PermissionsExt;
    type Break = fn(&TestHome);
    let cases: [(&str, i32, Break); 3] = [
        ("error[not-authorised]", 3, |home| {
            std::fs::remove_file(home.run_dir().join("owner.token")).unwrap();
        }),
        ("error[not-authorised]", 3, |home| {
            let open = std::fs::Permissions::from_mode(0o644);
            std::fs::set_permissions(home.run_dir().join("owner.token"), open).unwrap();
        }),
        ("error[role-unreachable]", 5, |home| {
            std::fs::remove_file(home.run_dir().join("supervisor.sock")).unwrap();
        }),
    ];
    for (says, code, breaks) in cases {
        let home = TestHome::new();
        let up = home.up();
        breaks(&home);
        let status = home.cmd("boxmaker").arg("status").run().exited(code);
        assert!(status.stderr.contains(says), "{}", status.stderr);
        let down = home.cmd("boxmaker").arg("down").run().success();
        assert_eq!(down.stdout, "Boxmaker is stopped.\n");
        assert_eq!(up.wait().code(), Some(0));
        assert_eq!(home.processes(), Vec::<u32>::new());
        let again = home.cmd("boxmaker").arg("down").run().success();
        assert_eq!(again.stdout, "Boxmaker was not running.\n");
    }
}

#[test]
fn sigterm_leaves_nothing_behind() {
    let home = TestHome::new();
    let up = home.up();
    up.until("all roles are ready", || all_ready(&home));
    assert_eq!(up.terminate().code(), Some(0));
    assert_eq!(left(&home), Vec::<String>::new());
    assert_eq!(home.processes(), Vec::<u32>::new());
    let again = home.cmd("boxmaker").args(["status"]).run().exited(5);
    assert!(
        again.stderr.contains("error[role-unreachable]"),
        "{}",
        again.stderr
    );
}

#[test]
fn ctrl_c_and_down_stop_it_as_well() {
    let home = TestHome::new();
    let up = home.up();
    assert_eq!(up.interrupt().code(), Some(0));
    assert_eq!(left(&home), Vec::<String>::new());
    let up = home.up();
    home.cmd("boxmaker").arg("down").run().success();
    assert_eq!(up.wait().code(), Some(0));
    assert_eq!(left(&home), Vec::<String>::new());
}

#[test]
fn a_killed_role_is_started_again() {
    let home = TestHome::new();
    let up = home.up();
    up.until("all roles are ready", || all_ready(&home));
    for name in ROLES {
        let killed = home.kill_role(name);
        until(&format!("{name} is back"), || {
            let status = status(&home);
            let row = role(&status, name);
            row["state"] == "ready" && row["pid"] != killed
        });
        let status = status(&home);
        assert_eq!(role(&status, name)["restarts"], 1, "{name}");
        assert_eq!(role(&status, name)["last_exit"], "signal 9", "{name}");
    }
    assert_eq!(up.terminate().code(), Some(0));
}

/// The supervisor asks every few seconds, and kills what has answered nothing for half a minute.
#[test]
fn a_role_that_lives_but_answers_nothing_is_shown_and_started_again() {
    const KILLED_WITHIN: Duration = Duration::from_mins(2);
    let home = TestHome::new();
    let up = home.up();
    up.until("all roles are ready", || all_ready(&home));
    let frozen = home.freeze_role("loopd");
    until("its silence is shown", || {
        role(&status(&home), "loopd")["state"] == "silent"
    });
    let doctor = home.cmd("boxmaker").arg("doctor").run();
    assert!(
        doctor.stdout.contains("lives, but does not answer"),
        "{}",
        doctor.stdout
    );
    until_within(KILLED_WITHIN, "it is started again", || {
        let status = status(&home);
        let row = role(&status, "loopd");
        row["state"] == "ready" && row["pid"] != frozen
    });
    assert_eq!(role(&status(&home), "loopd")["last_exit"], "signal 9");
    assert_eq!(up.terminate().code(), Some(0));
}

#[test]
fn a_question_in_the_moment_of_a_restart_is_answered() {
    let server = LlamaServer::builder()
        .respond(|_| Reply::text("Here."))
        .start_blocking();
    let home = TestHome::with_server(&server);
    let up = home.up();
    for name in ["inferproxy", "memoryd", "brokerd"] {
        let killed = home.kill_role(name);
        let ask = home
            .cmd("boxmaker")
            .args(["ask", "anybody there?", "--json"])
            .run()
            .success();
        assert_eq!(ask.json()["answer"], "Here.", "{name}");
        assert_ne!(home.role_pid(name), Some(killed), "{name}");
    }
    assert_eq!(up.terminate().code(), Some(0));
    server.assert_clean();
}

#[test]
fn a_broken_configuration_stops_up_with_its_place() {
    let home = TestHome::new();
    home.write_config("loopd.toml", "\ntool_iteration = 3\n");
    let up = home.cmd("boxmaker").arg("up").run().exited(78);
    assert!(up.stderr.contains("error[config-invalid]"), "{}", up.stderr);
    assert!(up.stderr.contains("loopd.toml:2:1"), "{}", up.stderr);
    assert!(up.stderr.contains("tool_iterations"), "{}", up.stderr);
    assert_eq!(left(&home), Vec::<String>::new());
    // `ask` starts it in the background, and tells the same.
    let ask = home.cmd("boxmaker").args(["ask", "hi"]).run().exited(2);
    assert!(ask.stderr.contains("loopd.toml:2:1"), "{}", ask.stderr);
    assert_eq!(home.processes(), Vec::<u32>::new());
}

#[test]
fn roles_leave_when_their_supervisor_is_killed() {
    let home = TestHome::new();
    let up = home.up();
    up.until("all roles are ready", || all_ready(&home));
    up.kill9();
    until("every process is gone", || home.processes().is_empty());
    // What it left on the disk doesn't keep the next one from starting.
    let up = home.up();
    up.until("all roles are ready", || all_ready(&home));
    assert_eq!(up.terminate().code(), Some(0));
    assert_eq!(left(&home), Vec::<String>::new());
}

#[test]
fn a_background_supervisor_leaves_when_idle() {
    let home = TestHome::new();
    let up = home
        .cmd("boxmaker")
        .args(["up", "--background", "--idle-seconds", "1"])
        .spawn();
    up.until("it says that it is ready", || up.stdout().contains("ready"));
    assert_eq!(status(&home)["lifetime"], "background");
    assert_eq!(up.wait().code(), Some(0));
    assert_eq!(left(&home), Vec::<String>::new());
}

#[test]
fn a_restart_that_was_asked_for_is_no_failure() {
    let home = TestHome::new();
    let up = home.up();
    up.until("all roles are ready", || all_ready(&home));
    let before = role(&status(&home), "inferproxy")["pid"].clone();
    let server = LlamaServer::builder().start_blocking();
    let added = home
        .cmd("boxmaker")
        .args([
            "backend",
            "add",
            "mine",
            &server.url(),
            "--main",
            "0",
            "--background",
            "2",
            "--json",
        ])
        .run()
        .success();
    assert_eq!(added.json()["backend"]["name"], "mine");
    assert_eq!(added.json()["backend"]["state"], "ready");
    let status = status(&home);
    assert_ne!(role(&status, "inferproxy")["pid"], before);
    assert_eq!(role(&status, "inferproxy")["restarts"], 0);
    let twice = home
        .cmd("boxmaker")
        .args(["backend", "add", "mine", &server.url()])
        .run()
        .exited(2);
    assert!(
        twice.stderr.contains("There is a backend `mine` already"),
        "{}",
        twice.stderr
    );
    let public = home
        .cmd("boxmaker")
        .args(["backend", "add", "far", "http://203.0.113.5:80"])
        .run()
        .exited(2);
    assert!(
        public.stderr.contains("error[config-invalid]"),
        "{}",
        public.stderr
    );
    assert_eq!(up.terminate().code(), Some(0));
}

#[test]
fn a_role_can_not_be_run_by_hand() {
    let home = TestHome::new();
    let loopd = home
        .cmd("boxmaker")
        .args(["role", "loopd"])
        .run()
        .exited(78);
    assert!(
        loopd.stderr.contains("error[not-authorised]"),
        "{}",
        loopd.stderr
    );
    let none = home
        .cmd("boxmaker")
        .args(["role", "nobody"])
        .run()
        .exited(2);
    assert!(none.stderr.contains("is not a role"), "{}", none.stderr);
}

#[test]
fn ask_starts_everything_and_answers() {
    let server = LlamaServer::builder()
        .reply(Reply::text("Four."))
        .start_blocking();
    let home = TestHome::with_server(&server);
    let ask = home
        .cmd("boxmaker")
        .args(["ask", "what is two and two", "--json"])
        .run()
        .success();
    let report = ask.json();
    assert_eq!(report["outcome"], "completed");
    assert_eq!(report["answer"], "Four.");
    assert_eq!(
        report["label"],
        serde_json::json!({"class": "private", "untrusted": false})
    );
    assert_eq!(report["usage"]["model_calls"], 1);
    assert_eq!(report["cost_usd"], "0.000000");
    home.cmd("boxmaker").arg("down").run().success();
    assert_eq!(home.processes(), Vec::<u32>::new());
    server.assert_clean();
}
