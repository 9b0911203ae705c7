//! A disposable store, entries to put into it, and crashes of it.

use bxcore::chat::RawMessage;
use bxcore::guardrails::Limits;
use bxcore::id::{BackendName, CallId, EpochId, ModelCallId, SessionId, TurnId};
use bxcore::label::{Class, Label};
use bxcore::money::MicroUsd;
use bxcore::transcript::{
    Assistant, CallOutcome, Entry, Epoch, EpochReason, Line, Open, Tool, ToolMode, TurnEnd,
    TurnOutcome, User,
};
use bxcore::usage::{Receipt, Spend, Usage, UsageSource};
use loopd::budget::AccountKey;
use loopd::store::{
    AccountSpec, Batch, Op, Recovery, Reservation, Settlement, Store, StoreError, StoreOptions,
};
use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;
use tempfile::TempDir;

/// A state folder, on a disk in memory where there is one: most tests sync often.
pub(crate) struct Folder(TempDir);

impl Folder {
    pub(crate) fn new() -> Self {
        let memory = Path::new("/dev/shm");
        let dir = if memory.is_dir() {
            tempfile::tempdir_in(memory)
        } else {
            tempfile::tempdir()
        };
        Self(dir.unwrap())
    }

    pub(crate) fn path(&self) -> &Path {
        self.0.path()
    }

    pub(crate) fn options(&self) -> StoreOptions {
        options(self.path())
    }

    pub(crate) fn open(&self) -> (Store, Recovery) {
        Store::open(self.options()).unwrap()
    }

    /// Opens it, of which an error is expected.
    pub(crate) fn refusal(&self) -> StoreError {
        Store::open(self.options()).map(|_| ()).unwrap_err()
    }

    pub(crate) fn log(&self, session: &SessionId) -> PathBuf {
        self.path()
            .join("sessions")
            .join(session.as_str())
            .join("log.jsonl")
    }

    pub(crate) fn db(&self) -> PathBuf {
        self.path().join("boxmaker.db")
    }

    /// A connection past the store.
    pub(crate) fn sql(&self) -> rusqlite::Connection {
        rusqlite::Connection::open(self.db()).unwrap()
    }

    pub(crate) fn number(&self, sql: &str) -> i64 {
        self.sql().query_row(sql, [], |row| row.get(0)).unwrap()
    }

    /// Takes the database away, as if it had been lost.
    pub(crate) fn remove_db(&self) {
        for name in ["boxmaker.db", "boxmaker.db-wal", "boxmaker.db-shm"] {
            let path = self.path().join(name);
            if path.exists() {
                fs::remove_file(path).unwrap();
            }
        }
    }

    /// What the disk would hold if the process were killed now: a copy of every file.
    pub(crate) fn crashed(&self) -> Self {
        let copy = Self::new();
        copy_all(self.path(), copy.path());
        copy
    }
}

/// Options with which the housekeeper does nothing by itself, so that crashes are repeatable.
pub(crate) fn options(state: &Path) -> StoreOptions {
    StoreOptions {
        sync_interval: Duration::from_hours(1),
        ..StoreOptions::in_folder(state)
    }
}

pub(crate) fn copy_all(from: &Path, to: &Path) {
    fs::create_dir_all(to).unwrap();
    for entry in fs::read_dir(from).unwrap() {
        let entry = entry.unwrap();
        let target = to.join(entry.file_name());
        if entry.file_type().unwrap().is_dir() {
            copy_all(&entry.path(), &target);
        } else {
            fs::copy(entry.path(), target).unwrap();
        }
    }
}

pub(crate) fn block_on<T>(work: impl Future<Output = T>) -> T {
    tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build()
        .unwrap()
        .block_on(work)
}

pub(crate) fn id(text: &str) -> SessionId {
    SessionId::new(text).unwrap()
}

pub(crate) fn key(text: &str) -> AccountKey {
    AccountKey::new(text).unwrap()
}

pub(crate) fn tokens(limit: u64) -> Limits {
    Limits {
        tokens: Some(limit),
        usd: None,
    }
}

pub(crate) fn spend(tokens: u64, micros: i64) -> Spend {
    Spend {
        tokens,
        usd: MicroUsd::from_micros(micros).unwrap(),
    }
}

pub(crate) fn open(session: &SessionId) -> Entry {
    Entry::Open(Open {
        session: session.clone(),
        parent: None,
        lineage: None,
        label: Label::BOTTOM,
    })
}

