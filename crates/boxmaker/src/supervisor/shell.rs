//! Does what the machine decides: the only owner of processes, timers and their state.

use super::engine::{self, SharedAddress};
use super::logs::LogFile;
use super::machine::{Command, End, Event, Machine};
use super::notify;
use super::part::{Exit, Part};
use super::process::{Running, start_role};
use super::relay::{Relay, SharedTail};
use bxcore::problem::Problem;
use bxcore::role::Role;
use bxcore::wire::supervisor::{Lifetime, Status};
use bxctl::output::Output;
use bxkit::home::Home;
use bxkit::keys::KeyRing;
use bxkit::rpc::{Client, Health};
use rustix::process::Signal;
use std::collections::{HashMap, VecDeque};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};
use tokio::sync::{mpsc, watch};
use tokio_util::sync::CancellationToken;

/// How many events wait for the loop, which never waits itself.
pub(crate) const MAX_EVENTS: usize = 64;

/// How often a process that starts is asked whether it is ready, in milliseconds, once it has
/// refused or answered for somebody else.
const RETRY_MS: u64 = 25;

/// How long one such question may take, in seconds.
const READY_WITHIN_SECS: u64 = 10;

/// How often a role that is ready is asked whether it still answers.
const CHECK_EVERY: Duration = Duration::from_secs(5);

/// How long it may take to answer. It is a question that costs nothing.
const CHECK_WITHIN: Duration = Duration::from_secs(5);

/// What is the same for the whole life of a supervisor.
#[derive(Debug)]
pub(crate) struct Setup {
    pub(crate) home: Home,
    pub(crate) ring: KeyRing,
    pub(crate) lifetime: Lifetime,
    pub(crate) output: Output,
    /// Whether what the roles print is shown.
    pub(crate) verbose: bool,
}

/// A supervisor at work.
#[derive(Debug)]
pub(crate) struct Shell {
    setup: Setup,
    began: Instant,
    machine: Machine,
    running: HashMap<Part, Running>,
    tails: HashMap<Part, SharedTail>,
    starter: SharedAddress,
    confined: Confined,
    events: mpsc::Sender<Event>,
    inbox: mpsc::Receiver<Event>,
    status: watch::Sender<Status>,
    /// Cancelled when the end begins.
    stopping: CancellationToken,
    /// Cancelled when all roles are ready for the first time.
    ready: CancellationToken,
}

impl Shell {
    pub(crate) fn new(setup: Setup) -> Self {
        let (events, inbox) = mpsc::channel(MAX_EVENTS);
        let machine = Machine::new();
        let status = watch::Sender::new(Status {
            pid: std::process::id(),
            version: env!("CARGO_PKG_VERSION").to_owned(),
            lifetime: setup.lifetime,
            home: home_name(&setup.home),
            roles: machine.roles(),
            starter: None,
            up_ms: 0,
            problem: None,
        });
        Self {
            setup,
            began: Instant::now(),
            machine,
            running: HashMap::new(),
            tails: HashMap::new(),
            starter: SharedAddress::default(),
            confined: Confined::default(),
            events,
            inbox,
            status,
            stopping: CancellationToken::new(),
            ready: CancellationToken::new(),
        }
    }

    /// Where to send events.
    pub(crate) fn events(&self) -> mpsc::Sender<Event> {
        self.events.clone()
    }

    /// How everything is, as it changes. The time that it is up is the reader's to add.
    pub(crate) fn status(&self) -> watch::Receiver<Status> {
        self.status.subscribe()
    }

    /// When it began.
    pub(crate) fn began(&self) -> Instant {
        self.began
    }

    /// Cancelled when the end begins.
    pub(crate) fn stopping(&self) -> CancellationToken {
        self.stopping.clone()
    }

    /// Cancelled when all roles are ready for the first time.
    pub(crate) fn ready(&self) -> CancellationToken {
        self.ready.clone()
    }

    /// Runs until nothing runs any more, and says why it ended.
    pub(crate) async fn run(&mut self) -> End {
        let mut next = Some(Event::Begin);
        loop {
            if let Some(event) = next.take()
                && let Some(end) = self.take(event)
            {
                return end;
            }
            // Never closed: we hold a sender ourselves.
            next = self.inbox.recv().await;
        }
    }

    /// The problem that a role printed before it ended.
    pub(crate) fn last_problem(&self, role: Role) -> Option<Problem> {
        self.tails.get(&Part::Role(role))?.now().problem()
    }

    fn take(&mut self, event: Event) -> Option<End> {
        let mut events = VecDeque::from([event]);
        while let Some(event) = events.pop_front() {
            self.tell(event);
            let now_ms = u64::try_from(self.began.elapsed().as_millis()).unwrap_or(u64::MAX);
            for command in self.machine.on(event, now_ms) {
                match command {
                    Command::Start(part) => events.extend(self.start(part)),
                    Command::Terminate(part) => self.signal(part, Signal::TERM),
                    Command::Kill(part) => self.signal(part, Signal::KILL),
                    Command::Wait { ms, timer } => self.later(ms, Event::Time(timer)),
                    Command::AllReady => self.ready.cancel(),
                    Command::Finish(end) => return Some(end),
                }
            }
            if self.machine.is_stopping() {
                self.stopping.cancel();
            }
            self.publish();
        }
        None
    }

