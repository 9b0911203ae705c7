//! The end of a turn whose events broke off: loopd goes on with the turn when it is back, and the
//! transcript says how it ended.

use super::follow::Ended;
use crate::connection::Connection;
use crate::failure::Failure;
use crate::output::Progress;
use bxcore::code::Code;
use bxcore::id::{SessionId, TurnId};
use bxcore::problem::Problem;
use bxcore::transcript::{Assistant, Entry, TurnEnd, TurnOutcome, parse_line};
use bxcore::wire::loopd::{CallReport, SessionRow, SessionStatus, TurnReport};
use bxkit::home::Home;
use bxkit::rpc::CallError;
use serde_json::Value;
use std::time::{Duration, Instant};

/// How long loopd may be away, in seconds.
const RETURN_WITHIN_SECS: u64 = 60;

/// How long the turn may then go on, in seconds: a long answer is made from its start again.
const END_WITHIN_SECS: u64 = 1800;

/// How often it is looked, in milliseconds.
const POLL_MS: u64 = 200;

/// The largest transcript that is read for it, in bytes.
const MAX_LOG_BYTES: usize = 256 * 1024 * 1024;

/// Waits until the turn has its end, and tells how it ended.
///
/// # Errors
/// The house is gone, loopd does not come back, or the turn takes too long; each names the session.
pub(super) async fn wait(
    home: &Home,
    connection: &Connection,
    progress: &mut Progress,
    session: &SessionId,
    turn: TurnId,
) -> Result<Ended, Failure> {
    progress.say("loopd went away: it goes on with the turn when it is back …");
    let began = Instant::now();
    let mut seen = began;
    let mut anew = None;
    loop {
        let connection = anew.as_ref().unwrap_or(connection);
        let row: Result<SessionRow, CallError> = connection
            .loopd
            .get(&format!("/v1/sessions/{session}"))
            .await;
        match row {
            Ok(row) if row.status == SessionStatus::Running => seen = Instant::now(),
            Ok(_) => return read(connection, session, turn).await,
            // Everything was stopped and started again: another house, with another token.
            Err(CallError::Refused(problem)) if problem.code == Code::NotAuthorised => {
                let found = Connection::find(home).await?;
                anew = Some(found.ok_or_else(|| stopped(session))?);
            }
            Err(CallError::Refused(problem)) => return Err(problem.into()),
            Err(_) => match connection.status().await.map(|status| status.problem) {
                Ok(None) => {}
                Ok(Some(problem)) => return Err(problem.into()),
                // It stops when everything does: then nobody starts it again.
                Err(_) => return Err(stopped(session)),
            },
        }
        let late = seen.elapsed() > Duration::from_secs(RETURN_WITHIN_SECS)
            || began.elapsed() > Duration::from_secs(END_WITHIN_SECS);
        if late {
            return Err(gone(session));
        }
        tokio::time::sleep(Duration::from_millis(POLL_MS)).await;
    }
}

/// What is said where the end of a turn can't be waited for.
pub(super) fn gone(session: &SessionId) -> Failure {
    Problem::new(
        Code::RoleUnreachable,
        "The turn's events ended before the turn did",
    )
    .detail("loopd went away; it goes on with the turn when it is back")
    .hint(format!(
        "`boxmaker session log {session}` shows how it ended"
    ))
    .into()
}

/// What is said where everything was stopped under a turn.
fn stopped(session: &SessionId) -> Failure {
    Problem::new(
        Code::RoleUnreachable,
        "Boxmaker was stopped before the turn had ended",
    )
    .detail("the turn goes on at the next start, and asks again what it was asking you")
    .hint(format!(
        "any command starts it; `boxmaker session log {session}` shows how the turn ended"
    ))
    .into()
}

async fn read(
    connection: &Connection,
    session: &SessionId,
    turn: TurnId,
) -> Result<Ended, Failure> {
    let path = format!("/v1/sessions/{session}/log");
    let log = connection.loopd.get_raw(&path).await?;
    let bytes = log.body.collect(MAX_LOG_BYTES).await?;
    let text = String::from_utf8_lossy(&bytes);
    let report = report(session, turn, &text).ok_or_else(|| gone(session))?;
    Ok(Ended {
        report,
        backend: None,
    })
}

