//! The async side of approvals: what waits for the owner, and the owner's answers.

use super::handle::Broker;
use super::job::Job;
use crate::ledger::Key;
use bxcore::id::ApprovalId;
use bxcore::problem::Problem;
use bxcore::wire::approval::{Answer, Approval, Approvals, WATCH_SECS, Withdraw};
use bxcore::wire::brokerd::CallResult;
use std::time::Duration;

impl Broker {
    /// The approvals that wait for the owner: at once, or when there is another version than the
    /// one that is known already, or after [`WATCH_SECS`].
    pub async fn approvals(&self, known: Option<u64>) -> Result<Approvals, Problem> {
        if let Some(known) = known {
            let mut versions = self.approval_versions();
            let changed = versions.wait_for(|version| *version != known);
            // Neither the time nor the keeper's end is a fault: what there is, is told.
            let _ = tokio::time::timeout(Duration::from_secs(WATCH_SECS), changed).await;
        }
        self.ask(|reply| Job::Approvals { reply }).await
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

    /// Ends the wait of a call that is not wanted any more, with a result; none if it did not wait.
    pub async fn withdraw(&self, withdraw: Withdraw) -> Result<Option<CallResult>, Problem> {
        let key = Key {
            session: withdraw.session,
            call: withdraw.call,
        };
        self.ask(|reply| Job::Withdraw { key, reply }).await
    }
}
