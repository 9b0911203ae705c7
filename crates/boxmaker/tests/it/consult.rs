//! A local model that asks a model elsewhere: found, called, decided, paid and on record, in the
//! whole house.

use crate::support::{MOST_CALLS, audit_records, killed_at_call, up_with_fault, verify_audit};
use bxcore::money::MicroUsd;
use bxtest::fault::FaultPoint;
use bxtest::home::{BackendConfig, TestHome};
use bxtest::llama::{LlamaServer, Reply, Request};
use bxtest::provider::{Answer, Provider};
use serde_json::{Value, json};
use std::path::Path;

const SECRET: &str = "sk-canary-0815-house";
const GRANT: &str = "[[grant]]\ntool = \"consult\"\nmax_taint = \"private\"\n";

/// A model that looks for a tool, asks with it what it was asked, and repeats the answer.
fn model(request: &Request) -> Reply {
    match request.calls_before_in_turn() {
        0 => Reply::tool_call("find_tool", json!({"query": "ask a more capable model"})),
        1 => Reply::tool_call(
            "call_tool",
            json!({"name": "consult", "arguments": {"question": "Why is the sky blue?"}}),
        ),
        _ => Reply::text("It is the light."),
    }
}

struct House {
    home: TestHome,
    provider: Provider,
    server: LlamaServer,
}

impl House {
    fn new(loopd: &str, answer: impl Fn(usize) -> Answer + Send + Sync + 'static) -> Self {
        let server = LlamaServer::builder().respond(model).start_blocking();
        let provider = Provider::start(move |number, _| answer(number));
        let home = TestHome::new();
        home.write_backends(&[BackendConfig::of_server(&server)]);
        home.write_config("loopd.toml", loopd);
        let url = provider.url("127.0.0.1", "/v1/chat/completions");
        home.write_config(
            "brokerd.toml",
            &format!(
                "[consult]\nurl = \"{url}\"\nmodel = \"big-1\"\nsecret = \"elsewhere\"\n\
                 price = {{ prompt = \"3\", completion = \"15\" }}\n\
                 reserve_usd = \"0.50\"\ndaily_usd = \"5\"\n\n{GRANT}"
            ),
        );
        let house = Self {
            home,
            provider,
            server,
        };
        house.put_secret(SECRET);
        house
    }

    fn put_secret(&self, value: &str) {
        let folder = self.home.state_dir().join("secrets");
        std::fs::create_dir_all(&folder).unwrap();
        let private = std::os::unix::fs::PermissionsExt::from_mode(0o700);
        std::fs::set_permissions(&folder, private).unwrap();
        let file = folder.join("elsewhere");
        bxkit::fsx::write_atomic(&file, value.as_bytes(), 0o600).unwrap();
    }

    fn ask(&self, session: &str) -> Value {
        let asked = self
            .home
            .cmd("boxmaker")
            .args([
                "ask",
                "Why is the sky blue?",
                "--json",
                "--session",
                session,
            ])
            .run();
        asked.success().json()
    }
}

