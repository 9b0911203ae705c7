//! The two streams of the process, and what they can take.

use super::style::Paint;
use bxcore::problem::Problem;
use serde::Serialize;
use serde_json::Value;
use std::io::{self, ErrorKind, IsTerminal, Write};

/// The widest text for a person, in columns: longer lines are hard to read.
const MAX_COLUMNS: usize = 100;

/// The width where the terminal doesn't say.
const DEFAULT_COLUMNS: usize = 80;

/// Standard output takes nothing more: its reader is gone, or its disk is full.
#[derive(Debug, thiserror::Error)]
#[error("standard output can't be written")]
pub struct Gone(#[from] pub io::Error);

impl Gone {
    /// Whether the reader went away on purpose, as `head` does.
    pub fn is_reader_gone(&self) -> bool {
        self.0.kind() == ErrorKind::BrokenPipe
    }
}

/// A problem as a program reads it: with the page that a person is pointed to.
fn for_program(problem: &Problem) -> Value {
    let mut value = serde_json::json!(problem);
    value["see"] = bxkit::report::page(problem.code).into();
    value
}

/// Where a command's words go and in which form.
#[derive(Debug, Clone, Copy)]
pub struct Output {
    /// Whether answers are JSON for a program.
    pub json: bool,
    /// Whether a person reads standard output.
    pub out_is_terminal: bool,
    /// Whether a person reads standard error.
    pub err_is_terminal: bool,
    /// Colours on standard output.
    pub paint_out: Paint,
    /// Colours on standard error.
    pub paint_err: Paint,
    /// How wide text is wrapped, in columns.
    pub columns: usize,
}

impl Output {
    /// Looks at the process's streams.
    pub fn of_process(json: bool) -> Self {
        let colour = std::env::var_os("NO_COLOR").is_none_or(|value| value.is_empty());
        let out_is_terminal = io::stdout().is_terminal();
        let err_is_terminal = io::stderr().is_terminal();
        let size = rustix::termios::tcgetwinsize(io::stdout()).ok();
        let columns = size
            .map(|size| usize::from(size.ws_col))
            .filter(|columns| *columns > 0);
        Self {
            json,
            out_is_terminal,
            err_is_terminal,
            paint_out: Paint::when(colour && out_is_terminal),
            paint_err: Paint::when(colour && err_is_terminal),
            columns: columns.unwrap_or(DEFAULT_COLUMNS).min(MAX_COLUMNS),
        }
    }

    /// Writes part of an answer.
    pub fn answer(&self, text: &str) -> Result<(), Gone> {
        self.answer_bytes(text.as_bytes())
    }

    /// Writes part of an answer that may be no text.
    pub fn answer_bytes(&self, bytes: &[u8]) -> Result<(), Gone> {
        let mut out = io::stdout().lock();
        out.write_all(bytes)?;
        out.flush()?;
        Ok(())
    }

    /// Writes an answer for a program: one JSON value on one line.
    pub fn answer_json<T: Serialize + ?Sized>(&self, value: &T) -> Result<(), Gone> {
        let mut line = serde_json::to_vec(value).map_err(io::Error::other)?;
        line.push(b'\n');
        self.answer_bytes(&line)
    }

    /// Writes a line beside the answer. Nobody can be told if that fails, so it is let go.
    pub fn note(&self, line: &str) {
        let mut err = io::stderr().lock();
        let _ = err.write_all(format!("{line}\n").as_bytes());
    }

    /// Writes text beside the answer as it is.
    pub fn note_raw(&self, text: &str) {
        let mut err = io::stderr().lock();
        let _ = err.write_all(text.as_bytes()).and_then(|()| err.flush());
    }

    /// Tells what went wrong: as JSON for a program, else in lines for a person.
    pub fn problem(&self, problem: &Problem) {
        if self.json {
            return self.note(&for_program(problem).to_string());
        }
        self.note_raw(&bxkit::report::render_problem(
            problem,
            self.paint_err == Paint::Colour,
        ));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use bxcore::code::Code;

    #[test]
    fn a_program_is_told_the_page_too() {
        let value = for_program(&Problem::new(Code::NoBackend, "none").hint("add one"));
        let expect = serde_json::json!({
            "code": "no-backend", "title": "none", "hint": "add one", "see": "docs/runbook/no-backend.md"
        });
        assert_eq!(value, expect);
    }
}
