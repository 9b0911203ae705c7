//! Who serves a turn: a server of the owner's, or a provider that may lead the session.

use super::backend::{choose, elsewhere};
use super::engine::Engine;
use super::opening::{Past, went_away};
use super::sink::EventSink;
use crate::prompt::EpochFacts;
use bxcore::code::Code;
use bxcore::id::{BackendName, SessionId};
use bxcore::label::Label;
use bxcore::problem::Problem;
use bxcore::wire::brokerd::ExplainRequest;
use bxcore::wire::inferproxy::{BackendInfo, BackendState};
use bxcore::wire::loopd::{TurnEvent, WaitReason};
use bxcore::wire::provider::{ProviderInfo, denial};
use bxkit::rpc::CallError;
use std::time::Duration;
use tokio::time::{Instant, sleep};

/// How long a server may load its model before a turn gives up.
const LOADING_WAIT: Duration = Duration::from_mins(30);
/// How often to look whether it is done.
const LOADING_POLL: Duration = Duration::from_millis(500);

/// The backend of a turn.
#[derive(Debug, Clone)]
pub(super) struct Chosen {
    pub(super) backend: BackendInfo,
    /// What it costs and admits, where it is a provider.
    pub(super) provider: Option<ProviderInfo>,
}

impl Engine {
    /// The turn's backend, once it has loaded its model: before that it can't say what it is.
    pub(super) async fn ready_backend(
        &self,
        wanted: Option<&BackendName>,
        own: Option<&EpochFacts>,
        sink: &mut EventSink,
    ) -> Result<Chosen, Problem> {
        let deadline = Instant::now() + LOADING_WAIT;
        let mut told = false;
        loop {
            let chosen = self.choose_backend(wanted, own).await?;
            if chosen.backend.state != BackendState::Loading {
                return Ok(chosen);
            }
            if Instant::now() >= deadline {
                return Err(still_loading(&chosen.backend));
            }
            if !told {
                told = true;
                let reason = WaitReason::Loading;
                sink.send(TurnEvent::Waiting { reason }).await;
            }
            tokio::select! {
                () = sleep(LOADING_POLL) => {}
                () = sink.gone() => return Err(went_away()),
            }
        }
    }

    /// The backend of a turn, as it is now.
    pub(super) async fn choose_backend(
        &self,
        wanted: Option<&BackendName>,
        own: Option<&EpochFacts>,
    ) -> Result<Chosen, Problem> {
        let mut known = self.inference.backends().await?;
        if let Some(name) = elsewhere(&known, wanted, own) {
            let mut providers = self.broker.providers().await?;
            let found = providers.iter().position(|info| info.backend.name == *name);
            if let Some(at) = found {
                let provider = providers.swap_remove(at);
                return Ok(Chosen {
                    backend: provider.backend.clone(),
                    provider: Some(provider),
                });
            }
            // Only to tell what there is: none of these has the name.
            if wanted.is_some() {
                known.extend(providers.into_iter().map(|info| info.backend));
            }
        }
        let own = own.map(|epoch| &epoch.backend);
        Ok(Chosen {
            backend: choose(&known, wanted, own)?.clone(),
            provider: None,
        })
    }

    /// Whether a provider may lead the session once it has read the message. Asked before the
    /// message is joined to anything, so that a refused one leaves the session as it is.
    pub(super) async fn admitted(
        &self,
        session: &SessionId,
        past: &Past,
        label: Label,
        provider: &ProviderInfo,
    ) -> Result<(), Problem> {
        let held = match self.broker.held(session).await {
            Ok(authority) => Some(authority.label),
            Err(CallError::Refused(problem)) if problem.code == Code::SessionUnknown => None,
            Err(error) => return Err(error.into()),
        };
        let label = label.join(past.conversation.label());
        let request = ExplainRequest {
            tool: provider.tool.clone(),
            session: held.is_some().then(|| session.clone()),
            label: Some(label.join(held.unwrap_or(Label::BOTTOM))),
            arguments: None,
        };
        let walk = self.broker.explain(&request).await?;
        match walk.denied {
            Some(code) => Err(denial(&provider.backend.name, code, &walk)),
            None => Ok(()),
        }
    }
}

fn still_loading(backend: &BackendInfo) -> Problem {
    let title = format!(
        "The model server `{}` is still loading its model",
        backend.name
    );
    let mins = LOADING_WAIT.as_secs() / 60;
    Problem::new(Code::BackendLoading, title)
        .detail(format!("it was waited for {mins} minutes"))
        .hint("look at the server's own log, and ask again")
}
