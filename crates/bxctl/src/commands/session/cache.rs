//! `session cache`: what the prompt cache kept, per model call.

use crate::connection::Connection;
use crate::context::Context;
use crate::failure::Outcome;
use crate::output::{Paint, Table};
use bxcore::id::SessionId;
use bxcore::wire::loopd::{CacheLossCause, CacheRow};

pub(super) async fn run(context: &Context<'_>, connection: &Connection, id: &SessionId) -> Outcome {
    let rows: Vec<CacheRow> = connection
        .loopd
        .get(&format!("/v1/sessions/{id}/cache"))
        .await?;
    if context.output.json {
        context.output.answer_json(&rows)?;
    } else {
        context
            .output
            .answer(&render(&rows, context.output.paint_out))?;
    }
    Ok(())
}

fn render(rows: &[CacheRow], paint: Paint) -> String {
    if rows.is_empty() {
        return "no model calls yet\n".to_owned();
    }
    let heads = [
        "call",
        "turn",
        "slot",
        "prompt",
        "cache_n",
        "written",
        "previous total",
        "lost",
        "why",
    ];
    let mut table = Table::new(&heads, paint);
    let or_dash = |value: Option<String>| value.unwrap_or_else(|| "-".to_owned());
    for row in rows {
        let lost = row.lost.as_ref();
        table.row([
            row.model_call.0.to_string().as_str(),
            &row.turn.0.to_string(),
            &or_dash(row.slot.map(|slot| slot.to_string())),
            &row.prompt_tokens.to_string(),
            &or_dash(row.cache_n.map(|cached| cached.to_string())),
            &row.completion_tokens.to_string(),
            &row.previous_total.to_string(),
            &or_dash(lost.map(|lost| lost.tokens.to_string())),
            lost.map_or("-", |lost| cause(lost.cause)),
        ]);
    }
    table.render()
}

fn cause(cause: CacheLossCause) -> &'static str {
    match cause {
        CacheLossCause::NewEpoch => "a new epoch began",
        CacheLossCause::SlotTaken => "another slot, or another session used it in between",
        CacheLossCause::ToolCallRewritten => "the template writes the last tool call differently",
        CacheLossCause::ReasoningDropped => "the template drops the last answer's reasoning",
        CacheLossCause::AnswerRetokenised => "the last answer was read back in other tokens",
        CacheLossCause::ServerCleared => "the server cleared its cache, or its slots share one",
        CacheLossCause::NotReported => "the server does not say what was cached",
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use bxcore::id::{ModelCallId, TurnId};
    use bxcore::wire::loopd::CacheLoss;

    #[test]
    fn each_call_has_its_row() {
        let row = |call, previous_total, cache_n, lost| CacheRow {
            model_call: ModelCallId(call),
            turn: TurnId(1),
            slot: Some(0),
            prompt_tokens: 300,
            cache_n,
            completion_tokens: 12,
            previous_total,
            lost,
        };
        let loss = CacheLoss {
            tokens: 40,
            cause: CacheLossCause::ToolCallRewritten,
        };
        let rows = [
            row(1, 0, Some(0), None),
            row(2, 312, Some(272), Some(loss)),
            row(3, 400, None, None),
        ];
        insta::assert_snapshot!(render(&rows, Paint::Plain), @"
        call  turn  slot  prompt  cache_n  written  previous total  lost  why
        1     1     0     300     0        12       0               -     -
        2     1     0     300     272      12       312             40    the template writes the last tool call differently
        3     1     0     300     -        12       400             -     -
        ");
    }
}