#[test]
fn a_model_finds_consult_asks_and_the_turn_pays_for_it() {
    let house = House::new("", |_| Answer::says("Rayleigh scattering.", 1000, 200));
    let up = house.home.up();
    let asked = house.ask("chat-c");
    assert_eq!(asked["outcome"], "completed", "{asked}");
    let consulted = asked["calls"].as_array().unwrap().iter();
    let consulted: Vec<_> = consulted.filter(|call| call["tool"] == "consult").collect();
    assert_eq!(consulted.len(), 1, "{asked}");
    assert_eq!(consulted[0]["outcome"], "ok", "{asked}");
    // 1000 tokens at 3 dollars a million and 200 at 15.
    assert_eq!(asked["cost_usd"], "0.006000", "{asked}");
    assert_eq!(
        asked["label"],
        json!({"class": "private", "untrusted": true})
    );
    // The answer has made the session untrusted, so the next question stays here.
    let again = house.ask("chat-c");
    let denied = again["calls"].as_array().unwrap().iter();
    let outcomes: Vec<_> = denied
        .filter(|call| call["tool"] == "consult")
        .map(|call| call["outcome"].clone())
        .collect();
    assert_eq!(outcomes, ["denied"], "{again}");
    assert_eq!(again["cost_usd"], "0.000000", "{again}");
    assert_eq!(house.ask("chat-d")["cost_usd"], "0.006000");
    assert_eq!(house.provider.connections(), 2);

    // Nobody can read the secret off a process, and nothing printed it.
    for pid in house.home.processes() {
        for file in ["environ", "cmdline"] {
            let bytes = std::fs::read(format!("/proc/{pid}/{file}")).unwrap_or_default();
            let found = bytes
                .windows(SECRET.len())
                .any(|at| at == SECRET.as_bytes());
            assert!(!found, "/proc/{pid}/{file}");
        }
    }
    assert_eq!(up.terminate().code(), Some(0));
    for entry in std::fs::read_dir(house.home.state_dir().join("logs")).unwrap() {
        let text = std::fs::read_to_string(entry.unwrap().path()).unwrap();
        assert!(!text.contains(SECRET), "{text}");
    }
    let records = audit_records(&house.home);
    let of_consult = |kind: &str| {
        let matching = |record: &&Value| record["kind"] == kind && record["tool"] == "consult";
        records.iter().filter(matching).count()
    };
    assert_eq!((of_consult("intent"), of_consult("deny")), (2, 1));
    verify_audit(&house.home);
    house.server.assert_clean();
}

/// What was captured on the wire is what is on record, and a changed byte is found.
#[test]
fn a_captured_request_is_compared_with_the_record() {
    let house = House::new("", |_| Answer::says("Rayleigh scattering.", 10, 2));
    let up = house.home.up();
    house.ask("chat-w");
    let records = audit_records(&house.home);
    let intent = records
        .iter()
        .find(|record| record["kind"] == "intent" && record["tool"] == "consult")
        .expect("an intent");
    let seq = intent["seq"].to_string();
    let seen = house.provider.seen().remove(0);
    let file = house.home.path().join("wire");
    let diff = |bytes: &[u8]| {
        std::fs::write(&file, bytes).unwrap();
        let compared = house.home.cmd("boxmaker").args(["audit", "diff", &seq]);
        compared.arg("--wire").arg(&file).run()
    };
    let whole = [seen.head.as_slice(), &seen.body].concat();
    for same in [whole.as_slice(), &seen.body] {
        let equal = diff(same);
        assert_eq!(equal.code(), Some(0), "{}{}", equal.stdout, equal.stderr);
        assert!(equal.stdout.starts_with("equal: "), "{}", equal.stdout);
    }
    let mut changed = whole.clone();
    *changed.last_mut().unwrap() ^= 1;
    let endless = house
        .home
        .cmd("boxmaker")
        .args(["audit", "diff", &seq, "--wire", "/dev/zero"])
        .run()
        .exited(2);
    assert!(
        endless.stderr.contains("regular file"),
        "{}",
        endless.stderr
    );
    let differs = diff(&changed);
    assert_eq!(differs.code(), Some(1));
    let at = format!("different from byte {} on", seen.body.len() - 1);
    assert!(differs.stdout.starts_with(&at), "{}", differs.stdout);
    assert_eq!(up.terminate().code(), Some(0));
}

