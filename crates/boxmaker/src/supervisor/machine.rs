//! What to do when something happens to the processes. Pure: no clock, no process, no I/O.
//!
//! A role that ends with [`exit::CONFIG`] is never started again, as that can't help: everything is
//! stopped. Any other is started again after a pause; one that lives but answers nothing for a while
//! is killed first. The starter engine never stops the house: it
//! is given up after a few failures.

use super::backoff::{RECOVERED_AFTER_MS, pause_ms};
use super::part::{Exit, Part};
use bxcore::role::Role;
use bxcore::wire::supervisor::{ProcessState, RoleStatus};
use bxkit::exit;

/// How long a process may take to end after SIGTERM before it is killed, in milliseconds.
pub(crate) const STOP_WITHIN_MS: u64 = 15_000;

/// How long a role that was ready may answer nothing before it is killed, in milliseconds.
pub(crate) const KILL_SILENT_AFTER_MS: u64 = 30_000;

/// After how many failures in a row the starter engine is given up.
const MAX_STARTER_FAILURES: u32 = 5;

/// Something that happened.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Event {
    /// The supervisor begins its work.
    Begin,
    /// A process was started.
    Started {
        /// Which part it is.
        part: Part,
        /// Its process id.
        pid: u32,
    },
    /// A process answers.
    Ready {
        /// Which part it is.
        part: Part,
        /// Its process id: one that has been replaced meanwhile doesn't count.
        pid: u32,
    },
    /// A process that was ready did not answer when it was asked.
    Silent {
        /// Which part it is.
        part: Part,
        /// Its process id.
        pid: u32,
    },
    /// A process ended.
    Ended {
        /// Which part it was.
        part: Part,
        /// How.
        exit: Exit,
    },
    /// A timer that was asked for is over.
    Time(Timer),
    /// A part is to be started anew, or started at all.
    Restart(Part),
    /// Everything is to be stopped.
    Stop(End),
    /// Whoever waits for the stop waits no longer.
    Hurry,
}

/// What to do.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Command {
    /// Start a process.
    Start(Part),
    /// Ask it to end (SIGTERM).
    Terminate(Part),
    /// End it (SIGKILL).
    Kill(Part),
    /// Send [`Event::Time`] after a while.
    Wait {
        /// After how long, in milliseconds.
        ms: u64,
        /// What to send.
        timer: Timer,
    },
    /// All roles answer, for the first time.
    AllReady,
    /// Nothing runs any more: the supervisor ends.
    Finish(End),
}

/// What a timer is for. It counts only for the process that it was set for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Timer {
    part: Part,
    generation: u64,
    goal: Goal,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Goal {
    Start,
    Kill,
}

/// Why the supervisor ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum End {
    /// It was asked to, by a signal or by `down`.
    Asked,
    /// Nothing happened for a while.
    Idle,
    /// A role can't run at all.
    Unusable(Role),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    /// It has not been asked for, or was given up.
    Off,
    Starting,
    Ready {
        since_ms: u64,
    },
    /// It was ready and answers nothing.
    Silent {
        ready_since_ms: u64,
        silent_since_ms: u64,
    },
    /// It was asked to end and is to be started again then.
    Renewing,
    /// It was asked to end for good.
    Stopping,
    BackingOff,
}

impl State {
    const fn has_process(self) -> bool {
        matches!(
            self,
            Self::Starting
                | Self::Ready { .. }
                | Self::Silent { .. }
                | Self::Renewing
                | Self::Stopping
        )
    }

    /// Since when it is ready, silences included.
    const fn ready_since_ms(self) -> Option<u64> {
        match self {
            Self::Ready { since_ms } => Some(since_ms),
            Self::Silent { ready_since_ms, .. } => Some(ready_since_ms),
            _ => None,
        }
    }
}

#[derive(Debug)]
struct Unit {
    part: Part,
    state: State,
    /// Counts the processes of this part, so that an old timer means nothing to a new process.
    generation: u64,
    failures: u32,
    restarts: u32,
    pid: Option<u32>,
    last_exit: Option<Exit>,
}

/// Decides what to do with the processes.
#[derive(Debug)]
pub(crate) struct Machine {
    units: Vec<Unit>,
    /// Why everything is being stopped, once it is.
    end: Option<End>,
    was_ready: bool,
}

impl Machine {
    pub(crate) fn new() -> Self {
        let parts = Role::ALL.into_iter().map(Part::Role).chain([Part::Starter]);
        let units = parts.map(|part| Unit {
            part,
            state: State::Off,
            generation: 0,
            failures: 0,
            restarts: 0,
            pid: None,
            last_exit: None,
        });
        Self {
            units: units.collect(),
            end: None,
            was_ready: false,
        }
    }

