//! A call that may have been made before.

use super::{Asked, MAX_WAITERS};
use crate::broker::core::Core;
use crate::ledger::{Key, Recorded, StoredCall};
use bxcore::code::Code;
use bxcore::problem::Problem;
use bxcore::wire::brokerd::CallResult;

/// What to do with a call that may have been made before.
pub(super) enum Replay {
    Run,
    Answer(Box<CallResult>),
    Interrupted(Option<u64>),
    Other,
}

impl Core {
    /// What the record says about a call that may have been made before.
    pub(super) fn recalled(&self, asked: &Asked, recorded: Recorded) -> Replay {
        let may_repeat = asked
            .tool
            .as_ref()
            .is_none_or(|tool| tool.may_repeat(&asked.request.arguments));
        let unknown = |audit| {
            if may_repeat {
                Replay::Run
            } else {
                Replay::Interrupted(audit)
            }
        };
        match recorded {
            Recorded::New if self.lost.contains(&asked.key) => unknown(None),
            Recorded::New => Replay::Run,
            Recorded::Forgotten => unknown(None),
            Recorded::Made(stored) if !is_same(&stored, asked) => Replay::Other,
            Recorded::Made(StoredCall {
                result: Some(mut result),
                ..
            }) => {
                // The label may have risen since.
                result.session_label = asked.session.label.join(result.session_label);
                result.replayed = true;
                Replay::Answer(Box::new(result))
            }
            Recorded::Made(StoredCall {
                result: None,
                audit,
                ..
            }) => unknown(Some(audit)),
        }
    }
}

fn is_same(stored: &StoredCall, asked: &Asked) -> bool {
    stored.tool == asked.request.tool.as_str() && stored.arguments_sha256 == asked.arguments_sha256
}

pub(in crate::broker) fn other_call(key: &Key) -> Problem {
    Problem::new(Code::BadRequest, format!("{key} is another call already"))
        .detail("a session's number for a call is used once")
}

pub(super) fn too_many(key: &Key) -> Problem {
    Problem::new(
        Code::BadRequest,
        format!("{key} is waited for by {MAX_WAITERS} others already"),
    )
}
