//! `sessions`: the list of them.

use crate::context::Context;
use crate::failure::Outcome;
use crate::output::{Paint, Table};
use crate::ready::ensure_up;
use bxcore::wire::loopd::{SessionRow, SessionStatus};
use clap::Args;

/// Options of `sessions`.
#[derive(Debug, Args)]
pub struct SessionsArgs {
    /// List sessions that other sessions asked for, too.
    #[arg(long)]
    pub all: bool,
}

pub(crate) async fn run(context: &Context<'_>, args: &SessionsArgs) -> Outcome {
    let connection = ensure_up(context).await?;
    let mut rows: Vec<SessionRow> = connection.loopd.get("/v1/sessions").await?;
    rows.retain(|row| args.all || row.parent.is_none());
    if context.output.json {
        context.output.answer_json(&rows)?;
    } else {
        context
            .output
            .answer(&render(&rows, context.output.paint_out))?;
    }
    Ok(())
}

fn render(rows: &[SessionRow], paint: Paint) -> String {
    if rows.is_empty() {
        return "no sessions yet\n".to_owned();
    }
    let mut table = Table::new(
        &[
            "session",
            "status",
            "label",
            "turns",
            "updated",
            "begins with",
        ],
        paint,
    );
    for row in rows {
        table.row([
            row.id.as_str(),
            status(row.status),
            &row.label.to_string(),
            &row.turns.to_string(),
            &row.updated,
            &row.title,
        ]);
    }
    table.render()
}

fn status(status: SessionStatus) -> &'static str {
    match status {
        SessionStatus::Running => "running",
        SessionStatus::Idle => "idle",
        SessionStatus::Broken => "broken",
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use bxcore::id::SessionId;
    use bxcore::label::Label;

    #[test]
    fn rows_line_up_and_titles_are_safe() {
        let row = |id: &str, title: &str| SessionRow {
            id: SessionId::new(id).unwrap(),
            parent: None,
            status: SessionStatus::Idle,
            label: Label::TOP,
            turns: 3,
            updated: "2026-11-30T10:00:00Z".into(),
            title: title.into(),
        };
        let rows = [
            row("chat-1", "what\nis \u{1b}[2Jit"),
            row("chat-a-longer-name", ""),
        ];
        insta::assert_snapshot!(render(&rows, Paint::Plain), @"
        session             status  label              turns  updated               begins with
        chat-1              idle    secret, untrusted  3      2026-11-30T10:00:00Z  what is it
        chat-a-longer-name  idle    secret, untrusted  3      2026-11-30T10:00:00Z
        ");
        assert_eq!(render(&[], Paint::Plain), "no sessions yet\n");
    }
}
