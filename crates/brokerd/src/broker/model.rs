//! Model calls to providers: judged by the walk that tool calls are judged by, and on record
//! before the first byte leaves.

mod begin;
mod end;
mod look;

use super::outgoing::Body;
use crate::audit::Raw;
use crate::provider::Provider;
use bxcore::code::Code;
use bxcore::id::{BackendName, ModelCallId, SessionId};
use bxcore::label::Label;
use bxcore::tool::ToolName;
use bxcore::usage::Charge;
use bxcore::wire::provider::ProviderCall;
use bytes::Bytes;

/// A model call's key: it is made once.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(super) struct ModelKey {
    pub(super) session: SessionId,
    pub(super) call: ModelCallId,
}

/// A model call to a provider.
#[derive(Debug)]
pub(super) struct ModelRequest {
    pub(super) provider: BackendName,
    pub(super) call: ProviderCall,
    pub(super) body: Bytes,
}

/// The right to make one model call: its intent is on disk.
#[derive(Debug)]
pub(super) struct ModelTicket {
    pub(super) key: ModelKey,
    pub(super) provider: Provider,
    pub(super) body: Body,
}

/// How a model call ended.
#[derive(Debug)]
pub(super) struct ModelEnd {
    pub(super) failure: Option<Code>,
    pub(super) text: String,
    pub(super) raw: Raw,
    pub(super) charge: Charge,
}

/// A model call that is under way.
#[derive(Debug)]
pub(super) struct Leading {
    tool: ToolName,
    intent: u64,
    /// The label that it was judged by.
    label: Label,
    /// What the grant says of the answer.
    answer: Label,
}
