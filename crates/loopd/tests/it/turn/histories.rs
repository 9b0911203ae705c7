//! Random histories: any model, any failure, a crash at any moment.
//!
//! `PROPTEST_CASES` sets how many conversations are tried.

use super::tape::Tape;
use super::template;
use super::world::{self, OfContext as _, Store, TOOL_ITERATIONS, entries};
use bxcore::id::{CallId, TurnId};
use bxcore::label::Label;
use bxcore::money::MicroUsd;
use bxcore::transcript::{Entry, ToolMode};
use bxcore::wire::inferproxy::BackendInfo;
use bxcore::wire::loopd::{TurnEvent, TurnReport};
use bxtest::contract::{Checker, Dialect, Rules};
use bytes::Bytes;
use loopd::config::{Compact, Sampling};
use loopd::prompt::{Conversation, Stage};
use loopd::turn::{Command, Input, Turn, unfinished};
use proptest::prelude::*;
use serde_json::Value;
use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

/// More commands than any turn here can give.
const MAX_COMMANDS: usize = 2_000;
/// Crashes, failed commits and stops in one history.
const MAX_TROUBLES: usize = 6;

struct History {
    tape: Tape,
    store: Store,
    backend: BackendInfo,
    checker: Checker,
    requests: usize,
    troubles: usize,
    seen: Option<Seen>,
    /// How many tokens fit.
    context_tokens: u64,
}

/// The last request's parts that the next one is held to.
struct Seen {
    epoch: u64,
    messages: Bytes,
    frozen: BTreeMap<String, String>,
}

/// How one life of the process ended.
enum Life {
    Ended(Box<TurnReport>),
    Crashed,
}

impl History {
    fn new(bytes: Vec<u8>, mode: ToolMode) -> Self {
        let mut tape = Tape::new(bytes);
        let limit = if tape.rarely(3) { 30_000 } else { 10_000_000 };
        let mut store = Store::new(limit);
        if tape.rarely(4) {
            store.usd_limit = MicroUsd::from_micros(2_500).ok();
        }
        store.summarise.results = tape.rarely(2);
        let mut context_tokens = 100_000;
        if tape.rarely(2) {
            // Small enough that conversations are summed up all the time.
            context_tokens = 3_000;
            store.compact = Arc::new(Compact {
                at_percent: 30,
                keep_percent: 10,
                summary_chars: 400,
                ..Compact::default()
            });
        }
        Self {
            tape,
            store,
            backend: world::backend(mode, "one").of_context(context_tokens),
            context_tokens,
            checker: Checker::new(Rules::strict(Dialect::LlamaServer)),
            requests: 0,
            troubles: 0,
            seen: None,
        }
    }

    fn trouble(&mut self, odds: u8) -> bool {
        let happens = self.troubles < MAX_TROUBLES && self.tape.rarely(odds);
        self.troubles += usize::from(happens);
        happens
    }

    fn converse(&mut self) {
        for number in 1..=6 {
            self.turn(number);
            if self.tape.is_over() {
                break;
            }
            if self.trouble(8) {
                let (mode, name) = match self.tape.below(3) {
                    0 => (ToolMode::Native, "two"),
                    1 => (ToolMode::Schema, "three"),
                    _ => (self.backend.tools, "four"),
                };
                self.backend = world::backend(mode, name).of_context(self.context_tokens);
            }
        }
    }

    fn turn(&mut self, number: u64) {
        let text = format!("Question {number}");
        for _ in 0..=MAX_TROUBLES {
            if self.is_stored(number) {
                // Killed after its end was stored: there is nothing to resume and nobody to tell.
                return;
            }
            let lines = self.store.lines.clone();
            let conversation = Conversation::from_lines(&lines);
            let context = self.store.context(&world::session());
            let begun = match unfinished(&lines) {
                Some(rest) => {
                    let epoch = conversation.next_epoch(&self.backend, &Sampling::default());
                    Turn::resume(context, conversation, epoch, rest).unwrap()
                }
                None => {
                    let opening = world::opening(&conversation, &self.backend, &text);
                    assert_eq!(opening.turn(), TurnId(number));
                    Turn::begin(context, conversation, opening).unwrap()
                }
            };
            match self.live(begun) {
                Life::Ended(report) if self.is_stored(number) => {
                    return self.check_turn(number, &report);
                }
                Life::Ended(_) | Life::Crashed => self.store.recover(),
            }
        }
        panic!("more troubles than there are");
    }

