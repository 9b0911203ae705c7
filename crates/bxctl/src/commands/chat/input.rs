//! Lines that a person types, with editing and a history.

use crate::failure::Failure;
use bxcore::code::Code;
use bxcore::problem::Problem;
use rustyline::error::ReadlineError;
use rustyline::{Config, DefaultEditor};
use std::path::{Path, PathBuf};
use std::sync::mpsc;
use tokio::sync::oneshot;

/// How many lines the history keeps.
const MAX_HISTORY_LINES: usize = 1000;

/// What stands before a line.
const PROMPT: &str = "> ";

/// What was typed.
#[derive(Debug)]
pub(super) enum Typed {
    /// A line.
    Line(String),
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
    let mut editor = editor(history);
    while let Ok(reply) = asked.recv() {
        let typed = match &mut editor {
            Ok(editor) => read(editor, history),
            Err(error) => Err(ReadlineError::Io(std::io::Error::other(error.to_string()))),
        };
        if reply.send(typed).is_err() {
            return;
        }
    }
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
