//! `chat`: turn after turn in one session.

mod input;
mod words;

use super::ask::exit_code;
use crate::connection::Connection;
use crate::context::Context;
use crate::failure::{Failure, Outcome};
use crate::output::Style;
use crate::ready::{better_model, ensure_model, ensure_up, tell_stand_in};
use crate::turn::{View, follow, summary};
use bxcore::id::{BackendName, SessionId};
use bxcore::label::Class;
use bxcore::transcript::TurnOutcome;
use bxcore::wire::inferproxy::BackendInfo;
use bxcore::wire::loopd::{SessionRow, TurnRequest};
use bxkit::exit;
use clap::Args;
use input::{Input, Typed};
use std::io::IsTerminal;
use words::{HELP, Said, understand};

/// Options of `chat`.
#[derive(Debug, Args)]
pub struct ChatArgs {
    /// The session to go on with; a new one if left out.
    #[arg(long, value_name = "ID")]
    pub session: Option<SessionId>,
    /// The class of what you say: public, private or secret; private if left out.
    #[arg(long)]
    pub class: Option<Class>,
    /// The backend to talk with.
    #[arg(long, value_name = "NAME")]
    pub backend: Option<BackendName>,
}

pub(crate) async fn run(context: &Context<'_>, args: ChatArgs) -> Outcome {
    let connection = ensure_up(context).await?;
    let backends = ensure_model(
        context,
        &connection,
        args.backend.as_ref(),
        args.session.as_ref(),
    )
    .await?;
    // A session keeps to its own backend, and one that is named is the one.
    if args.session.is_none() && args.backend.is_none() {
        tell_stand_in(context, &backends);
    }
    let mut talk = Talk {
        context,
        connection,
        backends,
        args,
        pointed: false,
        failed: None,
    };
    context
        .output
        .note("Type what you want to say. /help lists the commands, /quit leaves.");
    let mut input = Input::open(context.home.state_dir().join("chat-history"))?;
    let mut interrupted = false;
    loop {
        match input.line().await? {
            Typed::Line(line) => {
                interrupted = false;
                if talk.take(&line).await?.is_break() {
                    return talk.verdict();
                }
            }
            Typed::Unusable(problem) => {
                context.output.problem(&problem);
                talk.failed = Some(exit::of_command(problem.code));
            }
            Typed::Interrupt if interrupted => return Err(Failure::Stopped),
            Typed::Interrupt => {
                interrupted = true;
                context.output.note("Ctrl-C again leaves.");
            }
            Typed::End => return talk.verdict(),
        }
    }
}

struct Talk<'a> {
    context: &'a Context<'a>,
    connection: Connection,
    backends: Vec<BackendInfo>,
    args: ChatArgs,
    /// Whether the way to a better model was told.
    pointed: bool,
    /// The exit code of the last message that failed.
    failed: Option<u8>,
}

impl Talk<'_> {
    /// How the command ends. A person saw what failed; a program has only the exit code.
    fn verdict(&self) -> Outcome {
        match self.failed.filter(|_| !std::io::stdin().is_terminal()) {
            Some(code) => Err(Failure::Said(code)),
            None => Ok(()),
        }
    }

    async fn take(&mut self, line: &str) -> Result<std::ops::ControlFlow<()>, Failure> {
        let output = &self.context.output;
        match understand(line) {
            Said::Nothing => {}
            Said::Quit => return Ok(std::ops::ControlFlow::Break(())),
            Said::Help => output.note(HELP),
            Said::Session => match &self.args.session {
                Some(session) => output.note(session.as_str()),
                None => output.note("the session gets its name with the first message"),
            },
            Said::Label => self.label().await?,
            Said::Unknown(word) => {
                output.note(&format!("{word} is no command; /help lists them"));
            }
            Said::Message(text) => self.message(text).await?,
        }
        Ok(std::ops::ControlFlow::Continue(()))
    }

    async fn label(&self) -> Outcome {
        let output = &self.context.output;
        let Some(session) = &self.args.session else {
            output.note("nothing was said yet");
            return Ok(());
        };
        let answer = self
            .connection
            .loopd
            .get::<SessionRow>(&format!("/v1/sessions/{session}"))
            .await;
        match answer {
            Ok(row) => output.note(&row.label.to_string()),
            Err(error) => output.problem(&error.problem()),
        }
        Ok(())
    }

    /// One turn. What goes wrong in it ends the turn, not the chat.
    async fn message(&mut self, text: &str) -> Outcome {
        let request = TurnRequest {
            session: self.args.session.clone(),
            text: text.to_owned(),
            class: self.args.class,
            backend: self.args.backend.clone(),
            no_wait: false,
        };
        let output = &self.context.output;
        let view = (!output.json).then(|| View::new(self.context.looks()));
        let ended = match follow(self.context, &self.connection, &request, view).await {
            Ok(ended) => ended,
            Err(Failure::Told(problem)) => {
                output.problem(&problem);
                self.failed = Some(exit::of_command(problem.code));
                return Ok(());
            }
            Err(other) => return Err(other),
        };
        let report = ended.report;
        self.args.session = Some(report.session.clone());
        if let Some(code) = exit_code(&report) {
            self.failed = Some(code);
        }
        if output.json {
            output.answer_json(&report)?;
            return Ok(());
        }
        if !matches!(
            report.outcome,
            TurnOutcome::Completed | TurnOutcome::Stopped
        ) && let Some(problem) = &report.problem
        {
            output.problem(problem);
        }
        output.note(&output.paint_err.paint(Style::Dim, &summary(&report)));
        if let Some(line) = better_model(&self.backends, ended.backend.as_ref())
            && !std::mem::replace(&mut self.pointed, true)
        {
            output.note(line);
        }
        Ok(())
    }
}
