//! `memory`: from its arguments to a change or a list, and to a text.

use super::MemoryCall;
use super::client::{Again, Memory, failed};
use crate::tools::{Output, ToolError};
use bxcore::code::Code;
use bxcore::id::{EntryId, MemoryFile};
use bxcore::json::parse_strict;
use bxcore::label::Label;
use bxcore::memory::MemoryEntry;
use bxcore::wire::memoryd::{MemoryAction, MemoryChange, MemoryChanged, MemoryListing};
use bxkit::rpc::CallError;
use serde::Deserialize;
use std::fmt::Write as _;

/// How much of a time is shown: the day.
const SHOWN_DAY_BYTES: usize = 10;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Arguments {
    action: Action,
    #[serde(default)]
    file: Option<String>,
    #[serde(default)]
    id: Option<String>,
    #[serde(default)]
    text: Option<String>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
enum Action {
    Add,
    Replace,
    Remove,
    List,
}

/// What is asked for.
#[derive(Debug, PartialEq)]
enum Asked {
    Change(MemoryFile, MemoryAction),
    List(Option<MemoryFile>),
}

/// Whether a call with this text as its arguments may be made again after a crash. memoryd knows a
/// call that it has seen by its entry; of one that is gone it knows nothing.
pub fn may_repeat(arguments: &str) -> bool {
    let read = parse_strict(arguments).ok();
    read.is_none_or(|arguments| arguments["action"] != "remove")
}

pub(super) async fn run(memory: &Memory, call: MemoryCall) -> Output {
    let asked = Arguments::deserialize(&call.arguments)
        .map_err(|error| error.to_string())
        .and_then(understood);
    match asked {
        Ok(Asked::List(file)) => list(memory, file, call.label).await,
        Ok(Asked::Change(file, action)) => change(memory, call, file, action).await,
        Err(why) => Output::failed(&ToolError::Arguments(why), Label::BOTTOM),
    }
}

fn understood(arguments: Arguments) -> Result<Asked, String> {
    let Arguments {
        action,
        file,
        id,
        text,
    } = arguments;
    // Models give an empty text where they have nothing to say.
    let given = |text: Option<String>| text.filter(|text| !text.trim().is_empty());
    let file = given(file)
        .map(|file| MemoryFile::parse(&file))
        .transpose()
        .map_err(|error| error.to_string())?;
    let id = || {
        let id = given(id).ok_or("`id` is missing: list shows the ids")?;
        EntryId::new(id.trim()).map_err(|error| error.to_string())
    };
    let text = || given(text).ok_or_else(|| "`text` is missing".to_owned());
    let action = match action {
        Action::List => return Ok(Asked::List(file)),
        Action::Add => MemoryAction::Add { text: text()? },
        Action::Replace => MemoryAction::Replace {
            id: id()?,
            text: text()?,
        },
        Action::Remove => MemoryAction::Remove { id: id()? },
    };
    Ok(Asked::Change(
        file.unwrap_or_else(MemoryFile::notes),
        action,
    ))
}

async fn change(
    memory: &Memory,
    call: MemoryCall,
    file: MemoryFile,
    action: MemoryAction,
) -> Output {
    let (done, again) = match &action {
        MemoryAction::Add { .. } => ("Added to", Again::May),
        MemoryAction::Replace { .. } => ("Replaced in", Again::May),
        MemoryAction::Remove { .. } => ("Removed from", Again::Never),
    };
    let change = MemoryChange {
        session: call.session,
        call: call.call,
        label: call.label,
        file,
        action,
    };
    match memory
        .post::<_, MemoryChanged>("/v1/memory", &change, again)
        .await
    {
        Ok(changed) => Output::ok(told(done, &change.file, &changed), Label::BOTTOM),
        Err(CallError::Broken { .. }) if again == Again::Never => Output {
            failure: Some(Code::Interrupted),
            ..Output::ok(
                "It is unknown whether the entry was removed. list shows what is there.".to_owned(),
                Label::BOTTOM,
            )
        },
        Err(error) => failed(&error),
    }
}

fn told(done: &str, meant: &MemoryFile, changed: &MemoryChanged) -> String {
    let MemoryChanged {
        file, id, as_note, ..
    } = changed;
    if *as_note {
        return format!(
            "Kept as a note in {} (entry {id}). This session has read untrusted data, so it can't \
             change what is trusted: {} is as it was.",
            file.file_name(),
            meant.file_name(),
        );
    }
    format!("{done} {} (entry {id}).", file.file_name())
}

/// What is in memory, as far as the session may know it already: a list never raises a label. What
/// is left out is found by `recall`, which does.
async fn list(memory: &Memory, file: Option<MemoryFile>, label: Label) -> Output {
    let path = match &file {
        Some(file) => format!("/v1/memory/{file}"),
        None => "/v1/memory".to_owned(),
    };
    match memory.get::<MemoryListing>(&path).await {
        Ok(listing) => Output::ok(shown(&listing, label), label),
        Err(error) => failed(&error),
    }
}

fn shown(listing: &MemoryListing, label: Label) -> String {
    let mut text = String::new();
    let mut hidden = 0_usize;
    for file in &listing.files {
        let (seen, others): (Vec<&MemoryEntry>, Vec<_>) = file
            .entries
            .iter()
            .partition(|entry| entry.label.is_within(label));
        hidden += others.len();
        if !seen.is_empty() {
            // Writing to a String can't fail.
            let _ = writeln!(text, "{}", file.file.file_name());
        }
        for entry in seen {
            let id = entry.id.as_ref().map_or("no id", EntryId::as_str);
            let day = bxcore::text::cap(&entry.time, SHOWN_DAY_BYTES);
            let _ = writeln!(text, "- {id} ({day}, {}): {}", entry.label, entry.text);
        }
    }
    if text.is_empty() {
        text.push_str("There is nothing to show.\n");
    }
    if hidden > 0 {
        let _ = writeln!(
            text,
            "{hidden} more: untrusted, or of a class above this session's. recall finds them."
        );
    }
    text.trim_end().to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;
    use bxcore::label::Class;
    use bxcore::memory::Writer;
    use bxcore::wire::memoryd::MemoryFileEntries;
    use serde_json::{Value, json};

    fn understood_of(arguments: Value) -> Result<Asked, String> {
        let read = Arguments::deserialize(&arguments).map_err(|error| error.to_string());
        read.and_then(understood)
    }

    #[test]
    fn arguments_that_lack_something_are_told_what() {
        for (arguments, expect) in [
            (json!({"action": "add"}), "`text`"),
            (json!({"action": "add", "text": " \n"}), "`text`"),
            (json!({"action": "replace", "text": "x"}), "`id`"),
            (json!({"action": "replace", "id": "m1"}), "`text`"),
            (json!({"action": "remove"}), "`id`"),
            (json!({"action": "remove", "id": "../x"}), "is not a"),
            (
                json!({"action": "add", "text": "x", "file": "a/b"}),
                "is not a",
            ),
            (json!({"action": "forget"}), "unknown variant"),
        ] {
            let why = understood_of(arguments.clone()).unwrap_err();
            assert!(why.contains(expect), "{arguments}: {why}");
        }
        let add = understood_of(json!({"action": "add", "text": "x", "id": "", "file": ""}));
        let text = "x".to_owned();
        assert_eq!(
            add,
            Ok(Asked::Change(
                MemoryFile::notes(),
                MemoryAction::Add { text }
            ))
        );
        let list = understood_of(json!({"action": "list", "file": "identity.md"}));
        assert_eq!(list, Ok(Asked::List(Some(MemoryFile::identity()))));
    }

    #[test]
    fn only_a_removal_is_not_made_again() {
        assert!(may_repeat(r#"{"action":"add","text":"x"}"#));
        assert!(!may_repeat(r#"{"action":"remove","id":"m1"}"#));
        assert!(may_repeat("no json"));
    }

    #[test]
    fn a_list_shows_what_is_within_the_sessions_label() {
        let entry = |label: Label| MemoryEntry {
            id: EntryId::new("m1").ok(),
            time: "2026-12-01T08:00:00Z".to_owned(),
            writer: Some(Writer::Owner),
            label,
            text: format!("<{label}>"),
            trouble: None,
        };
        let listing = MemoryListing {
            folder: "/m".to_owned(),
            files: vec![MemoryFileEntries {
                file: MemoryFile::notes(),
                entries: Label::ALL.map(entry).to_vec(),
            }],
            unusable: Vec::new(),
        };
        for label in Label::ALL {
            let text = shown(&listing, label);
            for held in Label::ALL {
                let is_shown = text.contains(&format!("<{held}>"));
                assert_eq!(is_shown, held.is_within(label), "{label} {held}");
            }
        }
        let text = shown(&listing, Label::BOTTOM);
        insta::assert_snapshot!(text, @r"
        notes.md
        - m1 (2026-12-01, public): <public>
        5 more: untrusted, or of a class above this session's. recall finds them.
        ");
        let nothing = MemoryListing {
            files: Vec::new(),
            ..listing
        };
        assert_eq!(shown(&nothing, Label::TOP), "There is nothing to show.");
    }

    #[test]
    fn a_change_that_became_a_note_is_told_as_one() {
        let changed = |as_note| MemoryChanged {
            file: MemoryFile::notes(),
            id: EntryId::new("m1").unwrap(),
            label: Label::new(Class::Private, true),
            as_note,
        };
        let text = told("Added to", &MemoryFile::identity(), &changed(true));
        assert!(text.contains("note in notes.md") && text.contains("identity.md is as it was"));
        assert_eq!(
            told("Added to", &MemoryFile::notes(), &changed(false)),
            "Added to notes.md (entry m1)."
        );
    }
}
