//! Whatever dies or fills up in between: no text without its label, and each note once.

use super::{STRANGE, add, home_with_mail, last_result, model, recall};
use crate::support::{MOST_CALLS, asked, up_with_fault, verify_audit};
use bxtest::fault::{FaultPoint, Inject, SmallDisk, Strace};
use bxtest::home::{BackendConfig, Child, TestHome};
use bxtest::llama::{LlamaServer, Request};
use rusqlite::{Connection, OpenFlags};
use serde_json::Value;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::time::{Duration, Instant};

/// How long a killed role may take to come back and a turn to end.
const RECOVERY: Duration = Duration::from_mins(1);

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
