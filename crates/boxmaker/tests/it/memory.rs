//! Memory in the whole house: kept by one session, found by another, with the label of whoever wrote it.

mod faults;
mod questions;

use crate::support::{asked, audit_records, transcript, verify_audit};
use bxkit::fsx::write_atomic;
use bxtest::home::{BackendConfig, TestHome};
use bxtest::llama::{LlamaServer, Reply, Request};
use bxtest::provider::{Answer, Provider};
use serde_json::{Value, json};
use std::sync::Mutex;

/// What a stranger wrote, and nobody may read unawares.
const STRANGE: &str = "The zebra is called Emile";

/// A model that does what it is told: `do TOOL JSON`, and several of them in one message. A helper is
/// told by `DO`, which may stand within the JSON of a `do`.
fn model(request: &Request) -> Reply {
    let user = |message: &&Value| message["role"] == "user";
    let told = request.messages().iter().rev().find(user).unwrap();
    let told = told["content"].as_str().unwrap().to_owned();
    let word = if told.contains("do ") { "do " } else { "DO " };
    let calls: Vec<&str> = told.split(word).skip(1).collect();
    match calls.get(request.calls_before_in_turn()) {
        Some(call) => {
            let (tool, arguments) = call.trim().split_once(' ').unwrap();
            Reply::tool_call(tool, serde_json::from_str::<Value>(arguments).unwrap())
        }
        None => Reply::text("Done."),
    }
}

fn add(file: &str, text: &str) -> String {
    format!(
        "do memory {}",
        json!({"action": "add", "file": file, "text": text})
    )
}

fn recall(words: &str) -> String {
    format!("do recall {}", json!({"query": words}))
}

fn read_mail() -> String {
    let read = json!({"name": "read_file", "arguments": {"path": "mail/1.txt"}});
    format!("do call_tool {read} ")
}

/// What the model read of the last call of a session.
fn last_result(home: &TestHome, session: &str) -> Value {
    let text = transcript(home, session);
    let mut lines = text
        .lines()
        .map(|line| serde_json::from_str::<Value>(line).unwrap());
    lines.rfind(|line| line["kind"] == "tool").unwrap()
}

/// A home whose owner lets a stranger's mail be read.
fn home_with_mail(backends: &[BackendConfig], brokerd: &str) -> TestHome {
    let home = TestHome::new();
    home.write_backends(backends);
    let mail = home.path().join("mail");
    std::fs::create_dir(&mail).unwrap();
    std::fs::write(mail.join("1.txt"), STRANGE).unwrap();
    let folder = format!(
        "[[workspace]]\npath = \"{}\"\nuntrusted = true\n",
        mail.display()
    );
    home.write_config("brokerd.toml", &(folder + brokerd));
    home
}

const PRIVATE: &str = r#"{"class":"private","untrusted":false}"#;
const UNTRUSTED: &str = r#"{"class":"private","untrusted":true}"#;

fn label(text: &str) -> Value {
    serde_json::from_str(text).unwrap()
}

