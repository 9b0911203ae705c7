//! One backend at run time: the way to it, its slots, and what is known of it.
//!
//! One task a backend looks at the server, when somebody wants to know and the last look is too
//! old; all who want to know share that look.

use super::assess::{Look, assess, carried_over};
use super::inspect::{LOOK_TIMEOUT_MS, look};
use super::place::Place;
use super::spec::Spec;
use super::upstream::{Upstream, UpstreamError};
use crate::slots::{PageError, SlotGate, SlotsPage};
use axum::http::StatusCode;
use bxcore::code::Code;
use bxcore::problem::Problem;
use bxcore::wire::inferproxy::{BackendInfo, BackendKind, BackendState};
use std::sync::Arc;
use std::time::{Duration, Instant};
use tokio::sync::{Notify, Semaphore, watch};
use tokio_util::sync::CancellationToken;

/// How long a look at a ready server is good for.
pub const READY_FRESH_MS: u64 = 5_000;
/// How long a look at one that is not ready is good for.
pub const UNREADY_FRESH_MS: u64 = 500;
/// How long to wait for a new look before the old one must do.
const MAX_LOOK_WAIT_MS: u64 = 3 * LOOK_TIMEOUT_MS;
/// How long `/slots` may take: the server answers between two batches of a prompt.
const SLOTS_TIMEOUT_MS: u64 = 10_000;

/// What is known of a backend.
#[derive(Debug, Clone)]
pub struct Known {
    /// What it is and whether it can be used.
    pub info: BackendInfo,
    /// Whether it shows its slots, unless it said that it doesn't.
    pub shows_slots: bool,
    /// When it was looked at; none if never, or if something has shown since that the look is old.
    looked: Option<Instant>,
    version: u64,
}

impl Known {
    fn is_fresh(&self) -> bool {
        let good_for_ms = match self.info.state {
            BackendState::Ready => READY_FRESH_MS,
            _ => UNREADY_FRESH_MS,
        };
        self.looked
            .is_some_and(|at| at.elapsed() < Duration::from_millis(good_for_ms))
    }
}

/// Why the slots of a server are not known.
#[derive(Debug, thiserror::Error)]
pub enum SlotsError {
    /// It does not show them.
    #[error("the server does not show its slots (status {0})")]
    NotShown(u16),
    /// It can't be asked.
    #[error("the server can't be asked for its slots")]
    Unreachable(#[source] UpstreamError),
    /// It shows something else.
    #[error(transparent)]
    Garbled(#[from] PageError),
}

/// A backend.
#[derive(Debug)]
pub struct Backend {
    spec: Spec,
    upstream: Upstream,
    slots: SlotGate,
    permits: Arc<Semaphore>,
    known: watch::Sender<Arc<Known>>,
    wanted: Notify,
}

impl Backend {
    /// A backend that nobody has looked at; `bearer` is its API key.
    pub fn new(spec: Spec, place: Place, bearer: Option<&str>) -> Self {
        let never = Problem::new(
            Code::BackendUnreachable,
            "The model server was not asked yet",
        );
        let info = assess(&spec, &Look::Silent(never));
        let known = Known {
            info,
            shows_slots: true,
            looked: None,
            version: 0,
        };
        Self {
            permits: Arc::new(Semaphore::new(spec.max_concurrency as usize)),
            upstream: Upstream::new(place, bearer),
            slots: SlotGate::default(),
            known: watch::Sender::new(Arc::new(known)),
            wanted: Notify::new(),
            spec,
        }
    }

    /// How it was configured or looked for.
    pub fn spec(&self) -> &Spec {
        &self.spec
    }

    /// The way to it.
    pub fn upstream(&self) -> &Upstream {
        &self.upstream
    }

    /// Its slots.
    pub fn slots(&self) -> &SlotGate {
        &self.slots
    }

    /// How many more requests it may get, on a server without slots.
    pub fn permits(&self) -> &Arc<Semaphore> {
        &self.permits
    }

    /// What is known of it, however old.
    pub fn current(&self) -> Arc<Known> {
        self.known.borrow().clone()
    }

    /// What is known of it, from a look that is not older than [`READY_FRESH_MS`].
    pub async fn fresh(&self) -> Arc<Known> {
        let mut known = self.known.subscribe();
        let seen = known.borrow_and_update().clone();
        if seen.is_fresh() {
            return seen;
        }
        self.wanted.notify_one();
        let newer = known.wait_for(|known| known.version > seen.version);
        match tokio::time::timeout(Duration::from_millis(MAX_LOOK_WAIT_MS), newer).await {
            Ok(Ok(known)) => known.clone(),
            Ok(Err(_)) | Err(_) => self.current(),
        }
    }

    /// What is known, looking again only where it could not be used.
    pub async fn usable(&self) -> Arc<Known> {
        let known = self.current();
        match known.info.state {
            BackendState::Ready if known.looked.is_some() => known,
            _ => self.fresh().await,
        }
    }

    /// Notes that something has gone wrong, so that the next who wants to know gets a new look.
    pub fn distrust(&self) {
        self.known
            .send_modify(|known| Arc::make_mut(known).looked = None);
    }

    /// What the server says of its slots.
    pub async fn look_at_slots(&self) -> Result<SlotsPage, SlotsError> {
        let timeout = Duration::from_millis(SLOTS_TIMEOUT_MS);
        let reply = self
            .upstream
            .get("/slots", timeout)
            .await
            .map_err(SlotsError::Unreachable)?;
        if reply.status != StatusCode::OK {
            return Err(SlotsError::NotShown(reply.status.as_u16()));
        }
        Ok(SlotsPage::parse(&reply.body)?)
    }

    /// Looks at the server whenever it is wanted, until `shutdown`.
    pub async fn keep_looking(self: Arc<Self>, shutdown: CancellationToken) {
        loop {
            tokio::select! {
                () = self.wanted.notified() => {}
                () = shutdown.cancelled() => return,
            }
            if self.current().is_fresh() {
                // Somebody wanted to know while a look was under way.
                continue;
            }
            tokio::select! {
                look = look(&self.spec, &self.upstream) => self.learn(&look),
                () = shutdown.cancelled() => return,
            }
        }
    }

    fn learn(&self, look: &Look) {
        let before = self.current();
        let info = carried_over(&before.info, assess(&self.spec, look));
        if before.info.state != info.state || before.info.fingerprint != info.fingerprint {
            tracing::info!(backend = %info.name, state = ?info.state, model = %info.model, "looked at a backend");
        }
        match info.state {
            BackendState::Ready => self.slots.set_layout(info.slots.clone()),
            // A server that is only away for a moment keeps its slots, and with them who drains.
            BackendState::Loading | BackendState::Unreachable => {}
            BackendState::Misconfigured => self.slots.set_layout(None),
        }
        let shows_slots = match look {
            Look::Llama(props) => props.endpoint_slots.unwrap_or(true),
            _ => info.kind == BackendKind::LlamaServer,
        };
        self.known.send_modify(|known| {
            *known = Arc::new(Known {
                info,
                shows_slots,
                looked: Some(Instant::now()),
                version: known.version + 1,
            });
        });
    }
}
