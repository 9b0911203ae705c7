//! Results that a model call of its own makes: the answer to a question to memory, from passages that
//! brokerd has found and whose label it has joined; and the summary of a long result.
//!
//! Where none can be had, the passages are the result, or the beginning of the text. A stop ends it
//! like any other call that was not run to its end.

use super::command::{Command, Commit, Settle};
use super::machine::{State, Then, Turn};
use super::results::{Due, own_result};
use crate::prompt::{Beside, MEMORY_ANSWER_TOKENS};
use bxcore::chat::ModelAnswer;
use bxcore::code::Code;
use bxcore::id::{CallId, ModelCallId};
use bxcore::memory::ASK_MEMORY;
use bxcore::text::present;
use bxcore::tool::{CORE_TOOLS, ToolName, is_loopds_own};
use bxcore::transcript::{CallOutcome, Entry};
use bxcore::wire::brokerd::CallResult;
use std::collections::VecDeque;

/// How much longer than its cap a result is by the line that says so, in bytes.
const MARKER_BYTES: usize = 128;

/// A tool's result that a model is to make something of, and the calls around it.
#[derive(Debug, Clone)]
pub(super) struct Question {
    pub(super) call: CallId,
    pub(super) tool: ToolName,
    pub(super) asked: Beside,
    /// The result, whose text the answer takes the place of.
    pub(super) result: CallResult,
    pub(super) due: VecDeque<Due>,
    pub(super) done: Vec<Entry>,
    pub(super) resumed: bool,
}

impl Turn {
    /// What is to be made of a result by a model; none where it stays as it is.
    pub(super) fn asked(&self, tool: &ToolName, result: &CallResult) -> Option<Beside> {
        if self.stopping || result.outcome != CallOutcome::Ok {
            return None;
        }
        let name = tool.as_str();
        if name == ASK_MEMORY {
            return serde_json::from_str(&result.content)
                .ok()
                .map(Beside::Memory);
        }
        // What core tools and helpers give is short, or has a form.
        let is_text = !CORE_TOOLS.contains(&name) && !is_loopds_own(name);
        let is_long = result.content.len() > self.result_bytes() + MARKER_BYTES;
        let is_wanted = self.context.summarise.results && is_text && is_long;
        is_wanted.then(|| Beside::Long(result.content.clone()))
    }

    /// A result as long as one may be. More was asked for where long ones are summed up.
    pub(super) fn capped(&self, result: CallResult) -> CallResult {
        if result.content.len() <= self.result_bytes() + MARKER_BYTES {
            return result;
        }
        let shown = present(&result.content, self.result_bytes());
        CallResult {
            content: shown.text,
            ..result
        }
    }

    fn result_bytes(&self) -> usize {
        usize::try_from(self.context.limits.tool_result_bytes).unwrap_or(usize::MAX)
    }

    /// Has a question answered; where nothing was found, that is the answer, and no model is asked.
    pub(super) fn answer_question(&mut self, question: Question) -> Vec<Command> {
        let is_nothing =
            matches!(&question.asked, Beside::Memory(asked) if asked.passages.is_empty());
        if is_nothing {
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
        let stage = question.asked.stage();
        self.question = Some(Box::new(question));
        let most = self.context.limits.answer_tokens.min(MEMORY_ANSWER_TOKENS);
        let commit = self.reserve_call(stage, most, Vec::new());
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
        let rules = &self.context.compact;
        let result = CallResult {
            content: question.asked.result(answer, rules, self.result_bytes()),
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
