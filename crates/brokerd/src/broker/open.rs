//! Opening everything at start, and settling what an earlier death left open. Blocks.

use super::core::Policy;
use super::mcp::Book;
use crate::approval::Webhook;
use crate::audit::{AuditError, Boot, Ended, Log, OpenIntent, Record, Synced};
use crate::config::Loaded;
use crate::consult::{CONSULT, Consult};
use crate::decision::SchemaError;
use crate::fetch::Fetcher;
use crate::ledger::{Durability, Key, Ledger, LedgerError, StoredCall};
use crate::mcp::{Server, Servers};
use crate::memory::Memory;
use crate::provider::{Provider, Providers};
use crate::sandbox::Sandbox;
use crate::secrets::{SecretName, Secrets};
use crate::tools::{Registry, Workspaces};
use bxcore::audit::Kind;
use bxcore::code::Code;
use bxcore::id::{CallId, SessionId};
use bxcore::problem::Problem;
use bxcore::text::hex;
use bxkit::home::Home;
use jiff::Timestamp;
use std::collections::BTreeMap;
use std::io;
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

const BOOT_BYTES: usize = 16;

/// Everything that the broker works with, open.
#[derive(Debug)]
pub struct Opened {
    pub(super) policy: Policy,
    pub(super) ledger: Ledger,
    pub(super) log: Log,
    pub(super) workspaces: Workspaces,
    pub(super) sandbox: Sandbox,
    pub(super) fetcher: Fetcher,
    pub(super) webhook: Option<Webhook>,
    pub(super) audit_folder: PathBuf,
    pub(super) now: fn() -> Timestamp,
}

/// What may leave the box, made ready before the confinement.
#[derive(Debug)]
pub struct Outside {
    /// The owner's secrets.
    pub secrets: Secrets,
    /// Whom `consult` asks.
    pub consult: Option<Consult>,
    /// What fetches pages.
    pub fetcher: Fetcher,
    /// Models elsewhere that may lead sessions.
    pub providers: Providers,
    /// Where the owner is told that a call waits for approval.
    pub webhook: Option<Webhook>,
}

