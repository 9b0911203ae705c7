//! The index: follows its sources, outlives its own loss, and gives each passage its label.

use crate::support::{World, later, now, query, recall, session, snippets};
use bxcore::id::MemoryFile;
use bxcore::label::{Class, Label};
use bxcore::wire::memoryd::{HitSource, MAX_HITS, RecallRequest};
use bxtest::transcript::label;
use memoryd::index::Progress;
use proptest::prelude::*;
use std::time::Instant;

const UNTRUSTED: Label = Label::new(Class::Private, true);

#[test]
fn notes_and_turns_are_found_with_who_when_and_label() {
    let mut world = World::new();
    let note = world
        .add("notes", UNTRUSTED, "The zebra is called Émile.")
        .unwrap();
    let mut transcript = world.transcript("chat-7");
    let page = label("public", true);
    transcript.turn(
        "2026-11-30T08:00:00Z",
        "Who is a zebra?",
        Some(("http_fetch", "zebra page", &page)),
        "An animal.",
    );
    let mut index = world.index();
    let hits = recall(&mut index, "zebra").hits;
    assert_eq!(hits.len(), 3);
    let found = |who: &str| hits.iter().find(|hit| hit.who == who).unwrap();
    let by_session = found("session:chat-1");
    let id = Some(note.id);
    let file = MemoryFile::notes();
    assert_eq!(by_session.source, HitSource::Memory { file, id });
    assert_eq!(
        (by_session.label, by_session.time.as_str()),
        (UNTRUSTED, "2026-12-01T12:00:00Z")
    );
    assert_eq!(found("owner").label, Label::OWNER);
    assert_eq!(found("http_fetch").label, Label::new(Class::Private, true));
    assert!(
        matches!(&found("owner").source, HitSource::Session { session, .. } if session.as_str() == "chat-7")
    );
    assert_eq!(
        recall(&mut index, "animal").hits[0].label,
        UNTRUSTED,
        "it was made from the page"
    );
    assert_eq!(
        snippets(&mut index, "emile"),
        ["The zebra is called Émile."]
    );
    let except = Some(session("chat-7"));
    let others = RecallRequest {
        except,
        ..query("zebra")
    };
    assert_eq!(index.recall(&others, now(), later()).unwrap().hits.len(), 1);
}

#[test]
fn what_is_new_is_found_and_what_is_gone_is_not() {
    let mut world = World::new();
    let mut index = world.index();
    assert!(snippets(&mut index, "tea").is_empty());
    let mut transcript = world.transcript("chat-1");
    let lines = transcript.turn_lines("2026-11-30T08:00:00Z", "tea one", None, "yes");
    // Written piece by piece, as a crash or a slow disk may leave it.
    let (first, rest) = lines.split_at(lines.len() / 2);
    transcript.append(first);
    assert!(
        snippets(&mut index, "tea").is_empty(),
        "the turn has not ended"
    );
    transcript.append(rest);
    assert_eq!(snippets(&mut index, "tea"), ["tea one"]);
    transcript.turn("2026-11-30T09:00:00Z", "tea two", None, "no");
    assert_eq!(snippets(&mut index, "tea"), ["tea two", "tea one"]);

    world.add("notes", Label::OWNER, "tea three").unwrap();
    assert_eq!(snippets(&mut index, "three"), ["tea three"]);
    world.write("notes.md", "tea four by hand");
    assert!(snippets(&mut index, "three").is_empty());
    assert_eq!(snippets(&mut index, "four"), ["tea four by hand"]);
    std::fs::remove_file(world.path("memory/notes.md")).unwrap();
    assert!(snippets(&mut index, "four").is_empty());

    // The session is deleted, and its name used again.
    std::fs::remove_dir_all(world.path("sessions/chat-1")).unwrap();
    assert!(snippets(&mut index, "tea").is_empty());
    let mut again = world.transcript("chat-1");
    again.turn("2026-11-30T09:00:00Z", "coffee", None, "no");
    assert_eq!(snippets(&mut index, "coffee"), ["coffee"]);
    assert!(snippets(&mut index, "tea").is_empty());
}