    /// Takes what happened at `now_ms` and says what to do, in this order.
    pub(crate) fn on(&mut self, event: Event, now_ms: u64) -> Vec<Command> {
        match event {
            Event::Begin => Role::ALL
                .into_iter()
                .flat_map(|role| self.start(Part::Role(role)))
                .collect(),
            Event::Started { part, pid } => self.started(part, pid),
            Event::Ready { part, pid } => self.ready(part, pid, now_ms),
            Event::Silent { part, pid } => self.silent(part, pid, now_ms),
            Event::Ended { part, exit } => self.ended(part, exit, now_ms),
            Event::Time(timer) => self.time(timer),
            Event::Restart(part) => self.restart(part),
            Event::Stop(end) => self.stop(end),
            Event::Hurry => self.hurry(),
        }
    }

    /// Whether everything is being stopped.
    pub(crate) fn is_stopping(&self) -> bool {
        self.end.is_some()
    }

    /// Why everything is being stopped, once it is.
    pub(crate) fn end(&self) -> Option<End> {
        self.end
    }

    /// Whether a part was asked to end, so that its end is no news.
    pub(crate) fn expects_end(&self, part: Part) -> bool {
        let asked = |unit: &Unit| matches!(unit.state, State::Renewing | State::Stopping);
        self.is_stopping() || self.unit(part).is_some_and(asked)
    }

    /// Whether a part is ready and answered when it was last asked.
    pub(crate) fn answers(&self, part: Part) -> bool {
        let answers = |unit: &Unit| matches!(unit.state, State::Ready { .. });
        self.unit(part).is_some_and(answers)
    }

    /// How often each role was started again, and how it is.
    pub(crate) fn roles(&self) -> Vec<RoleStatus> {
        Role::ALL
            .into_iter()
            .filter_map(|role| self.unit(Part::Role(role)).map(|unit| unit.status(role)))
            .collect()
    }

    /// How the starter engine is, where it was asked for.
    pub(crate) fn starter(&self) -> Option<ProcessState> {
        let unit = self.unit(Part::Starter)?;
        (unit.generation > 0).then(|| unit.process_state())
    }

    fn unit(&self, part: Part) -> Option<&Unit> {
        self.units.iter().find(|unit| unit.part == part)
    }

    fn unit_mut(&mut self, part: Part) -> Option<&mut Unit> {
        self.units.iter_mut().find(|unit| unit.part == part)
    }

    fn start(&mut self, part: Part) -> Vec<Command> {
        let Some(unit) = self.unit_mut(part) else {
            return Vec::new();
        };
        unit.generation += 1;
        unit.state = State::Starting;
        vec![Command::Start(part)]
    }

    fn started(&mut self, part: Part, pid: u32) -> Vec<Command> {
        if let Some(unit) = self.unit_mut(part) {
            unit.pid = Some(pid);
        }
        // inferproxy learns the engine's address when it starts.
        if part == Part::Starter {
            self.restart(Part::Role(Role::Inferproxy))
        } else {
            Vec::new()
        }
    }

    fn ready(&mut self, part: Part, pid: u32, now_ms: u64) -> Vec<Command> {
        let Some(unit) = self.unit_mut(part) else {
            return Vec::new();
        };
        if unit.pid != Some(pid) {
            return Vec::new();
        }
        let since_ms = match unit.state {
            State::Starting => now_ms,
            State::Silent { ready_since_ms, .. } => ready_since_ms,
            _ => return Vec::new(),
        };
        unit.state = State::Ready { since_ms };
        let is_ready =
            |unit: &Unit| unit.part == Part::Starter || matches!(unit.state, State::Ready { .. });
        if self.was_ready || !self.units.iter().all(is_ready) {
            return Vec::new();
        }
        self.was_ready = true;
        vec![Command::AllReady]
    }

    fn silent(&mut self, part: Part, pid: u32, now_ms: u64) -> Vec<Command> {
        let Some(unit) = self.unit_mut(part).filter(|unit| unit.pid == Some(pid)) else {
            return Vec::new();
        };
        match unit.state {
            State::Ready { since_ms } => {
                unit.state = State::Silent {
                    ready_since_ms: since_ms,
                    silent_since_ms: now_ms,
                };
                Vec::new()
            }
            State::Silent {
                silent_since_ms, ..
            } if now_ms.saturating_sub(silent_since_ms) >= KILL_SILENT_AFTER_MS => {
                vec![Command::Kill(part)]
            }
            _ => Vec::new(),
        }
    }