    fn is_stored(&self, number: u64) -> bool {
        let last = self.store.lines.last();
        last.is_some_and(|line| matches!(&line.entry, Entry::TurnEnd(end) if end.turn.0 == number))
    }

    fn live(&mut self, (mut turn, first): (Turn, Vec<Command>)) -> Life {
        let mut queue = VecDeque::from(first);
        let mut started = false;
        for _ in 0..MAX_COMMANDS {
            let command = queue
                .pop_front()
                .expect("a turn says what to do until it ends");
            if let Command::End(report) = command {
                assert!(queue.is_empty() && started && turn.is_over());
                self.check_conversation(turn);
                return Life::Ended(report);
            }
            if let Command::Announce(event) = &command {
                assert_eq!(matches!(event, TurnEvent::Started { .. }), !started);
                started = true;
                continue;
            }
            if self.trouble(40) {
                queue.extend(turn.on(Input::Stop).unwrap());
            }
            let Some(input) = self.perform(&mut turn, command) else {
                return Life::Crashed;
            };
            if let Some(input) = input {
                queue.extend(turn.on(input).unwrap());
            }
        }
        panic!("the turn never ends");
    }

    /// Performs a command. `None` is a crash; an inner `None` is no input.
    #[expect(clippy::option_option, reason = "the two levels are named above")]
    fn perform(&mut self, turn: &mut Turn, command: Command) -> Option<Option<Input>> {
        match command {
            Command::Commit(commit) => {
                if self.trouble(20) {
                    return None;
                }
                if self.trouble(60) {
                    let problem =
                        bxcore::problem::Problem::new(bxcore::code::Code::DiskFull, "full");
                    return Some(Some(Input::CommitFailed { problem }));
                }
                let reserved = self.store.commit(&commit);
                if self.trouble(20) {
                    return None;
                }
                Some(Some(Input::Committed { reserved }))
            }
            Command::CallModel(call) => {
                let body = turn.body(Some(0)).unwrap();
                let prompt_tokens = match call.stage {
                    Stage::Summary | Stage::Memory | Stage::Result => self.check_aside(body),
                    Stage::Open | Stage::Last => self.check_request(turn, body),
                };
                if self.trouble(20) {
                    return None;
                }
                let answer = world::any_answer(&mut self.tape, self.backend.tools, call.stage);
                let Some(room) = self.context_tokens.checked_sub(prompt_tokens) else {
                    return Some(Some(world::too_long()));
                };
                let most = call.max_tokens.min(u32::try_from(room).unwrap());
                let (answer, completion_tokens) = template::written(answer, most);
                let receipt = world::receipt(prompt_tokens, completion_tokens);
                if self.trouble(12) {
                    return Some(Some(world::any_failure(&mut self.tape, receipt)));
                }
                Some(Some(Input::Answered { answer, receipt }))
            }
            Command::RunTool(run) => {
                if self.trouble(20) {
                    return None;
                }
                let result = world::any_result(&mut self.tape, &run, self.backend.tools);
                Some(Some(Input::ToolEnded {
                    call: run.call,
                    result,
                }))
            }
            Command::StopModel { .. } | Command::StopTool { .. } => Some(None),
            Command::Announce(_) | Command::End(_) => unreachable!(),
        }
    }

    /// Checks a request by the rules of the scripted server and by our own of the prefix contract;
    /// gives its prompt's tokens.
    fn check_request(&mut self, turn: &Turn, body: Bytes) -> u64 {
        let replayed = Conversation::from_lines(&self.store.lines);
        assert_eq!(
            String::from_utf8_lossy(replayed.messages()),
            String::from_utf8_lossy(turn.conversation().messages()),
            "entries replay to the same conversation"
        );
        let epoch = turn.conversation().epoch().unwrap().id.0;
        let messages = Bytes::copy_from_slice(turn.conversation().messages());
        let mut members: BTreeMap<String, Box<serde_json::value::RawValue>> =
            serde_json::from_slice(&body).unwrap();
        let sent = members.remove("messages").unwrap();
        assert_eq!(sent.get().as_bytes(), [b"[", &*messages, b"]"].concat());
        let sent: Vec<Value> = serde_json::from_str(sent.get()).unwrap();
        let prompt_tokens = template::prompt_tokens(members.get("tools").map(|raw| &**raw), &sent);
        for free in ["tool_choice", "grammar", "max_tokens", "id_slot"] {
            members.remove(free);
        }
        let frozen = members
            .into_iter()
            .map(|(key, value)| (key, value.get().to_owned()))
            .collect();
        match &self.seen {
            Some(seen) if seen.epoch == epoch => {
                assert!(
                    messages.starts_with(&seen.messages),
                    "a request extends the one before"
                );
                assert_eq!(seen.frozen, frozen);
            }
            _ => self.checker.allow_new_epochs(1),
        }
        self.seen = Some(Seen {
            epoch,
            messages,
            frozen,
        });
        let seen = self.checker.observe(self.requests, body);
        assert!(seen.breaches.is_empty(), "{:?}", seen.breaches);
        self.requests += 1;
        prompt_tokens
    }

