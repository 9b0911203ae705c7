//! What the keeper does where nobody waits for its answer, or where the ledger refuses something.

use super::approving::Approving;
use super::core::{Core, Policy};
use super::job::{Begun, Job};
use super::open::{Opened, Outside, open};
use crate::audit::{Boot, CHECKPOINT_RECORDS};
use crate::config;
use crate::consult::{CONSULT, Consult};
use crate::fetch::Fetcher;
use crate::provider::Providers;
use crate::secrets::Secrets;
use crate::tools::Registry;
use bxcore::guardrails::ToolRules;
use bxcore::id::{CallId, SessionId};
use bxcore::label::Label;
use bxcore::money::MicroUsd;
use bxcore::problem::Problem;
use bxcore::tool::ToolName;
use bxcore::wire::brokerd::{CallRequest, Register};
use bxkit::home::Home;
use jiff::Timestamp;
use tokio::sync::{oneshot, watch};

const CONFIG: &str = "[consult]\nurl = \"http://127.0.0.1:9/\"\nmodel = \"big-1\"\n\
    secret = \"key\"\nprice = { prompt = \"3\", completion = \"15\" }\n\
    reserve_usd = \"0.50\"\ndaily_usd = \"2\"\n\
    [[grant]]\ntool = \"consult\"\nmax_taint = \"private\"\n";

struct Desk {
    _folder: tempfile::TempDir,
    home: Home,
    core: Core,
}

impl Desk {
    fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let home = Home::at(&folder.path().join("home"));
        home.create().unwrap();
        let key = home.secrets_dir().join("key");
        bxkit::fsx::write_atomic(&key, b"sk-canary-5", 0o600).unwrap();
        let file = home.config_dir().join("brokerd.toml");
        std::fs::write(&file, CONFIG).unwrap();
        let tools = Registry::new().unwrap();
        let loaded = config::load(&home, &file, &tools.specs()).unwrap();
        let settings = loaded.config.consult.clone().unwrap();
        let secrets = Secrets::open(vec![home.secrets_dir()], &[&settings.secret]).unwrap();
        let consult = Consult::new(settings, secrets.clone()).unwrap();
        let boot = Boot("test".to_owned());
        let opened = open(&home, loaded, tools, boot, Timestamp::now).unwrap();
        let fetcher = Fetcher::new(None);
        let opened = opened
            .with_outside(Outside {
                secrets,
                consult: Some(consult),
                fetcher,
                providers: Providers::default(),
                webhook: None,
            })
            .unwrap();
        let core = core(opened);
        let mut desk = Self {
            _folder: folder,
            home,
            core,
        };
        let register = Register {
            raise: Label::OWNER,
            parent: None,
            rules: ToolRules::default(),
        };
        let id = session();
        desk.asks(|reply| Job::Register {
            id,
            register,
            reply,
        })
        .unwrap();
        desk
    }

    /// Does one job by itself.
    fn asks<T>(&mut self, job: impl FnOnce(super::job::Reply<T>) -> Job) -> Result<T, Problem> {
        let (reply, mut answer) = oneshot::channel();
        self.core.work(vec![job(reply)]);
        answer.try_recv().unwrap()
    }

    fn spent(&self) -> i64 {
        let spent = self.core.ledger.spent(CONSULT, self.core.today());
        spent.unwrap().micros()
    }
}

fn core(opened: Opened) -> Core {
    let Opened {
        policy,
        ledger,
        log,
        workspaces,
        now,
        ..
    } = opened;
    let policy: Policy = policy;
    let approving = Approving::new(watch::Sender::new(0));
    Core::new(policy, workspaces.places(), ledger, log, approving, now)
}

fn session() -> SessionId {
    SessionId::new("s").unwrap()
}

fn question(call: u64) -> CallRequest {
    CallRequest {
        session: session(),
        call: CallId(call),
        tool: ToolName::new(CONSULT).unwrap(),
        arguments: "{\"question\":\"why?\"}".to_owned(),
        label: Label::OWNER,
        result_bytes: 8192,
        resumed: false,
        reserved: MicroUsd::from_micros(500_000).ok(),
    }
}

#[test]
fn what_was_set_aside_for_a_call_that_nobody_makes_is_given_back() {
    let mut desk = Desk::new();
    let (reply, answer) = oneshot::channel();
    drop(answer);
    let request = question(1);
    desk.core.work(vec![Job::Begin { request, reply }]);
    assert_eq!(desk.spent(), 0);
    assert!(desk.core.running.is_empty());
    // Whoever makes it keeps it.
    let request = question(2);
    let begun = desk.asks(|reply| Job::Begin { request, reply }).unwrap();
    assert!(matches!(begun, Begun::Run(_)));
    assert_eq!(desk.spent(), 500_000);
}

/// The records are on disk by then, and the log has the checkpoint.
#[test]
fn a_checkpoint_that_the_ledger_refuses_fails_no_batch() {
    let mut desk = Desk::new();
    let db = rusqlite::Connection::open(desk.home.broker_db()).unwrap();
    db.execute_batch(
        "CREATE TRIGGER refuses BEFORE INSERT ON checkpoint
         BEGIN SELECT RAISE(ABORT, 'not today'); END",
    )
    .unwrap();
    for call in 1..=CHECKPOINT_RECORDS {
        let request = CallRequest {
            tool: ToolName::new("no_such_tool").unwrap(),
            ..question(call)
        };
        let begun = desk.asks(|reply| Job::Begin { request, reply });
        assert!(matches!(begun, Ok(Begun::Ended(_))), "call {call}");
    }
    assert!(desk.core.halted().is_none());
    assert_eq!(desk.core.ledger.last_signed().unwrap(), None);
    let signed = bxkit::audit_reader::last_checkpoint(&desk.home.audit_dir()).unwrap();
    assert!(signed.unwrap().seq >= CHECKPOINT_RECORDS);
    desk.asks(|reply| Job::Checkpoint { reply }).unwrap();
}
