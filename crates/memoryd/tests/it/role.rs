//! The role as a process of its own, confined: whom it answers, what it may not do, how it ends.

use bxcore::code::Code;
use bxcore::id::{CallId, MemoryFile, SessionId};
use bxcore::label::{Class, Label};
use bxcore::role::Role;
use bxcore::wire::memoryd::{
    MemoryAction, MemoryBaseline, MemoryChange, MemoryChanged, MemoryListing, MemoryNews,
    NewsRequest, RecallRequest, Recalled,
};
use bxkit::home::Home;
use bxkit::keys::{KeyRing, Token};
use bxkit::rpc::{CallError, Client};
use bxtest::transcript::Transcript;
use serde::de::DeserializeOwned;
use std::io::Write;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::Duration;
use tempfile::TempDir;

/// Says that this process is to be the role.
const ROLE_VARIABLE: &str = "MEMORYD_TEST_ROLE";
const READY: Duration = Duration::from_mins(1);

/// Not a test by itself: what the tests below run in a process of its own.
#[test]
fn as_a_role() {
    if std::env::var_os(ROLE_VARIABLE).is_some() {
        eprintln!("EXIT {:?}", memoryd::run());
    }
}

/// Says that this process is to give up its rights, and try what it may not do.
const ACTS_VARIABLE: &str = "MEMORYD_TEST_ACTS";

/// Not a test by itself: tries acts as memoryd is confined, and says which of them succeed.
#[test]
fn as_a_confined_process() {
    let Some(root) = std::env::var_os(ACTS_VARIABLE) else {
        return;
    };
    let home = Home::at(Path::new(&root));
    let report = bxkit::confine::confine(&memoryd::confinement(&home)).unwrap();
    assert_eq!(report.landlock, bxkit::confine::Enforcement::Full);
    let log = home.sessions_dir().join("chat-1/log.jsonl");
    let read = |path: &Path| std::fs::read(path).is_ok();
    let write = |path: &Path| std::fs::write(path, "x").is_ok();
    let secret = home.secrets_dir().join("key");
    for (act, done) in [
        ("read a transcript", read(&log)),
        (
            "write a memory file",
            write(&home.memory_dir().join("notes.md")),
        ),
        (
            "write its index",
            write(&home.memoryd_dir().join("index.db")),
        ),
        ("write a transcript", write(&log)),
        ("remove a transcript", std::fs::remove_file(&log).is_ok()),
        ("read the owner's token", read(&home.owner_token_file())),
        ("read a secret", read(&secret)),
        (
            "link a secret",
            std::fs::hard_link(&secret, home.memory_dir().join("a.md")).is_ok(),
        ),
        ("read brokerd's database", read(&home.broker_db())),
        (
            "write configuration",
            write(&home.config_file(Role::Memoryd)),
        ),
        ("read the system's users", read(Path::new("/etc/passwd"))),
        (
            "open an IP socket",
            std::net::TcpListener::bind("127.0.0.1:0").is_ok(),
        ),
        (
            "start a program",
            Command::new("/bin/true").status().is_ok(),
        ),
    ] {
        eprintln!("ACT {act}: {}", if done { "done" } else { "denied" });
    }
}

#[test]
fn what_it_has_no_use_for_it_can_not_do() {
    let (home, root) = home();
    Transcript::begin(&home.sessions_dir(), "chat-1");
    for path in [
        home.secrets_dir().join("key"),
        home.owner_token_file(),
        home.broker_db(),
        home.config_file(Role::Memoryd),
    ] {
        std::fs::write(path, "").unwrap();
    }
    let output = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "role::as_a_confined_process", "--nocapture"])
        .env(ACTS_VARIABLE, root.path())
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    let acts = said.lines().filter_map(|line| line.strip_prefix("ACT "));
    let (done, denied): (Vec<&str>, Vec<_>) = acts.partition(|act| act.ends_with(": done"));
    assert_eq!(
        done,
        [
            "read a transcript: done",
            "write a memory file: done",
            "write its index: done"
        ],
        "{said}"
    );
    assert_eq!(denied.len(), 10, "{said}");
}

struct Process {
    child: Child,
    broker: Client,
    engine: Client,
    owner: Client,
}

impl Process {
    async fn ready(home: &Home, root: &TempDir) -> Self {
        let ring = KeyRing::generate().unwrap();
        let mut child = Command::new(std::env::current_exe().unwrap())
            .args(["--exact", "role::as_a_role", "--nocapture"])
            .env(ROLE_VARIABLE, "1")
            .env("BOXMAKER_HOME", root.path())
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let keys = ring.for_role(Role::Memoryd, None);
        let line = format!("{}\n", serde_json::to_string(&keys).unwrap());
        let stdin = child.stdin.as_mut().unwrap();
        stdin.write_all(line.as_bytes()).unwrap();
        let client = |token: &Token| Client::new(home.socket(Role::Memoryd), token);
        let of = |role: Role| client(ring.for_role(role, None).token_for(Role::Memoryd).unwrap());
        let process = Self {
            child,
            broker: of(Role::Brokerd),
            engine: of(Role::Loopd),
            owner: client(ring.owner()),
        };
        process.owner.wait_ready(READY).await.unwrap();
        process
    }

    /// Ends it as a supervisor that goes away does; gives what it said.
    fn end(mut self) -> String {
        drop(self.child.stdin.take());
        self.said()
    }

    fn said(self) -> String {
        let output = self.child.wait_with_output().unwrap();
        String::from_utf8_lossy(&output.stderr).into_owned()
    }
}

fn home() -> (Home, TempDir) {
    let root = tempfile::tempdir().unwrap();
    let home = Home::at(root.path());
    home.create().unwrap();
    (home, root)
}

