//! `memory`: what is in the memory files, and what a search finds. Changing it is an editor's work.

use crate::connection::Connection;
use crate::context::Context;
use crate::failure::Outcome;
use crate::output::{Paint, Style, Table, one_line, sanitize};
use crate::ready::ensure_up;
use bxcore::code::Code;
use bxcore::id::MemoryFile;
use bxcore::memory::{MemoryEntry, Writer};
use bxcore::problem::Problem;
use bxcore::wire::memoryd::{
    Hit, HitSource, MemoryFileEntries, MemoryListing, RecallRequest, Recalled,
};
use clap::{Args, Subcommand};

/// How much of a name that somebody gave a file is shown, in characters.
const MAX_NAME_CHARS: usize = 80;

/// What to do with memory.
#[derive(Debug, Subcommand)]
pub enum MemoryCommand {
    /// List the memory files.
    List,
    /// Show the entries of one file, with who wrote them, when, and their labels.
    Show(ShowArgs),
    /// Search memory and the transcripts of all sessions, as a session's `recall` does.
    Recall(RecallArgs),
}

/// Options of `memory show`.
#[derive(Debug, Args)]
pub struct ShowArgs {
    /// The file, such as `notes` or `notes.md`.
    pub file: String,
}

/// Options of `memory recall`.
#[derive(Debug, Args)]
pub struct RecallArgs {
    /// Words to look for.
    #[arg(required = true)]
    pub words: Vec<String>,
    /// How many hits at most.
    #[arg(short = 'n', long, value_parser = clap::value_parser!(u32).range(1..=i64::from(bxcore::wire::memoryd::MAX_HITS)))]
    pub limit: Option<u32>,
}

pub(crate) async fn run(context: &Context<'_>, command: MemoryCommand) -> Outcome {
    let connection = ensure_up(context).await?;
    match command {
        MemoryCommand::List => list(context, &connection).await,
        MemoryCommand::Show(args) => show(context, &connection, &args).await,
        MemoryCommand::Recall(args) => recall(context, &connection, args).await,
    }
}

async fn list(context: &Context<'_>, connection: &Connection) -> Outcome {
    let listing: MemoryListing = connection.memoryd.get("/v1/memory").await?;
    if context.output.json {
        context.output.answer_json(&listing)?;
    } else {
        let text = render_list(&listing, context.output.paint_out);
        context.output.answer(&text)?;
    }
    Ok(())
}

async fn show(context: &Context<'_>, connection: &Connection, args: &ShowArgs) -> Outcome {
    let file = MemoryFile::parse(&args.file).map_err(|error| {
        Problem::new(Code::BadUsage, "This names no memory file").detail(error.to_string())
    })?;
    let listing: MemoryListing = connection
        .memoryd
        .get(&format!("/v1/memory/{file}"))
        .await?;
    let Some(found) = listing.files.first() else {
        return Err(not_shown(&listing, &file).into());
    };
    if context.output.json {
        context.output.answer_json(found)?;
    } else {
        let text = render_file(found, context.output.paint_out);
        context.output.answer(&text)?;
    }
    Ok(())
}

/// Why a file is not shown: it can't be read, or there is none.
fn not_shown(listing: &MemoryListing, file: &MemoryFile) -> Problem {
    let name = file.file_name();
    match listing
        .unusable
        .iter()
        .find(|unusable| unusable.name == name)
    {
        Some(unusable) => Problem::new(
            Code::MemoryFileUnusable,
            format!("`{name}` can't be read as a memory file"),
        )
        .detail(unusable.why.clone())
        .hint(format!("look into {}", listing.folder)),
        None => Problem::new(Code::NotFound, format!("There is no memory file `{name}`"))
            .hint("boxmaker memory list"),
    }
}

async fn recall(context: &Context<'_>, connection: &Connection, args: RecallArgs) -> Outcome {
    let request = RecallRequest {
        query: args.words.join(" "),
        limit: args.limit,
        except: None,
    };
    let found: Recalled = connection.memoryd.post("/v1/recall", &request).await?;
    if context.output.json {
        context.output.answer_json(&found)?;
        return Ok(());
    }
    let text = render_hits(&found.hits, context.output.paint_out);
    context.output.answer(&text)?;
    if !found.complete {
        let note = "The index is being made, so there may be more in a moment.";
        context.output.note(note);
    }
    Ok(())
}

fn render_list(listing: &MemoryListing, paint: Paint) -> String {
    let mut text = format!("{}\n", listing.folder);
    if listing.files.is_empty() {
        text.push_str("no memory files yet\n");
    } else {
        let mut table = Table::new(
            &["file", "entries", "untrusted", "unreadable", "latest"],
            paint,
        );
        for MemoryFileEntries { file, entries } in &listing.files {
            let count =
                |is: fn(&&MemoryEntry) -> bool| entries.iter().filter(is).count().to_string();
            let latest = entries.iter().map(|entry| entry.time.as_str()).max();
            table.row([
                file.file_name().as_str(),
                &entries.len().to_string(),
                &count(|entry| entry.label.untrusted),
                &count(|entry| entry.trouble.is_some()),
                latest.filter(|time| !time.is_empty()).unwrap_or("-"),
            ]);
        }
        text.push_str(&table.render());
    }
    for unusable in &listing.unusable {
        let name = one_line(&unusable.name, MAX_NAME_CHARS);
        let line = format!("{name} is left out: {}", sanitize(&unusable.why));
        text.push_str(&paint.paint(Style::Warn, &line));
        text.push('\n');
    }
    text
}

