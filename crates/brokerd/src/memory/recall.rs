//! `recall`: from its arguments to a search, and from what was found to a text.

use super::MemoryCall;
use super::client::{Again, Memory, failed};
use crate::tools::{Output, ToolError};
use bxcore::label::Label;
use bxcore::wire::memoryd::{Hit, HitSource, RecallRequest, Recalled};
use serde::Deserialize;
use std::fmt::Write as _;

/// How much of a time is shown: the day and the minute.
const SHOWN_TIME_BYTES: usize = 16;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Arguments {
    query: String,
    #[serde(default)]
    limit: Option<u32>,
}

pub(super) async fn run(memory: &Memory, call: MemoryCall) -> Output {
    let Arguments { query, limit } = match Arguments::deserialize(&call.arguments) {
        Ok(arguments) => arguments,
        Err(error) => {
            return Output::failed(&ToolError::Arguments(error.to_string()), Label::BOTTOM);
        }
    };
    let request = RecallRequest {
        query,
        limit,
        // The model has its own conversation before it.
        except: Some(call.session),
    };
    match memory
        .post::<_, Recalled>("/v1/recall", &request, Again::May)
        .await
    {
        Ok(found) => shown(&found),
        Err(error) => failed(&error),
    }
}

/// What was found as a text, with the label of all of it.
fn shown(found: &Recalled) -> Output {
    let mut text = String::new();
    let mut label = Label::BOTTOM;
    for (number, hit) in (1..).zip(&found.hits) {
        label = label.join(hit.label);
        // Writing to a String can't fail.
        let _ = writeln!(text, "{number}. {}\n{}\n", head(hit), hit.snippet);
    }
    if found.hits.is_empty() {
        text.push_str("Nothing fits these words.\n");
    }
    if !found.complete {
        text.push_str("Not everything has been searched yet. Later there may be more.\n");
    }
    Output::ok(text.trim_end().to_owned(), label)
}

/// Where a hit stands, by whom, since when, with which label.
pub(super) fn head(hit: &Hit) -> String {
    let place = match &hit.source {
        HitSource::Memory { file, id: Some(id) } => format!("{}, entry {id}", file.file_name()),
        HitSource::Memory { file, id: None } => file.file_name(),
        HitSource::Session { session, turn } => format!("session {session}, turn {turn}"),
    };
    let time = bxcore::text::cap(&hit.time, SHOWN_TIME_BYTES).replace('T', " ");
    let who = if hit.who.is_empty() {
        "unknown"
    } else {
        &hit.who
    };
    format!("{place}, by {who}, {time} ({})", hit.label)
}

#[cfg(test)]
mod tests {
    use super::*;
    use bxcore::id::{EntryId, MemoryFile, SessionId, TurnId};
    use bxcore::label::Class;

    #[test]
    fn hits_are_shown_with_who_when_and_label() {
        let hit = |source, who: &str, label| Hit {
            source,
            who: who.to_owned(),
            time: "2026-11-30T08:00:00.123Z".to_owned(),
            label,
            snippet: "The kettle is blue.".to_owned(),
            score: 1.0,
        };
        let note = HitSource::Memory {
            file: MemoryFile::notes(),
            id: Some(EntryId::new("m1").unwrap()),
        };
        let turn = HitSource::Session {
            session: SessionId::new("chat-1").unwrap(),
            turn: TurnId(3),
        };
        let found = Recalled {
            hits: vec![
                hit(note, "session:chat-1", Label::OWNER),
                hit(turn, "http_fetch", Label::new(Class::Public, true)),
            ],
            complete: false,
        };
        let output = shown(&found);
        assert_eq!(output.label, Label::new(Class::Private, true));
        insta::assert_snapshot!(output.text, @r"
        1. notes.md, entry m1, by session:chat-1, 2026-11-30 08:00 (private)
        The kettle is blue.

        2. session chat-1, turn 3, by http_fetch, 2026-11-30 08:00 (public, untrusted)
        The kettle is blue.

        Not everything has been searched yet. Later there may be more.
        ");
        let none = Recalled {
            hits: Vec::new(),
            complete: true,
        };
        let output = shown(&none);
        assert_eq!(
            (output.text.as_str(), output.label),
            ("Nothing fits these words.", Label::BOTTOM)
        );
    }
}