/// The owner's checkpoint, kept elsewhere, finds an end that was cut off; and one that was changed
/// is no checkpoint.
#[test]
fn the_owners_checkpoint_finds_a_cut_log() {
    let house = House::new("", |_| Answer::says("Rayleigh scattering.", 10, 2));
    let home = &house.home;
    let up = home.up();
    house.ask("chat-w");
    let signed = home.cmd("boxmaker").args(["audit", "checkpoint"]).run();
    let signed = signed.success().stdout;
    assert_eq!(up.terminate().code(), Some(0));
    let file = home.path().join("checkpoint");
    std::fs::write(&file, &signed).unwrap();
    let verify = |file: &Path| {
        let verified = home
            .cmd("boxmaker")
            .args(["audit", "verify", "--checkpoint"]);
        verified.arg(file).run()
    };
    verify(&file).success();
    // A device never ends, so none is read.
    let endless = verify(Path::new("/dev/zero")).exited(2);
    assert!(
        endless.stderr.contains("regular file"),
        "{}",
        endless.stderr
    );
    // What a crash leaves beside the log says nothing against it.
    let beside = home.state_dir().join("audit/checkpoints.jsonl");
    let whole = std::fs::read_to_string(&beside).unwrap();
    for left in [format!("{whole}{{\"seq\":9"), "{\"seq\":9\n".to_owned()] {
        std::fs::write(&beside, left).unwrap();
        verify(&file).success();
    }
    // But what can't be read is not passed over.
    std::fs::remove_file(&beside).unwrap();
    std::fs::create_dir(&beside).unwrap();
    let unread = verify(&file);
    assert!(
        unread.stderr.contains("audit-unavailable"),
        "{}",
        unread.stderr
    );
    std::fs::remove_dir(&beside).unwrap();
    std::fs::write(&beside, whole).unwrap();
    let seq = serde_json::from_str::<Value>(&signed).unwrap()["seq"]
        .as_u64()
        .unwrap();
    let changed = home.path().join("changed");
    let other = signed.replace(&format!("\"seq\":{seq}"), &format!("\"seq\":{}", seq - 1));
    assert_ne!(other, signed);
    std::fs::write(&changed, other).unwrap();
    let refused = verify(&changed).exited(2);
    assert!(refused.stderr.contains("signature"), "{}", refused.stderr);

    let segment = home.state_dir().join("audit/000001.jsonl");
    let text = std::fs::read_to_string(&segment).unwrap();
    let kept: Vec<&str> = text
        .lines()
        .take(usize::try_from(seq).unwrap() - 1)
        .collect();
    std::fs::write(&segment, format!("{}\n", kept.join("\n"))).unwrap();
    let found = verify(&file);
    assert_ne!(found.code(), Some(0));
    assert!(
        found.stderr.contains("audit-chain-broken"),
        "{}",
        found.stderr
    );
    // The house doesn't start on it either.
    let up = home.cmd("boxmaker").arg("up").run().exited(78);
    assert!(
        up.stderr.contains("error[audit-chain-broken]"),
        "{}",
        up.stderr
    );
}

#[test]
fn a_turn_that_can_not_pay_asks_nobody() {
    let loopd = "[guardrails]\nusd = \"0.40\"\n";
    let house = House::new(loopd, |_| Answer::says("Rayleigh scattering.", 1000, 200));
    let up = house.home.up();
    let asked = house.ask("chat-p");
    assert_eq!(asked["outcome"], "completed", "{asked}");
    let calls = asked["calls"].to_string();
    assert!(calls.contains("denied"), "{calls}");
    assert_eq!(asked["cost_usd"], "0.000000");
    assert_eq!(house.provider.connections(), 0);
    assert_eq!(up.terminate().code(), Some(0));
    house.server.assert_clean();
}

