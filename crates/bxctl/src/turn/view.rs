//! The events of a turn as text. Pure.
//!
//! On a terminal the answer appears block by block while it is written; elsewhere it is printed
//! once, at the end, as it was written but for what a terminal would act on. What tools do goes
//! beside the answer in both cases.

use crate::output::{Blocks, Paint, Sanitizer, Style, one_line, render_markdown};
use bxcore::id::SessionId;
use bxcore::transcript::CallOutcome;
use bxcore::usage::Usage;
use bxcore::wire::approval::Awaiting;
use bxcore::wire::loopd::{TurnEvent, TurnReport, WaitReason};

/// The longest line about a tool call, in characters.
const MAX_CALL_CHARS: usize = 160;

/// How much of what is being written is shown in the moving line, in characters.
const MAX_TAIL_CHARS: usize = 60;

/// Something to show.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Piece {
    /// Part of the answer.
    Out(String),
    /// A line beside it.
    Note(String),
    /// What goes on, for a moving line only.
    Status(String),
    /// Why nothing goes on: worth a line of its own where none moves.
    Wait(String),
}

impl Piece {
    /// The same, below something else.
    fn indented(self) -> Self {
        match self {
            Self::Note(line) => Self::Note(format!("    {line}")),
            other => other,
        }
    }
}

/// How answers are shown.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Looks {
    /// Whether the answer goes to a terminal.
    pub(crate) live: bool,
    /// Colours of the answer.
    pub(crate) paint_out: Paint,
    /// Colours beside it.
    pub(crate) paint_err: Paint,
    /// How wide the answer is, in columns.
    pub(crate) columns: usize,
}

/// Turns events into text.
#[derive(Debug)]
pub(crate) struct View {
    looks: Looks,
    sanitizer: Sanitizer,
    blocks: Blocks,
    /// Whether part of the current answer is on the terminal.
    shown: bool,
    /// Whether anything at all is: then the next block is set off by an empty line.
    begun: bool,
}

impl View {
    pub(crate) fn new(looks: Looks) -> Self {
        Self {
            looks,
            sanitizer: Sanitizer::default(),
            blocks: Blocks::default(),
            shown: false,
            begun: false,
        }
    }

    /// What an event shows.
    pub(crate) fn on(&mut self, event: &TurnEvent) -> Vec<Piece> {
        match event {
            TurnEvent::Waiting { reason } => vec![Piece::Wait(waiting(reason))],
            TurnEvent::Started { backend, .. } => {
                vec![Piece::Status(format!("{backend} is asked …"))]
            }
            TurnEvent::Prefill { progress } => vec![Piece::Status(format!(
                "reading: {} of {} tokens",
                progress.processed, progress.total
            ))],
            TurnEvent::Reasoning { text } => {
                vec![Piece::Status(format!("thinking: {}", tail(text)))]
            }
            TurnEvent::Delta { text } => self.delta(text),
            TurnEvent::Retract => self.retract(),
            TurnEvent::ToolCall {
                tool, arguments, ..
            } => {
                let call = format!("{tool} {arguments}");
                let call = one_line(&call, MAX_CALL_CHARS);
                let mark = self.looks.paint_err.paint(Style::Dim, "→");
                vec![
                    Piece::Note(format!("{mark} {call}")),
                    Piece::Status(format!("{tool} runs …")),
                ]
            }
            TurnEvent::Approval { awaiting, .. } => vec![Piece::Wait(approval(awaiting))],
            TurnEvent::ToolResult {
                outcome,
                code,
                preview,
                ..
            } => {
                vec![Piece::Note(self.result(*outcome, code.as_ref(), preview))]
            }
            TurnEvent::Label { label } => {
                let text = format!("the session is now {label}");
                vec![Piece::Note(self.looks.paint_err.paint(Style::Dim, &text))]
            }
            TurnEvent::Child { session, event } => self.child(session, event),
            TurnEvent::End { report } => self.end(report),
            TurnEvent::Refused { .. } => Vec::new(),
        }
    }

