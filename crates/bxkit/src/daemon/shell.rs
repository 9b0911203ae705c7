//! The life of a role, from its first instruction to its exit code.

use super::context::{Context, Prelude, Prepared, Reload};
use super::fatal::{Fatal, FatalSwitch};
use super::logging::{init_logging, print_error};
use super::signals::{watch_lifeline, watch_signals};
use super::tasks::Tasks;
use crate::confine::confine;
use crate::home::Home;
use crate::keys::read_keys_from_stdin;
use crate::metrics::Metrics;
use crate::rpc::SocketListener;
use crate::{exit, fault, report};
use bxcore::code::Code;
use bxcore::problem::Problem;
use bxcore::role::Role;
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use std::io;
use std::process::ExitCode;
use std::time::Duration;
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

/// What a role logs if nothing else is wanted. The SDK of MCP would log what servers say of
/// themselves, which is a stranger's text.
const LOGGED: &str = "info,rmcp=off";

/// How long a role's main function and its tasks may take to end once the shutdown began.
pub const MAIN_GRACE_SECS: u64 = 10;

/// How long blocking work may take to end after that.
pub const RUNTIME_GRACE_SECS: u64 = 2;

/// How long a role whose supervisor is gone may live in all.
pub const LIFELINE_GRACE_SECS: u64 = MAIN_GRACE_SECS * 2 + RUNTIME_GRACE_SECS + 3;

/// How many threads run a role's async code, where it asks for nothing else.
///
/// What takes long runs on threads of its own, so that one is enough, and a second one costs more
/// than it does: a turn is many short steps, and each would wake the other thread to look for work.
pub const WORKER_THREADS: usize = 1;

/// How many threads run a role's blocking code at most.
pub const MAX_BLOCKING_THREADS: usize = 64;

/// How many open files a role asks for.
pub const MAX_DESCRIPTORS: u64 = 8192;

/// Runs a role and gives its exit code.
///
/// In this order: logging; the keys from standard input; the home; `prepare`, which reads the
/// configuration and opens what needs opening; the socket; the confinement; the runtime; `main`.
/// The role ends when `main` does. SIGTERM, SIGINT and the end of standard input cancel
/// [`Context::shutdown`]; `main` then has [`MAIN_GRACE_SECS`] to return.
///
/// A failure of either is printed as a problem; one of configuration, state or audit gives
/// [`exit::CONFIG`].
pub fn run<S, P, M, F>(role: Role, prepare: P, main: M) -> ExitCode
where
    P: FnOnce(&Prelude) -> Result<Prepared<S>, Fatal>,
    M: FnOnce(Context, S) -> F,
    F: Future<Output = Result<(), Fatal>>,
{
    init_logging(LOGGED);
    fault::init();
    raise_descriptor_limit();
    match live(role, prepare, main) {
        Ok(()) => ExitCode::from(exit::EXIT_OK),
        Err(fatal) => {
            print_error(&fatal.render(report::color_on_stderr()));
            ExitCode::from(fatal.exit)
        }
    }
}

fn live<S, P, M, F>(role: Role, prepare: P, main: M) -> Result<(), Fatal>
where
    P: FnOnce(&Prelude) -> Result<Prepared<S>, Fatal>,
    M: FnOnce(Context, S) -> F,
    F: Future<Output = Result<(), Fatal>>,
{
    let keys = read_keys_from_stdin()?;
    if keys.me != role {
        let title = format!("`{role}` got the keys of `{}`", keys.me);
        return Err(Fatal::new(Code::NotAuthorised, title));
    }
    let home = Home::discover()?;
    home.create()?;
    let prelude = Prelude { role, home, keys };
    let prepared = prepare(&prelude)?;
    let Prelude { home, keys, .. } = prelude;
    let listener = SocketListener::bind(&home.socket(role))?;
    let metrics = Metrics::install();
    let report = confine(&prepared.confinement)?;
    for path in &report.missing {
        tracing::warn!(path = %path.display(), "not there, so it can't be written to later");
    }
    tracing::info!(%role, confined = %report, "starting");

    let shutdown = CancellationToken::new();
    let fatal = FatalSwitch::new(shutdown.clone());
    let (reload_sender, reload) = watch::channel(0);
    let context = Context {
        role,
        home,
        keys,
        listener,
        shutdown: shutdown.clone(),
        fatal: fatal.clone(),
        reload: Reload(reload),
        tasks: Tasks::new(fatal.clone()),
        metrics: metrics.clone(),
    };
    let runtime = runtime(prepared.worker_threads).map_err(|error| no_threads(&error))?;
    watch_lifeline(shutdown.clone(), Duration::from_secs(LIFELINE_GRACE_SECS))
        .map_err(|error| no_threads(&error))?;
    let tasks = context.tasks.clone();
    tasks_of_shell(&runtime, &tasks, &shutdown, reload_sender, metrics);
    let ended = runtime.block_on(until_end(main(context, prepared.state), &shutdown, &tasks));
    runtime.shutdown_timeout(Duration::from_secs(RUNTIME_GRACE_SECS));
    tracing::info!(%role, "ended");
    match fatal.cause() {
        Some(cause) => Err(cause.clone()),
        None => ended,
    }
}

fn tasks_of_shell(
    runtime: &tokio::runtime::Runtime,
    tasks: &Tasks,
    shutdown: &CancellationToken,
    reload: watch::Sender<u64>,
    metrics: Metrics,
) {
    let _entered = runtime.enter();
    tasks.spawn("signals", watch_signals(shutdown.clone(), reload));
    tasks.spawn("metrics", metrics.upkeep(shutdown.clone()));
}

/// Runs `main` to its end, or for a bounded time past the beginning of the shutdown.
async fn until_end(
    main: impl Future<Output = Result<(), Fatal>>,
    shutdown: &CancellationToken,
    tasks: &Tasks,
) -> Result<(), Fatal> {
    let grace = Duration::from_secs(MAIN_GRACE_SECS);
    let overdue = async {
        shutdown.cancelled().await;
        tokio::time::sleep(grace).await;
    };
    let ended = tokio::select! {
        ended = main => ended,
        () = overdue => {
            tracing::warn!("work did not end in time and is dropped");
            Ok(())
        }
    };
    shutdown.cancel();
    if !tasks.wait(grace).await {
        tracing::warn!("background tasks did not end in time and are dropped");
    }
    ended
}

fn runtime(worker_threads: Option<usize>) -> io::Result<tokio::runtime::Runtime> {
    let cores = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
    let workers = worker_threads
        .unwrap_or(WORKER_THREADS)
        .clamp(1, cores.max(2));
    tokio::runtime::Builder::new_multi_thread()
        .worker_threads(workers)
        .max_blocking_threads(MAX_BLOCKING_THREADS)
        .enable_all()
        .build()
}

/// Allows as many open files as the system lets us have, up to [`MAX_DESCRIPTORS`].
///
/// The usual soft limit of 1024 is less than the connections that a socket may serve.
fn raise_descriptor_limit() {
    let limit = getrlimit(Resource::Nofile);
    let most = limit
        .maximum
        .map_or(MAX_DESCRIPTORS, |maximum| maximum.min(MAX_DESCRIPTORS));
    if limit.current.is_some_and(|current| current < most) {
        let raised = Rlimit {
            current: Some(most),
            maximum: limit.maximum,
        };
        if let Err(error) = setrlimit(Resource::Nofile, raised) {
            tracing::warn!(%error, "the limit of open files can't be raised");
        }
    }
}

fn no_threads(error: &io::Error) -> Fatal {
    Problem::new(Code::Internal, "The system gives no threads")
        .detail(error.to_string())
        .into()
}
