//! `ask`: one turn, the answer on standard output.

use crate::context::Context;
use crate::failure::{Failure, Outcome};
use crate::output::Style;
use crate::ready::{better_model, ensure_model, ensure_up, tell_stand_in};
use crate::turn::{View, follow, summary};
use bxcore::code::Code;
use bxcore::id::{BackendName, SessionId};
use bxcore::label::Class;
use bxcore::problem::Problem;
use bxcore::transcript::TurnOutcome;
use bxcore::wire::loopd::{TurnReport, TurnRequest};
use bxkit::exit;
use clap::Args;
use std::io::Read;

/// The longest question, in bytes.
const MAX_TEXT_BYTES: u64 = 1024 * 1024;

/// Options of `ask`.
#[derive(Debug, Args)]
pub struct AskArgs {
    /// What to ask; `-` reads it from standard input.
    pub text: String,
    /// The session to ask in; a new one if left out.
    #[arg(long, value_name = "ID")]
    pub session: Option<SessionId>,
    /// The class of the question: public, private or secret; private if left out.
    #[arg(long)]
    pub class: Option<Class>,
    /// The backend to ask.
    #[arg(long, value_name = "NAME")]
    pub backend: Option<BackendName>,
    /// Fail at once when another turn holds the session.
    #[arg(long)]
    pub no_wait: bool,
}

pub(crate) async fn run(context: &Context<'_>, args: AskArgs) -> Outcome {
    let text = question(args.text)?;
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
    let request = TurnRequest {
        session: args.session,
        text,
        class: args.class,
        backend: args.backend,
        no_wait: args.no_wait,
    };
    let view = (!context.output.json).then(|| View::new(context.looks()));
    let ended = follow(context, &connection, &request, view).await?;
    let told = told(context, &ended.report);
    if let Some(line) =
        better_model(&backends, ended.backend.as_ref()).filter(|_| !context.output.json)
    {
        context.output.note(line);
    }
    told
}

/// Says how it went, in one line or as the whole report; the exit code.
pub(super) fn told(context: &Context<'_>, report: &TurnReport) -> Outcome {
    if context.output.json {
        context.output.answer_json(report)?;
    } else {
        let line = summary(report);
        context
            .output
            .note(&context.output.paint_err.paint(Style::Dim, &line));
    }
    verdict(context, report)
}

/// The exit code of a turn, after its problem was told.
fn verdict(context: &Context<'_>, report: &TurnReport) -> Outcome {
    let Some(code) = exit_code(report) else {
        return Ok(());
    };
    // With JSON the problem is part of the report; who stopped the turn knows.
    let is_news = !context.output.json && report.outcome != TurnOutcome::Stopped;
    if let Some(problem) = report.problem.as_ref().filter(|_| is_news) {
        context.output.problem(problem);
    }
    Err(Failure::Said(code))
}

/// How a turn's end is told to the shell; none if it went well.
pub(super) fn exit_code(report: &TurnReport) -> Option<u8> {
    let by_problem = report
        .problem
        .as_ref()
        .map(|problem| exit::of_command(problem.code));
    match report.outcome {
        TurnOutcome::Completed => None,
        TurnOutcome::Failed => Some(by_problem.unwrap_or(exit::FAILED)),
        TurnOutcome::Halted | TurnOutcome::ContextFull => Some(exit::HALTED),
        TurnOutcome::Stopped => Some(exit::STOPPED),
    }
}

fn question(text: String) -> Result<String, Failure> {
    let text = if text == "-" { read_stdin()? } else { text };
    if text.trim().is_empty() {
        return Err(Problem::new(Code::BadUsage, "There is no question")
            .hint("boxmaker ask \"What is the capital of France?\"\nboxmaker ask - < question.txt")
            .into());
    }
    Ok(text)
}

fn read_stdin() -> Result<String, Failure> {
    let mut bytes = Vec::new();
    let read = std::io::stdin()
        .lock()
        .take(MAX_TEXT_BYTES + 1)
        .read_to_end(&mut bytes);
    let wrong =
        |why: String| Problem::new(Code::BadUsage, "The question can't be read").detail(why);
    read.map_err(|error| wrong(format!("standard input: {error}")))?;
    if bytes.len() as u64 > MAX_TEXT_BYTES {
        let why = format!("it is longer than {MAX_TEXT_BYTES} bytes");
        return Err(Problem {
            code: Code::TooLarge,
            ..wrong(why)
        }
        .into());
    }
    String::from_utf8(bytes).map_err(|_| wrong("it is not UTF-8 text".to_owned()).into())
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn the_end_of_a_turn_decides_the_exit_code() {
        let check = |outcome: &str, code: Option<&str>, expect: Option<u8>| {
            let mut report = json!({
                "session": "s", "outcome": outcome, "answer": "",
                "label": {"class": "private", "untrusted": false}, "calls": [],
                "usage": {"model_calls": 0, "prompt_tokens": 0, "completion_tokens": 0, "cache_n": 0},
                "cost_usd": "0.000000"
            });
            if let Some(code) = code {
                report["problem"] = json!({"code": code, "title": "x"});
            }
            let report: TurnReport = serde_json::from_value(report).unwrap();
            assert_eq!(exit_code(&report), expect, "{outcome} {code:?}");
        };
        check("completed", None, None);
        check("failed", None, Some(1));
        check("failed", Some("backend-unreachable"), Some(5));
        check("failed", Some("no-grant"), Some(3));
        check("halted", Some("budget-exhausted"), Some(4));
        check("context-full", Some("context-full"), Some(4));
        check("stopped", Some("stopped"), Some(130));
    }

    #[test]
    fn an_empty_question_is_no_question() {
        assert!(question(" \n".to_owned()).is_err());
        assert_eq!(question("hi".to_owned()).unwrap(), "hi");
    }
}
