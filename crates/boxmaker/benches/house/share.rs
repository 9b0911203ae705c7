//! Boxmaker's own share of a turn with one tool call, with a server that takes no time to think.

use super::bare::Bare;
use super::house::{Ask, House, ROLES, bodies, home, runtime, session};
use super::model::Model;
use super::process::{sync_time, syncs, worked};
use super::table::{ms, print as table, row, undisturbed};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// How many turns are timed.
const TURNS: usize = 300;
/// How many turns each session has, so that prompts don't grow without end.
const TURNS_PER_SESSION: usize = 10;
/// How many turns are counted for syncs and work.
const COUNTED: usize = 400;

/// Prints the table.
pub(crate) fn print() {
    let model = Model::start();
    let bare = bare_time(&model);
    let memory = house_time(&model, Path::new("/dev/shm"));
    let disk = house_time(&model, Path::new("/tmp"));
    let sync = sync_time(Path::new("/tmp"));
    let counts = sync_counts(&model);
    let on_path: f64 = counts
        .iter()
        .filter(|(name, _)| *name != "transcripts")
        .map(|(_, count)| count)
        .sum();
    let own = memory.turn.saturating_sub(bare);
    let ratio = |time: Duration| format!("{:.1} x bare", time.as_secs_f64() / bare.as_secs_f64());
    let mut rows = vec![
        row(
            "the two model calls by a bare client",
            ms(bare),
            "warm connection",
        ),
        row(
            "the turn, home in memory",
            ms(memory.turn),
            ratio(memory.turn),
        ),
        row("  own time, no disk", ms(own), "aim: below 2.50 ms"),
        row(
            "the first turn of a session, in memory",
            ms(memory.first),
            ratio(memory.first),
        ),
        row("the turn, home on disk", ms(disk.turn), ratio(disk.turn)),
        row(
            "  one sync of this disk",
            ms(sync),
            format!("{on_path:.2} syncs a turn wait for it"),
        ),
        row(
            "  own time less the syncs",
            ms(disk.turn.saturating_sub(bare + sync.mul_f64(on_path))),
            "",
        ),
    ];
    for (name, count) in counts {
        rows.push(row(
            format!("  syncs a turn: {name}"),
            format!("{count:.2}"),
            "",
        ));
    }
    for (role, work) in ROLES.iter().zip(memory.work) {
        rows.push(row(format!("work a turn: {role}"), ms(work), "CPU time"));
    }
    table("A turn with one tool call at brokerd, one session", &rows);
}

fn bare_time(model: &Model) -> Duration {
    let bodies = bodies(model, Ask::Tool);
    runtime().block_on(async {
        let mut bare = Bare::connect(model.address()).await;
        let mut times = Vec::with_capacity(TURNS);
        for _ in 0..TURNS {
            let began = Instant::now();
            bare.turn(&bodies).await;
            times.push(began.elapsed());
        }
        undisturbed(&mut times)
    })
}

/// What a house does with a turn.
struct Share {
    first: Duration,
    turn: Duration,
    work: [Duration; 4],
}

fn house_time(model: &Model, parent: &Path) -> Share {
    let home = home(parent, model, "native", false);
    let house = House::start(&home, None);
    runtime().block_on(async {
        let mut first = Vec::new();
        let mut later = Vec::new();
        let worked_before = house.roles().map(worked);
        for number in 0..TURNS / TURNS_PER_SESSION {
            for turn in 0..TURNS_PER_SESSION {
                let began = Instant::now();
                house.turn(&session(number), Ask::Tool).await;
                let times = if turn == 0 { &mut first } else { &mut later };
                times.push(began.elapsed());
            }
        }
        let mut work = house.roles().map(worked);
        for (work, before) in work.iter_mut().zip(worked_before) {
            *work = work.saturating_sub(before) / u32::try_from(TURNS).unwrap();
        }
        Share {
            first: undisturbed(&mut first),
            turn: undisturbed(&mut later),
            work,
        }
    })
}

/// How many syncs a turn asks for, by file.
fn sync_counts(model: &Model) -> BTreeMap<String, f64> {
    let home = home(Path::new("/dev/shm"), model, "native", false);
    let log = home.path().join("syncs");
    let arguments = [
        "-f",
        "--seccomp-bpf",
        "-qq",
        "-y",
        "-e",
        "trace=fsync,fdatasync",
        "-o",
        log.to_str().unwrap(),
        "--",
    ];
    let house = House::start(&home, Some((&strace(), &arguments.map(str::to_owned))));
    let before = runtime().block_on(async {
        house.turn(&session(0), Ask::Tool).await;
        let before = syncs(&log);
        for _ in 0..COUNTED {
            house.turn(&session(0), Ask::Tool).await;
        }
        before
    });
    let after = syncs(&log);
    let a_turn = |(name, count): (String, u64)| {
        let new = count - before.get(&name).copied().unwrap_or(0);
        (name, new as f64 / COUNTED as f64)
    };
    after
        .into_iter()
        .map(a_turn)
        .filter(|(_, count)| *count > 0.0)
        .collect()
}

fn strace() -> PathBuf {
    let folders = std::env::var_os("PATH").unwrap_or_default();
    std::env::split_paths(&folders)
        .map(|folder| folder.join("strace"))
        .find(|path| path.is_file())
        .expect("strace; type: sudo apt-get install -y strace")
}