    /// Checks a request that is no part of the conversation.
    fn check_aside(&mut self, body: Bytes) -> u64 {
        let sent: Value = serde_json::from_slice(&body).unwrap();
        assert!(sent.get("tools").is_none());
        let messages = sent["messages"].as_array().unwrap();
        let roles: Vec<_> = messages.iter().map(|message| &message["role"]).collect();
        assert_eq!(roles, ["system", "user"]);
        let prompt_tokens = template::prompt_tokens(None, messages);
        assert!(prompt_tokens <= self.context_tokens, "{prompt_tokens}");
        let seen = self.checker.observe(self.requests, body);
        assert!(seen.breaches.is_empty(), "{:?}", seen.breaches);
        self.requests += 1;
        prompt_tokens
    }

    fn check_conversation(&self, turn: Turn) {
        let Some(kept) = turn.into_conversation() else {
            // A commit failed; the next life loads what is stored.
            return;
        };
        let replayed = Conversation::from_lines(&self.store.lines);
        assert_eq!(kept.messages(), replayed.messages());
        assert_eq!(kept.prompt_bound(), replayed.prompt_bound());
        assert_eq!(kept.next_call(), replayed.next_call());
        assert_eq!(kept.label(), replayed.label());
    }

    fn check_turn(&self, number: u64, report: &TurnReport) {
        let mut wanted: BTreeMap<CallId, usize> = BTreeMap::new();
        let mut model_calls = 0;
        let mut label = Label::BOTTOM;
        let mut ends = Vec::new();
        for entry in entries(&self.store.lines) {
            match entry {
                Entry::Assistant(assistant) if assistant.turn == TurnId(number) => {
                    model_calls += 1;
                    for call in &assistant.calls {
                        assert_eq!(
                            wanted.insert(call.call, 0),
                            None,
                            "a call's number is its own"
                        );
                    }
                }
                Entry::Tool(tool) => {
                    label = label.join(tool.label);
                    if tool.turn == TurnId(number) {
                        *wanted.get_mut(&tool.call).expect("a result has its call") += 1;
                    }
                }
                Entry::TurnEnd(end) if end.turn == TurnId(number) => ends.push(end),
                _ => {}
            }
        }
        assert!(
            wanted.values().all(|results| *results == 1),
            "each call has one result: {wanted:?}"
        );
        assert!(model_calls <= TOOL_ITERATIONS + 1, "{model_calls} answers");
        assert_eq!(ends.len(), 1);
        assert_eq!(ends[0].outcome, report.outcome);
        assert_eq!(ends[0].usage, report.usage);
        assert_eq!(report.calls.len(), wanted.len());
        assert!(label.is_within(report.label));
        assert!(self.store.open.is_empty());
        let cost: MicroUsd = entries(&self.store.lines)
            .filter_map(|entry| match entry {
                Entry::TurnEnd(end) => Some(end.cost),
                _ => None,
            })
            .sum();
        assert_eq!(cost, self.store.spent.usd, "and so is the money");
        let total: u64 = entries(&self.store.lines)
            .filter_map(|entry| match entry {
                Entry::TurnEnd(end) => Some(end.usage.tokens()),
                _ => None,
            })
            .sum();
        assert_eq!(
            total, self.store.spent.tokens,
            "what turns report is what was charged"
        );
    }
}

fn cases() -> ProptestConfig {
    /// As many as the prefix contract is promised for.
    const CONVERSATIONS: u32 = 1_000;
    let asked = std::env::var("PROPTEST_CASES")
        .ok()
        .and_then(|text| text.parse().ok());
    ProptestConfig {
        cases: asked.unwrap_or(CONVERSATIONS),
        ..ProptestConfig::default()
    }
}

proptest! {
    #![proptest_config(cases())]

    #[test]
    fn every_history_keeps_the_rules(
        bytes in prop::collection::vec(any::<u8>(), 0..400),
        schema in any::<bool>(),
    ) {
        let mode = if schema { ToolMode::Schema } else { ToolMode::Native };
        History::new(bytes, mode).converse();
    }
}
