//! A session on the test's world whose model and tools do as they are told, turn after turn.

use super::world::{self, OfContext as _, Store, entries};
use bxcore::chat::ModelAnswer;
use bxcore::label::Label;
use bxcore::transcript::{CallOutcome, Entry, ToolMode};
use bxcore::wire::brokerd::CallResult;
use bxcore::wire::loopd::{TurnEvent, TurnReport};
use loopd::prompt::Conversation;
use loopd::turn::{Command, Input, ModelCall, RunTool, Turn};
use std::collections::VecDeque;

/// A session whose model and tools do as they are told.
pub(super) struct Course {
    pub(super) store: Store,
    pub(super) mode: ToolMode,
    pub(super) context_tokens: u64,
    pub(super) conversation: Conversation,
    pub(super) events: Vec<TurnEvent>,
    pub(super) bodies: Vec<String>,
    pub(super) calls: Vec<ModelCall>,
    pub(super) runs: Vec<RunTool>,
}

pub(super) type Model<'a> = &'a mut dyn FnMut(&ModelCall) -> Input;
pub(super) type Tools<'a> = &'a mut dyn FnMut(&RunTool) -> CallResult;

impl Course {
    pub(super) fn new(mode: ToolMode, limit: u64) -> Self {
        Self {
            store: Store::new(limit),
            mode,
            context_tokens: 100_000,
            conversation: Conversation::default(),
            events: Vec::new(),
            bodies: Vec::new(),
            calls: Vec::new(),
            runs: Vec::new(),
        }
    }

    pub(super) fn begin(&mut self, text: &str) -> (Turn, Vec<Command>) {
        let conversation = std::mem::take(&mut self.conversation);
        let backend = world::backend(self.mode, "one").of_context(self.context_tokens);
        let opening = world::opening(&conversation, &backend, text);
        Turn::begin(self.store.context(&world::session()), conversation, opening).unwrap()
    }

    /// A turn that has come as far as its first model call.
    pub(super) fn calling(&mut self, text: &str) -> Turn {
        let (mut turn, commands) = self.begin(text);
        let Command::Commit(commit) = &commands[1] else {
            panic!("a turn begins with a commit: {commands:?}")
        };
        let reserved = self.store.commit(commit);
        turn.on(Input::Committed { reserved }).unwrap();
        turn
    }

    pub(super) fn run(
        &mut self,
        begun: (Turn, Vec<Command>),
        model: Model<'_>,
        tools: Tools<'_>,
    ) -> TurnReport {
        let (mut turn, first) = begun;
        let mut queue = VecDeque::from(first);
        loop {
            let input = match queue.pop_front().unwrap() {
                Command::Commit(commit) => Input::Committed {
                    reserved: self.store.commit(&commit),
                },
                Command::CallModel(call) => {
                    let body = turn.body(Some(0)).unwrap();
                    self.bodies.push(String::from_utf8(body.to_vec()).unwrap());
                    self.calls.push(call);
                    model(&call)
                }
                Command::RunTool(run) => {
                    self.runs.push(run.clone());
                    Input::ToolEnded {
                        call: run.call,
                        result: tools(&run),
                    }
                }
                Command::Announce(event) => {
                    self.events.push(event);
                    continue;
                }
                Command::End(report) => {
                    self.conversation = turn.into_conversation().unwrap();
                    return *report;
                }
                Command::StopModel { .. } | Command::StopTool { .. } => continue,
            };
            queue.extend(turn.on(input).unwrap());
        }
    }

    /// One turn of a model that gives these answers.
    pub(super) fn answers(&mut self, text: &str, answers: Vec<ModelAnswer>) -> TurnReport {
        let begun = self.begin(text);
        let mut answers = answers.into_iter();
        let mut model = |_: &ModelCall| answered(answers.next().expect("no more answers"));
        self.run(begun, &mut model, &mut |_| ok("content"))
    }
}

pub(super) fn answered(answer: ModelAnswer) -> Input {
    Input::Answered {
        answer,
        receipt: world::receipt(100, 10),
    }
}

pub(super) fn ok(content: &str) -> CallResult {
    world::result(CallOutcome::Ok, content, Label::OWNER)
}

pub(super) fn kinds(course: &Course) -> Vec<&'static str> {
    entries(&course.store.lines)
        .map(|entry| match entry {
            Entry::Open(_) => "open",
            Entry::Epoch(_) => "epoch",
            Entry::User(_) => "user",
            Entry::Assistant(_) => "assistant",
            Entry::Tool(_) => "tool",
            Entry::TurnEnd(_) => "end",
        })
        .collect()
}
