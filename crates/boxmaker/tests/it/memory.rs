//! Memory in the whole house: kept by one session, found by another, with the label of whoever
//! wrote it; and whatever dies in between, no text without its label.

use crate::support::{MOST_CALLS, asked, audit_records, up_with_fault, verify_audit};
use bxkit::fsx::write_atomic;
use bxtest::fault::{FaultPoint, Inject, SmallDisk, Strace};
use bxtest::home::{BackendConfig, Child, TestHome};
use bxtest::llama::{LlamaServer, Reply, Request};
use bxtest::provider::{Answer, Provider};
use rusqlite::{Connection, OpenFlags};
use serde_json::{Value, json};
use std::io::Write;
use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::time::{Duration, Instant};

/// What a stranger wrote, and nobody may read unawares.
const STRANGE: &str = "The zebra is called Emile";
/// How long a killed role may take to come back and a turn to end.
const RECOVERY: Duration = Duration::from_mins(1);

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
    let text = std::fs::read_to_string(home.transcript(session)).unwrap();
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

/// The label that brokerd's database has for a session, on its own reading.
fn ledger(database: &Path, session: &str) -> Option<(String, i64)> {
    let db = Connection::open_with_flags(database, OpenFlags::SQLITE_OPEN_READ_ONLY).unwrap();
    db.busy_timeout(Duration::from_secs(10)).unwrap();
    let sql = "SELECT class, untrusted FROM sessions WHERE id = ?1";
    db.query_row(sql, [session], |row| Ok((row.get(0)?, row.get(1)?)))
        .ok()
}

/// Waits until a session's turn has its end in the transcript.
fn ends(home: &TestHome, session: &str) {
    let deadline = Instant::now() + RECOVERY;
    loop {
        let text = std::fs::read_to_string(home.transcript(session)).unwrap_or_default();
        if text.contains(r#""kind":"turn_end""#) {
            return;
        }
        assert!(
            Instant::now() < deadline,
            "the turn of {session} does not end"
        );
        std::thread::sleep(Duration::from_millis(20));
    }
}

/// Points that a turn with one call of a memory tool passes.
const POINTS: [&str; 11] = [
    "loopd.before-tool",
    "loopd.after-tool",
    "brokerd.before-intent",
    "brokerd.after-intent",
    "brokerd.after-label",
    "brokerd.after-outcome",
    "memoryd.before-change",
    "memoryd.after-change",
    "memoryd.after-recall",
    "loopd.before-commit",
    "loopd.after-commit",
];

fn fired(home: &TestHome) -> bool {
    let fired = std::fs::read_to_string(home.path().join("faults.fired"));
    fired.is_ok_and(|text| !text.is_empty())
}

/// A house with an untrusted note, and a model behind which somebody looks into the ledger each time
/// that it is shown the note.
fn watched(shown: &'static Mutex<Vec<(String, i64)>>) -> (LlamaServer, TestHome) {
    let place = std::sync::Arc::new(Mutex::new(PathBuf::new()));
    let database = std::sync::Arc::clone(&place);
    let respond = move |request: &Request| {
        let result =
            |message: &Value| message["role"] == "tool" && message.to_string().contains(STRANGE);
        if request.messages().iter().any(result) {
            let label = ledger(&database.lock().unwrap(), "chat-k");
            shown
                .lock()
                .unwrap()
                .push(label.expect("a session that is known"));
        }
        model(request)
    };
    let server = LlamaServer::builder().respond(respond).start_blocking();
    let home = home_with_mail(&[BackendConfig::of_server(&server)], "");
    *place.lock().unwrap() = home.state_dir().join("brokerd.db");
    (server, home)
}

#[test]
fn whatever_dies_no_recalled_text_reaches_the_model_before_its_label_is_on_disk() {
    static SHOWN: Mutex<Vec<(String, i64)>> = Mutex::new(Vec::new());
    let mut died = 0;
    for name in POINTS {
        SHOWN.lock().unwrap().clear();
        let (_server, home) = watched(&SHOWN);
        let note = format!(
            "<!-- memory id=m1 time=2026-12-01T08:00:00Z by=session:chat-z label=private,untrusted -->\n{STRANGE}\n<!-- /memory -->\n"
        );
        std::fs::create_dir_all(home.state_dir().join("memory")).unwrap();
        std::fs::write(home.state_dir().join("memory/notes.md"), note).unwrap();
        let point = FaultPoint {
            name: name.to_owned(),
            nth: 1,
        };
        let up = up_with_fault(&home, &point);
        home.cmd("boxmaker")
            .args(["ask", "--session", "chat-k", &recall("zebra")])
            .run();
        if !home.transcript("chat-k").exists() {
            // Killed before anything of the turn was stored: it never was.
            home.cmd("boxmaker")
                .args(["ask", "--session", "chat-k", &recall("zebra")])
                .run();
        }
        ends(&home, "chat-k");
        assert_eq!(up.terminate().code(), Some(0), "{name}");
        let shown = SHOWN.lock().unwrap().clone();
        assert!(!shown.is_empty(), "{name}: the note was never found");
        assert!(
            shown
                .iter()
                .all(|label| *label == ("private".to_owned(), 1)),
            "{name}: {shown:?}"
        );
        verify_audit(&home);
        died += usize::from(fired(&home));
    }
    assert!(
        died >= POINTS.len() - 2,
        "only {died} of the faults happened"
    );
}