pub(crate) fn epoch() -> Entry {
    Entry::Epoch(Epoch {
        epoch: EpochId::FIRST,
        reason: EpochReason::Start,
        backend: BackendName::new("local").unwrap(),
        fingerprint: "tiny".into(),
        model: "tiny".into(),
        mode: ToolMode::Native,
        system: RawMessage::system("Be brief."),
        memory: String::new(),
        tools: None,
        fixed: serde_json::from_str(r#"{"temperature":0.7}"#).unwrap(),
        context_tokens: Some(4096),
        compacted: None,
    })
}

pub(crate) fn user(turn: u64, text: &str) -> Entry {
    Entry::User(User {
        turn: TurnId(turn),
        label: Label::OWNER,
        memory: None,
        message: RawMessage::user(text),
    })
}

pub(crate) fn assistant(turn: u64, model_call: u64, text: &str) -> Entry {
    Entry::Assistant(Assistant {
        turn: TurnId(turn),
        model_call: ModelCallId(model_call),
        message: RawMessage::assistant(text, &[]),
        reasoning: String::new(),
        calls: Vec::new(),
        rung: None,
        receipt: receipt(),
        cost: MicroUsd::ZERO,
    })
}

pub(crate) fn receipt() -> Receipt {
    serde_json::from_str(
        r#"{"slot":0,"prompt_tokens":40,"completion_tokens":2,"cache_n":30,"prompt_n":10,
            "queue_ms":0,"prefill_ms":1,"decode_ms":2,"source":"reported"}"#,
    )
    .unwrap()
}

pub(crate) fn tool(turn: u64, call: u64, label: Label) -> Entry {
    Entry::Tool(Tool {
        turn: TurnId(turn),
        call: CallId(call),
        tool: bxcore::tool::ToolName::new("read_file").unwrap(),
        outcome: CallOutcome::Ok,
        code: None,
        label,
        raw_bytes: 3,
        message: RawMessage::tool("call-1", "abc"),
        audit: Some(9),
        cost: MicroUsd::ZERO,
    })
}

pub(crate) fn end(turn: u64) -> Entry {
    Entry::TurnEnd(TurnEnd {
        turn: TurnId(turn),
        outcome: TurnOutcome::Completed,
        code: None,
        detail: None,
        label: Label::OWNER,
        usage: Usage::default(),
        cost: MicroUsd::ZERO,
    })
}

pub(crate) const SECRET: Label = Label::new(Class::Secret, true);

pub(crate) fn ensure(name: &str, parent: Option<&str>, limits: Limits) -> Op {
    Op::EnsureAccount(AccountSpec {
        key: key(name),
        parent: parent.map(key),
        limits,
    })
}

pub(crate) fn reserve(account: &str, call: u64, amount: Spend) -> Op {
    Op::Reserve(Reservation {
        account: key(account),
        call: ModelCallId(call),
        amount,
        backend: BackendName::new("local").unwrap(),
        model: "tiny".into(),
    })
}

pub(crate) fn settle(call: u64, actual: Spend) -> Op {
    Op::Settle(Settlement {
        call: ModelCallId(call),
        actual,
        usage: Usage {
            model_calls: 1,
            prompt_tokens: actual.tokens,
            ..Usage::default()
        },
        source: UsageSource::Reported,
    })
}

/// A first turn up to its first model call, for which 100 tokens are held.
pub(crate) fn begin(session: &SessionId, text: &str) -> Batch {
    let account = format!("turn:{session}:1");
    Batch::new(session.clone())
        .entry(open(session))
        .entry(epoch())
        .entry(user(1, text))
        .op(ensure("day", None, Limits::default()))
        .op(ensure(&account, Some("day"), Limits::default()))
        .op(Op::OpenTurn {
            turn: TurnId(1),
            account: key(&account),
        })
        .op(reserve(&account, 1, spend(100, 5)))
}

/// The end of that turn, which used 42 tokens.
pub(crate) fn finish(session: &SessionId, text: &str) -> Batch {
    Batch::new(session.clone())
        .entry(assistant(1, 1, text))
        .entry(end(1))
        .op(settle(1, spend(42, 2)))
        .op(Op::CloseTurn { turn: TurnId(1) })
}

/// A session with one finished turn.
pub(crate) async fn one_turn(store: &Store, name: &str) -> SessionId {
    let session = id(name);
    store.commit(begin(&session, "Hello")).await.unwrap();
    store.commit(finish(&session, "Hi")).await.unwrap();
    session
}

pub(crate) fn numbers(lines: &[Line]) -> Vec<u64> {
    lines.iter().map(|line| line.n).collect()
}

/// What is spent and held on an account that is there.
pub(crate) async fn spent_and_held(store: &Store, name: &str) -> (Spend, Spend) {
    let view = store.account(&key(name)).await.unwrap().unwrap();
    (view.account.spent, view.account.reserved)
}

/// Looks again and again, for half a minute at most.
pub(crate) async fn wait_until(mut holds: impl FnMut() -> bool) {
    let looking = async {
        while !holds() {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    let waited = tokio::time::timeout(Duration::from_secs(30), looking).await;
    assert!(waited.is_ok(), "it never came true");
}
