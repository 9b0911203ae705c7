//! The role: what brokerd opens before it is confined, and how it serves and ends.

use crate::approval::{self, Webhook};
use crate::broker::{self, Broker, Opened, Outside};
use crate::config::{self, Config, Workspace};
use crate::consult::{Consult, ConsultError};
use crate::decision::{Unreached, unreached};
use crate::egress::{Endpoint, Roots};
use crate::fetch::{Fetcher, is_for_fetch};
use crate::http::router;
use crate::mcp::{McpError, Server};
use crate::memory::Memory;
use crate::provider::{Provider, ProviderError};
use crate::sandbox::{Launch, Program, Sandbox};
use crate::secrets::{self, SecretName, Secrets};
use crate::tools::Registry;
use bxcore::code::Code;
use bxcore::problem::Problem;
use bxcore::role::Role;
use bxkit::confine::{Confinement, ConnectPorts};
use bxkit::daemon::{self, Context, Fatal, Prelude, Prepared, Reload};
use bxkit::home::Home;
use jiff::Timestamp;
use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;
use std::process::ExitCode;
use tokio_util::task::AbortOnDropHandle;

/// Where long answers about names come from.
const DNS_PORT: u16 = 53;
const HTTP_PORT: u16 = 80;
const HTTPS_PORT: u16 = 443;

/// Runs brokerd until it is told to end, and gives its exit code.
///
/// `program` is the executable that is launcher and stage of sandboxes; see [`sandbox::Launch`].
pub fn run(program: PathBuf) -> ExitCode {
    let prepare = |prelude: &Prelude| prepare(prelude, program);
    daemon::run(Role::Brokerd, prepare, serve)
}

fn prepare(prelude: &Prelude, program: PathBuf) -> Result<Prepared<Opened>, Fatal> {
    let home = &prelude.home;
    let fault = |what: &str, error: &dyn std::fmt::Display| {
        Problem::new(Code::Internal, what).detail(error.to_string())
    };
    let tools = Registry::new().map_err(|error| fault("A tool of brokerd's is wrong", &error))?;
    let loaded = config::load(home, &home.config_file(Role::Brokerd), &tools.specs())?;
    let boot = broker::random_boot()
        .map_err(|error| fault("The system has no random bytes to give", &error))?;
    for Unreached { number, by } in unreached(&loaded.config.grants) {
        tracing::warn!(
            "grant {number} of brokerd.toml is never reached: grant {by} admits all of it"
        );
    }
    let confinement = confinement(home, &loaded.config);
    let sandbox = sandbox(home, &loaded.config, program);
    let outside = outside(home, &loaded.config)?;
    let mcp = loaded.config.mcp.clone();
    let opened = broker::open(home, loaded, tools, boot, Timestamp::now)?;
    let opened = opened
        .with_outside(outside)
        .map_err(|error| fault("A tool of brokerd's is wrong", &error))?;
    let servers = Server::all(&mcp, &opened.secrets()).map_err(Problem::from)?;
    let opened = opened.with_mcp(servers).map_err(Problem::from)?;
    let opened = match sandbox {
        Some(sandbox) => opened.with_sandbox(sandbox),
        None => opened,
    };
    Ok(Prepared::new(confinement, opened))
}

/// Reads what is read before the confinement: secrets, and certificates.
fn outside(home: &Home, config: &Config) -> Result<Outside, Problem> {
    let secrets = open_secrets(home, config)?;
    let consult = config
        .consult
        .clone()
        .map(|settings| Consult::new(settings, secrets.clone()))
        .transpose()
        .map_err(Problem::from)?;
    let webhook = config.approvals.webhook.as_ref();
    let webhook = webhook
        .map(|settings| Webhook::new(settings, secrets.clone()))
        .transpose()
        .map_err(|error| approval::unusable(&error))?;
    Ok(Outside {
        providers: Provider::all(&config.providers, &secrets)?,
        fetcher: Fetcher::new(authorities(config)),
        secrets,
        consult,
        webhook,
    })
}

/// The owner's secrets. Whose one is missing decides which page helps.
fn open_secrets(home: &Home, config: &Config) -> Result<Secrets, Problem> {
    let consult = config.consult.iter().map(|consult| &consult.secret);
    let providers = config.providers.values().map(|provider| &provider.secret);
    let webhook = config.approvals.webhook.iter();
    let webhook = webhook.filter_map(|webhook| webhook.secret.as_ref());
    let for_consult: Vec<&SecretName> = consult.collect();
    let for_models: Vec<&SecretName> = for_consult.iter().copied().chain(providers).collect();
    let servers = config.mcp.iter().filter_map(|mcp| mcp.secret.as_ref());
    let for_servers: Vec<&SecretName> = for_models.iter().copied().chain(servers).collect();
    let needed: Vec<&SecretName> = for_servers.iter().copied().chain(webhook).collect();
    let folders = secrets::folders(home);
    Secrets::open(folders.clone(), &needed).map_err(|error| {
        if let Err(error) = Secrets::open(folders.clone(), &for_consult) {
            return Problem::from(ConsultError::Secret(error));
        }
        if let Err(error) = Secrets::open(folders.clone(), &for_models) {
            return Problem::from(ProviderError::Secret(error));
        }
        match Secrets::open(folders, &for_servers) {
            Err(error) => Problem::from(McpError::Secret(error)),
            Ok(_) => approval::unusable(&error).hint(error.hint()),
        }
    })
}

