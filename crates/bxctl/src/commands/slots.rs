//! `slots`: who holds the model's slots, who waits, since when.

use crate::connection::Connection;
use crate::context::Context;
use crate::failure::Outcome;
use crate::output::{Paint, Table, duration};
use bxcore::wire::inferproxy::{SlotActivity, SlotStatus};
use bxcore::wire::loopd::{GateRow, Priority};
use serde_json::json;

pub(crate) async fn run(context: &Context<'_>) -> Outcome {
    let connection = Connection::open(context).await?;
    let gate: Vec<GateRow> = connection.loopd.get("/v1/slots").await?;
    let slots: Vec<SlotStatus> = connection.inferproxy.get("/v1/slots").await?;
    if context.output.json {
        context
            .output
            .answer_json(&json!({ "gate": gate, "slots": slots }))?;
    } else {
        context
            .output
            .answer(&render(&gate, &slots, context.output.paint_out))?;
    }
    Ok(())
}

fn render(gate: &[GateRow], slots: &[SlotStatus], paint: Paint) -> String {
    let mut text = String::new();
    if slots.is_empty() {
        text.push_str("no backend with slots\n");
    } else {
        let mut table = Table::new(
            &["backend", "slot", "server says", "session", "since"],
            paint,
        );
        for slot in slots {
            let session = slot
                .session
                .as_ref()
                .map_or("-", |session| session.as_str());
            table.row([
                slot.backend.as_str(),
                &slot.slot.to_string(),
                activity(slot.activity),
                session,
                &duration(slot.since_ms),
            ]);
        }
        text.push_str(&table.render());
    }
    text.push('\n');
    if gate.is_empty() {
        text.push_str("nobody holds a slot or waits for one\n");
        return text;
    }
    let mut table = Table::new(
        &[
            "backend", "slot", "lane", "session", "priority", "state", "since",
        ],
        paint,
    );
    for row in gate {
        let slot = row
            .slot
            .map_or_else(|| "any".to_owned(), |slot| slot.to_string());
        table.row([
            row.backend.as_str(),
            &slot,
            row.lane.name(),
            row.session.as_str(),
            priority(row.priority),
            if row.holds { "holds" } else { "waits" },
            &duration(row.since_ms),
        ]);
    }
    text.push_str(&table.render());
    text
}

fn activity(activity: SlotActivity) -> &'static str {
    match activity {
        SlotActivity::Idle => "idle",
        SlotActivity::Busy => "busy",
        SlotActivity::Draining => "draining",
        SlotActivity::Foreign => "busy for somebody else",
        SlotActivity::Unknown => "unknown",
    }
}

fn priority(priority: Priority) -> &'static str {
    match priority {
        Priority::Compaction => "compaction",
        Priority::Live => "live",
        Priority::Job => "job",
        Priority::Heartbeat => "heartbeat",
        Priority::ToolSummary => "tool-summary",
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use bxcore::id::{BackendName, SessionId};
    use bxcore::wire::inferproxy::Lane;

    #[test]
    fn holders_and_waiters_are_shown() {
        let backend = BackendName::new("local").unwrap();
        let session = |name: &str| SessionId::new(name).unwrap();
        let row = |name, slot, holds| GateRow {
            backend: backend.clone(),
            slot,
            lane: Lane::Main,
            session: session(name),
            priority: Priority::Live,
            holds,
            since_ms: 1500,
        };
        let slots = [SlotStatus {
            backend: backend.clone(),
            slot: 0,
            activity: SlotActivity::Busy,
            session: Some(session("chat-1")),
            since_ms: 1500,
        }];
        let gate = [row("chat-1", Some(0), true), row("chat-2", None, false)];
        insta::assert_snapshot!(render(&gate, &slots, Paint::Plain), @"
        backend  slot  server says  session  since
        local    0     busy         chat-1   1 s

        backend  slot  lane  session  priority  state  since
        local    0     main  chat-1   live      holds  1 s
        local    any   main  chat-2   live      waits  1 s
        ");
        insta::assert_snapshot!(render(&[], &[], Paint::Plain), @"
        no backend with slots

        nobody holds a slot or waits for one
        ");
    }
}
