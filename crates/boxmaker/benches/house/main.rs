//! What a whole house costs: the real executable, its three roles, a scripted server, one client.
//!
//! `cargo bench -p boxmaker --bench house` prints every table; a word after `--` picks one of them:
//! `share`, `crowd`, `memory`, `start`, `sent`. Times on a shared machine are noise, so what counts
//! are ratios to a bare client on the same server, and counts. See docs/performance.md.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::print_stdout,
    clippy::cast_precision_loss,
    reason = "a bench stops by panicking, prints its tables, and divides counts"
)]

mod bare;
mod crowd;
mod house;
mod memory;
mod model;
mod process;
mod sent;
mod share;
mod start;
mod table;

/// The tables, by the word that picks one.
const TABLES: [(&str, fn()); 5] = [
    ("share", share::print),
    ("crowd", crowd::print),
    ("memory", memory::print),
    ("start", start::print),
    ("sent", sent::print),
];

fn main() {
    // Cargo adds `--bench`; whatever is no flag picks tables.
    let wanted: Vec<String> = std::env::args()
        .skip(1)
        .filter(|word| !word.starts_with('-'))
        .collect();
    for (name, print) in TABLES {
        if wanted.is_empty() || wanted.iter().any(|word| word == name) {
            print();
        }
    }
}
