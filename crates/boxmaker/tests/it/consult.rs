//! A local model that asks a model elsewhere: found, called, decided, paid and on record, in the
//! whole house.

mod keys;
mod kills;

use crate::support::{audit_records, files_with, verify_audit};
use bxtest::home::{BackendConfig, TestHome};
use bxtest::llama::{LlamaServer, Reply, Request};
use bxtest::provider::{Answer, Provider};
use serde_json::{Value, json};
use std::path::{Path, PathBuf};

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

/// A service that sends back what it got, key and all, gets it into no file and no model.
#[test]
fn a_key_that_comes_back_is_blotted_out() {
    let encoded = "c2stY2FuYXJ5LTA4MTUtaG91c2U";
    let said = format!("You sent: Bearer {SECRET}, which is {encoded}.");
    let house = House::new("", move |_| Answer::says(&said, 1000, 200));
    let up = house.home.up();
    let asked = house.ask("chat-back");
    assert_eq!(asked["cost_usd"], "0.006000", "{asked}");
    let last = house.server.requests().pop().unwrap();
    let read = json!(last.request.messages()).to_string();
    assert!(
        read.contains("Bearer [the secret elsewhere], which is"),
        "{read}"
    );
    assert_eq!(up.terminate().code(), Some(0));
    for text in [SECRET, encoded] {
        assert!(!read.contains(text), "{read}");
        assert_eq!(files_with(&house.home, text), Vec::<PathBuf>::new());
    }
    assert_ne!(
        files_with(&house.home, "the secret elsewhere"),
        Vec::<PathBuf>::new()
    );
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