#[test]
fn an_index_that_is_kept_is_not_made_anew() {
    let world = World::new();
    let mut transcript = world.transcript("chat-1");
    transcript.turn("2026-11-30T08:00:00Z", "tea one", None, "yes");
    assert_eq!(snippets(&mut world.index(), "tea"), ["tea one"]);
    // Only what is behind the place that was reached is read again.
    let bytes = std::fs::read(transcript.path()).unwrap();
    let blank = " ".repeat(bytes.len() - 1) + "\n";
    std::fs::write(transcript.path(), blank).unwrap();
    transcript.turn("2026-11-30T09:00:00Z", "tea two", None, "yes");
    assert_eq!(snippets(&mut world.index(), "tea"), ["tea two", "tea one"]);
}

#[test]
fn an_index_that_is_lost_or_damaged_under_a_running_search_is_made_anew() {
    let mut world = World::new();
    world.add("notes", UNTRUSTED, "the kettle is blue").unwrap();
    let mut transcript = world.transcript("chat-1");
    transcript.turn("2026-11-30T08:00:00Z", "a kettle", None, "yes");
    let mut index = world.index();
    let path = world.index_file();
    let mut check = |what: &str| {
        let hits = recall(&mut index, "kettle").hits;
        assert_eq!(hits.len(), 2, "{what}");
        let note = hits.iter().find(|hit| hit.who == "session:chat-1").unwrap();
        assert_eq!(note.label, UNTRUSTED, "{what}");
    };
    check("new");
    std::fs::remove_file(&path).unwrap();
    check("deleted");
    std::fs::write(&path, b"").unwrap();
    check("emptied");
    std::fs::write(&path, b"this is no database, and never was").unwrap();
    check("overwritten in place");
    std::fs::remove_file(&path).unwrap();
    std::fs::write(&path, vec![7; 100_000]).unwrap();
    check("replaced by nonsense");
    let bytes = std::fs::read(&path).unwrap();
    std::fs::write(&path, &bytes[..bytes.len() / 2]).unwrap();
    check("cut in half");
    std::fs::remove_file(&path).unwrap();
    std::fs::write(path.with_file_name("index.db-journal"), vec![1; 4096]).unwrap();
    check("deleted, with a strange journal in its place");
}

#[test]
fn an_older_schema_is_made_anew() {
    let mut world = World::new();
    world.add("notes", Label::OWNER, "kettle").unwrap();
    let db = rusqlite::Connection::open(world.index_file()).unwrap();
    db.execute_batch("CREATE TABLE passages (x); PRAGMA user_version = 99")
        .unwrap();
    drop(db);
    assert_eq!(snippets(&mut world.index(), "kettle"), ["kettle"]);
}

#[test]
fn a_broken_transcript_taints_what_follows_and_nothing_else() {
    let world = World::new();
    let mut transcript = world.transcript("chat-1");
    transcript.turn("2026-11-30T08:00:00Z", "kettle before", None, "yes");
    transcript.append("{\"v\":1,\"n\":9,\"ts\"\n\u{0}\n");
    transcript.turn(
        "2026-11-30T08:00:00Z",
        "x",
        Some(("read_file", "kettle file", &label("public", false))),
        "kettle answer",
    );
    let mut other = world.transcript("chat-2");
    other.turn("2026-11-30T08:00:00Z", "kettle elsewhere", None, "yes");
    let mut index = world.index();
    for hit in recall(&mut index, "kettle").hits {
        let worst = ["kettle file", "kettle answer"].contains(&hit.snippet.as_str());
        let expect = if worst { Label::TOP } else { Label::OWNER };
        assert_eq!(hit.label, expect, "{}", hit.snippet);
    }
}

