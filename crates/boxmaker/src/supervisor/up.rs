//! `up`: takes the home, starts everything, stays, and leaves nothing behind.

use super::background::Report;
use super::engine;
use super::http::{Desk, routes};
use super::idle::IdleWatch;
use super::lock::{Holder, HomeLock};
use super::machine::{End, Event};
use super::notify;
use super::part::Part;
use super::presence::Presence;
use super::shell::{Setup, Shell};
use bxcore::code::Code;
use bxcore::problem::Problem;
use bxcore::role::Role;
use bxcore::wire::inferproxy::BackendInfo;
use bxcore::wire::supervisor::Lifetime;
use bxctl::UpOptions;
use bxctl::output::Output;
use bxkit::exit;
use bxkit::home::Home;
use bxkit::keys::{KeyRing, Token};
use bxkit::rpc::{Client, ServerAuth, SocketListener, serve};
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::{Duration, Instant};
use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;

/// How often a background supervisor looks whether it is needed: a tenth of its patience, within
/// these bounds, in milliseconds.
const IDLE_LOOK_MS: std::ops::RangeInclusive<u64> = 100..=15_000;

/// How long inferproxy may take to look for model servers, in seconds.
const BACKENDS_WITHIN_SECS: u64 = 30;

/// How long loopd may take to say what it does, in seconds.
const ACTIVITY_WITHIN_SECS: u64 = 5;

/// Is the supervisor of a home until it is stopped, and gives the exit code of the process.
pub fn up(home: &Home, options: &UpOptions, output: &Output) -> ExitCode {
    bxkit::daemon::init_logging("warn");
    let report = Arc::new(Report::new(options.background));
    let ended = begin(home, options, output).and_then(|house| house.live(&report));
    match ended {
        Ok(()) => ExitCode::SUCCESS,
        Err(problem) => {
            output.problem(&problem);
            report.failed(&problem);
            ExitCode::from(exit_code(problem.code))
        }
    }
}

/// What can't be cured by starting again ends with 78, as it does for a role.
fn exit_code(code: Code) -> u8 {
    match exit::of_role(code) {
        exit::CONFIG => exit::CONFIG,
        _ => exit::of_command(code),
    }
}

/// Everything that is taken before anything runs, in the order in which it is given back.
struct House {
    shell: Shell,
    listener: SocketListener,
    owner: Token,
    home: Home,
    output: Output,
    options: UpOptions,
    runtime: tokio::runtime::Runtime,
    began: Instant,
    token: TokenFile,
    lock: HomeLock,
}

/// The owner's token as a file, gone when dropped: the sign that nothing runs any more.
struct TokenFile(PathBuf);

impl TokenFile {
    fn write(home: &Home, owner: &Token) -> Result<Self, Problem> {
        let path = home.owner_token_file();
        let line = format!("{}\n", owner.expose());
        bxkit::fsx::write_atomic(&path, line.as_bytes(), 0o600).map_err(|error| {
            let code = bxkit::fsx::code_for(&error, Code::HomeUnusable);
            let detail = format!("{}: {error}", path.display());
            Problem::new(code, "The owner's token can't be written").detail(detail)
        })?;
        Ok(Self(path))
    }
}

impl Drop for TokenFile {
    fn drop(&mut self) {
        // Somebody may have removed it before, which is as good.
        let _ = std::fs::remove_file(&self.0);
    }
}

fn begin(home: &Home, options: &UpOptions, output: &Output) -> Result<House, Problem> {
    let began = Instant::now();
    home.create()?;
    let lifetime = if options.background {
        Lifetime::Background
    } else {
        Lifetime::Foreground
    };
    let holder = Holder {
        pid: std::process::id(),
        since: jiff::Timestamp::now().to_string(),
        lifetime,
    };
    let lock = HomeLock::take(home, &holder)?;
    // Whoever held it before us takes a run folder outside of the home away when it leaves.
    home.create()?;
    let random = |error: getrandom::Error| {
        Problem::new(Code::Internal, format!("No random numbers: {error}"))
    };
    let ring = KeyRing::generate().map_err(random)?;
    let owner = ring.owner().clone();
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .map_err(|error| {
            Problem::new(Code::Internal, "The supervisor can't be set up").detail(error.to_string())
        })?;
    // The token is there before the socket: whoever can connect has the right one.
    let token = TokenFile::write(home, &owner)?;
    let listener = SocketListener::bind(&home.supervisor_socket())?;
    let setup = Setup {
        home: home.clone(),
        ring,
        lifetime,
        output: *output,
        verbose: options.verbose,
    };
    Ok(House {
        shell: Shell::new(setup),
        listener,
        owner,
        home: home.clone(),
        output: *output,
        options: *options,
        runtime,
        began,
        token,
        lock,
    })
}

