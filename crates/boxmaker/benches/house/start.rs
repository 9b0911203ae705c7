//! Time from `boxmaker up` to ready, as a service manager is told.

use super::house::{House, home};
use super::memory::{SESSIONS, fill};
use super::model::Model;
use super::table::{ms, print as table, row, undisturbed};
use bxtest::home::TestHome;
use std::path::Path;

/// How many starts are timed.
const STARTS: usize = 11;

/// Prints the table.
pub(crate) fn print() {
    let model = Model::start();
    let mut rows = Vec::new();
    let mut first: Vec<_> = (0..STARTS)
        .map(|_| {
            let home = home(Path::new("/tmp"), &model, "native", false);
            House::start(&home, None).ready_after
        })
        .collect();
    rows.push(row(
        "the first start of a home",
        ms(undisturbed(&mut first)),
        "makes its databases",
    ));
    let home = home(Path::new("/tmp"), &model, "native", false);
    House::start(&home, None).stop();
    rows.push(row("an empty home", starts(&home), "aim: below 300 ms"));
    let house = House::start(&home, None);
    fill(&house, SESSIONS);
    // Killed before the transcripts were synced, and again and again before they are.
    drop(house);
    rows.push(row(
        "a home whose 1,000 sessions were cut off",
        starts(&home),
        "the worst case",
    ));
    House::start(&home, None).stop();
    rows.push(row(
        "a home of 1,000 sessions",
        starts(&home),
        "aim: below 300 ms",
    ));
    table("From `boxmaker up` to ready, on disk", &rows);
}

fn starts(home: &TestHome) -> String {
    let mut times: Vec<_> = (0..STARTS)
        .map(|_| House::start(home, None).ready_after)
        .collect();
    ms(undisturbed(&mut times))
}
