//! What the keeper is asked to do.

use super::mcp::McpJob;
use super::model::{ModelEnd, ModelKey, ModelRequest, ModelTicket};
use super::outgoing::Errand;
use crate::ledger::{Key, Spot};
use crate::tools::{Output, Tool};
use bxcore::audit::{Checkpoint, Kind};
use bxcore::id::{ApprovalId, SessionId};
use bxcore::label::Label;
use bxcore::problem::Problem;
use bxcore::tool::ToolSpec;
use bxcore::wire::approval::{Answer, Approval, Approvals, Awaiting};
use bxcore::wire::brokerd::{
    AuditStatus, Authority, CallRequest, CallResult, Endorse, Endorsed, ExplainRequest, Register,
    Walk,
};
use bxcore::wire::provider::ProviderInfo;
use serde_json::Value;
use std::sync::Arc;
use tokio::sync::oneshot;

/// Where an answer goes. Whoever asked may be gone by then.
pub(super) type Reply<T> = oneshot::Sender<Result<T, Problem>>;

/// One thing to do.
pub(super) enum Job {
    Register {
        id: SessionId,
        register: Register,
        reply: Reply<Authority>,
    },
    Authority {
        id: SessionId,
        reply: Reply<Authority>,
    },
    Forget {
        id: SessionId,
        reply: Reply<()>,
    },
    Tools {
        id: SessionId,
        reply: Reply<Vec<ToolSpec>>,
    },
    Explain {
        request: ExplainRequest,
        reply: Reply<Walk>,
    },
    Begin {
        request: CallRequest,
        reply: Reply<Begun>,
    },
    /// Tells those who wait for the owner's answer to a call that there is none yet.
    Unpark {
        key: Key,
    },
    Withdraw {
        key: Key,
        reply: Reply<Option<CallResult>>,
    },
    Approvals {
        reply: Reply<Approvals>,
    },
    Approval {
        id: ApprovalId,
        reply: Reply<Approval>,
    },
    Answer {
        id: ApprovalId,
        answer: Answer,
        reply: Reply<Approval>,
    },
    /// Ends the approvals that nobody answered in time.
    Expire,
    Finish {
        key: Key,
        output: Output,
        reply: Reply<CallResult>,
    },
    BeginModel {
        request: Box<ModelRequest>,
        reply: Reply<ModelTicket>,
    },
    EndModel {
        key: ModelKey,
        end: ModelEnd,
        reply: Reply<Label>,
    },
    Mcp(McpJob),
    Providers {
        reply: Reply<Vec<ProviderInfo>>,
    },
    Note {
        note: Box<Note>,
        reply: Reply<u64>,
    },
    Endorse {
        endorse: Endorse,
        spot: Spot,
        reply: Reply<Endorsed>,
    },
    Status {
        reply: Reply<AuditStatus>,
    },
    Checkpoint {
        reply: Reply<Checkpoint>,
    },
}

/// What came of the beginning of a call.
#[derive(Debug)]
pub(super) enum Begun {
    /// It is over: denied, or answered from the record.
    Ended(Box<CallResult>),
    /// It may run, and its intent is on disk.
    Run(Box<Ticket>),
    /// The owner has yet to approve it.
    Awaiting {
        awaiting: Awaiting,
        /// Whether the question was put just now.
        is_new: bool,
    },
}

/// The right to run one call.
#[derive(Debug)]
pub(super) struct Ticket {
    pub(super) key: Key,
    pub(super) tool: Arc<Tool>,
    pub(super) arguments: Value,
    /// The label that it was judged by.
    pub(super) label: Label,
    pub(super) result_bytes: usize,
    /// What is done elsewhere, where it is no work of this box.
    pub(super) errand: Option<Errand>,
}

/// A record to write.
#[derive(Debug)]
pub(super) struct Note {
    pub(super) kind: Kind,
    pub(super) record: OwnedRecord,
}

/// [`crate::audit::Record`], owned.
#[derive(Debug, Default)]
pub(super) struct OwnedRecord {
    pub(super) intent: Option<u64>,
    pub(super) outcome: Option<crate::audit::Ended>,
    pub(super) session: Option<SessionId>,
    pub(super) call: Option<u64>,
    pub(super) model_call: Option<u64>,
    pub(super) tool: Option<String>,
    pub(super) label: Option<Label>,
    pub(super) grant: Option<usize>,
    pub(super) decision: Option<crate::audit::Decided>,
    pub(super) reason: Option<bxcore::code::Code>,
    pub(super) walk: Option<Vec<bxcore::wire::brokerd::Step>>,
    pub(super) body: Option<Arc<str>>,
    pub(super) body_place: crate::audit::BodyPlace,
    /// The SHA-256 of the arguments, where the body is not the arguments.
    pub(super) arguments_sha256: Option<String>,
    pub(super) raw: Option<crate::audit::Raw>,
    pub(super) charge: Option<bxcore::usage::Charge>,
}

impl OwnedRecord {
    pub(super) fn borrowed(&self) -> crate::audit::Record<'_> {
        crate::audit::Record {
            intent: self.intent,
            outcome: self.outcome,
            session: self.session.as_ref().map(SessionId::as_str),
            call: self.call,
            model_call: self.model_call,
            tool: self.tool.as_deref(),
            label: self.label,
            grant: self.grant,
            decision: self.decision,
            reason: self.reason,
            walk: self.walk.as_deref(),
            body: self.body.as_deref(),
            body_place: self.body_place,
            arguments_sha256: self.arguments_sha256.as_deref(),
            raw: self.raw.clone(),
            charge: self.charge,
        }
    }
}
