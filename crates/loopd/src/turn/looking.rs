//! What a turn shows of itself: the request that is due, and where it stands.

use super::context::TurnContext;
use super::machine::{NoModelCall, State, Turn};
use crate::prompt::{AnswerStream, Call, Conversation, Stage};
use bxcore::id::{SessionId, TurnId};
use bxcore::label::Label;
use bxcore::money::MicroUsd;
use bytes::Bytes;

impl Turn {
    /// The body of the model call that is due.
    pub fn body(&self, slot: Option<u32>) -> Result<Bytes, NoModelCall> {
        let State::Calling { model, .. } = &self.state else {
            return Err(NoModelCall);
        };
        if let (Stage::Summary, Some(compaction)) = (model.stage, &self.compaction) {
            let rules = &self.context.compact;
            let most = model.max_tokens;
            return Ok(self
                .conversation
                .summary_body(compaction, rules, most, slot));
        }
        if let (true, Some(question)) = (model.stage.is_aside(), &self.question) {
            return Ok(self.conversation.asked_body(
                &question.asked,
                question.result.label,
                model.max_tokens,
                slot,
            ));
        }
        Ok(self.conversation.body(&Call {
            slot,
            max_tokens: model.max_tokens,
            stage: model.stage,
            catalog: &self.context.catalog,
        }))
    }

    /// Turns the pieces of the answer that comes in into what a watcher may see.
    pub fn answer_stream(&self) -> AnswerStream {
        AnswerStream::new(self.conversation.mode())
    }

    /// Which turn this is.
    pub fn id(&self) -> TurnId {
        self.turn
    }

    /// The session.
    pub fn session(&self) -> &SessionId {
        &self.context.session
    }

    /// The session's label as it is now: what a tool call is judged by.
    pub fn label(&self) -> Label {
        self.label
    }

    /// What is set aside for the model call that is due, in money.
    pub fn money_set_aside(&self) -> MicroUsd {
        match &self.state {
            State::Calling { reserve, .. } => reserve.amount.usd,
            State::Committing(_) | State::Running(_) | State::Ended => MicroUsd::ZERO,
        }
    }

    /// The conversation as it is now, with entries whose commit is under way.
    pub fn conversation(&self) -> &Conversation {
        &self.conversation
    }

    /// What the turn was given.
    pub fn context(&self) -> &TurnContext {
        &self.context
    }

    /// What the turn is doing: `committing`, `calling`, `running` or `ended`.
    pub fn doing(&self) -> &'static str {
        self.state.name()
    }

    /// Whether the turn ended.
    pub fn is_over(&self) -> bool {
        matches!(self.state, State::Ended)
    }
}
