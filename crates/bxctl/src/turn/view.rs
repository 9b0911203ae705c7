//! The events of a turn as text. Pure.
//!
//! On a terminal the answer appears block by block while it is written; elsewhere it is printed
//! once, at the end, as it was written but for what a terminal would act on. What tools do goes
//! beside the answer in both cases.

use crate::output::{Blocks, Paint, Sanitizer, Style, one_line, render_markdown};
use bxcore::code::Code;
use bxcore::id::SessionId;
use bxcore::transcript::CallOutcome;
use bxcore::usage::Usage;
use bxcore::wire::approval::Awaiting;
use bxcore::wire::loopd::{TurnEvent, TurnReport, WaitReason};
use jiff::Timestamp;

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
    /// Whose turn it is, once it has begun.
    session: Option<SessionId>,
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
            session: None,
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
            TurnEvent::Started {
                backend, session, ..
            } => {
                self.session = Some(session.clone());
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
                tool,
                outcome,
                code,
                preview,
                ..
            } => {
                let line = self.result(tool.as_str(), *outcome, *code, preview);
                let way = code.and_then(|code| self.way_on(tool.as_str(), code));
                std::iter::once(line).chain(way).map(Piece::Note).collect()
            }
            TurnEvent::Compacted { problem } => {
                let text = match problem {
                    None => "the conversation was summed up".to_owned(),
                    Some(problem) => format!("the conversation could not be summed up: {problem}"),
                };
                vec![Piece::Note(self.looks.paint_err.paint(Style::Dim, &text))]
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
                let mut view = Self::new(self.looks);
                view.session = Some(session.clone());
                let pieces = view.on(other);
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
        tool: &str,
        outcome: CallOutcome,
        code: Option<Code>,
        preview: &str,
    ) -> String {
        let (style, word) = match outcome {
            CallOutcome::Ok if is_failed_command(tool, preview) => (Style::Warn, "ran"),
            CallOutcome::Ok => (Style::Good, "ok"),
            CallOutcome::Failed => (Style::Bad, "failed"),
            CallOutcome::Denied => (Style::Warn, "denied"),
            CallOutcome::Interrupted => (Style::Warn, "interrupted"),
        };
        let word = self.looks.paint_err.paint(style, word);
        // A denial says its code in its text as well, for the model; here it stands in front.
        let preview = match code {
            Some(code) => preview.replacen(&format!(" ({code})"), "", 1),
            None => preview.to_owned(),
        };
        let code = code.map(|code| format!(" [{code}]")).unwrap_or_default();
        let preview = one_line(&preview, MAX_CALL_CHARS);
        let line = format!(
            "  {word}{code} {}",
            self.looks.paint_err.paint(Style::Dim, &preview)
        );
        line.trim_end().to_owned()
    }

    /// What the owner can do about a call that their rules kept from running.
    fn way_on(&self, tool: &str, code: Code) -> Option<String> {
        let by_rules = matches!(
            code,
            Code::NoGrant | Code::TaintTooHigh | Code::UntrustedSession | Code::DeniedByGuardrail
        );
        let session = self.session.as_ref().filter(|_| by_rules)?;
        let tool = one_line(tool, MAX_CALL_CHARS);
        let text = format!("  → boxmaker grants explain {tool} --session {session}");
        Some(self.looks.paint_err.paint(Style::Dim, &text))
    }
}

/// Whether a command ran and said by its exit code that it failed: the call did what it should.
fn is_failed_command(tool: &str, preview: &str) -> bool {
    let exit = preview
        .strip_prefix("[exit code ")
        .filter(|_| tool == "shell");
    exit.is_some_and(|code| !code.starts_with('0'))
}

/// The end of a text that is being written, as one line.
fn tail(text: &str) -> String {
    let skip = text.chars().count().saturating_sub(MAX_TAIL_CHARS);
    let tail: String = text.chars().skip(skip).collect();
    one_line(&tail, MAX_TAIL_CHARS)
}

fn approval(awaiting: &Awaiting) -> String {
    let Awaiting { approval, expires } = awaiting;
    let until = match expires.parse::<Timestamp>() {
        Ok(expires) => expires.strftime("%H:%M UTC").to_string(),
        Err(_) => expires.clone(),
    };
    format!(
        "waiting for your approval until {until}: `boxmaker approve {approval}` or `boxmaker deny {approval}`"
    )
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
        WaitReason::Compacting => "compacting: the conversation is summed up …".to_owned(),
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
mod tests;
