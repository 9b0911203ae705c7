//! `jobs`: what begins by the clock, and beginning one of them now.

use crate::context::Context;
use crate::failure::Outcome;
use crate::output::{Paint, Table};
use crate::ready::ensure_up;
use bxcore::wire::loopd::JobRow;
use clap::Args;
use serde_json::json;

/// The session of the heartbeat, which is its name as well.
const HEARTBEAT: &str = "heartbeat";

/// Options of `jobs`.
#[derive(Debug, Args)]
pub struct JobsArgs {
    /// Begin this one now, whatever its time is: a job's name, or `heartbeat`.
    #[arg(long, value_name = "NAME")]
    pub run: Option<String>,
}

pub(crate) async fn run(context: &Context<'_>, args: &JobsArgs) -> Outcome {
    let connection = ensure_up(context).await?;
    let output = &context.output;
    if let Some(name) = &args.run {
        let path = format!("/v1/jobs/{}/run", session_of(name));
        let row: JobRow = connection.loopd.post(&path, &json!({})).await?;
        if output.json {
            output.answer_json(&row)?;
        } else {
            let session = &row.session;
            output.answer(&format!("{session} has begun\n"))?;
            output.note(&format!(
                "`boxmaker session log {session}` shows what it does"
            ));
        }
        return Ok(());
    }
    let rows: Vec<JobRow> = connection.loopd.get("/v1/jobs").await?;
    if output.json {
        output.answer_json(&rows)?;
    } else {
        output.answer(&render(&rows, output.paint_out))?;
    }
    Ok(())
}

/// The session of a job; what can't be one is refused where it is looked for.
fn session_of(name: &str) -> String {
    match name {
        HEARTBEAT => HEARTBEAT.to_owned(),
        name if name.starts_with("job-") => name.to_owned(),
        name => format!("job-{name}"),
    }
}

fn render(rows: &[JobRow], paint: Paint) -> String {
    if rows.is_empty() {
        return "no jobs: [[job]] and [heartbeat] in loopd.toml say what begins by the clock\n"
            .to_owned();
    }
    let heads = ["session", "when", "next", "last began", "how it went"];
    let mut table = Table::new(&heads, paint);
    for row in rows {
        table.row([
            row.session.as_str(),
            &row.rule,
            row.next.as_deref().unwrap_or("never"),
            row.began.as_deref().unwrap_or("never"),
            &ended(row),
        ]);
    }
    let mut text = table.render();
    for row in rows {
        if let Some(skipped) = &row.skipped {
            let session = &row.session;
            text.push_str(&format!(
                "{session} was left out at {skipped}: its session was busy\n"
            ));
        }
    }
    text
}

/// How the last run went, in a word or two.
fn ended(row: &JobRow) -> String {
    if row.running {
        return "runs".to_owned();
    }
    let word = match (row.outcome, &row.began) {
        (Some(outcome), _) => outcome.name(),
        (None, Some(_)) => "did not begin",
        (None, None) => "-",
    };
    match row.code {
        Some(code) => format!("{word} [{code}]"),
        None => word.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use bxcore::code::Code;
    use bxcore::id::SessionId;
    use bxcore::transcript::TurnOutcome;

    #[test]
    fn each_says_when_it_comes_and_how_it_went() {
        let row = |id: &str| JobRow {
            session: SessionId::new(id).unwrap(),
            rule: "30 7 * * *".to_owned(),
            running: false,
            next: Some("2026-12-02T07:30:00+01:00".to_owned()),
            began: None,
            outcome: None,
            code: None,
            skipped: None,
        };
        let began = Some("2026-12-01T07:30:00+01:00".to_owned());
        let rows = [
            row("job-new"),
            JobRow {
                began: began.clone(),
                outcome: Some(TurnOutcome::Completed),
                skipped: Some("2026-12-01T08:00:00+01:00".to_owned()),
                ..row("job-done")
            },
            JobRow {
                began: began.clone(),
                code: Some(Code::BackendUnreachable),
                ..row("job-lost")
            },
            JobRow {
                began,
                running: true,
                ..row("heartbeat")
            },
        ];
        insta::assert_snapshot!(render(&rows, Paint::Plain), @"
        session    when        next                       last began                 how it went
        job-new    30 7 * * *  2026-12-02T07:30:00+01:00  never                      -
        job-done   30 7 * * *  2026-12-02T07:30:00+01:00  2026-12-01T07:30:00+01:00  completed
        job-lost   30 7 * * *  2026-12-02T07:30:00+01:00  2026-12-01T07:30:00+01:00  did not begin [backend-unreachable]
        heartbeat  30 7 * * *  2026-12-02T07:30:00+01:00  2026-12-01T07:30:00+01:00  runs
        job-done was left out at 2026-12-01T08:00:00+01:00: its session was busy
        ");
        assert!(render(&[], Paint::Plain).starts_with("no jobs"));
    }

    #[test]
    fn a_job_is_meant_by_its_name_or_its_session() {
        for (name, expect) in [
            ("morning", "job-morning"),
            ("job-morning", "job-morning"),
            ("heartbeat", "heartbeat"),
        ] {
            assert_eq!(session_of(name), expect);
        }
    }
}
