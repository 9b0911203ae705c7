//! Bytes of a request that were not in the one before it, from inferproxy's own dump.
//!
//! A request is the one before it with something put in: what it has in common with that one at
//! its beginning and at its end (where the tools stand) was sent before.

use super::house::{Ask, House, home, runtime, session};
use super::model::Model;
use super::table::{print as table, row};
use std::path::Path;

/// How many turns the conversation has.
const TURNS: usize = 20;

/// Prints the table.
pub(crate) fn print() {
    let model = Model::start();
    let mut rows = Vec::new();
    for mode in ["native", "schema"] {
        for ask in [Ask::Plain, Ask::Tool] {
            rows.extend(sent(&model, mode, ask));
        }
    }
    table(
        "Bytes sent that were not sent before, a turn of a conversation of 20",
        &rows,
    );
}

fn sent(model: &Model, mode: &str, ask: Ask) -> [(String, String, String); 1] {
    let home = home(Path::new("/dev/shm"), model, mode, true);
    let house = House::start(&home, None);
    runtime().block_on(async {
        for _ in 0..TURNS {
            house.turn(&session(0), ask).await;
        }
    });
    drop(house);
    let bodies = bxtest::wire::read(&home.wire_dump());
    let whole: usize = bodies.iter().map(bytes::Bytes::len).sum();
    // The first request is all new; what is asked is what each later turn adds.
    let new: usize = bodies
        .windows(2)
        .skip(ask.model_calls() as usize - 1)
        .map(|pair| pair[1].len() - shared(&pair[0], &pair[1]))
        .sum();
    let turns = TURNS - 1;
    [row(
        format!("{mode}, {} model calls a turn", ask.model_calls()),
        format!("{} bytes", new / turns),
        format!(
            "{:.1} % of what is sent; first request {} bytes",
            100.0 * new as f64 / (whole - bodies[0].len()) as f64,
            bodies[0].len()
        ),
    )]
}

/// How many bytes of a request are in the one before it, at the beginning and at the end.
fn shared(before: &[u8], after: &[u8]) -> usize {
    let common = |pairs: &mut dyn Iterator<Item = (&u8, &u8)>| {
        pairs.take_while(|(one, other)| one == other).count()
    };
    let first = common(&mut before.iter().zip(after));
    let last = common(
        &mut before[first..]
            .iter()
            .rev()
            .zip(after[first..].iter().rev()),
    );
    first + last
}
