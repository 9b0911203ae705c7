//! A session that a model elsewhere leads: allowed, streamed, paid and on record, in the whole
//! house; and what is never sent.

use crate::support::{
    MOST_CALLS, audit_records, files_with, killed_at_call, up_with_fault, verify_audit,
};
use bxtest::fault::{FaultPoint, Inject, Strace};
use bxtest::home::{BackendConfig, Output, TestHome};
use bxtest::llama::{LlamaServer, Reply};
use bxtest::provider::{Answer, Provider, Seen, StreamEnd, event};
use serde_json::{Value, json};
use std::path::PathBuf;

const SECRET: &str = "sk-canary-0816-house";
const GRANT: &str = "[[grant]]\ntool = \"provider:big\"\n";

struct House {
    home: TestHome,
    provider: Provider,
}

impl House {
    fn new(more: &str, script: impl Fn(usize, &Seen) -> Answer + Send + Sync + 'static) -> Self {
        let provider = Provider::start(script);
        let home = TestHome::new();
        let url = provider.url("127.0.0.1", "/v1/chat/completions");
        home.write_config(
            "brokerd.toml",
            &format!(
                "[provider.big]\nurl = \"{url}\"\nmodel = \"big-1\"\nsecret = \"elsewhere\"\n\
                 price = {{ prompt = \"3\", completion = \"15\" }}\ndaily_usd = \"5\"\n\
                 context_tokens = 100000\n{more}\n{GRANT}"
            ),
        );
        let folder = home.state_dir().join("secrets");
        std::fs::create_dir_all(&folder).unwrap();
        let private = std::os::unix::fs::PermissionsExt::from_mode(0o700);
        std::fs::set_permissions(&folder, private).unwrap();
        let file = folder.join("elsewhere");
        bxkit::fsx::write_atomic(&file, SECRET.as_bytes(), 0o600).unwrap();
        Self { home, provider }
    }

    /// Asks in a session with these options.
    fn ask(&self, session: &str, options: &[&str]) -> Output {
        let asked = self.home.cmd("boxmaker");
        let asked = asked.args([
            "ask",
            "Why is the sky blue?",
            "--json",
            "--session",
            session,
        ]);
        asked.args(options).env("BOXMAKER_STARTER", "never").run()
    }

    /// The first question of a session that the provider leads.
    fn begin(&self, session: &str) -> Value {
        let options = ["--backend", "big", "--class", "public"];
        self.ask(session, &options).success().json()
    }

    /// The next one.
    fn go_on(&self, session: &str) -> Output {
        self.ask(session, &["--class", "public"])
    }

    fn records(&self, kind: &str) -> Vec<Value> {
        let mut records = audit_records(&self.home);
        records.retain(|record| record["kind"] == kind && record["tool"] == "provider:big");
        records
    }

    /// Each body on the wire is a payload file byte for byte, and the other way round.
    fn compare(&self) {
        let intents = self.records("intent");
        let seen = self.provider.seen();
        assert_eq!(intents.len(), seen.len());
        for (intent, seen) in intents.iter().zip(&seen) {
            let name = intent["body_sha256"].as_str().unwrap();
            let file = self.home.state_dir().join("audit/payloads").join(name);
            assert_eq!(std::fs::read(file).unwrap(), seen.body);
        }
        verify_audit(&self.home);
    }
}

fn says(_: usize, _: &Seen) -> Answer {
    Answer::streams("It is the light.", 1000, 200)
}