fn render_file(found: &MemoryFileEntries, paint: Paint) -> String {
    let mut text = String::new();
    for entry in &found.entries {
        let id = entry.id.as_ref().map_or("no id", |id| id.as_str());
        let writer = entry
            .writer
            .as_ref()
            .map_or_else(|| "unknown".to_owned(), Writer::to_string);
        let time = match entry.time.as_str() {
            "" => "no date",
            time => time,
        };
        let head = format!("{id} · {time} · by {writer} · {}", entry.label);
        text.push_str(&paint.paint(Style::Dim, &head));
        text.push('\n');
        if let Some(trouble) = &entry.trouble {
            let line = format!("counts as the worst that it could be: {trouble}");
            text.push_str(&paint.paint(Style::Warn, &line));
            text.push('\n');
        }
        text.push_str(&sanitize(&entry.text));
        text.push_str("\n\n");
    }
    if text.is_empty() {
        text.push_str("no entries\n");
    }
    text
}

fn render_hits(hits: &[Hit], paint: Paint) -> String {
    let mut text = String::new();
    for hit in hits {
        let place = match &hit.source {
            HitSource::Memory { file, id } => {
                let id = id.as_ref().map_or("no id", |id| id.as_str());
                format!("{} {id}", file.file_name())
            }
            HitSource::Session { session, turn } => format!("session {session}, turn {turn}"),
        };
        let head = format!(
            "{place} · {} · by {} · {}",
            hit.time,
            one_line(&hit.who, MAX_NAME_CHARS),
            hit.label
        );
        text.push_str(&paint.paint(Style::Dim, &head));
        text.push('\n');
        text.push_str(&sanitize(&hit.snippet));
        text.push_str("\n\n");
    }
    if text.is_empty() {
        text.push_str("nothing fits these words\n");
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use bxcore::id::{EntryId, SessionId, TurnId};
    use bxcore::label::{Class, Label};
    use bxcore::wire::memoryd::UnusableMemory;

    fn listing() -> MemoryListing {
        let entry = |id: Option<&str>, label, text: &str, trouble: Option<&str>| MemoryEntry {
            id: id.map(|id| EntryId::new(id).unwrap()),
            time: id
                .map(|_| "2026-12-01T08:00:00Z".to_owned())
                .unwrap_or_default(),
            writer: id.map(|_| Writer::Session(SessionId::new("chat-1").unwrap())),
            label,
            text: text.to_owned(),
            trouble: trouble.map(str::to_owned),
        };
        MemoryListing {
            folder: "/h/state/memory".to_owned(),
            files: vec![MemoryFileEntries {
                file: MemoryFile::notes(),
                entries: vec![
                    entry(
                        Some("m1"),
                        Label::OWNER,
                        "The kettle\x1b[31m is blue.",
                        None,
                    ),
                    entry(None, Label::TOP, "x", Some("the line before it is torn")),
                ],
            }],
            unusable: vec![UnusableMemory {
                name: "a\x1b[1mb.md".to_owned(),
                why: "it is a link".to_owned(),
            }],
        }
    }

    #[test]
    fn files_and_what_is_wrong_with_them_are_shown() {
        insta::assert_snapshot!(render_list(&listing(), Paint::Plain), @"
        /h/state/memory
        file      entries  untrusted  unreadable  latest
        notes.md  2        1          1           2026-12-01T08:00:00Z
        ab.md is left out: it is a link
        ");
        insta::assert_snapshot!(render_file(&listing().files[0], Paint::Plain), @"
        m1 · 2026-12-01T08:00:00Z · by session:chat-1 · private
        The kettle is blue.

        no id · no date · by unknown · secret, untrusted
        counts as the worst that it could be: the line before it is torn
        x
        ");
        let none = MemoryListing {
            files: Vec::new(),
            unusable: Vec::new(),
            ..listing()
        };
        assert_eq!(
            render_list(&none, Paint::Plain),
            "/h/state/memory\nno memory files yet\n"
        );
    }

    #[test]
    fn a_file_that_is_not_there_is_told_from_one_that_can_not_be_read() {
        let mut listing = listing();
        let file = MemoryFile::new("a").unwrap();
        assert_eq!(not_shown(&listing, &file).code, Code::NotFound);
        listing.unusable[0].name = "a.md".to_owned();
        assert_eq!(not_shown(&listing, &file).code, Code::MemoryFileUnusable);
    }

    #[test]
    fn hits_are_shown_safely() {
        let hit = Hit {
            source: HitSource::Session {
                session: SessionId::new("chat-1").unwrap(),
                turn: TurnId(3),
            },
            who: "http_fetch".to_owned(),
            time: "2026-12-01T08:00:00Z".to_owned(),
            label: Label::new(Class::Public, true),
            snippet: "a\x1b[2Jb".to_owned(),
            score: 1.0,
        };
        insta::assert_snapshot!(render_hits(&[hit], Paint::Plain), @"
        session chat-1, turn 3 · 2026-12-01T08:00:00Z · by http_fetch · public, untrusted
        ab
        ");
        assert_eq!(render_hits(&[], Paint::Plain), "nothing fits these words\n");
    }
}
