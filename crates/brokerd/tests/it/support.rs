//! A broker on a disposable home, and the second reader of its log.

use brokerd::approval::Webhook;
use brokerd::audit::Boot;
use brokerd::broker::{Broker, Opened, Outside, open};
use brokerd::config::{self, Loaded};
use brokerd::consult::Consult;
use brokerd::fetch::Fetcher;
use brokerd::mcp::Server;
use brokerd::provider::Provider;
use brokerd::sandbox::{Launch, Sandbox};
use brokerd::secrets::Secrets;
use brokerd::tools::Registry;
use bxcore::id::{CallId, SessionId};
use bxcore::label::Label;
use bxcore::problem::Problem;
use bxcore::tool::ToolName;
use bxcore::wire::brokerd::{Authority, CallRequest, CallResult, Register};
use bxkit::audit_reader::{self, Verified};
use bxkit::home::Home;
pub(crate) use bxtest::audit::second_reader;
use jiff::Timestamp;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

pub(crate) fn session(id: &str) -> SessionId {
    SessionId::new(id).unwrap()
}

pub(crate) fn tool(name: &str) -> ToolName {
    ToolName::new(name).unwrap()
}

pub(crate) fn request(id: &str, call: u64, name: &str, arguments: &str) -> CallRequest {
    CallRequest {
        session: session(id),
        call: CallId(call),
        tool: tool(name),
        arguments: arguments.to_owned(),
        label: Label::BOTTOM,
        result_bytes: 8192,
        resumed: false,
        reserved: None,
    }
}

pub(crate) fn owner() -> Register {
    raise(Label::OWNER)
}

pub(crate) fn raise(label: Label) -> Register {
    Register {
        raise: label,
        parent: None,
        rules: bxcore::guardrails::ToolRules::default(),
    }
}

/// A home in a folder of its own.
pub(crate) struct TestHome {
    pub(crate) root: Root,
    pub(crate) home: Home,
}

/// Where a home is: a folder that ends with the test, or somebody else's.
pub(crate) enum Root {
    Own(tempfile::TempDir),
    Given(PathBuf),
}

impl Root {
    pub(crate) fn path(&self) -> &Path {
        match self {
            Self::Own(folder) => folder.path(),
            Self::Given(path) => path,
        }
    }
}

impl TestHome {
    pub(crate) fn new() -> Self {
        Self::in_root(Root::Own(tempfile::tempdir().unwrap()))
    }

    /// The home that another process made in this folder.
    pub(crate) fn at(root: &Path) -> Self {
        Self::in_root(Root::Given(root.to_owned()))
    }

    fn in_root(root: Root) -> Self {
        let home = Home::at(&root.path().join("home"));
        home.create().unwrap();
        Self { root, home }
    }

    /// Starts and ends it once, on a runtime of its own.
    pub(crate) fn start_and_stop(&self) {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()
            .unwrap();
        runtime.block_on(async { self.start().stop().await });
    }

    /// A folder beside the home, for the owner's files.
    pub(crate) fn beside(&self, name: &str) -> PathBuf {
        let path = self.root.path().join(name);
        std::fs::create_dir_all(&path).unwrap();
        path
    }

    pub(crate) fn configure(&self, text: &str) {
        std::fs::write(self.home.config_dir().join("brokerd.toml"), text).unwrap();
    }

    pub(crate) fn loaded(&self) -> Loaded {
        let tools = Registry::new().unwrap();
        let file = self.home.config_dir().join("brokerd.toml");
        config::load(&self.home, &file, &tools.specs()).unwrap()
    }

    pub(crate) fn try_open(&self) -> Result<Opened, Problem> {
        self.open_by(Timestamp::now)
    }

    /// Starts it by another clock.
    pub(crate) fn start_by(&self, now: fn() -> Timestamp) -> Started {
        Self::start_opened(self.open_by(now).unwrap())
    }

    fn open_by(&self, now: fn() -> Timestamp) -> Result<Opened, Problem> {
        let tools = Registry::new().unwrap();
        let boot = Boot("test".to_owned());
        open(&self.home, self.loaded(), tools, boot, now).map_err(Problem::from)
    }

    pub(crate) fn start(&self) -> Started {
        Self::start_opened(self.try_open().unwrap())
    }

    /// Starts it with a real sandbox for commands.
    pub(crate) fn start_with_sandbox(&self) -> Started {
        let opened = self.try_open().unwrap();
        let workspaces = self.loaded().config.workspaces;
        let named = workspaces.iter().map(|workspace| {
            let name = workspace.visible_name().unwrap().to_owned();
            (name, workspace.path.clone())
        });
        let launch = Launch {
            program: env!("CARGO_BIN_EXE_brokerd-probe").into(),
            search_path: std::env::var_os("PATH").unwrap(),
            sessions: self.home.state_dir().join("workspaces"),
            owner: named.collect(),
            programs: std::collections::BTreeMap::new(),
        };
        Self::start_opened(opened.with_sandbox(Sandbox::start(&launch).unwrap()))
    }