#[test]
fn what_one_session_notes_another_recalls() {
    let server = LlamaServer::builder().respond(model).start_blocking();
    let home = TestHome::with_server(&server);
    let up = home.up();
    asked(&home, "chat-a", &add("notes.md", "The kettle is blue."));
    let added = last_result(&home, "chat-a");
    assert_eq!(
        (&added["tool"], &added["outcome"]),
        (&json!("memory"), &json!("ok")),
        "{added}"
    );
    assert!(added["audit"].as_u64().is_some(), "{added}");
    let report = asked(&home, "chat-b", &recall("kettle colour"));
    assert_eq!(report["label"], label(PRIVATE));
    let found = last_result(&home, "chat-b").to_string();
    assert!(
        found.contains("The kettle is blue.") && found.contains("by session:chat-a"),
        "{found}"
    );
    // What the owner said in another session is found, and what is said in this one is not.
    let report = asked(&home, "chat-b", &recall("memory"));
    assert_eq!(report["outcome"], "completed");
    let found = last_result(&home, "chat-b").to_string();
    assert!(
        found.contains("session chat-a, turn 1, by owner"),
        "{found}"
    );
    assert!(!found.contains("session chat-b"), "{found}");

    // By hand and at once.
    let notes = home.state_dir().join("memory/notes.md");
    let text = std::fs::read_to_string(&notes).unwrap() + "\nThe teapot is green.\n";
    std::fs::write(&notes, text).unwrap();
    asked(&home, "chat-c", &recall("teapot"));
    assert!(
        last_result(&home, "chat-c")
            .to_string()
            .contains("The teapot is green.")
    );
    // Whoever deletes the index loses nothing.
    for entry in std::fs::read_dir(home.state_dir().join("memoryd")).unwrap() {
        std::fs::remove_file(entry.unwrap().path()).unwrap();
    }
    asked(&home, "chat-d", &recall("teapot"));
    assert!(
        last_result(&home, "chat-d")
            .to_string()
            .contains("The teapot is green.")
    );

    let cli = |arguments: &[&str]| {
        home.cmd("boxmaker")
            .arg("memory")
            .args(arguments.iter().copied())
            .run()
    };
    let listed = cli(&["list", "--json"]).success().json();
    assert_eq!(listed["files"][0]["entries"].as_array().unwrap().len(), 2);
    let shown = cli(&["show", "notes.md"]).success().stdout;
    assert!(
        shown.contains("by session:chat-a · private\nThe kettle is blue."),
        "{shown}"
    );
    let found = cli(&["recall", "green", "teapot", "-n", "1"])
        .success()
        .stdout;
    assert!(
        found.contains("by owner · private\nThe teapot is green."),
        "{found}"
    );
    assert_eq!(cli(&["show", "identity"]).code(), Some(2));
    std::fs::write(home.state_dir().join("memory/bad.md"), b"\xff").unwrap();
    let doctor = home
        .cmd("boxmaker")
        .args(["doctor", "--quick"])
        .run()
        .success();
    assert!(
        doctor
            .stdout
            .contains("bad.md is left out: it is not text in UTF-8"),
        "{}",
        doctor.stdout
    );
    assert!(
        cli(&["show", "bad"])
            .stderr
            .contains("error[memory-file-unusable]")
    );

    let records = audit_records(&home);
    let intents = records.iter().filter(|record| record["kind"] == "intent");
    let tools: Vec<&str> = intents
        .filter_map(|record| record["tool"].as_str())
        .collect();
    assert_eq!(tools, ["memory", "recall", "recall", "recall", "recall"]);
    assert_eq!(up.terminate().code(), Some(0));
    verify_audit(&home);
    server.assert_clean();
}