#[test]
fn whatever_dies_a_note_is_kept_once() {
    let mut died = 0;
    for name in POINTS {
        let server = LlamaServer::builder().respond(model).start_blocking();
        let home = TestHome::with_server(&server);
        let point = FaultPoint {
            name: name.to_owned(),
            nth: 1,
        };
        let up = up_with_fault(&home, &point);
        let told = add("notes.md", "The kettle is blue.");
        home.cmd("boxmaker")
            .args(["ask", "--session", "chat-k", &told])
            .run();
        if !home.transcript("chat-k").exists() {
            home.cmd("boxmaker")
                .args(["ask", "--session", "chat-k", &told])
                .run();
        }
        ends(&home, "chat-k");
        assert_eq!(up.terminate().code(), Some(0), "{name}");
        let notes = std::fs::read_to_string(home.state_dir().join("memory/notes.md")).unwrap();
        assert_eq!(
            notes.matches("The kettle is blue.").count(),
            1,
            "{name}: {notes}"
        );
        let said = last_result(&home, "chat-k");
        assert_eq!(said["outcome"], "ok", "{name}: {said}");
        verify_audit(&home);
        died += usize::from(fired(&home));
    }
    assert!(
        died >= POINTS.len() - 2,
        "only {died} of the faults happened"
    );
}

#[test]
fn memoryd_may_die_at_any_system_call_of_a_write() {
    const CALLS: &str = "openat,write,fchmod,fsync,rename,sendto,recvfrom";
    let mut died = 0;
    // Each thread counts its own calls.
    for number in 1..MOST_CALLS {
        let server = LlamaServer::builder().respond(model).start_blocking();
        let home = TestHome::with_server(&server);
        let notes = home.state_dir().join("memory/notes.md");
        std::fs::create_dir_all(notes.parent().unwrap()).unwrap();
        std::fs::write(&notes, "The teapot is green.\n").unwrap();
        let up = home.up();
        let memoryd = home.role_pid("memoryd").unwrap();
        let inject = Inject::kill(CALLS).only(number);
        let tracer = Strace::new().inject(inject).attach(&home, memoryd);
        let report = asked(&home, "chat-k", &add("notes.md", "The kettle is blue."));
        assert_eq!(
            report["calls"][0]["outcome"], "ok",
            "call {number}: {report}"
        );
        let survived = home.role_pid("memoryd") == Some(memoryd);
        drop(tracer);
        assert_eq!(up.terminate().code(), Some(0), "call {number}");
        let text = std::fs::read_to_string(&notes).unwrap();
        for words in ["The kettle is blue.", "The teapot is green."] {
            assert_eq!(text.matches(words).count(), 1, "call {number}: {text}");
        }
        if survived {
            break;
        }
        died += 1;
    }
    assert!(died > 3, "memoryd died only {died} times");
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

#[test]
fn a_full_disk_costs_a_note_and_nothing_else() {
    let server = LlamaServer::builder().respond(model).start_blocking();
    let home = TestHome::with_server(&server);
    let disk = SmallDisk::new(&home.state_dir().join("memory"), 64);
    let up: Child<'_> = disk.wrap(home.cmd("boxmaker").arg("up")).spawn();
    for role in ["inferproxy", "memoryd", "brokerd", "loopd"] {
        up.until(role, || home.role_pid(role).is_some());
    }
    let memory = disk.seen_by(home.role_pid("memoryd").unwrap());
    asked(&home, "chat-a", &add("notes.md", "The kettle is blue."));
    let before = std::fs::read_to_string(memory.join("notes.md")).unwrap();
    let mut ballast = std::fs::File::create(memory.join("ballast")).unwrap();
    while ballast.write_all(&[7; 512]).is_ok() {}
    drop(ballast);
    asked(&home, "chat-a", &add("notes.md", "The teapot is green."));
    let refused = last_result(&home, "chat-a");
    assert_eq!(refused["code"], "disk-full", "{refused}");
    assert_eq!(
        std::fs::read_to_string(memory.join("notes.md")).unwrap(),
        before
    );
    asked(&home, "chat-b", &recall("kettle"));
    assert!(
        last_result(&home, "chat-b")
            .to_string()
            .contains("The kettle is blue.")
    );
    std::fs::remove_file(memory.join("ballast")).unwrap();
    asked(&home, "chat-a", &add("notes.md", "The teapot is green."));
    assert_eq!(last_result(&home, "chat-a")["outcome"], "ok");
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