#[test]
fn a_public_session_is_led_by_a_provider_turn_after_turn() {
    // The first answer calls a tool, all others are words.
    let house = House::new("", |number, _| match number {
        0 => Answer::streams_call("clock", &json!({})),
        _ => Answer::streams("It is the light.", 1000, 200),
    });
    let up = house.home.up();
    let first = house.begin("chat-p");
    assert_eq!(first["outcome"], "completed", "{first}");
    assert_eq!(first["answer"], "It is the light.", "{first}");
    // 100 tokens at 3 dollars a million and 20 at 15; then 1000 and 200.
    assert_eq!(first["cost_usd"], "0.006600", "{first}");
    // What a stranger wrote is untrusted, and the session stays public.
    let label = json!({"class": "public", "untrusted": true});
    assert_eq!(first["label"], label, "{first}");
    let second = house.go_on("chat-p").success().json();
    assert_eq!(second["outcome"], "completed", "{second}");
    assert_eq!(second["cost_usd"], "0.006000", "{second}");

    let bodies: Vec<Value> = house
        .provider
        .seen()
        .iter()
        .map(|seen| serde_json::from_slice(&seen.body).unwrap())
        .collect();
    assert_eq!(bodies.len(), 3);
    for body in &bodies {
        let names: Vec<&str> = body
            .as_object()
            .unwrap()
            .keys()
            .map(String::as_str)
            .collect();
        let expect = [
            "model",
            "messages",
            "tools",
            "temperature",
            "stream",
            "stream_options",
            "max_tokens",
        ];
        assert_eq!(names, expect);
    }
    // Each request is the one before with messages appended, byte for byte.
    let messages = |seen: &Seen| {
        let text = String::from_utf8(seen.body.clone()).unwrap();
        let end = text.find("],\"tools\":").unwrap();
        text[..end].to_owned()
    };
    let seen = house.provider.seen();
    for pair in seen.windows(2) {
        assert!(messages(&pair[1]).starts_with(&messages(&pair[0])));
    }
    assert_eq!(up.terminate().code(), Some(0));
    house.compare();
    let outcomes = house.records("outcome");
    assert!(outcomes.iter().all(|outcome| outcome["outcome"] == "ok"));
    for entry in std::fs::read_dir(house.home.state_dir().join("logs")).unwrap() {
        let text = std::fs::read_to_string(entry.unwrap().path()).unwrap();
        assert!(!text.contains(SECRET), "{text}");
    }
}

#[test]
fn a_session_above_public_is_refused_before_anything_is_sent() {
    let house = House::new("", says);
    let up = house.home.up();
    // The owner's words are private unless they say otherwise.
    for class in [None, Some("private"), Some("secret")] {
        let mut options = vec!["--backend", "big"];
        options.extend(class.iter().flat_map(|class| ["--class", class]));
        let refused = house.ask("chat-a", &options).exited(3);
        let told = format!("{}{}", refused.stdout, refused.stderr);
        assert!(told.contains("taint-too-high"), "{told}");
        assert!(told.contains("--class public --backend big"), "{told}");
    }
    assert_eq!(house.provider.connections(), 0);
    // Being refused left nothing behind: the same session may be led as a public one.
    let begun = house.begin("chat-a");
    assert_eq!(begun["outcome"], "completed", "{begun}");
    // From then on a private question is refused there, and the session stays what it is.
    house.ask("chat-a", &[]).exited(3);
    house.go_on("chat-a").success();
    assert_eq!(house.provider.connections(), 2);
    assert_eq!(up.terminate().code(), Some(0));
    house.compare();
}

#[test]
fn a_file_that_is_private_ends_what_a_provider_may_lead() {
    let house = House::new("", |number, _| match number {
        0 => Answer::streams_call(
            "call_tool",
            &json!({
                "name": "read_file", "arguments": {"path": "notes/diary.txt"}
            }),
        ),
        _ => Answer::streams("I read it.", 1000, 200),
    });
    let notes = house.home.path().join("notes");
    std::fs::create_dir(&notes).unwrap();
    std::fs::write(notes.join("diary.txt"), "dear diary, canary-17").unwrap();
    let file = house.home.config_dir().join("brokerd.toml");
    let config = std::fs::read_to_string(&file).unwrap();
    let workspace = format!("\n[[workspace]]\npath = \"{}\"\n", notes.display());
    house
        .home
        .write_config("brokerd.toml", &format!("{config}{workspace}"));
    let up = house.home.up();
    let options = ["--backend", "big", "--class", "public"];
    let ended = house.ask("chat-f", &options).exited(3);
    let report = ended.json();
    assert_eq!(report["problem"]["code"], "taint-too-high", "{report}");
    assert_eq!(report["label"]["class"], "private", "{report}");
    // Only the first call was paid.
    assert_eq!(report["cost_usd"], "0.000600", "{report}");
    let seen = house.provider.seen();
    assert_eq!(seen.len(), 1);
    assert!(!String::from_utf8_lossy(&seen[0].body).contains("canary-17"));
    assert_eq!(up.terminate().code(), Some(0));
    house.compare();
    assert_eq!(house.records("deny").len(), 1);
}