/// `doctor` says whether what is configured can be used, and names what keeps it from that.
#[test]
fn doctor_tells_whether_anything_could_be_asked() {
    use std::os::unix::fs::PermissionsExt;
    let house = House::new("", |_| Answer::Close);
    let home = &house.home;
    let finding = |what: &str| {
        let doctor = home
            .cmd("boxmaker")
            .args(["doctor", "--quick", "--json"])
            .run();
        let findings = doctor.json();
        let found = findings
            .as_array()
            .unwrap()
            .iter()
            .find(|one| one["what"] == what);
        let found = found
            .cloned()
            .unwrap_or_else(|| panic!("{what}: {findings}"));
        (
            found["level"].as_str().unwrap().to_owned(),
            found.to_string(),
        )
    };
    let (level, said) = finding("consult");
    assert_eq!(level, "ok", "{said}");
    assert!(said.contains("big-1") && said.contains("private"), "{said}");
    let folder = home.state_dir().join("secrets");
    let (level, said) = finding("secrets");
    assert_eq!(level, "ok", "{said}");
    assert!(said.contains(folder.to_str().unwrap()), "{said}");

    std::fs::write(folder.join("notes"), "two\nlines").unwrap();
    let private = std::fs::Permissions::from_mode(0o600);
    std::fs::set_permissions(folder.join("notes"), private).unwrap();
    let (level, said) = finding("secrets");
    assert_eq!(level, "fail", "{said}");
    assert!(
        said.contains("notes") && said.contains("secret-unreadable"),
        "{said}"
    );
    assert!(!said.contains("two"), "{said}");
    std::fs::remove_file(folder.join("notes")).unwrap();

    std::fs::remove_file(folder.join("elsewhere")).unwrap();
    let (level, said) = finding("consult");
    assert_eq!(level, "fail", "{said}");
    assert!(said.contains("consult-secret-unreadable"), "{said}");
    assert!(
        said.contains(&format!("in the folder `{}`", folder.display())),
        "{said}"
    );
    house.put_secret(SECRET);

    let file = home.config_dir().join("brokerd.toml");
    let text = std::fs::read_to_string(&file).unwrap().replace(GRANT, "");
    std::fs::write(&file, text).unwrap();
    let (level, said) = finding("consult");
    assert_eq!(level, "warn", "{said}");
    assert!(said.contains("tool = \\\"consult\\\""), "{said}");
    assert_eq!(house.provider.connections(), 0);
    home.cmd("boxmaker").arg("down").run();
}

/// What the service manager hands over is used before what lies in the state folder, and looked for
/// like the rest.
#[test]
fn a_key_of_the_service_managers_comes_first() {
    use std::os::unix::fs::PermissionsExt;
    let house = House::new("", |_| Answer::says("Rayleigh scattering.", 10, 2));
    let handed = house.home.path().join("credentials");
    std::fs::create_dir(&handed).unwrap();
    std::fs::set_permissions(&handed, std::fs::Permissions::from_mode(0o700)).unwrap();
    bxkit::fsx::write_atomic(&handed.join("elsewhere"), b"sk-handed-over", 0o400).unwrap();
    let up = house
        .home
        .cmd("boxmaker")
        .arg("up")
        .env("CREDENTIALS_DIRECTORY", &handed)
        .spawn();
    up.until("loopd listens", || house.home.role_pid("loopd").is_some());
    let asked = house.ask("chat-h");
    assert_eq!(asked["outcome"], "completed", "{asked}");
    let seen = house.provider.seen().remove(0);
    let bearer = seen
        .headers()
        .into_iter()
        .find(|(name, _)| name == "authorization");
    assert_eq!(bearer.unwrap().1, "Bearer sk-handed-over");
    assert_eq!(up.terminate().code(), Some(0));
}

#[test]
fn a_secret_that_others_can_read_stops_the_house_and_is_not_told() {
    use std::os::unix::fs::PermissionsExt;
    let house = House::new("", |_| Answer::Close);
    let file = house.home.state_dir().join("secrets/elsewhere");
    std::fs::set_permissions(&file, std::fs::Permissions::from_mode(0o644)).unwrap();
    let up = house.home.cmd("boxmaker").arg("up").run().exited(78);
    assert!(
        up.stderr.contains("error[consult-secret-unreadable]"),
        "{}",
        up.stderr
    );
    assert!(up.stderr.contains("elsewhere"), "{}", up.stderr);
    assert!(!up.stderr.contains(SECRET), "{}", up.stderr);
}

