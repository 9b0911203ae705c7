//! Memory of the idle house, and what a thousand idle sessions add to it.

use super::house::{Ask, House, ROLES, home, runtime, session};
use super::model::Model;
use super::process::{pss_kib, rss_kib};
use super::table::{print as table, row};
use futures_util::StreamExt;
use futures_util::stream;
use std::path::Path;

/// How many sessions there are in the end.
pub(crate) const SESSIONS: usize = 1_000;
/// How many are made at once.
const AT_ONCE: usize = 16;

/// Prints the table.
pub(crate) fn print() {
    let model = Model::start();
    let home = home(Path::new("/tmp"), &model, "native", false);
    let house = House::start(&home, None);
    let mut rows = Vec::new();
    let mut before = 0;
    let mut sum = |rows: &mut Vec<_>, when: &str, house: &House<'_>| {
        let pids = house.roles();
        let all: u64 = pids.iter().map(|pid| pss_kib(*pid)).sum();
        for (role, pid) in ROLES.iter().zip(pids) {
            let rss = mib(rss_kib(pid));
            rows.push(row(
                format!("{role}, {when}"),
                mib(pss_kib(pid)),
                format!("RSS {rss}"),
            ));
        }
        rows.push(row(
            format!("all roles, {when}"),
            mib(all),
            "aim when idle: below 64 MiB",
        ));
        let added = all.saturating_sub(before);
        before = all;
        added
    };
    sum(&mut rows, "idle after the start", &house);
    fill(&house, SESSIONS);
    let added = sum(&mut rows, "idle with 1,000 sessions", &house);
    rows.push(row(
        "for each idle session",
        format!("{:.1} KiB", added as f64 / SESSIONS as f64),
        "of one turn with a tool call; kept conversations are bounded at 32 MiB",
    ));
    drop(house);
    let house = House::start(&home, None);
    sum(&mut rows, "started again with 1,000 sessions", &house);
    table(
        "Memory (PSS: what is shared is divided among those who share it)",
        &rows,
    );
}

/// Makes sessions of one turn with a tool call each.
pub(crate) fn fill(house: &House<'_>, sessions: usize) {
    runtime().block_on(async {
        stream::iter(0..sessions)
            .for_each_concurrent(AT_ONCE, |number| async move {
                house.turn(&session(number), Ask::Tool).await;
            })
            .await;
    });
}

fn mib(kib: u64) -> String {
    format!("{:.1} MiB", kib as f64 / 1024.0)
}