#[test]
fn no_session_comes_to_a_provider_by_itself() {
    let house = House::new("", says);
    let server = LlamaServer::builder()
        .respond(|_| Reply::text("From here."))
        .start_blocking();
    house
        .home
        .write_backends(&[BackendConfig::of_server(&server)]);
    let up = house.home.up();
    let local = house.go_on("chat-l").success().json();
    assert_eq!(local["answer"], "From here.");
    // Its server goes away: it fails, and nobody else is asked.
    drop(server);
    house.go_on("chat-l").exited(5);
    house.go_on("chat-m").exited(5);
    assert_eq!(house.provider.connections(), 0);
    // A name that nobody has is told with all that there are.
    let unknown = house.ask("chat-n", &["--backend", "huge", "--class", "public"]);
    let told = format!("{}{}", unknown.stdout, unknown.stderr);
    assert!(told.contains("local, big"), "{told}");
    assert_eq!(up.terminate().code(), Some(0));
}

#[test]
fn what_the_other_side_does_wrong_ends_the_turn_with_one_request() {
    let hello = || event(&json!({"choices": [{"delta": {"content": "Hello"}}]}));
    let silent = "first_byte_ms = 1000\nbetween_ms = 1000";
    let plain = |status, headers: &[&str]| {
        let headers = headers.iter().map(|line| (*line).to_owned()).collect();
        Answer::Text(status, headers, b"{}".to_vec())
    };
    for (answer, class, code, costs) in [
        (plain(401, &[]), "unauthorised", "provider-refused", false),
        (
            plain(429, &["retry-after: 7"]),
            "rate-limited",
            "provider-refused",
            false,
        ),
        (
            plain(302, &["location: /x"]),
            "redirect",
            "provider-refused",
            false,
        ),
        (plain(500, &[]), "server-error", "provider-failed", true),
        (
            Answer::Stream(vec![hello()], StreamEnd::CutOff),
            "cut-off",
            "provider-failed",
            true,
        ),
        (
            // In pieces, as every answer comes.
            Answer::streams(&format!("You sent {SECRET}."), 10, 5),
            "secret",
            "provider-failed",
            true,
        ),
        (
            Answer::Stream(vec![hello()], StreamEnd::Silence),
            "stalled",
            "provider-failed",
            true,
        ),
    ] {
        let house = House::new(silent, move |_, _| answer.clone());
        let up = house.home.up();
        let options = ["--backend", "big", "--class", "public"];
        let ended = house.ask("chat-w", &options);
        let report = ended.json();
        assert_ne!(ended.code(), Some(0), "{class}");
        assert_eq!(report["problem"]["code"], code, "{class}: {report}");
        let title = report["problem"]["title"].as_str().unwrap();
        assert!(title.contains(class), "{class}: {title}");
        assert_eq!(report["cost_usd"] != "0.000000", costs, "{class}: {report}");
        assert_eq!(house.provider.connections(), 1, "{class}");
        assert_eq!(up.terminate().code(), Some(0), "{class}");
        assert_eq!(files_with(&house.home, SECRET), Vec::<PathBuf>::new());
        house.compare();
    }
}

#[test]
fn a_turn_that_can_not_pay_asks_nobody() {
    let house = House::new("", says);
    house
        .home
        .write_config("loopd.toml", "[guardrails]\nusd = \"0.000100\"\n");
    let up = house.home.up();
    let options = ["--backend", "big", "--class", "public"];
    let halted = house.ask("chat-b", &options).exited(4).json();
    assert_eq!(halted["problem"]["code"], "budget-exhausted", "{halted}");
    assert_eq!(house.provider.connections(), 0);
    assert_eq!(up.terminate().code(), Some(0));
}