    /// What a helper does: its tools, its end and what it waits for, set off from the session's own.
    fn child(&self, session: &SessionId, event: &TurnEvent) -> Vec<Piece> {
        let dim = |text: &str| self.looks.paint_err.paint(Style::Dim, text);
        match event {
            TurnEvent::Started { .. } => vec![Piece::Note(dim(&format!("  ⤷ {session} begins")))],
            TurnEvent::End { report } => {
                vec![Piece::Note(dim(&format!("  ⤷ {}", summary(report))))]
            }
            TurnEvent::Refused { problem } => {
                vec![Piece::Note(format!("  ⤷ {session}: {problem}"))]
            }
            // What it says is for the session, and comes as the result of its call.
            TurnEvent::Delta { .. } | TurnEvent::Reasoning { .. } | TurnEvent::Retract => {
                vec![Piece::Status(format!("{session} works …"))]
            }
            TurnEvent::Label { label } => {
                vec![Piece::Note(dim(&format!("  ⤷ {session} is now {label}")))]
            }
            other => {
                // None of these changes what is shown of the answer.
                let pieces = Self::new(self.looks).on(other);
                pieces.into_iter().map(Piece::indented).collect()
            }
        }
    }

    fn delta(&mut self, text: &str) -> Vec<Piece> {
        if !self.looks.live {
            return Vec::new();
        }
        let safe = self.sanitizer.feed(text);
        let done = self.blocks.push(&safe);
        let mut pieces: Vec<Piece> = done.iter().map(|block| self.block(block)).collect();
        pieces.push(Piece::Status(format!(
            "writing: {}",
            tail(self.blocks.pending())
        )));
        pieces
    }

    /// What was said before a tool call is no answer. What is on the terminal stays there, marked.
    fn retract(&mut self) -> Vec<Piece> {
        self.sanitizer = Sanitizer::default();
        self.blocks = Blocks::default();
        if std::mem::take(&mut self.shown) {
            let text = "(the above was no answer yet)";
            return vec![Piece::Note(self.looks.paint_err.paint(Style::Dim, text))];
        }
        Vec::new()
    }

    fn end(&mut self, report: &TurnReport) -> Vec<Piece> {
        if !self.looks.live {
            // A pipe may well lead to a terminal in the end.
            let answer = crate::output::sanitize(&report.answer);
            if answer.is_empty() {
                return Vec::new();
            }
            let line_end = if answer.ends_with('\n') { "" } else { "\n" };
            return vec![Piece::Out(format!("{answer}{line_end}"))];
        }
        let rest = match self.blocks.finish() {
            Some(rest) => Some(rest),
            // Nothing was streamed: a stored answer, or a door that only reports.
            None if !self.shown => Some(crate::output::sanitize(&report.answer)),
            None => None,
        };
        let rest = rest.filter(|rest| !rest.trim().is_empty());
        rest.iter().map(|block| self.block(block)).collect()
    }

    fn block(&mut self, markdown: &str) -> Piece {
        let text = render_markdown(markdown, self.looks.columns, self.looks.paint_out);
        let gap = if self.begun { "\n" } else { "" };
        self.shown = true;
        self.begun = true;
        Piece::Out(format!("{gap}{text}"))
    }

    fn result(
        &self,
        outcome: CallOutcome,
        code: Option<&bxcore::code::Code>,
        preview: &str,
    ) -> String {
        let (style, word) = match outcome {
            CallOutcome::Ok => (Style::Good, "ok"),
            CallOutcome::Failed => (Style::Bad, "failed"),
            CallOutcome::Denied => (Style::Warn, "denied"),
            CallOutcome::Interrupted => (Style::Warn, "interrupted"),
        };
        let word = self.looks.paint_err.paint(style, word);
        let code = code.map(|code| format!(" [{code}]")).unwrap_or_default();
        let preview = one_line(preview, MAX_CALL_CHARS);
        let line = format!(
            "  {word}{code} {}",
            self.looks.paint_err.paint(Style::Dim, &preview)
        );
        line.trim_end().to_owned()
    }
}

/// The end of a text that is being written, as one line.
fn tail(text: &str) -> String {
    let skip = text.chars().count().saturating_sub(MAX_TAIL_CHARS);
    let tail: String = text.chars().skip(skip).collect();
    one_line(&tail, MAX_TAIL_CHARS)
}

fn approval(awaiting: &Awaiting) -> String {
    let Awaiting { approval, expires } = awaiting;
    format!("waiting for your approval until {expires}: `boxmaker approve {approval}`")
}

fn waiting(reason: &WaitReason) -> String {
    match reason {
        WaitReason::Session => "waiting: another turn holds the session".to_owned(),
        WaitReason::Slot { ahead } => format!("waiting for a slot: {ahead} ahead"),
        WaitReason::Loading => "waiting: the server loads its model".to_owned(),
        WaitReason::Draining => {
            "waiting: the server still ends a request that was stopped".to_owned()
        }
        WaitReason::Again => {
            "the way to the model broke off in the middle: the answer starts again".to_owned()
        }
        WaitReason::RetryAfter { ms } => {
            format!(
                "waiting: the server asked for a pause of {}",
                crate::output::duration(*ms)
            )
        }
    }
}