#[test]
fn an_untrusted_note_taints_whoever_recalls_it_and_consult_is_refused() {
    let server = LlamaServer::builder().respond(model).start_blocking();
    let provider = Provider::start(|_, _| Answer::says("It is the light.", 10, 10));
    let url = provider.url("127.0.0.1", "/v1/chat/completions");
    let home = home_with_mail(
        &[BackendConfig::of_server(&server)],
        &format!(
            "[consult]\nurl = \"{url}\"\nmodel = \"big-1\"\nsecret = \"elsewhere\"\n\
             price = {{ prompt = \"3\", completion = \"15\" }}\nreserve_usd = \"0.50\"\ndaily_usd = \"5\"\n\
             [[grant]]\ntool = \"consult\"\nmax_taint = \"private\"\n"
        ),
    );
    let folder = home.state_dir().join("secrets");
    std::fs::create_dir_all(&folder).unwrap();
    let private = std::os::unix::fs::PermissionsExt::from_mode(0o700);
    std::fs::set_permissions(&folder, private).unwrap();
    write_atomic(&folder.join("elsewhere"), b"sk-canary", 0o600).unwrap();
    let identity = home.state_dir().join("memory/identity.md");
    std::fs::create_dir_all(identity.parent().unwrap()).unwrap();
    std::fs::write(&identity, "I am Ada.\n").unwrap();
    let up = home.up();

    let mailed = read_mail() + &add("identity.md", STRANGE);
    assert_eq!(
        asked(&home, "chat-mail", &mailed)["label"],
        label(UNTRUSTED)
    );
    let kept = last_result(&home, "chat-mail").to_string();
    assert!(kept.contains("Kept as a note in notes.md"), "{kept}");
    assert!(
        !std::fs::read_to_string(&identity)
            .unwrap()
            .contains("zebra")
    );

    let question = json!({"name": "consult", "arguments": {"question": "Why is the sky blue?"}});
    let consult = format!(" do call_tool {question}");
    let clean = asked(&home, "chat-clean", &("hello".to_owned() + &consult));
    assert_eq!(clean["calls"][0]["outcome"], "ok", "{clean}");
    // A list shows nothing that would raise the label; recall does, and raises it.
    let list = format!("do memory {}", json!({"action": "list"}));
    assert_eq!(asked(&home, "chat-list", &list)["label"], label(PRIVATE));
    let listed = last_result(&home, "chat-list").to_string();
    assert!(
        listed.contains("I am Ada.") && !listed.contains("zebra"),
        "{listed}"
    );
    let tainted = asked(&home, "chat-tainted", &(recall("zebra") + &consult));
    assert_eq!(tainted["label"], label(UNTRUSTED));
    let outcomes: Vec<&Value> = tainted["calls"]
        .as_array()
        .unwrap()
        .iter()
        .map(|call| &call["outcome"])
        .collect();
    assert_eq!(outcomes, ["ok", "denied"], "{tainted}");
    assert_eq!(
        last_result(&home, "chat-tainted")["code"],
        "untrusted-session"
    );
    assert_eq!(
        provider.connections(),
        1,
        "the clean session's question alone"
    );
    assert_eq!(up.terminate().code(), Some(0));
    verify_audit(&home);
}

#[test]
fn guardrails_hold_for_memory_too() {
    let server = LlamaServer::builder().respond(model).start_blocking();
    let home = TestHome::with_server(&server);
    home.write_config("loopd.toml", "[guardrails]\ndeny = [\"recall\"]\n");
    let up = home.up();
    let report = asked(&home, "chat-a", &(add("notes.md", "x") + &recall("x")));
    let outcomes: Vec<&Value> = report["calls"]
        .as_array()
        .unwrap()
        .iter()
        .map(|call| &call["outcome"])
        .collect();
    assert_eq!(outcomes, ["ok", "denied"], "{report}");
    assert_eq!(last_result(&home, "chat-a")["code"], "denied-by-guardrail");
    assert_eq!(up.terminate().code(), Some(0));
}

fn delegate(task: &str) -> String {
    let call = json!({"name": "subagent", "arguments": {"task": task.replace("do ", "DO ")}});
    format!("do call_tool {call}")
}

#[test]
fn a_helper_that_recalls_taints_its_parent_and_launders_nothing_into_memory() {
    let server = LlamaServer::builder().respond(model).start_blocking();
    let home = home_with_mail(&[BackendConfig::of_server(&server)], "");
    let memory = home.state_dir().join("memory");
    std::fs::create_dir_all(&memory).unwrap();
    std::fs::write(memory.join("identity.md"), "I am Ada.\n").unwrap();
    let up = home.up();

    // Its parent has read a stranger's mail, so what it notes is a stranger's.
    let noted = delegate(&add("identity.md", STRANGE));
    let report = asked(&home, "chat-mail", &(read_mail() + &noted));
    assert_eq!(report["label"], label(UNTRUSTED), "{report}");
    let kept = last_result(&home, "sub-chat-mail-2").to_string();
    assert!(kept.contains("Kept as a note in notes.md"), "{kept}");
    assert!(
        !std::fs::read_to_string(memory.join("identity.md"))
            .unwrap()
            .contains("zebra")
    );
    let notes = std::fs::read_to_string(memory.join("notes.md")).unwrap();
    assert!(
        notes.contains("by=session:sub-chat-mail-2 label=private,untrusted"),
        "{notes}"
    );

    // A helper of a clean session finds it, and its parent is not clean any more.
    assert_eq!(asked(&home, "chat-p", "hello")["label"], label(PRIVATE));
    let report = asked(&home, "chat-p", &delegate(&recall("zebra")));
    assert!(
        last_result(&home, "sub-chat-p-1")
            .to_string()
            .contains(STRANGE)
    );
    assert_eq!(report["label"], label(UNTRUSTED), "{report}");
    assert_eq!(up.terminate().code(), Some(0));
    let up = home.up();
    assert_eq!(asked(&home, "chat-p", "still?")["label"], label(UNTRUSTED));
    assert_eq!(up.terminate().code(), Some(0));
    verify_audit(&home);
}