/// What the owner can see of a provider: what it costs, whom it may lead, and why it would not.
#[test]
fn a_provider_is_listed_explained_and_looked_after() {
    let house = House::new("", says);
    let up = house.home.up();
    house.begin("chat-v");
    let run = |args: &[&str]| {
        let command = house.home.cmd("boxmaker").args(args);
        command.env("BOXMAKER_STARTER", "never").run()
    };
    let listed = run(&["backend", "list", "--json"]).success().json();
    let big = listed
        .as_array()
        .unwrap()
        .iter()
        .find(|one| one["name"] == "big");
    let big = big.expect("the provider among the backends");
    assert_eq!(big["origin"], "provider");
    assert_eq!(big["provider"]["max_class"], "public");
    assert_eq!(big["provider"]["spent_today_usd"], "0.006000");
    let status = run(&["status", "--json"]).success().json();
    assert_eq!(status["providers"][0]["spent_today"], 6_000);
    for shown in [run(&["backend", "list"]), run(&["status"])] {
        let text = shown.success().stdout;
        assert!(text.contains("$0.006 of $5.00"), "{text}");
    }
    let doctor = run(&["doctor", "--quick"]).stdout;
    assert!(doctor.contains("provider big"), "{doctor}");
    assert!(doctor.contains("leads public sessions"), "{doctor}");
    let tools = run(&["grants", "tools"]).success().stdout;
    assert!(tools.contains("provider:big"), "{tools}");
    // A fresh session of the owner's is private; the one that it leads is not.
    let explain = ["grants", "explain", "provider:big"];
    let refused = run(&explain).exited(3).stdout;
    assert!(refused.contains("taint-too-high"), "{refused}");
    let admitted = [&explain[..], &["--session", "chat-v"]].concat();
    run(&admitted).success();
    // The request is shown and compared from its file, as a consultation's is from its record.
    let intent = house.records("intent").remove(0);
    let seq = intent["seq"].to_string();
    let sent = house.provider.seen().remove(0).body;
    let shown = run(&["audit", "show", &seq, "--json"]).success().json();
    assert_eq!(shown["body"].as_str().unwrap().as_bytes(), sent);
    let wire = house.home.path().join("wire");
    std::fs::write(&wire, &sent).unwrap();
    let wire = wire.to_str().unwrap();
    let equal = run(&["audit", "diff", &seq, "--wire", wire]).success();
    assert!(equal.stdout.starts_with("equal: "), "{}", equal.stdout);
    let tested = run(&["backend", "test", "big"]).exited(2).stderr;
    assert!(tested.contains("is a provider"), "{tested}");
    // None of this asked it anything.
    assert_eq!(house.provider.connections(), 1);
    assert_eq!(up.terminate().code(), Some(0));
}

/// Without tool calls of its own, a model's reply is held to a schema; a stranger is never sent a
/// grammar, which only servers of the owner's take.
#[test]
fn a_provider_without_tool_calls_replies_by_a_schema() {
    let house = House::new("mode = \"schema\"", |number, _| match number {
        0 => Answer::streams("{\"clock\":{}}", 100, 20),
        _ => Answer::streams("{\"answer\":\"It is the light.\"}", 1000, 200),
    });
    let up = house.home.up();
    let asked = house.begin("chat-j");
    assert_eq!(asked["answer"], "It is the light.", "{asked}");
    assert_eq!(asked["calls"][0]["tool"], "clock", "{asked}");
    let seen = house.provider.seen();
    assert_eq!(seen.len(), 2);
    for seen in &seen {
        let body: Value = serde_json::from_slice(&seen.body).unwrap();
        assert_eq!(body["response_format"]["type"], "json_schema", "{body}");
        assert_eq!(
            (&body["tools"], &body["grammar"]),
            (&Value::Null, &Value::Null)
        );
    }
    assert_eq!(up.terminate().code(), Some(0));
    house.compare();
}

