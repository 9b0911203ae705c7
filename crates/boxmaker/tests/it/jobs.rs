//! What begins by the clock, in the whole house: due, missed, left out, and through crashes.

use crate::support::{ask_until_halt, halting, transcript, up_with_fault, verify_audit};
use bxcore::id::SessionId;
use bxtest::fault::FaultPoint;
use bxtest::home::TestHome;
use bxtest::llama::{Gate, LlamaServer, Reply, Request};
use jiff::{SignedDuration, Timestamp};
use loopd::schedule::Stamp;
use loopd::store::{Store, StoreOptions};
use serde_json::Value;

const JOB: &str = "[[job]]\nname = \"count\"\ncron = \"0 0 1 1 *\"\ntime_zone = \"Europe/Berlin\"\n\
                   text = \"count\"\n";
const SESSION: &str = "job-count";

fn house(loopd: &str, respond: fn(&Request) -> Reply) -> (LlamaServer, TestHome) {
    let server = LlamaServer::builder().respond(respond).start_blocking();
    let home = TestHome::with_server(&server);
    home.write_config("loopd.toml", loopd);
    (server, home)
}

fn says(_: &Request) -> Reply {
    Reply::text("one two three")
}

/// Every row of `boxmaker jobs`; none while loopd is away.
fn jobs(home: &TestHome) -> Vec<Value> {
    let listed = home.cmd("boxmaker").args(["jobs", "--json"]).run();
    let is_there = listed.code() == Some(0);
    let rows = is_there.then(|| listed.json().as_array().unwrap().clone());
    rows.unwrap_or_default()
}

/// Waits until the last run of the only job has ended, and gives its row.
fn ended(home: &TestHome, up: &bxtest::home::Child<'_>) -> Value {
    let is_over = |row: &Value| row["began"].is_string() && row["running"] == false;
    up.until("the job ends", || jobs(home).first().is_some_and(is_over));
    jobs(home).remove(0)
}

/// Changes what is known of an entry. The house must be down, or about to be.
fn set_stamp(home: &TestHome, session: &str, change: impl FnOnce(&mut Stamp)) {
    // Roles whose supervisor was killed end by themselves.
    let deadline = std::time::Instant::now() + std::time::Duration::from_mins(1);
    while !home.processes().is_empty() {
        assert!(std::time::Instant::now() < deadline, "the roles don't end");
        std::thread::sleep(std::time::Duration::from_millis(10));
    }
    let session = SessionId::new(session).unwrap();
    let runtime = tokio::runtime::Runtime::new().unwrap();
    runtime.block_on(async {
        let (store, _) = Store::open(StoreOptions::in_folder(&home.state_dir())).unwrap();
        let known = store.stamps().await.unwrap().remove(&session);
        let mut stamp = known.unwrap_or_else(|| Stamp::first(Timestamp::now()));
        change(&mut stamp);
        store.put_stamp(&session, &stamp).await.unwrap();
        store.close().await;
    });
}

/// Makes it due: as if nobody had looked at the clock for two years.
fn long_ago(stamp: &mut Stamp) {
    stamp.through = Timestamp::now() - SignedDuration::from_hours(24 * 730);
}

/// How many messages and ends a session has had.
fn turns(home: &TestHome, session: &str) -> (usize, usize) {
    let text = transcript(home, session);
    let count = |kind: &str| {
        let line = |line: &&str| serde_json::from_str::<Value>(line).unwrap()["kind"] == kind;
        text.lines().filter(line).count()
    };
    (count("user"), count("turn_end"))
}

#[test]
fn a_job_that_was_missed_runs_once_on_the_background_slot() {
    let (server, home) = house(JOB, says);
    let up = home.up();
    let row = jobs(&home).remove(0);
    assert_eq!(row["session"], SESSION);
    assert!(
        row["next"]
            .as_str()
            .unwrap()
            .contains("-01-01T00:00:00+01:00"),
        "{row}"
    );
    assert!(row["began"].is_null(), "{row}");
    assert_eq!(up.terminate().code(), Some(0));
    assert_eq!(server.requests().len(), 0);

    set_stamp(&home, SESSION, long_ago);
    let up = home.up();
    let row = ended(&home, &up);
    assert_eq!(row["outcome"], "completed", "{row}");
    let requests = server.requests();
    assert_eq!(requests.len(), 1);
    assert_eq!(requests[0].request.slot(), Some(2));
    let said = requests[0].request.last_text();
    assert!(
        said.starts_with("It is ") && said.ends_with("\n\ncount"),
        "{said}"
    );
    assert!(said.contains(" This was due at 00:00 on "), "{said}");
    assert_eq!(up.terminate().code(), Some(0));
    // Neither the year that was missed as well nor another start begin it again.
    let up = home.up();
    assert!(jobs(&home)[0]["next"].is_string());
    assert_eq!(up.terminate().code(), Some(0));
    assert_eq!(turns(&home, SESSION), (1, 1));
    verify_audit(&home);
    server.assert_clean();
}

