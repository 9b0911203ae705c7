//! The async side of approvals: what waits for the owner, and the owner's answers.

use super::handle::Broker;
use super::job::{Job, Note, OwnedRecord};
use super::outgoing::Body;
use crate::approval::{self, WEBHOOK, Webhook, WebhookError};
use crate::audit::{Decided, Ended};
use crate::ledger::Key;
use bxcore::audit::Kind;
use bxcore::code::Code;
use bxcore::id::ApprovalId;
use bxcore::problem::Problem;
use bxcore::wire::approval::{Answer, Approval, Approvals, WATCH_SECS, Withdraw};
use bxcore::wire::brokerd::CallResult;
use bytes::Bytes;
use std::sync::Arc;

impl Broker {
    /// The approvals that wait for the owner: at once, or when there is another version than the
    /// one that is known already, or after [`WATCH_SECS`].
    pub async fn approvals(&self, known: Option<u64>) -> Result<Approvals, Problem> {
        if let Some(known) = known {
            let mut versions = self.approval_versions();
            tokio::select! {
                // The keeper's end is no fault: what there is, is told.
                _ = versions.wait_for(|version| *version != known) => {}
                () = self.waited_long(WATCH_SECS) => {}
            }
        }
        let mut approvals: Approvals = self.ask(|reply| Job::Approvals { reply }).await?;
        approvals.webhook_failure = self.webhook().and_then(Webhook::last_failure);
        Ok(approvals)
    }

    /// One approval, however far it is.
    pub async fn approval(&self, id: ApprovalId) -> Result<Approval, Problem> {
        self.ask(|reply| Job::Approval { id, reply }).await
    }

    /// Takes the owner's answer.
    ///
    /// # Errors
    /// There is no such question, it is answered or too late, or something else was shown.
    pub async fn answer(&self, id: ApprovalId, answer: Answer) -> Result<Approval, Problem> {
        self.ask(|reply| Job::Answer { id, answer, reply }).await
    }

    /// Ends the wait of a call that is not wanted any more, with a result, or gives that of one that
    /// has ended; none if it runs, or nobody knows.
    pub async fn withdraw(&self, withdraw: Withdraw) -> Result<Option<CallResult>, Problem> {
        let key = Key {
            session: withdraw.session,
            call: withdraw.call,
        };
        self.ask(|reply| Job::Withdraw { key, reply }).await
    }

    /// Tells the owner elsewhere, where that is wanted, that a call waits. Beside the call: whether
    /// it arrives changes nothing.
    pub(super) fn tell_owner(&self, id: ApprovalId) {
        let Some(webhook) = self.webhook().cloned() else {
            return;
        };
        let broker = self.clone();
        tokio::spawn(async move {
            // Nothing hangs on it, so the end of brokerd does not wait for it.
            let told = tokio::select! {
                told = broker.notify(&webhook, id) => told,
                () = broker.closing.cancelled() => return,
            };
            if let Err(problem) = &told {
                tracing::warn!(code = %problem.code, "the owner was not told: {problem}");
            }
            webhook.remember(told.err().map(|problem| problem.to_string()));
        });
    }

    async fn notify(&self, webhook: &Webhook, id: ApprovalId) -> Result<(), Problem> {
        let approval = self.approval(id).await?;
        let body: Arc<str> = approval::notification(&approval).into();
        webhook.admits(&body).map_err(|error| not_told(&error))?;
        let _permit = webhook.permit().map_err(|error| not_told(&error))?;
        let record = OwnedRecord {
            session: Some(approval.session),
            tool: Some(WEBHOOK.to_owned()),
            label: Some(approval.label),
            decision: Some(Decided::Allow),
            body: Some(Arc::clone(&body)),
            ..OwnedRecord::default()
        };
        let kind = Kind::Intent;
        let intent = self.write_note(Note { kind, record }).await?;
        let sent = webhook.send(Bytes::from_owner(Body(body))).await;
        let record = OwnedRecord {
            intent: Some(intent),
            tool: Some(WEBHOOK.to_owned()),
            outcome: Some(if sent.is_ok() {
                Ended::Ok
            } else {
                Ended::Failed
            }),
            ..OwnedRecord::default()
        };
        let kind = Kind::Outcome;
        self.write_note(Note { kind, record }).await?;
        sent.map_err(|error| not_told(&error))
    }
}

fn not_told(error: &WebhookError) -> Problem {
    let title = "The notification of an approval was not delivered";
    Problem::new(Code::Internal, title).detail(bxkit::report::chain(error))
}