/// The house leaves while a provider keeps it waiting: the call ends on record, and the turn goes
/// on at the next start.
#[test]
fn a_house_that_leaves_in_the_middle_of_a_call_goes_on_with_the_turn() {
    let house = House::new("", |number, _| match number {
        0 => {
            let hello = event(&json!({"choices": [{"delta": {"content": "Hello"}}]}));
            Answer::Stream(vec![hello], StreamEnd::Silence)
        }
        _ => Answer::streams("It is the light.", 1000, 200),
    });
    let home = &house.home;
    let up = home.up();
    let ask = home.cmd("boxmaker").args([
        "ask",
        "Why is the sky blue?",
        "--session",
        "chat-g",
        "--backend",
        "big",
        "--class",
        "public",
    ]);
    let ask = ask.spawn();
    up.until("the request is there", || house.provider.seen().len() == 1);
    assert_eq!(up.terminate().code(), Some(0));
    ask.kill9();
    let up = home.up();
    // It waits for the turn that goes on by itself.
    let next = house.go_on("chat-g").success().json();
    assert_eq!(next["answer"], "It is the light.", "{next}");
    assert_eq!(house.provider.seen().len(), 3);
    assert_eq!(up.terminate().code(), Some(0));
    house.compare();
    let outcomes = house.records("outcome");
    let ends: Vec<&str> = outcomes
        .iter()
        .map(|outcome| outcome["outcome"].as_str().unwrap())
        .collect();
    assert_eq!(ends, ["failed", "ok", "ok"]);
}

/// Whoever dies in the middle of a call: it is charged as lost and made once more, under a number
/// and with a record of its own, and never is a byte sent without its intent on disk.
#[test]
fn a_kill_in_the_middle_of_a_call_loses_it_once() {
    for (point, calls, unknown, stays) in [
        ("brokerd.before-intent", 1, 0, false),
        ("brokerd.after-intent", 2, 1, true),
        ("brokerd.before-send", 2, 1, true),
        ("brokerd.mid-stream", 2, 1, true),
        ("brokerd.after-send", 2, 1, true),
        ("brokerd.after-run", 2, 1, true),
        ("brokerd.after-label", 2, 1, false),
        ("brokerd.after-outcome", 2, 0, false),
        ("loopd.before-model-call", 1, 0, false),
        ("loopd.after-answer", 2, 0, false),
    ] {
        let house = House::new("", says);
        let home = &house.home;
        let fault = FaultPoint::first(point);
        let up = up_with_fault(home, &fault);
        let options = ["--backend", "big", "--class", "public"];
        let asked = house.ask("chat-k", &options).success().json();
        assert_eq!(asked["outcome"], "completed", "{point}: {asked}");
        assert_eq!(asked["answer"], "It is the light.", "{point}: {asked}");
        let status = home.cmd("boxmaker").args(["status", "--json"]).run();
        let spent = status.success().json()["providers"][0]["spent_today"].clone();
        assert_eq!(up.terminate().code(), Some(0), "{point}");
        let intents = house.records("intent");
        assert_eq!(intents.len(), calls, "{point}: {intents:?}");
        let mut numbers: Vec<_> = intents.iter().map(|intent| &intent["model_call"]).collect();
        numbers.dedup();
        assert_eq!(numbers.len(), calls, "{point}: a number was used twice");
        let seen = house.provider.seen();
        assert!((1..=calls).contains(&seen.len()), "{point}");
        let hashes: Vec<_> = intents
            .iter()
            .map(|intent| &intent["body_sha256"])
            .collect();
        for seen in &seen {
            let hash = json!(bxcore::audit::sha256_hex(&seen.body));
            assert!(hashes.contains(&&hash), "{point}: sent without an intent");
        }
        let outcomes = house.records("outcome");
        assert_eq!(outcomes.len(), calls, "{point}");
        let lost = outcomes
            .iter()
            .filter(|outcome| outcome["outcome"] == "unknown");
        assert_eq!(lost.count(), unknown, "{point}");
        // One answer at its price, and a lost one at all that was set aside for it: its longest
        // answer alone is 2048 tokens at 15 dollars a million.
        let cost = bxcore::money::MicroUsd::parse_dollars(asked["cost_usd"].as_str().unwrap());
        let beyond = cost.unwrap().micros() - 6_000;
        assert!(beyond >= 30_720, "{point}: {beyond}");
        // What brokerd counts for the day: all that was set aside, unless the cost was stored, or
        // the call was not on record yet.
        let spent = spent.as_i64().unwrap();
        assert_eq!(spent >= 36_720, stays, "{point}: {spent}");
        verify_audit(home);
    }
}

