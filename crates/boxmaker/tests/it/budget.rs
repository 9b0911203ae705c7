//! Many model calls at once on one account that can't pay them all.

use crate::support::{begin, door, sum};
use bxcore::code::Code;
use bxcore::id::SessionId;
use bxcore::transcript::TurnOutcome;
use bxcore::usage::Spend;
use bxcore::wire::loopd::TurnReport;
use bxtest::home::{BackendConfig, TestHome};
use bxtest::llama::{Gate, Kind, LlamaServer, Reply};
use loopd::budget::AccountKey;
use loopd::store::{LedgerRow, Store, StoreOptions};
use rusqlite::{Connection, OpenFlags};
use std::time::Duration;
use tokio::task::JoinSet;

const SESSIONS: usize = 200;
const ROOM: usize = 10;
const QUESTION: &str = "Is there room?";
/// No more is asked for than may be refused: a call that can't be paid is not made smaller.
const SHORT_ANSWERS: &str = "answer_tokens = 64\n";
/// How long all turns together may take.
const PATIENCE: Duration = Duration::from_mins(2);

fn home_of(server: &LlamaServer, loopd: &str) -> TestHome {
    let home = TestHome::new();
    home.write_backends(&[BackendConfig::openai(&server.url(), 256)]);
    home.write_config("loopd.toml", loopd);
    home
}

/// What one such call reserves, as loopd itself puts it down while the call is under way.
async fn reserved_by_one_call(server: &LlamaServer, gate: &Gate) -> u64 {
    let home = home_of(server, SHORT_ANSWERS);
    let up = home.up();
    let turn = begin(&door(&home), "chat-000", QUESTION).await;
    gate.arrived(1).await;
    let db = home.state_dir().join("boxmaker.db");
    let db = Connection::open_with_flags(db, OpenFlags::SQLITE_OPEN_READ_ONLY).unwrap();
    let tokens: i64 = db
        .query_row("SELECT tokens FROM reservations", [], |row| row.get(0))
        .unwrap();
    gate.release(1);
    let (_, report) = turn.rest().await;
    assert_eq!(report.outcome, TurnOutcome::Completed);
    up.terminate();
    u64::try_from(tokens).unwrap()
}

#[test]
fn of_200_calls_at_once_exactly_those_are_made_that_are_paid() {
    let gate = Gate::new();
    let held = gate.clone();
    let server = LlamaServer::builder()
        .kind(Kind::OpenAi)
        .respond(move |_| Reply::text("Yes.").hold(&held))
        .start_blocking();
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build()
        .unwrap();
    let one = runtime.block_on(reserved_by_one_call(&server, &gate));
    let asked_before = server.counts().started;

    let limit = one * ROOM as u64;
    let config = format!("{SHORT_ANSWERS}[guardrails]\ndaily_tokens = {limit}\n");
    let home = home_of(&server, &config);
    let up = home.up();
    let all = runtime.block_on(async {
        let work = all_at_once(&home, &server, &gate, asked_before);
        tokio::time::timeout(PATIENCE, work).await.unwrap()
    });
    let completed = all
        .iter()
        .filter(|report| report.outcome == TurnOutcome::Completed);
    assert_eq!(completed.count(), ROOM);
    assert_eq!(server.counts().started - asked_before, ROOM);
    assert_eq!(up.terminate().code(), Some(0));
    runtime.block_on(check_money(&home, &all, limit));
    server.assert_clean();
}

/// Begins a turn in every session and lets the model answer once all others are refused.
async fn all_at_once(
    home: &TestHome,
    server: &LlamaServer,
    gate: &Gate,
    asked_before: usize,
) -> Vec<TurnReport> {
    let door = door(home);
    let mut turns = JoinSet::new();
    for number in 0..SESSIONS {
        let door = door.clone();
        turns.spawn(async move {
            let turn = begin(&door, &format!("chat-{number:03}"), QUESTION).await;
            turn.rest().await.1
        });
    }
    gate.arrived(asked_before + ROOM).await;
    let mut ended = Vec::new();
    while ended.len() < SESSIONS - ROOM {
        let report = turns.join_next().await.unwrap().unwrap();
        assert_eq!(report.outcome, TurnOutcome::Halted, "{report:?}");
        let problem = report.problem.as_ref().unwrap();
        assert_eq!(problem.code, Code::BudgetExhausted);
        assert!(problem.to_string().contains("day:"), "{problem}");
        assert_eq!(report.usage.model_calls, 0);
        ended.push(report);
    }
    assert_eq!(
        server.counts().running,
        ROOM,
        "as many as there is room for wait for their answers"
    );
    gate.release(ROOM);
    while let Some(report) = turns.join_next().await {
        ended.push(report.unwrap());
    }
    ended
}

/// After everything: what the day's account has spent is what the ledger says, and what turns told.
async fn check_money(home: &TestHome, all: &[TurnReport], limit: u64) {
    let (store, _) = Store::open(StoreOptions::in_folder(&home.state_dir())).unwrap();
    let mut ledger: Vec<LedgerRow> = Vec::new();
    for number in 0..SESSIONS {
        let session = SessionId::new(format!("chat-{number:03}")).unwrap();
        ledger.extend(store.ledger(&session).await.unwrap());
    }
    let today = jiff::Timestamp::now()
        .to_zoned(jiff::tz::TimeZone::UTC)
        .date();
    let day = store.account(&AccountKey::day(today)).await.unwrap();
    let day = day.unwrap().account;
    store.close().await;
    assert_eq!(ledger.len(), ROOM);
    assert_eq!(day.spent, sum(&ledger));
    assert_eq!(day.reserved, Spend::default());
    assert_eq!(day.limits.tokens, Some(limit));
    assert!(day.spent.tokens <= limit);
    let told: u64 = all.iter().map(|report| report.usage.tokens()).sum();
    assert_eq!(day.spent.tokens, told);
}