#[test]
fn what_a_link_leads_to_is_no_transcript() {
    let world = World::new();
    let elsewhere = tempfile::tempdir().unwrap();
    let mut strange = bxtest::transcript::Transcript::begin(elsewhere.path(), "chat-1");
    strange.turn("2026-11-30T08:00:00Z", "kettle", None, "yes");
    let folder = elsewhere.path().join("chat-1");
    std::os::unix::fs::symlink(&folder, world.path("sessions/chat-1")).unwrap();
    std::fs::create_dir(world.path("sessions/chat-2")).unwrap();
    let log = world.path("sessions/chat-2/log.jsonl");
    std::os::unix::fs::symlink(folder.join("log.jsonl"), log).unwrap();
    std::fs::create_dir(world.path("sessions/chat-3")).unwrap();
    let pipe = world.path("sessions/chat-3/log.jsonl");
    rustix::fs::mkfifoat(
        rustix::fs::CWD,
        pipe,
        rustix::fs::Mode::from_raw_mode(0o600),
    )
    .unwrap();
    assert!(snippets(&mut world.index(), "kettle").is_empty());
}

#[test]
fn the_better_and_the_newer_come_first() {
    let world = World::new();
    for (session, time, text) in [
        ("old", "2025-01-01T08:00:00Z", "the boiler makes noise"),
        ("new", "2026-11-30T08:00:00Z", "the boiler makes smoke"),
        ("best", "2025-01-01T08:00:00Z", "boiler pressure valve"),
        (
            "other",
            "2026-11-30T08:00:00Z",
            "something about dinner and friends",
        ),
    ] {
        world.transcript(session).turn(time, text, None, "fine");
    }
    let mut index = world.index();
    assert_eq!(snippets(&mut index, "boiler")[0], "the boiler makes smoke");
    assert_eq!(
        snippets(&mut index, "boiler valve pressure")[0],
        "boiler pressure valve"
    );
    let limit = Some(1);
    let one = RecallRequest {
        limit,
        ..query("boiler")
    };
    assert_eq!(index.recall(&one, now(), later()).unwrap().hits.len(), 1);
    let limit = Some(u32::MAX);
    let all = RecallRequest {
        limit,
        ..query("boiler")
    };
    assert!(index.recall(&all, now(), later()).unwrap().hits.len() <= MAX_HITS as usize);
}

#[test]
fn a_search_whose_time_is_over_says_so_and_the_rest_comes_later() {
    let mut world = World::new();
    world.add("notes", Label::OWNER, "kettle").unwrap();
    let mut index = world.index();
    let over = Instant::now();
    let found = index.recall(&query("kettle"), now(), over).unwrap();
    assert!(!found.complete && found.hits.is_empty());
    assert_eq!(index.refresh(now(), later()).unwrap(), Progress::Complete);
    let found = index.recall(&query("kettle"), now(), over).unwrap();
    assert_eq!(found.hits.len(), 1);
}

#[test]
fn any_query_is_safe() {
    let mut world = World::new();
    world
        .add("notes", Label::OWNER, "kettle OR \"tea\" NEAR(x)")
        .unwrap();
    let mut index = world.index();
    index.refresh(now(), later()).unwrap();
    let shared = std::cell::RefCell::new(index);
    proptest!(ProptestConfig::with_cases(300), |(text in "\\PC*|(\"|'|\\*|-|\\^|:|\u{0}|\u{fffd}|\u{1f9c0}|AND|OR|NOT|NEAR\\(|\\)|words|[a-z]| |;--){0,30}")| {
        shared.borrow_mut().recall(&query(&text), now(), later()).unwrap();
    });
    let mut index = shared.into_inner();
    assert!(snippets(&mut index, &"kettle ".repeat(100_000)).len() == 1);
    assert!(snippets(&mut index, "\"kettle").len() == 1);
}
