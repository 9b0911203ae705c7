//! Recall over 4,000 transcripts of ten turns each, and what it costs to notice one more turn.
//!
//! Words are drawn so that some are in nearly every passage and most in few, as in any language.
//! Set `MEMORYD_BENCH_DIR` to choose the disk.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::print_stdout,
    missing_docs,
    reason = "a bench stops by panicking, and criterion's macros write functions without docs"
)]

use bxcore::wire::memoryd::RecallRequest;
use bxtest::transcript::Transcript;
use criterion::{Criterion, criterion_group, criterion_main};
use jiff::Timestamp;
use memoryd::folder::Folder;
use memoryd::index::{Index, Sources};
use std::path::Path;
use std::time::{Duration, Instant};
use tempfile::TempDir;

const SESSIONS: u64 = 4_000;
const TURNS: u64 = 10;
/// How many words a message has.
const WORDS: u64 = 40;
/// How many words there are.
const VOCABULARY: u64 = 20_000;

fn folder() -> TempDir {
    match std::env::var_os("MEMORYD_BENCH_DIR") {
        Some(place) => tempfile::tempdir_in(place).unwrap(),
        None => tempfile::tempdir().unwrap(),
    }
}

/// A sequence that is the same in each run.
struct Words(u64);

impl Words {
    fn next(&mut self) -> u64 {
        self.0 = self
            .0
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        self.0 >> 33
    }

    /// The lower its number, the more often a word comes.
    fn word(&mut self) -> String {
        let bound = 1 + self.next() % VOCABULARY;
        format!("w{}", self.next() % bound)
    }

    fn message(&mut self) -> String {
        (0..WORDS).map(|_| self.word() + " ").collect()
    }
}

fn write(sessions: &Path) {
    let mut words = Words(7);
    for n in 0..SESSIONS {
        let mut transcript = Transcript::begin(sessions, &format!("chat-{n}"));
        let mut lines = String::new();
        for turn in 0..TURNS {
            let time = format!("2026-{:02}-{:02}T08:00:00Z", 1 + n % 12, 1 + turn);
            lines += &transcript.turn_lines(&time, &words.message(), None, &words.message());
        }
        transcript.append(&lines);
    }
}

fn recall(criterion: &mut Criterion) {
    let folder = folder();
    let at = |name: &str| folder.path().join(name);
    std::fs::create_dir(at("memory")).unwrap();
    write(&at("sessions"));
    let sources = Sources {
        memory: Folder::new(at("memory")),
        sessions: at("sessions"),
    };
    let now: Timestamp = "2026-12-31T00:00:00Z".parse().unwrap();
    let later = || Instant::now() + Duration::from_mins(30);
    let mut index = Index::new(at("index.db"), sources);
    let began = Instant::now();
    index.refresh(now, later()).unwrap();
    println!("made from {SESSIONS} transcripts in {:?}", began.elapsed());

    let mut group = criterion.benchmark_group("recall");
    group.sample_size(20);
    for (name, text) in [
        ("one rare word", "w19001"),
        ("four words", "w15000 w9000 w4000 w800"),
        ("a sentence", "w3 w12 w0 w7000 w1 w40 w11000 w5"),
        ("common words alone", "w0 w1 w2"),
    ] {
        let request = RecallRequest {
            query: text.to_owned(),
            limit: None,
            except: None,
        };
        let found = index.recall(&request, now, later()).unwrap();
        assert!(found.complete && !found.hits.is_empty(), "{name}");
        group.bench_function(name, |bencher| {
            bencher.iter(|| index.recall(&request, now, later()).unwrap());
        });
    }
    let mut one_more = Transcript::begin(&at("sessions"), "chat-new");
    let request = RecallRequest {
        query: "w19001".to_owned(),
        limit: None,
        except: None,
    };
    group.bench_function("one rare word, after a new turn", |bencher| {
        bencher.iter(|| {
            one_more.turn("2026-12-30T08:00:00Z", "w17 w18", None, "w19");
            index.recall(&request, now, later()).unwrap()
        });
    });
    group.finish();
}

criterion_group!(benches, recall);
criterion_main!(benches);