/// Why brokerd can't start.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    /// The audit log.
    #[error(transparent)]
    Audit(#[from] AuditError),
    /// The ledger.
    #[error(transparent)]
    Ledger(#[from] LedgerError),
    /// A folder of brokerd's.
    #[error("`{}` can't be used", path.display())]
    Folder {
        /// Which.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
}

impl From<StartError> for Problem {
    fn from(error: StartError) -> Self {
        match error {
            StartError::Audit(error) => error.problem(),
            StartError::Ledger(error) => error.problem(),
            StartError::Folder { .. } => Self::new(Code::HomeUnusable, "A folder can't be used")
                .detail(bxkit::report::chain(&error)),
        }
    }
}

/// Opens the log, the ledger and the workspaces, and puts the configuration on record.
///
/// The log comes first: its lock keeps a second brokerd away from everything else.
pub fn open(
    home: &Home,
    loaded: Loaded,
    tools: Registry,
    boot: Boot,
    now: fn() -> Timestamp,
) -> Result<Opened, StartError> {
    let audit_folder = home.audit_dir();
    let crate::audit::Opened {
        mut log,
        open_intents,
        signed,
    } = Log::open(&audit_folder, boot, now())?;
    let ledger_file = home.broker_db();
    make_private(&ledger_file).map_err(|source| StartError::Folder {
        path: ledger_file.clone(),
        source,
    })?;
    let mut ledger = Ledger::open(&ledger_file)?;
    if let Some((seq, hash)) = ledger.last_signed()?
        && signed.get(&seq) != Some(&hash)
    {
        return Err(AuditError::Behind { seq }.into());
    }
    settle(&mut ledger, &mut log, &open_intents, now)?;
    let config = Record {
        body: Some(&loaded.text),
        ..Record::default()
    };
    log.stage(Kind::Config, &config, now())?;
    log.flush(Synced::Now)?;
    let workspaces = open_workspaces(&home.workspaces_dir(), &loaded)?;
    let policy = Policy {
        grants: loaded.config.grants,
        tools,
        secrets: Secrets::default(),
        consult: None,
        providers: Providers::default(),
        mcp: Book::default(),
        memory: None,
        approvals: loaded.config.approvals,
    };
    Ok(Opened {
        policy,
        ledger,
        log,
        workspaces,
        fetcher: Fetcher::new(None),
        webhook: None,
        sandbox: Sandbox::off("no grant names `shell`, so nothing was made ready for it"),
        audit_folder,
        now,
    })
}

impl Opened {
    /// The same, with what may leave the box.
    ///
    /// # Errors
    /// The tool's schema is wrong: a fault of the program.
    pub fn with_outside(mut self, outside: Outside) -> Result<Self, SchemaError> {
        if let Some(consult) = &outside.consult {
            let reserve = consult.settings().reserve_usd.0;
            self.policy.tools = self.policy.tools.with_reserve(CONSULT, reserve)?;
        }
        self.policy.secrets = outside.secrets;
        self.policy.consult = outside.consult;
        self.policy.providers = outside.providers;
        self.fetcher = outside.fetcher;
        self.webhook = outside.webhook;
        Ok(self)
    }

    /// The same, with the servers of tools, and what of them the owner trusts.
    ///
    /// # Errors
    /// The ledger can't be read.
    pub fn with_mcp(mut self, servers: Servers) -> Result<Self, StartError> {
        self.policy.mcp = Book::open(servers, &self.ledger)?;
        self.policy.tools = self.policy.tools.with_served(self.policy.mcp.tools());
        Ok(self)
    }

    /// The owner's secrets.
    pub fn secrets(&self) -> Secrets {
        self.policy.secrets.clone()
    }

    /// The secrets that must be there.
    pub fn needed(&self) -> Vec<SecretName> {
        let consult = self.policy.consult.iter();
        let providers = self.policy.providers.values().map(Provider::secret);
        let webhook = self.webhook.iter().filter_map(Webhook::secret);
        let servers = self.policy.mcp.servers().values();
        let servers = servers.filter_map(Server::secret);
        let needed = consult.map(Consult::secret).chain(providers);
        let needed = needed.chain(webhook).chain(servers);
        needed.cloned().collect()
    }

    /// The same, with the way to memory.
    pub fn with_memory(mut self, memory: Memory) -> Self {
        self.policy.memory = Some(memory);
        self
    }

    /// The same, with what runs commands.
    pub fn with_sandbox(self, sandbox: Sandbox) -> Self {
        Self { sandbox, ..self }
    }
}

/// A name for this start that no other start has.
///
/// # Errors
/// The system has no random bytes to give.
pub fn random_boot() -> Result<Boot, getrandom::Error> {
    let mut bytes = [0; BOOT_BYTES];
    getrandom::fill(&mut bytes)?;
    Ok(Boot(hex(&bytes)))
}

/// Settles every call that was under way when brokerd died: that its end is unknown goes into the
/// ledger first, so that dying here again loses nothing, and then on record. What was set aside for
/// calls that never began is given back.
fn settle(
    ledger: &mut Ledger,
    log: &mut Log,
    open_intents: &BTreeMap<u64, OpenIntent>,
    now: fn() -> Timestamp,
) -> Result<(), StartError> {
    ledger.begin(Durability::Disk)?;
    ledger.settle_set_aside(|seq| open_intents.contains_key(&seq))?;
    for (seq, intent) in open_intents {
        if let Some((key, stored)) = unknown_end(*seq, intent) {
            ledger.put_call(&key, &stored)?;
        }
    }
    ledger.commit()?;
    if open_intents.is_empty() {
        return Ok(());
    }
    tracing::warn!(
        calls = open_intents.len(),
        "calls were under way at the last end"
    );
    for (seq, intent) in open_intents {
        let record = Record {
            intent: Some(*seq),
            outcome: Some(Ended::Unknown),
            session: intent.session.as_deref(),
            call: intent.call,
            tool: intent.tool.as_deref(),
            ..Record::default()
        };
        log.stage(Kind::Outcome, &record, now())?;
    }
    log.flush(Synced::Now)?;
    Ok(())
}

/// The ledger's entry for a call whose end is unknown; none for what is no session's call.
fn unknown_end(seq: u64, intent: &OpenIntent) -> Option<(Key, StoredCall)> {
    let session = SessionId::new(intent.session.clone()?).ok()?;
    let key = Key {
        session,
        call: CallId(intent.call?),
    };
    let stored = StoredCall {
        tool: intent.tool.clone()?,
        arguments_sha256: intent.arguments_sha256.clone()?,
        audit: seq,
        result: None,
    };
    Some((key, stored))
}

fn open_workspaces(folder: &Path, loaded: &Loaded) -> Result<Workspaces, StartError> {
    let mut builder = std::fs::DirBuilder::new();
    let made = builder.recursive(true).mode(0o700).create(folder);
    made.and_then(|()| Workspaces::open(folder, &loaded.config.workspaces))
        .map_err(|source| StartError::Folder {
            path: folder.to_owned(),
            source,
        })
}

/// Makes a file that only we may read, unless it is there.
fn make_private(path: &Path) -> io::Result<()> {
    let mut options = std::fs::File::options();
    options
        .write(true)
        .create(true)
        .truncate(false)
        .mode(0o600)
        .open(path)?;
    Ok(())
}
