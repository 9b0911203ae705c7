//! The async side of model calls to providers: decided first, then sent, and ended in any case.

use super::handle::Broker;
use super::job::Job;
use super::model::{ModelEnd, ModelRequest, ModelTicket};
use crate::provider::Called;
use bxcore::id::BackendName;
use bxcore::label::Label;
use bxcore::problem::Problem;
use bxcore::usage::Receipt;
use bxcore::wire::inferproxy::{EVENT_PROBLEM, EVENT_RECEIPT};
use bxcore::wire::provider::{EVENT_LABEL, ProviderCall, ProviderInfo};
use bxkit::fault;
use bxkit::rpc::StreamSender;
use bytes::Bytes;
use std::time::Instant;
use tokio::sync::oneshot;

impl Broker {
    /// Decides a model call to a provider, and has it made if it may. Returns once that is decided;
    /// the answer then comes through `out`.
    ///
    /// Whoever reads that may go away, which ends the call. It is recorded all the same.
    ///
    /// # Errors
    /// It is denied, or can't be put on record.
    pub async fn lead(
        &self,
        provider: BackendName,
        call: ProviderCall,
        body: Bytes,
        out: StreamSender,
    ) -> Result<(), Problem> {
        let request = ModelRequest {
            provider,
            call,
            body,
        };
        let (decided, decision) = oneshot::channel();
        let broker = self.clone();
        tokio::spawn(async move { broker.lead_to_end(request, out, decided).await });
        decision.await.map_err(|_| super::handle::gone())?
    }

    /// What there is of providers.
    pub async fn providers(&self) -> Result<Vec<ProviderInfo>, Problem> {
        self.ask(|reply| Job::Providers { reply }).await
    }

    async fn lead_to_end(
        &self,
        request: ModelRequest,
        out: StreamSender,
        decided: oneshot::Sender<Result<(), Problem>>,
    ) {
        let name = request.provider.clone();
        let reserved = request.call.reserved;
        let request = Box::new(request);
        let ticket = self.ask(|reply| Job::BeginModel { request, reply }).await;
        let ModelTicket {
            key,
            provider,
            body,
        } = match ticket {
            Ok(ticket) => ticket,
            Err(problem) => {
                // Whoever asked may be gone.
                let _ = decided.send(Err(problem));
                return;
            }
        };
        let began = Instant::now();
        // If nobody hears that it may be made, the stream has no reader, and nothing is sent.
        let _ = decided.send(Ok(()));
        let called = provider.call(Bytes::from_owner(body), reserved, &out).await;
        metrics::histogram!("boxmaker_provider_call_seconds").record(began.elapsed().as_secs_f64());
        let Called {
            outcome,
            text,
            raw,
            charge,
        } = called;
        fault::point("brokerd.after-run");
        let end = ModelEnd {
            failure: outcome
                .as_ref()
                .err()
                .map(crate::provider::ProviderFailure::code),
            text,
            raw,
            charge,
        };
        let ended = self.ask(|reply| Job::EndModel { key, end, reply }).await;
        let outcome = outcome.map_err(|failure| failure.problem(&name));
        tell(&out, ended, outcome).await;
    }
}

/// Tells how the call ended, once that is on record. The reader may be gone.
async fn tell(
    out: &StreamSender,
    ended: Result<Label, Problem>,
    outcome: Result<Receipt, Problem>,
) {
    let told = match (ended, outcome) {
        (Ok(label), outcome) => {
            let labelled = out.send(EVENT_LABEL, &label).await;
            match (labelled, outcome) {
                (Err(gone), _) => Err(gone),
                (Ok(()), Ok(receipt)) => out.send(EVENT_RECEIPT, &receipt).await,
                (Ok(()), Err(problem)) => out.send(EVENT_PROBLEM, &problem).await,
            }
        }
        (Err(problem), _) => out.send(EVENT_PROBLEM, &problem).await,
    };
    if told.is_err() {
        tracing::debug!("nobody waits for the end of a model call");
    }
}