/// The authorities that the system trusts, where pages may be fetched.
fn authorities(config: &Config) -> Option<Roots> {
    if !config.grants.iter().any(is_for_fetch) {
        return None;
    }
    let found = Roots::of_system();
    found
        .inspect_err(|error| {
            let why = bxkit::report::chain(error);
            tracing::warn!(%why, "pages can't be fetched over https");
        })
        .ok()
}

/// The ports that something may be sent to; none where nothing is configured that sends.
fn ports(config: &Config) -> BTreeSet<u16> {
    let mut ports: BTreeSet<u16> = config
        .consult
        .iter()
        .map(|consult| consult.url.port())
        .chain(
            config
                .providers
                .values()
                .map(|provider| provider.url.port()),
        )
        .chain(
            config
                .mcp
                .iter()
                .filter_map(|mcp| mcp.url.as_ref().map(Endpoint::port)),
        )
        .chain(
            config
                .approvals
                .webhook
                .iter()
                .map(|webhook| webhook.url.port()),
        )
        .collect();
    for grant in config.grants.iter().filter(|grant| is_for_fetch(grant)) {
        ports.extend([HTTP_PORT, HTTPS_PORT]);
        ports.extend(&grant.ports);
    }
    if !ports.is_empty() {
        ports.insert(DNS_PORT);
    }
    ports
}

/// What runs commands, where a grant wants it: without one, no process is started that is less
/// confined than we are.
fn sandbox(home: &Home, config: &Config, program: PathBuf) -> Option<Sandbox> {
    let mut grants = config.grants.iter();
    let has_shell = grants.any(|grant| grant.tool.as_str() == "shell");
    let programs: BTreeMap<String, Program> = config
        .mcp
        .iter()
        .filter_map(|mcp| Some((mcp.name.to_string(), mcp.program()?)))
        .collect();
    if !has_shell && programs.is_empty() {
        return None;
    }
    let named = |workspace: &Workspace| {
        let name = workspace.visible_name()?.to_owned();
        Some((name, workspace.path.clone()))
    };
    let launch = Launch {
        program,
        search_path: std::env::var_os("PATH").unwrap_or_default(),
        sessions: home.workspaces_dir(),
        owner: config.workspaces.iter().filter_map(named).collect(),
        programs,
    };
    let started = Sandbox::start(&launch);
    Some(started.unwrap_or_else(|error| {
        let why = bxkit::report::chain(&error);
        tracing::error!(%why, "commands can't be run");
        Sandbox::off(why)
    }))
}

/// Its own database, log and workspaces, its secrets, the owner's workspaces, and nothing else.
/// Without `[consult]`, a provider, a webhook, an MCP server with an address and a grant for
/// `http_fetch` nothing here sends, and nothing ever runs programs: commands are run by the launcher, which was started before.
fn confinement(home: &Home, config: &Config) -> Confinement {
    let database = home.broker_db();
    let beside = |suffix: &str| {
        let mut path = database.clone().into_os_string();
        path.push(suffix);
        PathBuf::from(path)
    };
    let own = Confinement::strict()
        .read(home.config_file(Role::Brokerd))
        .write(home.audit_dir())
        .write(home.workspaces_dir())
        .write(beside("-wal"))
        .write(beside("-shm"))
        .write(database.clone());
    let own = secrets::folders(home)
        .into_iter()
        .fold(own, Confinement::read);
    let ports = ports(config);
    let own = if ports.is_empty() {
        own
    } else {
        own.connect(ConnectPorts::Only(ports.into_iter().collect()))
    };
    config.workspaces.iter().fold(own, |own, workspace| {
        if workspace.writable {
            own.write(&workspace.path)
        } else {
            own.read(&workspace.path)
        }
    })
}

/// Reads the secrets again whenever the owner wants it. What was there stays if that fails.
async fn read_again(secrets: Secrets, needed: Vec<SecretName>, mut reload: Reload) {
    loop {
        reload.wanted().await;
        let (secrets, needed) = (secrets.clone(), needed.clone());
        let read = tokio::task::spawn_blocking(move || {
            let needed: Vec<&SecretName> = needed.iter().collect();
            secrets.read_again(&needed)
        });
        match read.await {
            Ok(Ok(())) => tracing::info!("the secrets were read again"),
            Ok(Err(error)) => {
                let why = bxkit::report::chain(&error);
                tracing::error!(%why, "the secrets can't be read again; those from before stay");
            }
            Err(error) => tracing::error!(%error, "reading the secrets broke off"),
        }
    }
}

async fn serve(context: Context, opened: Opened) -> Result<(), Fatal> {
    let opened = opened.with_memory(Memory::new(context.client(Role::Memoryd)?));
    let fatal = context.fatal.clone();
    let reader = read_again(opened.secrets(), opened.needed(), context.reload.clone());
    let reading = AbortOnDropHandle::new(tokio::spawn(reader));
    let closing = context.shutdown.clone();
    let (broker, keeper) = Broker::start(opened, closing, move |problem| fatal.end(problem));
    let served = context.serve(router(broker)).await;
    drop(reading);
    // Every handle is gone with the routes and with the calls that run, so the keeper brings the rest to disk and ends.
    if keeper.await.is_err() {
        return Err(Fatal::new(
            Code::Internal,
            "The keeper of ledger and log broke off",
        ));
    }
    served
}