/// What of memory the requests of a session begin with.
fn begins_with(request: &Request) -> String {
    let system = request.messages()[0]["content"].as_str().unwrap();
    let memory = system.split_once("What you remember of earlier sessions:");
    memory.map_or_else(String::new, |(_, memory)| memory.trim().to_owned())
}

#[test]
fn a_session_begins_with_what_is_trusted_and_not_above_its_class() {
    static SEEN: Mutex<Vec<String>> = Mutex::new(Vec::new());
    let server = LlamaServer::builder()
        .respond(|request| {
            SEEN.lock().unwrap().push(begins_with(request));
            Reply::text("Done.")
        })
        .start_blocking();
    let home = TestHome::with_server(&server);
    let memory = home.state_dir().join("memory");
    std::fs::create_dir_all(&memory).unwrap();
    std::fs::write(memory.join("identity.md"), "I am Ada.\n").unwrap();
    let entry = |label: &str, text: &str| {
        format!(
            "<!-- memory id={text} time=2026-12-01T08:00:00Z by=session:chat-z label={label} -->\n{text}\n<!-- /memory -->\n"
        )
    };
    let notes = [
        "public",
        "private",
        "secret",
        "public,untrusted",
        "private,untrusted",
    ]
    .map(|label| entry(label, &label.replace(',', "-")));
    std::fs::write(memory.join("notes.md"), notes.concat()).unwrap();
    // What can't be read keeps no session from beginning.
    std::os::unix::fs::symlink("/etc/passwd", memory.join("strange.md")).unwrap();
    let up = home.up();
    let ask = |session: &str, class: &str| {
        home.cmd("boxmaker")
            .args([
                "ask",
                "hello",
                "--json",
                "--session",
                session,
                "--class",
                class,
            ])
            .run()
            .success()
            .json()
    };
    let seen = || SEEN.lock().unwrap().pop().unwrap();
    assert_eq!(ask("chat-a", "private")["label"], label(PRIVATE));
    let first = "# identity.md\nI am Ada.\n# notes.md\npublic\nprivate";
    assert_eq!(seen(), first);
    let public = json!({"class": "public", "untrusted": false});
    assert_eq!(ask("chat-p", "public")["label"], public);
    assert_eq!(seen(), "# notes.md\npublic");
    ask("chat-s", "secret");
    assert_eq!(seen(), format!("{first}\nsecret"));

    // The prefix of a session stays as it is, byte for byte, whatever becomes of memory; a new
    // session has the new one.
    std::fs::write(memory.join("identity.md"), "I am Bea.\n").unwrap();
    ask("chat-a", "private");
    assert_eq!(seen(), first);
    ask("chat-b", "private");
    assert_eq!(seen(), first.replace("Ada", "Bea"));
    // Also after a restart, which folds the transcript.
    assert_eq!(up.terminate().code(), Some(0));
    let up = home.up();
    ask("chat-a", "private");
    assert_eq!(seen(), first);
    assert_eq!(up.terminate().code(), Some(0));
    server.assert_clean();
}