impl House {
    fn live(self, report: &Arc<Report>) -> Result<(), Problem> {
        let Self {
            mut shell,
            listener,
            owner,
            home,
            output,
            options,
            runtime,
            began,
            token,
            lock,
        } = self;
        let ended = runtime.block_on(async {
            let presence = Presence::default();
            let desk = Desk {
                home: home.clone(),
                events: shell.events(),
                status: shell.status(),
                began: shell.began(),
                stopping: shell.stopping(),
                presence: presence.clone(),
            };
            let served = CancellationToken::new();
            let auth = ServerAuth::owner_only(&owner);
            let server = tokio::spawn(serve(listener, routes(desk), auth, served.clone()));
            tokio::spawn(signals(shell.events()));
            let once = Once {
                home: home.clone(),
                owner: owner.clone(),
                output,
                began,
                events: shell.events(),
            };
            tokio::spawn(once.when_ready(shell.ready(), Arc::clone(report)));
            if options.background {
                let loopd = client(&home, Role::Loopd, &owner, ACTIVITY_WITHIN_SECS);
                tokio::spawn(leave_when_idle(
                    shell.events(),
                    loopd,
                    options.idle_seconds,
                    presence,
                ));
            }
            let end = shell.run().await;
            notify::stopping();
            served.cancel();
            // It ends within its own bound; its socket is removed with it.
            let _ = server.await;
            end
        });
        leave_nothing(&home);
        // In this order: who waits for the end of one house may begin the next.
        drop(token);
        home.remove_short_run_folder();
        drop(lock);
        match ended {
            End::Asked | End::Idle => {
                output.note("stopped");
                Ok(())
            }
            End::Unusable(role) => Err(shell.last_problem(role).unwrap_or_else(|| unusable(role))),
        }
    }
}

/// What is done once, when all roles are ready for the first time.
struct Once {
    home: Home,
    owner: Token,
    output: Output,
    began: Instant,
    events: mpsc::Sender<Event>,
}

impl Once {
    async fn when_ready(self, ready: CancellationToken, report: Arc<Report>) {
        ready.cancelled().await;
        notify::ready();
        report.ready();
        let ms = self.began.elapsed().as_millis();
        self.output.note(&format!("Boxmaker is up after {ms} ms"));
        let inferproxy = client(
            &self.home,
            Role::Inferproxy,
            &self.owner,
            BACKENDS_WITHIN_SECS,
        );
        let backends: Vec<BackendInfo> = inferproxy.get("/v1/backends").await.unwrap_or_default();
        if !bxctl::needs_starter(&backends) {
            return;
        }
        // The engine is set up by `ask` only; here it is used where it is and nothing else is.
        if engine::is_installed(&self.home) && !bxctl::starter_forbidden() {
            // The supervisor may be about to end: then nobody needs it.
            let _ = self.events.send(Event::Restart(Part::Starter)).await;
        } else {
            self.output
                .note("no model server is configured or found: boxmaker backend add NAME URL");
        }
    }
}

/// Signals of the process as events.
async fn signals(events: mpsc::Sender<Event>) {
    let (terminate, interrupt, hang_up) = (
        signal(SignalKind::terminate()),
        signal(SignalKind::interrupt()),
        signal(SignalKind::hangup()),
    );
    let (Ok(mut terminate), Ok(mut interrupt), Ok(mut hang_up)) = (terminate, interrupt, hang_up)
    else {
        tracing::warn!("signals can't be caught; they end the process as they always do");
        return;
    };
    let mut stopping = false;
    loop {
        tokio::select! {
            _ = terminate.recv() => {}
            _ = interrupt.recv() => {}
            _ = hang_up.recv() => {}
        }
        let event = if stopping {
            Event::Hurry
        } else {
            Event::Stop(End::Asked)
        };
        stopping = true;
        if events.send(event).await.is_err() {
            return;
        }
    }
}

/// Ends a background supervisor that nobody has needed for a while.
async fn leave_when_idle(
    events: mpsc::Sender<Event>,
    loopd: Client,
    idle_seconds: u64,
    presence: Presence,
) {
    let began = Instant::now();
    let idle_ms = idle_seconds.saturating_mul(1000);
    let look_ms = (idle_ms / 10).clamp(*IDLE_LOOK_MS.start(), *IDLE_LOOK_MS.end());
    let mut watch = IdleWatch::new(idle_ms, 0);
    loop {
        tokio::time::sleep(Duration::from_millis(look_ms)).await;
        let activity = loopd.get("/v1/activity").await.ok();
        let now_ms = u64::try_from(began.elapsed().as_millis()).unwrap_or(u64::MAX);
        // Somebody may come in between the two looks.
        if watch.is_over(now_ms, presence.count(), activity) && presence.leave(0) {
            let _ = events.send(Event::Stop(End::Idle)).await;
            return;
        }
    }
}

fn client(home: &Home, role: Role, owner: &Token, within_secs: u64) -> Client {
    Client::new(home.socket(role), owner).timeout(Duration::from_secs(within_secs))
}

/// Removes the sockets that confined roles can't remove themselves.
fn leave_nothing(home: &Home) {
    for path in Role::ALL.map(|role| home.socket(role)) {
        // What is not there need not be removed.
        let _ = std::fs::remove_file(path);
    }
}

fn unusable(role: Role) -> Problem {
    Problem::new(
        Code::ConfigInvalid,
        format!("{role} can't run as things are"),
    )
    .detail("it ended with exit code 78 and did not say why")
    .hint(format!("look into state/logs/{role}.log"))
}
