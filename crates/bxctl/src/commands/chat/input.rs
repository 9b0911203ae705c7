//! Lines that a person types, with editing and a history.

use crate::failure::Failure;
use bxcore::code::Code;
use bxcore::problem::Problem;
use rustyline::error::ReadlineError;
use rustyline::{Config, DefaultEditor};
use std::io::{self, BufRead, IsTerminal, Read};
use std::path::{Path, PathBuf};
use std::sync::mpsc;
use tokio::sync::oneshot;

/// How many lines the history keeps.
const MAX_HISTORY_LINES: usize = 1000;

/// The longest line that is not typed but comes from a program or a file, in bytes.
const MAX_LINE_BYTES: u64 = 1024 * 1024;

/// What stands before a line.
const PROMPT: &str = "> ";

/// What was typed.
#[derive(Debug)]
pub(super) enum Typed {
    /// A line.
    Line(String),
    /// A line that can't be used, and why.
    Unusable(Problem),
    /// Ctrl-C.
    Interrupt,
    /// Ctrl-D, or the end of the input.
    End,
}

type Reply = oneshot::Sender<Result<Typed, ReadlineError>>;

/// The editor, on a thread of its own: it blocks while somebody types.
#[derive(Debug)]
pub(super) struct Input {
    ask: mpsc::SyncSender<Reply>,
}

impl Input {
    /// Starts the editor; its history is kept in a file.
    pub(super) fn open(history: PathBuf) -> Result<Self, Failure> {
        let (ask, asked) = mpsc::sync_channel::<Reply>(1);
        std::thread::Builder::new()
            .name("line editor".to_owned())
            .spawn(move || serve(&asked, &history))
            .map_err(|error| broken(&error))?;
        Ok(Self { ask })
    }

    /// The next line.
    pub(super) async fn line(&mut self) -> Result<Typed, Failure> {
        let (reply, answer) = oneshot::channel();
        if self.ask.send(reply).is_err() {
            return Ok(Typed::End);
        }
        tokio::select! {
            typed = answer => match typed {
                Ok(Ok(typed)) => Ok(typed),
                Ok(Err(error)) => Err(broken(&error)),
                Err(_) => Ok(Typed::End),
            },
            // Only where the input is no terminal: on one, Ctrl-C is a key that the editor reads.
            _ = tokio::signal::ctrl_c() => Err(Failure::Stopped),
        }
    }
}

fn serve(asked: &mpsc::Receiver<Reply>, history: &Path) {
    if !io::stdin().is_terminal() {
        return serve_lines(asked, io::stdin().lock());
    }
    let mut editor = editor(history);
    while let Ok(reply) = asked.recv() {
        let typed = match &mut editor {
            Ok(editor) => read(editor, history),
            Err(error) => Err(ReadlineError::Io(io::Error::other(error.to_string()))),
        };
        if reply.send(typed).is_err() {
            return;
        }
    }
}

/// Lines of a program or a file, for which there is nothing to edit.
fn serve_lines(asked: &mpsc::Receiver<Reply>, mut lines: impl BufRead) {
    while let Ok(reply) = asked.recv() {
        if reply
            .send(next_line(&mut lines).map_err(ReadlineError::Io))
            .is_err()
        {
            return;
        }
    }
}

/// The next line. One that can't be used is passed over whole, so that the next can be.
fn next_line(lines: &mut impl BufRead) -> io::Result<Typed> {
    let mut line = Vec::new();
    if lines
        .take(MAX_LINE_BYTES + 1)
        .read_until(b'\n', &mut line)?
        == 0
    {
        return Ok(Typed::End);
    }
    let is_whole = line.ends_with(b"\n");
    let end = line.trim_ascii_end().len();
    if end as u64 > MAX_LINE_BYTES {
        if !is_whole {
            lines.skip_until(b'\n')?;
        }
        let why = format!("it is longer than {MAX_LINE_BYTES} bytes");
        return Ok(Typed::Unusable(unusable(Code::TooLarge, &why)));
    }
    line.truncate(end);
    Ok(match String::from_utf8(line) {
        Ok(line) => Typed::Line(line),
        Err(_) => Typed::Unusable(unusable(Code::BadUsage, "it is not UTF-8 text")),
    })
}

fn unusable(code: Code, why: &str) -> Problem {
    Problem::new(code, "A line can't be used").detail(why)
}

fn editor(history: &Path) -> Result<DefaultEditor, ReadlineError> {
    let config = Config::builder()
        .max_history_size(MAX_HISTORY_LINES)?
        .history_ignore_space(true)
        .auto_add_history(true)
        .build();
    let mut editor = DefaultEditor::with_config(config)?;
    // A history that can't be read is no reason not to talk.
    let _ = editor.load_history(history);
    Ok(editor)
}

fn read(editor: &mut DefaultEditor, history: &Path) -> Result<Typed, ReadlineError> {
    match editor.readline(PROMPT) {
        Ok(line) => {
            let _ = editor.save_history(history);
            Ok(Typed::Line(line))
        }
        Err(ReadlineError::Interrupted) => Ok(Typed::Interrupt),
        Err(ReadlineError::Eof) => Ok(Typed::End),
        Err(error) => Err(error),
    }
}

fn broken(error: &(dyn std::error::Error + 'static)) -> Failure {
    Problem::new(Code::Internal, "The terminal can't be read")
        .detail(bxkit::report::chain(error))
        .hint("`boxmaker ask` needs no terminal")
        .into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_that_cannot_be_used_does_not_take_others_with_it() {
        let long = vec![b'x'; usize::try_from(MAX_LINE_BYTES).unwrap() * 2];
        let mut text = b"one\r\n\xff\xfe\ntwo\n".to_vec();
        text.extend(&long);
        text.extend(b"\n\nlast");
        let mut lines = &text[..];
        let mut said = Vec::new();
        loop {
            said.push(match next_line(&mut lines).unwrap() {
                Typed::Line(line) => line,
                Typed::Unusable(problem) => problem.code.to_string(),
                Typed::End => break,
                Typed::Interrupt => unreachable!(),
            });
        }
        assert_eq!(said, ["one", "bad-usage", "two", "too-large", "", "last"]);
    }
}