fn add(label: Label, text: &str) -> MemoryChange {
    MemoryChange {
        session: SessionId::new("chat-1").unwrap(),
        call: CallId(1),
        label,
        file: MemoryFile::notes(),
        action: MemoryAction::Add {
            text: text.to_owned(),
        },
    }
}

fn query(text: &str) -> RecallRequest {
    RecallRequest {
        query: text.to_owned(),
        limit: None,
        except: None,
    }
}

fn code<T: std::fmt::Debug>(answer: Result<T, CallError>) -> Code {
    answer.unwrap_err().problem().code
}

async fn get<T: DeserializeOwned>(client: &Client, path: &str) -> Result<T, CallError> {
    client.get(path).await
}

#[tokio::test]
async fn it_serves_confined_and_ends_with_its_supervisor() {
    let (home, root) = home();
    let mut transcript = Transcript::begin(&home.sessions_dir(), "chat-9");
    transcript.turn(
        "2026-11-30T08:00:00Z",
        "Where is the kettle?",
        None,
        "On the stove.",
    );
    let process = Process::ready(&home, &root).await;
    let change = add(Label::OWNER, "The kettle is blue.");
    let changed: MemoryChanged = process.broker.post("/v1/memory", &change).await.unwrap();
    let again: MemoryChanged = process.broker.post("/v1/memory", &change).await.unwrap();
    assert_eq!(changed, again);
    let listing: MemoryListing = get(&process.owner, "/v1/memory/notes.md").await.unwrap();
    assert_eq!(listing.files[0].entries.len(), 1);
    assert_eq!(listing.folder, home.memory_dir().display().to_string());
    let found: Recalled = process
        .broker
        .post("/v1/recall", &query("kettle"))
        .await
        .unwrap();
    assert_eq!(found.hits.len(), 2);
    let baseline: MemoryBaseline = get(&process.engine, "/v1/baseline/private").await.unwrap();
    assert_eq!(baseline.text, "# notes.md\nThe kettle is blue.\n");
    let public: MemoryBaseline = get(&process.engine, "/v1/baseline/public").await.unwrap();
    assert_eq!(public.text, "");
    let said = process.end();
    assert!(
        said.contains("EXIT ExitCode(unix_exit_status(0))"),
        "{said}"
    );
    assert!(said.contains("landlock full"), "{said}");
}

#[tokio::test]
async fn loopd_gets_the_baseline_and_nothing_that_would_need_a_label() {
    let (home, root) = home();
    let process = Process::ready(&home, &root).await;
    let change = add(Label::BOTTOM, "x");
    for client in [&process.engine, &process.owner] {
        let changed = client.post::<_, MemoryChanged>("/v1/memory", &change).await;
        assert_eq!(code(changed), Code::NotAuthorised);
    }
    let found = process
        .engine
        .post::<_, Recalled>("/v1/recall", &query("x"))
        .await;
    assert_eq!(code(found), Code::NotAuthorised);
    let listing = get::<MemoryListing>(&process.engine, "/v1/memory").await;
    assert_eq!(code(listing), Code::NotAuthorised);
    let baseline = get::<MemoryBaseline>(&process.broker, "/v1/baseline/secret").await;
    assert_eq!(code(baseline), Code::NotAuthorised);
    let known = NewsRequest {
        known: String::new(),
    };
    let path = "/v1/baseline/secret/news";
    let news = process.broker.post::<_, MemoryNews>(path, &known).await;
    assert_eq!(code(news), Code::NotAuthorised);
    let news: MemoryNews = process.engine.post(path, &known).await.unwrap();
    assert_eq!((news.added.as_str(), news.removed.as_str()), ("", ""));
    for path in ["/v1/baseline/top", "/v1/memory/..%2Fx", "/v1/memory/A"] {
        assert_eq!(
            code(get::<MemoryListing>(&process.owner, path).await),
            Code::BadRequest,
            "{path}"
        );
    }
    process.end();
}

#[tokio::test]
async fn an_index_that_is_deleted_while_it_runs_is_made_anew() {
    let (home, root) = home();
    let process = Process::ready(&home, &root).await;
    let _: MemoryChanged = process
        .broker
        .post(
            "/v1/memory",
            &add(Label::new(Class::Secret, true), "kettle"),
        )
        .await
        .unwrap();
    for round in 0..3 {
        let found: Recalled = process
            .owner
            .post("/v1/recall", &query("kettle"))
            .await
            .unwrap();
        assert_eq!(found.hits[0].label, Label::TOP, "round {round}");
        for entry in std::fs::read_dir(home.memoryd_dir()).unwrap() {
            std::fs::remove_file(entry.unwrap().path()).unwrap();
        }
    }
    process.end();
}

#[tokio::test]
async fn a_folder_that_is_taken_away_ends_it_so_that_it_starts_with_the_new_one() {
    for which in [Home::memory_dir, Home::memoryd_dir] {
        let (home, root) = home();
        let process = Process::ready(&home, &root).await;
        let folder = which(&home);
        std::fs::rename(&folder, folder.with_extension("old")).unwrap();
        let change = process
            .broker
            .post::<_, MemoryChanged>("/v1/memory", &add(Label::OWNER, "x"))
            .await;
        let found = process
            .owner
            .post::<_, Recalled>("/v1/recall", &query("x"))
            .await;
        assert!(change.is_err() || found.is_err());
        let said = process.said();
        assert!(said.contains("A folder of memory was taken away"), "{said}");
        assert!(
            said.contains("EXIT ExitCode(unix_exit_status(1))"),
            "{said}"
        );
        let process = Process::ready(&home, &root).await;
        let _: MemoryChanged = process
            .broker
            .post("/v1/memory", &add(Label::OWNER, "x"))
            .await
            .unwrap();
        process.end();
    }
}
