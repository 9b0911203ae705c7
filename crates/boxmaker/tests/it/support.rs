//! What tests of the whole house share: a door of their own, the audit log, what loopd stored.

use bxcore::id::{SessionId, TurnId};
use bxcore::usage::{Spend, UsageSource};
use bxcore::wire::loopd::{TurnEvent, TurnReport, TurnRequest};
use bxkit::home::Home;
use bxkit::keys::Token;
use bxkit::rpc::{Client, EventStream};
use bxtest::audit::second_reader;
use bxtest::fault::{FaultPoint, Inject, Strace};
use bxtest::home::{Child, TestHome};
use bxtest::llama::{Gate, Reply};
use loopd::budget::{Account, AccountKey};
use loopd::store::{LedgerRow, Store, StoreOptions};
use serde_json::Value;
use std::path::PathBuf;

/// `boxmaker ask --json`, whatever comes of it.
pub(crate) fn asked(home: &TestHome, session: &str, text: &str) -> Value {
    let asked = home
        .cmd("boxmaker")
        .args(["ask", "--json", "--session", session, text])
        .run();
    asked.json()
}

/// An answer that halts in its middle until the gate opens.
pub(crate) fn halting(gate: &Gate) -> Reply {
    let words = Reply::text("one two three").chunk_bytes(4);
    words.pause_after_chunks(2, gate)
}

/// `boxmaker ask --json`, come as far as to where its answer halts.
pub(crate) fn ask_until_halt<'h>(home: &'h TestHome, session: &str, gate: &Gate) -> Child<'h> {
    let ask = home
        .cmd("boxmaker")
        .args(["ask", "--json", "--session", session, "count"])
        .spawn();
    gate.arrived_blocking(1);
    ask
}

/// The file that a session's tools see under this name, with its folder made.
pub(crate) fn workspace_file(home: &TestHome, session: &str, name: &str) -> PathBuf {
    let folder = home.state_dir().join("workspaces").join(session);
    std::fs::create_dir_all(&folder).unwrap();
    folder.join(name)
}

/// Checks the audit log with the command, and with the second reader where that is at hand.
pub(crate) fn verify_audit(home: &TestHome) {
    let verified = home
        .cmd("boxmaker")
        .args(["audit", "verify", "--json"])
        .run()
        .success()
        .json();
    if let Some(said) = second_reader(&home.state_dir().join("audit")) {
        let expect = format!(
            "{} records, seq {}, head {}",
            verified["records"],
            verified["seq"],
            verified["head"].as_str().unwrap()
        );
        assert_eq!(said, Ok(expect));
    }
}

/// The records of the audit log, in order.
pub(crate) fn audit_records(home: &TestHome) -> Vec<Value> {
    let segments = bxkit::audit_reader::segments(&home.state_dir().join("audit")).unwrap();
    let text: String = segments
        .iter()
        .map(|segment| std::fs::read_to_string(segment).unwrap())
        .collect();
    text.lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect()
}

/// A client of loopd with the owner's token, as the command line has one.
pub(crate) fn door(home: &TestHome) -> Client {
    let house = Home::at(home.path());
    let token = std::fs::read_to_string(house.owner_token_file()).unwrap();
    let token = Token::parse(token.trim()).unwrap();
    Client::new(home.socket("loopd"), &token)
}

/// Begins a turn over loopd's socket.
pub(crate) async fn begin(door: &Client, session: &str, text: &str) -> Events {
    let request = TurnRequest {
        session: Some(SessionId::new(session).unwrap()),
        text: text.to_owned(),
        class: None,
        backend: None,
        no_wait: true,
    };
    Events(door.stream("/v1/turns", &request).await.unwrap())
}

/// The events of a turn under way.
pub(crate) struct Events(EventStream);

impl Events {
    /// The next event; none at the end.
    pub(crate) async fn next(&mut self) -> Option<TurnEvent> {
        let event = self.0.next().await?.unwrap();
        Some(serde_json::from_str(&event.data).unwrap())
    }

    /// Reads on to the end: the events, and the report in the last of them.
    pub(crate) async fn rest(mut self) -> (Vec<TurnEvent>, TurnReport) {
        let mut events = Vec::new();
        while let Some(event) = self.next().await {
            if let TurnEvent::End { report } = event {
                return (events, *report);
            }
            events.push(event);
        }
        panic!("no end after {events:?}");
    }
}