#[test]
fn a_job_is_begun_by_hand_and_only_once_at_a_time() {
    let gate = Gate::new();
    let halts = gate.clone();
    let server = LlamaServer::builder()
        .respond(move |_: &Request| halting(&halts))
        .start_blocking();
    let home = TestHome::with_server(&server);
    home.write_config("loopd.toml", JOB);
    let up = home.up();
    let run = |name: &str| home.cmd("boxmaker").args(["jobs", "--run", name]).run();
    run("count").success();
    gate.arrived_blocking(1);
    let again = run("count");
    assert!(again.stderr.contains("session-held"), "{}", again.stderr);
    let unknown = run("nothing");
    assert!(unknown.stderr.contains("not-found"), "{}", unknown.stderr);
    assert_eq!(jobs(&home)[0]["running"], true);
    gate.open();
    assert_eq!(ended(&home, &up)["outcome"], "completed");
    // It is a session like others from then on; but nobody begins one of such a name.
    let ask = |session: &str| {
        let asked = home
            .cmd("boxmaker")
            .args(["ask", "count", "--session", session]);
        asked.run()
    };
    ask(SESSION).success();
    for name in ["job-other", "heartbeat"] {
        let refused = ask(name);
        assert!(
            refused.stderr.contains("session-id-invalid"),
            "{}",
            refused.stderr
        );
    }
    assert_eq!(up.terminate().code(), Some(0));
    assert_eq!(turns(&home, SESSION), (2, 2));
}

/// A kill at any point leaves one run: begun, or begun at the next start.
#[test]
fn a_kill_at_any_point_neither_loses_a_run_nor_makes_two() {
    for point in [
        "loopd.after-stamp",
        "loopd.before-model-call",
        "loopd.after-answer",
    ] {
        let (server, home) = house(JOB, says);
        assert_eq!(home.up().terminate().code(), Some(0));
        set_stamp(&home, SESSION, long_ago);
        let fault = FaultPoint {
            name: point.to_owned(),
            nth: 1,
        };
        let up = up_with_fault(&home, &fault);
        let row = ended(&home, &up);
        assert_eq!(row["outcome"], "completed", "{point}: {row}");
        assert_eq!(up.terminate().code(), Some(0), "{point}");
        assert_eq!(turns(&home, SESSION), (1, 1), "{point}");
        assert!((1..=2).contains(&server.requests().len()), "{point}");
    }
}

#[test]
fn a_heartbeat_is_left_out_while_its_session_is_busy() {
    let gate = Gate::new();
    let halts = gate.clone();
    let server = LlamaServer::builder()
        .respond(move |request: &Request| match request.last_text() {
            text if text.ends_with("look around") => Reply::text("all is well"),
            _ => halting(&halts),
        })
        .start_blocking();
    let home = TestHome::with_server(&server);
    home.write_config(
        "loopd.toml",
        "[heartbeat]\nevery_minutes = 60\ntext = \"look around\"\n",
    );
    let up = home.up();
    home.cmd("boxmaker")
        .args(["jobs", "--run", "heartbeat"])
        .run()
        .success();
    let row = ended(&home, &up);
    assert_eq!(
        (&row["session"], &row["outcome"]),
        (&"heartbeat".into(), &"completed".into())
    );
    // The next is counted from the end of the last.
    let hour = |row: &Value| row["next"].as_str().unwrap().parse::<Timestamp>().unwrap();
    let left = hour(&row).duration_since(Timestamp::now());
    assert!(
        left > SignedDuration::from_mins(58) && left <= SignedDuration::from_mins(60),
        "{row}"
    );
    // Somebody talks in its session as it comes due.
    let ask = ask_until_halt(&home, "heartbeat", &gate);
    up.kill9();
    ask.wait();
    set_stamp(&home, "heartbeat", long_ago);
    let up = home.up();
    up.until("it is left out", || jobs(&home)[0]["skipped"].is_string());
    gate.open();
    up.until("the turn ends", || turns(&home, "heartbeat").1 == 2);
    assert_eq!(up.terminate().code(), Some(0));
    assert_eq!(turns(&home, "heartbeat"), (2, 2));
}

/// A time that comes while the job's own run lasts is left out, and told.
#[test]
fn a_job_that_is_still_at_work_is_not_begun_again() {
    let gate = Gate::new();
    let halts = gate.clone();
    let server = LlamaServer::builder()
        .respond(move |_: &Request| halting(&halts))
        .start_blocking();
    let home = TestHome::with_server(&server);
    home.write_config("loopd.toml", JOB);
    let up = home.up();
    let run = home.cmd("boxmaker").args(["jobs", "--run", "count"]);
    run.run().success();
    gate.arrived_blocking(1);
    up.kill9();
    // As if it had begun two years ago.
    set_stamp(&home, SESSION, long_ago);
    let up = home.up();
    gate.arrived_blocking(2);
    assert_eq!(jobs(&home)[0]["running"], true);
    gate.open();
    let row = ended(&home, &up);
    assert_eq!(row["outcome"], "completed", "{row}");
    assert!(row["skipped"].is_string(), "{row}");
    assert_eq!(up.terminate().code(), Some(0));
    assert_eq!(turns(&home, SESSION), (1, 1));
}