    fn ended(&mut self, part: Part, exit: Exit, now_ms: u64) -> Vec<Command> {
        let stopping = self.is_stopping();
        let Some(unit) = self.unit_mut(part) else {
            return Vec::new();
        };
        let before = unit.state;
        unit.pid = None;
        if stopping {
            unit.state = State::Off;
            return self.stop_next();
        }
        if before == State::Renewing {
            return self.start(part);
        }
        unit.last_exit = Some(exit);
        if let (Part::Role(role), Exit::Code(code)) = (part, exit)
            && code == i32::from(exit::CONFIG)
        {
            unit.state = State::Off;
            return self.stop(End::Unusable(role));
        }
        let recovered = before
            .ready_since_ms()
            .is_some_and(|since_ms| now_ms.saturating_sub(since_ms) >= RECOVERED_AFTER_MS);
        unit.failures = if recovered {
            1
        } else {
            unit.failures.saturating_add(1)
        };
        if part == Part::Starter && unit.failures >= MAX_STARTER_FAILURES {
            unit.state = State::Off;
            return Vec::new();
        }
        unit.state = State::BackingOff;
        let timer = Timer {
            part,
            generation: unit.generation,
            goal: Goal::Start,
        };
        vec![Command::Wait {
            ms: pause_ms(unit.failures),
            timer,
        }]
    }

    fn time(&mut self, timer: Timer) -> Vec<Command> {
        let Timer {
            part,
            generation,
            goal,
        } = timer;
        let Some(unit) = self
            .unit_mut(part)
            .filter(|unit| unit.generation == generation)
        else {
            return Vec::new();
        };
        match goal {
            Goal::Start if unit.state == State::BackingOff => {
                unit.restarts = unit.restarts.saturating_add(1);
                self.start(part)
            }
            Goal::Kill if unit.state.has_process() => vec![Command::Kill(part)],
            Goal::Start | Goal::Kill => Vec::new(),
        }
    }

    fn restart(&mut self, part: Part) -> Vec<Command> {
        if self.is_stopping() {
            return Vec::new();
        }
        let Some(unit) = self.unit_mut(part) else {
            return Vec::new();
        };
        match unit.state {
            State::Off | State::BackingOff => {
                unit.failures = 0;
                self.start(part)
            }
            // The engine serves whoever asks; what asks for it only wants it to be there.
            State::Starting | State::Ready { .. } if part == Part::Starter => Vec::new(),
            State::Starting | State::Ready { .. } | State::Silent { .. } => {
                unit.state = State::Renewing;
                unit.terminate()
            }
            State::Renewing | State::Stopping => Vec::new(),
        }
    }

    fn stop(&mut self, end: End) -> Vec<Command> {
        if self.is_stopping() {
            return Vec::new();
        }
        self.end = Some(end);
        for unit in &mut self.units {
            if unit.state == State::BackingOff {
                unit.state = State::Off;
            }
        }
        self.stop_next()
    }

    /// Asks the next part to end, when none is about to.
    fn stop_next(&mut self) -> Vec<Command> {
        let Some(end) = self.end else {
            return Vec::new();
        };
        if self.units.iter().any(|unit| unit.state == State::Stopping) {
            return Vec::new();
        }
        let next = Part::STOP_ORDER.into_iter().find(|part| {
            self.unit(*part)
                .is_some_and(|unit| unit.state.has_process())
        });
        match next.and_then(|part| self.unit_mut(part)) {
            Some(unit) => {
                unit.state = State::Stopping;
                unit.terminate()
            }
            None => vec![Command::Finish(end)],
        }
    }

    fn hurry(&mut self) -> Vec<Command> {
        let mut commands = self.stop(End::Asked);
        commands.extend(
            self.units
                .iter()
                .filter(|unit| unit.state.has_process())
                .map(|unit| Command::Kill(unit.part)),
        );
        commands
    }
}

impl Unit {
    fn terminate(&self) -> Vec<Command> {
        let timer = Timer {
            part: self.part,
            generation: self.generation,
            goal: Goal::Kill,
        };
        vec![
            Command::Terminate(self.part),
            Command::Wait {
                ms: STOP_WITHIN_MS,
                timer,
            },
        ]
    }

    const fn process_state(&self) -> ProcessState {
        match self.state {
            State::Off | State::Stopping => ProcessState::Stopped,
            State::Starting | State::Renewing => ProcessState::Starting,
            State::Ready { .. } => ProcessState::Ready,
            State::Silent { .. } => ProcessState::Silent,
            State::BackingOff => ProcessState::BackingOff,
        }
    }

    fn status(&self, role: Role) -> RoleStatus {
        RoleStatus {
            role,
            pid: self.pid,
            state: self.process_state(),
            restarts: self.restarts,
            last_exit: self.last_exit.map(|exit| exit.to_string()),
            confinement: None,
        }
    }
}

#[cfg(test)]
mod tests;