/// What is on record of one turn's money. The house must be down.
pub(crate) struct Money {
    pub(crate) ledger: Vec<LedgerRow>,
    pub(crate) account: Account,
}

impl Money {
    /// How many calls were charged without their end having been seen.
    pub(crate) fn lost(&self) -> usize {
        let lost = |row: &&LedgerRow| row.source == UsageSource::Lost;
        self.ledger.iter().filter(lost).count()
    }
}

/// Reads a session's ledger and the account of its first turn.
pub(crate) fn kept(home: &TestHome, session: &str) -> Money {
    let session = SessionId::new(session).unwrap();
    let runtime = tokio::runtime::Runtime::new().unwrap();
    let money = runtime.block_on(async {
        let (store, recovery) = Store::open(StoreOptions::in_folder(&home.state_dir())).unwrap();
        assert!(recovery.unfinished.is_empty(), "{recovery:?}");
        let ledger = store.ledger(&session).await.unwrap();
        let key = AccountKey::turn(&session, TurnId::FIRST);
        let account = store.account(&key).await.unwrap().unwrap().account;
        store.close().await;
        Money { ledger, account }
    });
    assert_eq!(
        money.account.reserved,
        Spend::default(),
        "something is still held"
    );
    money
}

/// The same of a session without helpers, whose account is the sum of its own ledger.
pub(crate) fn money(home: &TestHome, session: &str) -> Money {
    let money = kept(home, session);
    assert_eq!(
        money.account.spent,
        sum(&money.ledger),
        "the budget is not the sum of the ledger"
    );
    money
}

/// What rows of the ledger charge, all together.
pub(crate) fn sum(ledger: &[LedgerRow]) -> Spend {
    ledger
        .iter()
        .fold(Spend::default(), |sum, row| sum.plus(row.charged))
}

/// Starts a house in which the first role to pass the point dies there, once.
pub(crate) fn up_with_fault<'h>(home: &'h TestHome, point: &FaultPoint) -> Child<'h> {
    let log = home.path().join("faults");
    let up = home
        .cmd("boxmaker")
        .arg("up")
        .fault(point)
        .fault_log(&log)
        .spawn();
    up.until("loopd listens", || home.role_pid("loopd").is_some());
    up
}

/// More system calls than any thread makes in a turn.
pub(crate) const MOST_CALLS: usize = 2_000;

/// Runs a house whose brokerd is killed as it enters the nth call to the system, by any of its
/// threads, that writes, syncs, connects, sends or receives. Whether brokerd survived; everything
/// has ended and is settled afterwards.
pub(crate) fn killed_at_call(home: &TestHome, number: usize, turn: impl FnOnce()) -> bool {
    const CALLS: &str = "write,writev,pwrite64,fsync,fdatasync,socket,connect,sendto,sendmsg,\
                         recvfrom,recvmsg,read,openat,rename,shutdown,close";
    let up = home.up();
    let brokerd = home.role_pid("brokerd").expect("brokerd");
    let inject = Inject::kill(CALLS).only(number);
    let tracer = Strace::new().inject(inject).attach(home, brokerd);
    // How the turn ends depends on where it was; that it ends does not.
    turn();
    let survived = home.role_pid("brokerd") == Some(brokerd);
    drop(tracer);
    assert_eq!(up.terminate().code(), Some(0), "call {number}");
    // Killed at its very end, it settles what it left at the next start.
    assert_eq!(home.up().terminate().code(), Some(0), "call {number}");
    survived
}

/// The files of a home, its secrets aside, in which a text stands.
pub(crate) fn files_with(home: &TestHome, text: &str) -> Vec<PathBuf> {
    let secrets = home.state_dir().join("secrets");
    let mut folders = vec![home.config_dir(), home.state_dir()];
    let mut found = Vec::new();
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(folder).unwrap().flatten() {
            let path = entry.path();
            if path.is_dir() && path != secrets {
                folders.push(path);
            } else if let Ok(bytes) = std::fs::read(&path)
                && bytes.windows(text.len()).any(|at| at == text.as_bytes())
            {
                found.push(path);
            }
        }
    }
    found
}

/// A session's transcript: as loopd gives it while it is there, since what was answered may be in its
/// file a moment later.
pub(crate) fn transcript(home: &TestHome, session: &str) -> String {
    if home.role_pid("loopd").is_none() {
        return std::fs::read_to_string(home.transcript(session)).unwrap();
    }
    let export = home.cmd("boxmaker").args(["session", "export", session]);
    export.run().success().stdout
}