/// Brought down as by a fault of their own, in a house that may dump all it wants: what was in
/// memory stays nowhere.
#[test]
fn a_role_that_crashes_leaves_no_secret_behind() {
    let house = House::new("", |_| Answer::says("Rayleigh scattering.", 1000, 200));
    let home = &house.home;
    let unlimited = ["--core=unlimited".to_owned()];
    let up = home.cmd("boxmaker").arg("up");
    let up = up.under(Path::new("prlimit"), &unlimited).spawn();
    up.until("brokerd is there", || home.role_pid("brokerd").is_some());
    assert_eq!(house.ask("chat-c")["outcome"], "completed");
    for role in ["brokerd", "loopd", "inferproxy"] {
        let pid = home.role_pid(role).unwrap();
        let limits = std::fs::read_to_string(format!("/proc/{pid}/limits")).unwrap();
        let core = limits
            .lines()
            .find(|line| line.starts_with("Max core file size"));
        let core: Vec<&str> = core.unwrap().split_whitespace().skip(4).take(2).collect();
        assert_eq!(core, ["0", "0"], "{role}");
        home.abort_role(role);
        up.until("the role is started anew", || {
            home.role_pid(role).is_some_and(|new| new != pid)
        });
    }
    assert_eq!(up.terminate().code(), Some(0));
    let mut folders = vec![home.path().to_owned()];
    let mut seen = 0;
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(&folder).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                folders.push(path);
            } else if path.is_file() && !path.ends_with("secrets/elsewhere") {
                let bytes = std::fs::read(&path).unwrap();
                let mut windows = bytes.windows(SECRET.len());
                assert!(
                    !windows.any(|at| at == SECRET.as_bytes()),
                    "{}",
                    path.display()
                );
                seen += 1;
            }
        }
    }
    assert!(seen > 10, "there is something to look into");
}

/// Killed between the record and the first byte, or after the last: nothing is ever sent without
/// its intent on disk, and an intent without an outcome is told as unknown.
#[test]
fn a_kill_on_the_way_out_leaves_no_byte_without_its_intent() {
    // What nobody can tell is charged for all that was set aside, and nothing twice.
    const WHOLE: &str = "0.500000";
    const COUNTED: &str = "0.006000";
    for (point, is_cut, cost) in [
        ("brokerd.before-intent", false, COUNTED),
        ("brokerd.after-intent", true, WHOLE),
        ("brokerd.before-send", true, WHOLE),
        ("brokerd.after-send", true, WHOLE),
        // The ledger has the result already, and only the log does not.
        ("brokerd.after-label", true, COUNTED),
        ("brokerd.after-outcome", false, COUNTED),
    ] {
        let house = House::new("", |_| Answer::says("Rayleigh scattering.", 1000, 200));
        let home = &house.home;
        let fault = FaultPoint::first(point);
        let up = up_with_fault(home, &fault);
        let asked = house.ask("chat-k");
        assert_eq!(asked["outcome"], "completed", "{point}: {asked}");
        assert_eq!(up.terminate().code(), Some(0), "{point}");
        let records = audit_records(home);
        let of_consult = |record: &&Value| record["tool"] == "consult";
        let recorded: Vec<&str> = records
            .iter()
            .filter(of_consult)
            .filter(|record| record["kind"] == "intent")
            .map(|record| record["body"].as_str().unwrap())
            .collect();
        let seen = house.provider.seen();
        for seen in &seen {
            let body = std::str::from_utf8(&seen.body).unwrap();
            assert!(recorded.contains(&body), "{point}: sent without an intent");
        }
        assert_eq!(recorded.len(), 1, "{point}: asked again");
        assert!(seen.len() <= 1, "{point}: sent again");
        let unknown = records
            .iter()
            .filter(|record| record["outcome"] == "unknown");
        assert_eq!(unknown.count(), usize::from(is_cut), "{point}: {asked}");
        assert_eq!(asked["cost_usd"], cost, "{point}: {asked}");
        // brokerd's own count of the day has the call once.
        let db = rusqlite::Connection::open(home.state_dir().join("brokerd.db")).unwrap();
        let sql = "SELECT sum(micros) FROM spending";
        let micros: i64 = db.query_row(sql, [], |row| row.get(0)).unwrap();
        assert_eq!(
            MicroUsd::from_micros(micros).unwrap().to_string(),
            cost,
            "{point}"
        );
        verify_audit(home);
    }
}