/// One line on how a turn went.
pub(crate) fn summary(report: &TurnReport) -> String {
    format!(
        "{} · {} · {} · {}{}",
        report.session,
        report.outcome.name(),
        report.label,
        used(&report.usage),
        cost(&report.cost_usd)
    )
}

/// What a turn used: what was measured, and apart from it what was only charged.
pub(crate) fn used(usage: &Usage) -> String {
    let calls = if usage.model_calls == 1 {
        "call"
    } else {
        "calls"
    };
    let mut text = format!(
        "{} model {calls}, {} tokens read ({} cached), {} written",
        usage.model_calls,
        usage.prompt_tokens.saturating_sub(usage.assumed_tokens),
        usage.cache_n,
        usage.completion_tokens
    );
    if usage.assumed_tokens > 0 {
        text.push_str(&format!(
            ", {} more charged for what broke off, the most it can have used",
            usage.assumed_tokens
        ));
    }
    text
}

/// What a turn cost; a local model costs nothing, which is not worth a word.
pub(crate) fn cost(usd: &str) -> String {
    if usd.bytes().all(|byte| matches!(byte, b'0' | b'.')) {
        return String::new();
    }
    format!(" · ${usd}")
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::{Value, json};

    fn looks(live: bool) -> Looks {
        Looks {
            live,
            paint_out: Paint::Plain,
            paint_err: Paint::Plain,
            columns: 40,
        }
    }

    /// The pieces of a whole turn, one a line.
    fn show(live: bool, events: &[Value]) -> String {
        let mut view = View::new(looks(live));
        let mut text = String::new();
        for event in events {
            let event: TurnEvent = serde_json::from_value(event.clone()).unwrap();
            for piece in view.on(&event) {
                let (kind, piece) = match piece {
                    Piece::Out(piece) => ("out   ", piece),
                    Piece::Note(piece) => ("note  ", piece),
                    Piece::Status(piece) => ("status", piece),
                    Piece::Wait(piece) => ("wait  ", piece),
                };
                text.push_str(&format!("{kind} {piece:?}\n"));
            }
        }
        text
    }

    fn end(outcome: &str, answer: &str) -> Value {
        json!({"type": "end", "report": {
            "session": "chat-1", "outcome": outcome, "answer": answer,
            "label": {"class": "private", "untrusted": false}, "calls": [],
            "usage": {"model_calls": 2, "prompt_tokens": 300, "completion_tokens": 20, "cache_n": 250},
            "cost_usd": "0.000000"
        }})
    }

    fn a_turn() -> Vec<Value> {
        vec![
            json!({"type": "waiting", "reason": {"for": "slot", "ahead": 2}}),
            json!({"type": "started", "session": "chat-1", "turn": 1, "backend": "local"}),
            json!({"type": "prefill", "progress": {"total": 300, "processed": 64}}),
            json!({"type": "reasoning", "text": "hm\u{1b}[2J"}),
            json!({"type": "delta", "text": "Let me look.\n\nNow"}),
            json!({"type": "retract"}),
            json!({"type": "tool_call", "call": 1, "tool": "read_file", "arguments": "{\"path\":\"a\u{1b}[31m\"}"}),
            json!({"type": "tool_result", "call": 1, "tool": "read_file", "outcome": "ok", "preview": "line\nline"}),
            json!({"type": "tool_call", "call": 2, "tool": "shell", "arguments": "{}"}),
            json!({"type": "tool_result", "call": 2, "tool": "shell", "outcome": "denied", "code": "no-grant", "preview": ""}),
            json!({"type": "label", "label": {"class": "private", "untrusted": true}}),
            json!({"type": "delta", "text": "# It is\n\n"}),
            json!({"type": "delta", "text": "**done**\u{1b}]0;x\u{7}"}),
            end("completed", "# It is\n\n**done**\u{1b}]0;x\u{7}"),
        ]
    }

    #[test]
    fn a_turn_on_a_terminal() {
        insta::assert_snapshot!(show(true, &a_turn()), @r#"
        wait   "waiting for a slot: 2 ahead"
        status "local is asked …"
        status "reading: 64 of 300 tokens"
        status "thinking: hm"
        out    "Let me look.\n"
        status "writing: Now"
        note   "(the above was no answer yet)"
        note   "→ read_file {\"path\":\"a\"}"
        status "read_file runs …"
        note   "  ok line line"
        note   "→ shell {}"
        status "shell runs …"
        note   "  denied [no-grant]"
        note   "the session is now private, untrusted"
        status "writing: # It is"
        out    "\nIt is\n"
        status "writing: **done**"
        out    "\ndone\n"
        "#);
    }

    #[test]
    fn a_turn_into_a_pipe_is_the_bare_answer() {
        insta::assert_snapshot!(show(false, &a_turn()), @r##"
        wait   "waiting for a slot: 2 ahead"
        status "local is asked …"
        status "reading: 64 of 300 tokens"
        status "thinking: hm"
        note   "→ read_file {\"path\":\"a\"}"
        status "read_file runs …"
        note   "  ok line line"
        note   "→ shell {}"
        status "shell runs …"
        note   "  denied [no-grant]"
        note   "the session is now private, untrusted"
        out    "# It is\n\n**done**\n"
        "##);
    }

    #[test]
    fn an_answer_that_was_never_streamed_is_shown_once() {
        insta::assert_snapshot!(show(true, &[end("completed", "so *it* is")]), @r#"out    "so it is\n""#);
        assert_eq!(show(true, &[end("failed", "")]), "");
        assert_eq!(show(false, &[end("failed", "")]), "");
    }

    #[test]
    fn a_helper_is_seen_at_work_and_its_helpers_too() {
        let of = |session: &str, event: Value| json!({"type": "child", "session": session, "event": event});
        let mut report = end("completed", "six");
        report["report"]["session"] = "sub-chat-1-1".into();
        let events = [
            json!({"type": "tool_call", "call": 1, "tool": "subagent", "arguments": "{}"}),
            of(
                "sub-chat-1-1",
                json!({"type": "started", "session": "sub-chat-1-1", "turn": 1, "backend": "local"}),
            ),
            of(
                "sub-chat-1-1",
                json!({"type": "tool_call", "call": 1, "tool": "read_file", "arguments": "{}"}),
            ),
            of(
                "sub-chat-1-1",
                of(
                    "sub-sub-chat-1-1-2",
                    json!({"type": "tool_call", "call": 1, "tool": "clock", "arguments": "{}"}),
                ),
            ),
            of("sub-chat-1-1", json!({"type": "delta", "text": "six"})),
            of("sub-chat-1-1", report),
        ];
        insta::assert_snapshot!(show(true, &events), @r#"
        note   "→ subagent {}"
        status "subagent runs …"
        note   "  ⤷ sub-chat-1-1 begins"
        note   "    → read_file {}"
        status "read_file runs …"
        note   "        → clock {}"
        status "clock runs …"
        status "sub-chat-1-1 works …"
        note   "  ⤷ sub-chat-1-1 · completed · private · 2 model calls, 300 tokens read (250 cached), 20 written"
        "#);
    }

    #[test]
    fn every_wait_has_its_words() {
        let reasons = [
            json!({"for": "session"}),
            json!({"for": "loading"}),
            json!({"for": "draining"}),
            json!({"for": "retry-after", "ms": 2000}),
            json!({"for": "again"}),
        ];
        let mut events: Vec<Value> = reasons
            .iter()
            .map(|reason| json!({"type": "waiting", "reason": reason}))
            .collect();
        let awaiting = json!({"approval": "0a1b2c3d", "expires": "2026-12-01T11:00:00Z"});
        events.push(json!({"type": "approval", "call": 1, "tool": "shell", "awaiting": awaiting}));
        insta::assert_snapshot!(show(true, &events), @r#"
        wait   "waiting: another turn holds the session"
        wait   "waiting: the server loads its model"
        wait   "waiting: the server still ends a request that was stopped"
        wait   "waiting: the server asked for a pause of 2 s"
        wait   "the way to the model broke off in the middle: the answer starts again"
        wait   "waiting for your approval until 2026-12-01T11:00:00Z: `boxmaker approve 0a1b2c3d`"
        "#);
    }

    #[test]
    fn the_summary_has_label_and_cost() {
        let TurnEvent::End { report } = serde_json::from_value(end("completed", "x")).unwrap()
        else {
            panic!("not an end");
        };
        insta::assert_snapshot!(summary(&report), @"chat-1 · completed · private · 2 model calls, 300 tokens read (250 cached), 20 written");
        let mut report = report;
        report.cost_usd = "0.001500".into();
        report.usage.prompt_tokens += 2_603;
        report.usage.assumed_tokens = 2_603;
        insta::assert_snapshot!(summary(&report), @"chat-1 · completed · private · 2 model calls, 300 tokens read (250 cached), 20 written, 2603 more charged for what broke off, the most it can have used · $0.001500");
    }
}