    /// Starts a process and says how that went, unless that shows later.
    fn start(&mut self, part: Part) -> Option<Event> {
        let Part::Role(role) = part else {
            let Setup { home, output, .. } = &self.setup;
            let running = engine::start(home, self.starter.clone(), *output, self.events.clone());
            self.running.insert(part, running);
            return None;
        };
        let keys = self.setup.ring.for_role(role, self.starter.now());
        let relay = self.relay(part);
        Some(
            match start_role(&self.setup.home, &keys, relay, self.events.clone()) {
                Ok((pid, running)) => {
                    self.running.insert(part, running);
                    self.watch(role, pid);
                    Event::Started { part, pid }
                }
                Err(error) => {
                    self.setup
                        .output
                        .note(&format!("{part} can't be started: {error}"));
                    Event::Ended {
                        part,
                        exit: Exit::NotStarted,
                    }
                }
            },
        )
    }

    fn relay(&mut self, part: Part) -> Relay {
        let log = LogFile::open(&self.setup.home.logs_dir(), part.name());
        let shown = self.setup.verbose.then_some(self.setup.output);
        // Each process has its own last words.
        let tail = SharedTail::default();
        self.tails.insert(part, tail.clone());
        Relay::new(part, log, tail, shown)
    }

    fn signal(&self, part: Part, signal: Signal) {
        if let Some(running) = self.running.get(&part) {
            running.signal(signal);
        }
    }

    fn later(&self, ms: u64, event: Event) {
        let events = self.events.clone();
        tokio::spawn(async move {
            tokio::time::sleep(Duration::from_millis(ms)).await;
            // The loop is gone: nothing is left to do then.
            let _ = events.send(event).await;
        });
    }

    /// Asks a new role until it answers, tells when it does, and from then on tells when it
    /// answers no more.
    fn watch(&self, role: Role, pid: u32) {
        let part = Part::Role(role);
        let events = self.events.clone();
        let (status, stopping) = (self.status.subscribe(), self.stopping.clone());
        let client = Client::new(self.setup.home.socket(role), self.setup.ring.owner());
        let confined = self.confined.clone();
        tokio::spawn(async move {
            let asked = async {
                let health = until_ready(&client, pid).await;
                confined.set(role, health.confined);
                // The loop is gone when it takes no more, and this task with it.
                let _ = events.send(Event::Ready { part, pid }).await;
                check(&client.timeout(CHECK_WITHIN), part, pid, &events).await;
            };
            tokio::select! {
                () = asked => {}
                () = replaced(status, role, pid) => {}
                () = stopping.cancelled() => {}
            }
        });
    }

    fn publish(&self) {
        let (mut roles, starter) = (self.machine.roles(), self.machine.starter());
        for row in &mut roles {
            row.confinement = self.confined.of(row.role);
        }
        // Whoever is cut off by the end wants to know why; the role may say so only now.
        let problem = match self.machine.end() {
            Some(End::Unusable(role)) => self.last_problem(role),
            _ => None,
        };
        self.status.send_if_modified(|status| {
            let changed =
                status.roles != roles || status.starter != starter || status.problem != problem;
            status.roles = roles;
            status.starter = starter;
            status.problem = problem;
            changed
        });
    }

    /// Tells the person and the service manager what is worth telling.
    fn tell(&self, event: Event) {
        let line = match event {
            Event::Ended { part, exit } if !self.machine.expects_end(part) => {
                format!("{part} ended ({exit}); see state/logs/{part}.log")
            }
            Event::Silent { part, .. } if self.machine.answers(part) => {
                format!("{part} does not answer; it is killed and started again if that lasts")
            }
            Event::Stop(End::Idle) => "nothing happened for a while: stopping".to_owned(),
            Event::Stop(_) if !self.machine.is_stopping() => "stopping".to_owned(),
            Event::Hurry => "stopping at once".to_owned(),
            _ => return,
        };
        self.setup.output.note(&line);
        notify::status(&line);
    }
}

/// Ends when the process with this id answers, with what it says.
async fn until_ready(client: &Client, pid: u32) -> Health {
    let within = Duration::from_secs(READY_WITHIN_SECS);
    loop {
        // One left over from an earlier supervisor refuses our token, or has another id.
        match client.wait_ready(within).await {
            Ok(health) if health.pid == pid => return health,
            _ => tokio::time::sleep(Duration::from_millis(RETRY_MS)).await,
        }
    }
}

/// Asks a process that was ready whether it still answers, for ever, and tells what is new or bad.
async fn check(client: &Client, part: Part, pid: u32, events: &mpsc::Sender<Event>) {
    let mut was_silent = false;
    loop {
        tokio::time::sleep(CHECK_EVERY).await;
        let is_silent = client.health().await.is_err();
        let event = match (was_silent, is_silent) {
            (_, true) => Event::Silent { part, pid },
            (true, false) => Event::Ready { part, pid },
            (false, false) => continue,
        };
        was_silent = is_silent;
        let _ = events.send(event).await;
    }
}

/// Ends when a process is no longer the one of its role.
async fn replaced(mut status: watch::Receiver<Status>, role: Role, pid: u32) {
    let is_other = |status: &Status| {
        status
            .roles
            .iter()
            .any(|row| row.role == role && row.pid.is_some_and(|now| now != pid))
    };
    // Closed only when the supervisor is gone, and this task with it.
    let _ = status.wait_for(is_other).await;
}

/// What confines each role, as it said when it was ready.
#[derive(Debug, Clone, Default)]
struct Confined(Arc<Mutex<HashMap<Role, String>>>);

impl Confined {
    fn set(&self, role: Role, by: Option<String>) {
        if let Some(by) = by {
            self.0
                .lock()
                .unwrap_or_else(PoisonError::into_inner)
                .insert(role, by);
        }
    }

    fn of(&self, role: Role) -> Option<String> {
        self.0
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .get(&role)
            .cloned()
    }
}

/// The home as a person knows it.
fn home_name(home: &Home) -> String {
    match (home.config_dir().parent(), home.state_dir().parent()) {
        (Some(one), Some(other)) if one == other => one.display().to_string(),
        _ => home.config_dir().display().to_string(),
    }
}
