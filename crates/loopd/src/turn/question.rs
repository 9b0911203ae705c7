//! A question to memory: brokerd has found passages and joined their label, and a model call of its
//! own makes an answer of them, which is the tool's result.
//!
//! Where no answer can be had, the passages are the result. A stop ends the question like any other
//! call that was not run to its end.

use super::command::{Command, Commit, Settle};
use super::machine::{State, Then, Turn};
use super::results::{Due, own_result};
use crate::prompt::{MEMORY_ANSWER_TOKENS, Stage, answered_from};
use bxcore::chat::ModelAnswer;
use bxcore::code::Code;
use bxcore::id::{CallId, ModelCallId};
use bxcore::memory::{ASK_MEMORY, Passages};
use bxcore::text::present;
use bxcore::tool::ToolName;
use bxcore::transcript::{CallOutcome, Entry};
use bxcore::wire::brokerd::CallResult;
use std::collections::VecDeque;

/// A question with what was found for it, and the calls around it.
#[derive(Debug, Clone)]
pub(super) struct Question {
    pub(super) call: CallId,
    pub(super) tool: ToolName,
    pub(super) asked: Passages,
    /// brokerd's result, whose text the answer takes the place of.
    pub(super) result: CallResult,
    pub(super) due: VecDeque<Due>,
    pub(super) done: Vec<Entry>,
    pub(super) resumed: bool,
}

/// The passages in the result of a question to memory; none in any other result.
pub(super) fn asked(tool: &ToolName, result: &CallResult) -> Option<Passages> {
    let is_answerable = tool.as_str() == ASK_MEMORY && result.outcome == CallOutcome::Ok;
    serde_json::from_str(&result.content)
        .ok()
        .filter(|_| is_answerable)
}

impl Turn {
    /// Has a question answered; where nothing was found, that is the answer, and no model is asked.
    pub(super) fn answer_question(&mut self, question: Question) -> Vec<Command> {
        if question.asked.passages.is_empty() {
            let Question {
                due, resumed, done, ..
            } = question.clone();
            let (done, mut commands) = self.with_result(question, done, None);
            commands.extend(self.run(due, done, resumed));
            return commands;
        }
        // From here on the session has read them, whatever becomes of the call.
        let label = question.result.label.join(question.result.session_label);
        let risen = self.join(label).map(Command::Announce);
        self.question = Some(Box::new(question));
        let most = self.context.limits.answer_tokens.min(MEMORY_ANSWER_TOKENS);
        let commit = self.reserve_call(Stage::Memory, most, Vec::new());
        risen.into_iter().chain([Command::Commit(commit)]).collect()
    }

    /// The call for an answer ended, with one or without: commits what it cost with the result.
    pub(super) fn question_answered(
        &mut self,
        answer: Option<&ModelAnswer>,
        settle: Option<Settle>,
        release: Option<ModelCallId>,
    ) -> Vec<Command> {
        let Some(question) = self.question.take() else {
            return Vec::new();
        };
        let (due, resumed) = (question.due.clone(), question.resumed);
        let done = question.done.clone();
        let (done, mut commands) = self.with_result(*question, done, answer);
        for entry in &done {
            self.conversation.push(entry);
        }
        let commit = Commit {
            settle,
            release,
            ..self.commit(done)
        };
        self.state = State::Committing(Then::Tools { due, resumed });
        commands.push(Command::Commit(commit));
        commands
    }

    fn with_result(
        &mut self,
        question: Question,
        mut done: Vec<Entry>,
        answer: Option<&ModelAnswer>,
    ) -> (Vec<Entry>, Vec<Command>) {
        let most = self.context.limits.tool_result_bytes;
        let most = usize::try_from(most).unwrap_or(usize::MAX);
        let shown = present(&answered_from(&question.asked, answer), most);
        let result = CallResult {
            content: shown.text,
            raw_bytes: u64::try_from(shown.raw_bytes).unwrap_or(u64::MAX),
            ..question.result
        };
        let (entry, events) = self.result(question.call, question.tool, &result);
        done.push(entry);
        (done, events)
    }

    /// The results of a stopped turn's question and of the calls around it; none where there is no
    /// question.
    pub(super) fn stopped_question(&mut self) -> (Vec<Entry>, Vec<Command>) {
        let Some(question) = self.question.take() else {
            return (Vec::new(), Vec::new());
        };
        let text = "Not answered: the turn was stopped.";
        let result = CallResult {
            label: question.result.label,
            session_label: question.result.session_label,
            audit: question.result.audit,
            ..own_result(CallOutcome::Denied, Code::Stopped, text)
        };
        let mut done = question.done;
        let (entry, mut commands) = self.result(question.call, question.tool, &result);
        done.push(entry);
        let (results, events) = self.not_run(question.due, Code::Stopped);
        done.extend(results);
        commands.extend(events);
        (done, commands)
    }
}