    /// Starts it as the role does, with its secrets and whom it consults.
    pub(crate) fn start_with_outside(&self) -> Started {
        let settings = self.loaded().config.consult;
        let needed: Vec<_> = settings.iter().map(|settings| &settings.secret).collect();
        let secrets = Secrets::open(vec![self.home.secrets_dir()], &needed).unwrap();
        let consult = settings
            .clone()
            .map(|settings| Consult::new(settings, secrets.clone()).unwrap());
        let providers = Provider::all(&self.loaded().config.providers, &secrets).unwrap();
        let webhook = self.loaded().config.approvals.webhook;
        let outside = Outside {
            webhook: webhook.map(|settings| Webhook::new(&settings, secrets.clone()).unwrap()),
            fetcher: Fetcher::new(None),
            secrets,
            consult,
            providers,
        };
        let opened = self.try_open().unwrap();
        Self::start_opened(opened.with_outside(outside).unwrap())
    }

    /// Starts it as the role does, with its servers of tools and a real sandbox for them.
    pub(crate) fn start_with_mcp(&self) -> Started {
        let config = self.loaded().config;
        let needed: Vec<_> = config
            .mcp
            .iter()
            .filter_map(|mcp| mcp.secret.as_ref())
            .collect();
        let secrets = Secrets::open(vec![self.home.secrets_dir()], &needed).unwrap();
        let programs = config
            .mcp
            .iter()
            .filter_map(|mcp| Some((mcp.name.to_string(), mcp.program()?)));
        let launch = Launch {
            program: env!("CARGO_BIN_EXE_brokerd-probe").into(),
            search_path: std::env::var_os("PATH").unwrap(),
            sessions: self.home.state_dir().join("workspaces"),
            owner: std::collections::BTreeMap::new(),
            programs: programs.collect(),
        };
        let outside = Outside {
            secrets: secrets.clone(),
            consult: None,
            fetcher: Fetcher::new(None),
            providers: brokerd::provider::Providers::default(),
            webhook: None,
        };
        let opened = self.try_open().unwrap().with_outside(outside).unwrap();
        let servers = Server::all(&config.mcp, &secrets).unwrap();
        let opened = opened.with_mcp(servers).unwrap();
        Self::start_opened(opened.with_sandbox(Sandbox::start(&launch).unwrap()))
    }

    /// Puts a secret where the owner would.
    pub(crate) fn put_secret(&self, name: &str, value: &str) -> PathBuf {
        let path = self.home.secrets_dir().join(name);
        bxkit::fsx::write_atomic(&path, value.as_bytes(), 0o600).unwrap();
        path
    }

    fn start_opened(opened: Opened) -> Started {
        let halted = Arc::new(Mutex::new(None));
        let seen = Arc::clone(&halted);
        let closing = CancellationToken::new();
        let (broker, keeper) = Broker::start(opened, closing.clone(), move |problem| {
            *seen.lock().unwrap() = Some(problem);
        });
        Started {
            broker,
            keeper,
            halted,
            closing,
        }
    }

    /// The workspace of a session's own, made.
    pub(crate) fn workspace(&self, id: &str) -> PathBuf {
        let path = self.home.state_dir().join("workspaces").join(id);
        std::fs::create_dir_all(&path).unwrap();
        path
    }

    pub(crate) fn segments(&self) -> Vec<PathBuf> {
        audit_reader::segments(&self.home.audit_dir()).unwrap()
    }

    /// The log's records as JSON, without the checkpoints that each end of brokerd adds.
    pub(crate) fn records(&self) -> Vec<serde_json::Value> {
        let text: String = self
            .segments()
            .iter()
            .map(|path| std::fs::read_to_string(path).unwrap())
            .collect();
        text.lines()
            .map(|line| serde_json::from_str::<serde_json::Value>(line).unwrap())
            .filter(|record| record["kind"] != "checkpoint")
            .collect()
    }

    /// Checks the log with both readers.
    pub(crate) fn verify(&self) -> Verified {
        let folder = self.home.audit_dir();
        let verified = audit_reader::verify(&folder, None).unwrap();
        if let Some(said) = second_reader(&folder) {
            let head = verified.head.hex();
            let expect = format!(
                "{} records, seq {}, head {head}",
                verified.records, verified.head.seq
            );
            assert_eq!(said, Ok(expect));
        }
        verified
    }
}

/// A broker that runs.
pub(crate) struct Started {
    pub(crate) broker: Broker,
    keeper: JoinHandle<()>,
    pub(crate) halted: Arc<Mutex<Option<Problem>>>,
    /// What a shutdown cancels.
    pub(crate) closing: CancellationToken,
}

impl Started {
    /// Ends it as a shutdown does: everything is on disk afterwards.
    pub(crate) async fn stop(self) {
        drop(self.broker);
        self.keeper.await.unwrap();
    }

    /// Makes a session known.
    pub(crate) async fn register(&self, id: &str, register: Register) -> Authority {
        let known = self.broker.register(session(id), register).await;
        known.unwrap()
    }

    pub(crate) async fn call(
        &self,
        id: &str,
        call: u64,
        name: &str,
        arguments: &str,
    ) -> CallResult {
        self.broker
            .call(request(id, call, name, arguments))
            .await
            .unwrap()
            .result()
            .unwrap()
    }
}