/// The report of a turn out of its session's transcript; none if it has no end there. Pure.
fn report(session: &SessionId, turn: TurnId, text: &str) -> Option<TurnReport> {
    let mut answer = String::new();
    let mut calls = Vec::new();
    let mut end = None;
    for line in text.lines().filter_map(|line| parse_line(line).ok()) {
        match line.entry {
            Entry::Assistant(said) if said.turn == turn => answer = words_of(&said),
            Entry::Tool(tool) if tool.turn == turn => calls.push(CallReport {
                call: tool.call,
                tool: tool.tool,
                outcome: tool.outcome,
            }),
            Entry::TurnEnd(found) if found.turn == turn => end = Some(found),
            _ => {}
        }
    }
    let end = end?;
    let problem = problem_of(&end);
    Some(TurnReport {
        session: session.clone(),
        outcome: end.outcome,
        answer: match end.outcome {
            TurnOutcome::Completed => answer.trim().to_owned(),
            _ => String::new(),
        },
        label: end.label,
        calls,
        usage: end.usage,
        cost_usd: end.cost.to_string(),
        problem,
    })
}

fn problem_of(end: &TurnEnd) -> Option<Problem> {
    let code = end.code?;
    let problem = Problem::new(code, "The turn ended while nobody could follow it");
    Some(match &end.detail {
        Some(detail) => problem.detail(detail.clone()),
        None => problem,
    })
}

/// What a model said to the person; in schema mode that is part of its reply.
pub(crate) fn words_of(answer: &Assistant) -> String {
    let text = |value: &Value, key: &str| {
        let text = value.get(key).and_then(Value::as_str);
        text.unwrap_or_default().to_owned()
    };
    let message: Value = serde_json::from_str(answer.message.json()).unwrap_or_default();
    let said = text(&message, "content");
    match serde_json::from_str::<Value>(&said) {
        Ok(reply @ Value::Object(_)) if answer.rung.is_some() => text(&reply, "answer"),
        _ => said,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LABEL: &str = r#""label":{"class":"private","untrusted":false}"#;

    fn log(rung: &str, said: &str, end: &str) -> String {
        let receipt = r#""receipt":{"slot":0,"prompt_tokens":3,"completion_tokens":4,"cache_n":null,"prompt_n":null,"queue_ms":0,"prefill_ms":0,"decode_ms":0,"source":"reported"}"#;
        let said = serde_json::json!({"role": "assistant", "content": said});
        let usage =
            r#""usage":{"model_calls":2,"prompt_tokens":7,"completion_tokens":4,"cache_n":0}"#;
        [
            format!(r#"{{"v":1,"n":4,"ts":"T","kind":"turn_end","turn":1,"outcome":"completed",{LABEL},{usage},"cost":0}}"#),
            format!(r#"{{"v":1,"n":5,"ts":"T","kind":"tool","turn":2,"call":1,"tool":"clock","outcome":"ok",{LABEL},"raw_bytes":5,"message":{{"role":"user","content":"noon"}}}}"#),
            format!(r#"{{"v":1,"n":6,"ts":"T","kind":"assistant","turn":2,"model_call":2,"message":{said},"reasoning":"","calls":[],{rung}{receipt},"cost":0}}"#),
            format!(r#"{{"v":1,"n":7,"ts":"T","kind":"turn_end","turn":2,{end},{LABEL},{usage},"cost":1500}}"#),
        ]
        .join("\n")
    }

    #[test]
    fn a_transcript_gives_the_report_of_its_turn() {
        let session = SessionId::new("chat-1").unwrap();
        let check = |rung: &str, said: &str, end: &str| {
            let text = log(rung, said, end);
            report(&session, TurnId(2), &text).unwrap_or_else(|| panic!("no end in {text}"))
        };
        let done = r#""outcome":"completed""#;
        let native = check("", "noon\n", done);
        assert_eq!((native.answer.as_str(), native.calls.len()), ("noon", 1));
        assert_eq!(
            (native.usage.prompt_tokens, native.cost_usd.as_str()),
            (7, "0.001500")
        );
        assert!(native.problem.is_none());
        let schema = check(r#""rung":"schema","#, r#"{"answer":"so"}"#, done);
        assert_eq!(schema.answer, "so");
        let failed = check(
            "",
            "",
            r#""outcome":"failed","code":"empty-answer","detail":"why""#,
        );
        assert_eq!(failed.answer, "");
        let problem = failed.problem.unwrap();
        assert_eq!(
            (problem.code, problem.detail.as_deref()),
            (Code::EmptyAnswer, Some("why"))
        );
        assert!(report(&session, TurnId(3), &log("", "x", done)).is_none());
    }
}
