//! What the server's connections and the test's handle share.

use bytes::Bytes;
use std::collections::VecDeque;
use std::fmt;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use super::builder::Kind;
use super::journal::{Figures, Journal, Outcome};
use super::render::Template;
use super::reply::Reply;
use super::request::Request;
use super::slots::Slots;
use crate::contract::{Checker, Observation, Rules};

pub(super) type Responder = Box<dyn Fn(&Request) -> Reply + Send + Sync>;

/// How one server behaves, fixed at its start.
#[derive(Debug, Clone)]
pub(super) struct Config {
    pub(super) kind: Kind,
    pub(super) slots: usize,
    pub(super) slots_endpoint: bool,
    pub(super) context_tokens: usize,
    pub(super) latency: Duration,
    pub(super) batch_tokens: usize,
    pub(super) batch_time: Duration,
    pub(super) stop_lag: Duration,
    pub(super) template: Template,
    pub(super) cached_tokens: bool,
    pub(super) api_key: Option<String>,
    pub(super) max_concurrency: Option<usize>,
    pub(super) keeps_bodies: bool,
    pub(super) clears_idle: bool,
    pub(super) rules: Rules,
}

pub(super) struct Shared {
    pub(super) config: Config,
    pub(super) slots: Slots,
    pub(super) journal: Journal,
    pub(super) loading: AtomicBool,
    checker: Mutex<Checker>,
    queue: Mutex<VecDeque<Reply>>,
    responder: Option<Responder>,
    model: Mutex<String>,
    seq: AtomicUsize,
    started: Instant,
}

impl Shared {
    pub(super) fn new(
        config: Config,
        model: String,
        queue: VecDeque<Reply>,
        responder: Option<Responder>,
    ) -> Self {
        Self {
            slots: Slots::new(config.slots, config.clears_idle),
            journal: Journal::new(config.keeps_bodies),
            loading: AtomicBool::new(false),
            checker: Mutex::new(Checker::new(config.rules.clone())),
            queue: Mutex::new(queue),
            responder,
            model: Mutex::new(model),
            seq: AtomicUsize::new(0),
            started: Instant::now(),
            config,
        }
    }

    /// Numbers and checks a request, in order of arrival.
    pub(super) fn observe(&self, raw: Bytes) -> (usize, Duration, Observation) {
        let mut checker = self.checker.lock().unwrap();
        let seq = self.seq.fetch_add(1, Ordering::SeqCst);
        (seq, self.started.elapsed(), checker.observe(seq, raw))
    }

    /// Books the end of a request.
    pub(super) fn ended(&self, seq: usize, outcome: Outcome, figures: Figures) {
        if outcome != Outcome::Completed {
            self.checker.lock().unwrap().cut_short(seq);
        }
        self.journal.ended(seq, outcome, figures);
    }

    pub(super) fn allow_new_epochs(&self, count: usize) {
        self.checker.lock().unwrap().allow_new_epochs(count);
    }

    /// The next reply: from the queue, then from the closure.
    pub(super) fn reply(&self, request: &Request) -> Option<Reply> {
        let queued = self.queue.lock().unwrap().pop_front();
        queued.or_else(|| self.responder.as_ref().map(|respond| respond(request)))
    }

    pub(super) fn push(&self, reply: Reply) {
        self.queue.lock().unwrap().push_back(reply);
    }

    pub(super) fn queued(&self) -> usize {
        self.queue.lock().unwrap().len()
    }

    pub(super) fn model(&self) -> String {
        self.model.lock().unwrap().clone()
    }

    pub(super) fn set_model(&self, model: &str) {
        model.clone_into(&mut self.model.lock().unwrap());
    }
}

impl fmt::Debug for Shared {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Shared")
            .field("config", &self.config)
            .finish_non_exhaustive()
    }
}