#[test]
fn a_secret_that_is_missing_or_open_to_others_stops_the_house() {
    use std::os::unix::fs::PermissionsExt;
    let house = House::new("", |_, _| Answer::Close);
    let file = house.home.state_dir().join("secrets/elsewhere");
    let refused = || {
        let up = house.home.cmd("boxmaker").arg("up").run().exited(78);
        let told = up.stderr;
        assert!(told.contains("error[provider-secret-unreadable]"), "{told}");
        assert!(!told.contains(SECRET), "{told}");
    };
    std::fs::set_permissions(&file, std::fs::Permissions::from_mode(0o644)).unwrap();
    refused();
    std::fs::remove_file(&file).unwrap();
    refused();
}

/// Killed as it enters the nth call to the system, by any of its threads: never is a byte sent
/// without its intent on disk, and no request twice. Each number is tried, up to the first that no
/// thread reaches.
#[test]
fn a_kill_at_any_system_call_leaves_no_byte_without_its_intent() {
    let (mut died, mut sent) = (0, 0);
    for number in 1..MOST_CALLS {
        let house = House::new("", says);
        let home = &house.home;
        let survived = killed_at_call(home, number, || {
            house.ask("chat-s", &["--backend", "big", "--class", "public"]);
        });
        died += usize::from(!survived);
        let intents = house.records("intent");
        let mut hashes: Vec<Value> = intents
            .iter()
            .map(|intent| intent["body_sha256"].clone())
            .collect();
        for seen in house.provider.seen() {
            let hash = json!(bxcore::audit::sha256_hex(&seen.body));
            // Each intent lets one request out.
            let at = hashes.iter().position(|intent| *intent == hash);
            let at = at.unwrap_or_else(|| panic!("call {number}: sent without an intent"));
            hashes.remove(at);
            sent += 1;
        }
        // A call that was lost is made once more, and not again.
        assert!(intents.len() <= 2, "call {number}: {}", intents.len());
        assert_eq!(
            house.records("outcome").len(),
            intents.len(),
            "call {number}"
        );
        verify_audit(home);
        if survived {
            break;
        }
    }
    assert!(died >= 8 && sent >= 8, "{died} died, {sent} sent");
}

/// Where the record can't be brought to disk, nothing is sent: that it is handed to the system is
/// not enough.
#[test]
fn a_record_that_does_not_reach_the_disk_lets_nothing_out() {
    let house = House::new("", says);
    let up = house.home.up();
    let brokerd = house.home.role_pid("brokerd").expect("brokerd");
    let segment = house.home.state_dir().join("audit/000001.jsonl");
    let tracer = Strace::new()
        .inject(Inject::failing_sync())
        .on_path(&segment);
    let tracer = tracer.attach(&house.home, brokerd);
    let options = ["--backend", "big", "--class", "public"];
    let failed = house.ask("chat-d", &options);
    assert_ne!(failed.code(), Some(0), "{}", failed.stdout);
    assert_eq!(house.provider.connections(), 0);
    drop(tracer);
    up.terminate();
}

#[test]
fn a_session_that_a_provider_leads_is_summed_up_by_it_on_the_record() {
    let house = House::new("", says);
    let up = house.home.up();
    house.begin("chat-p");
    house.go_on("chat-p").success();
    let compact = house.home.cmd("boxmaker");
    let compact = compact
        .args(["session", "compact", "chat-p", "--json"])
        .run();
    let report = compact.success().json();
    assert_eq!(report["answer"], "It is the light.", "{report}");
    assert_eq!(report["cost_usd"], "0.006000", "{report}");
    assert_eq!(
        report["label"],
        json!({"class": "public", "untrusted": true})
    );
    let seen = house.provider.seen();
    let asked: Value = serde_json::from_slice(&seen.last().unwrap().body).unwrap();
    assert_eq!(asked["messages"].as_array().unwrap().len(), 2, "{asked}");
    let next = house.go_on("chat-p").success().json();
    assert_eq!(next["outcome"], "completed", "{next}");
    house.compare();
    assert_eq!(up.terminate().code(), Some(0));
}