/// A question costs more than was set aside and than the turn has: that is charged whole and ends
/// all spending, but the model on this box goes on.
#[test]
fn money_that_is_gone_does_not_keep_the_own_model_from_answering() {
    let loopd = "[guardrails]\nusd = \"0.60\"\n";
    let house = House::new(loopd, |_| {
        Answer::says("Rayleigh scattering.", 1000, 100_000)
    });
    let up = house.home.up();
    let asked = house.ask("chat-o");
    assert_eq!(asked["outcome"], "completed", "{asked}");
    assert_eq!(asked["answer"], "It is the light.", "{asked}");
    assert_eq!(asked["cost_usd"], "1.503000", "{asked}");
    assert_eq!(up.terminate().code(), Some(0));
    house.server.assert_clean();
}

/// loopd dies with an answer that is paid, and there is no money for another one: the turn that goes
/// on has the answer from brokerd's record, and nothing is charged or sent twice.
#[test]
fn a_paid_answer_outlives_loopd_where_no_second_one_could_be_paid() {
    let loopd = "[guardrails]\nusd = \"0.60\"\n";
    let house = House::new(loopd, |_| Answer::says("Rayleigh scattering.", 1000, 200));
    let home = &house.home;
    let fault = FaultPoint {
        nth: 2,
        ..FaultPoint::first("loopd.after-tool")
    };
    let up = up_with_fault(home, &fault);
    let asked = house.ask("chat-r");
    assert_eq!(asked["outcome"], "completed", "{asked}");
    let calls = asked["calls"].as_array().unwrap().iter();
    let consulted: Vec<_> = calls.filter(|call| call["tool"] == "consult").collect();
    assert_eq!(consulted.len(), 1, "{asked}");
    assert_eq!(consulted[0]["outcome"], "ok", "{asked}");
    assert_eq!(house.provider.connections(), 1);
    // What loopd had set aside when it died is charged whole, once.
    assert_eq!(asked["cost_usd"], "0.500000", "{asked}");
    assert_eq!(up.terminate().code(), Some(0));
    verify_audit(home);
    house.server.assert_clean();
}

/// Killed as it enters the nth call to the system, by any of its threads, that writes, syncs,
/// connects, sends or receives: never is a byte sent without its intent on disk, never twice.
/// Each number is tried, up to the first that no thread reaches.
#[test]
fn a_kill_at_any_system_call_leaves_no_byte_without_its_intent() {
    let (mut died, mut sent) = (0, 0);
    for number in 1..MOST_CALLS {
        let house = House::new("", |_| Answer::says("Rayleigh scattering.", 1000, 200));
        let home = &house.home;
        let survived = killed_at_call(home, number, || {
            home.cmd("boxmaker")
                .args(["ask", "Why is the sky blue?", "--session", "chat-s"])
                .run();
        });
        died += usize::from(!survived);
        let records = audit_records(home);
        let recorded: Vec<&str> = records
            .iter()
            .filter(|record| record["tool"] == "consult" && record["kind"] == "intent")
            .map(|record| record["body"].as_str().unwrap())
            .collect();
        let seen = house.provider.seen();
        for seen in &seen {
            let body = std::str::from_utf8(&seen.body).unwrap();
            assert!(
                recorded.contains(&body),
                "call {number}: sent without an intent"
            );
        }
        assert!(recorded.len() <= 1, "call {number}: asked again");
        assert!(seen.len() <= 1, "call {number}: sent again");
        sent += seen.len();
        // What began has its end on record, or is told as unknown.
        let outcomes = records.iter().filter(|record| record["kind"] == "outcome");
        assert_eq!(outcomes.count(), recorded.len(), "call {number}");
        verify_audit(home);
        if survived {
            break;
        }
    }
    assert!(died >= 8 && sent >= 1, "{died} died, {sent} sent");
}
