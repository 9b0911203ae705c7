//! loopd's parts against real files, a real database and a scripted model server.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::match_same_arms,
    unreachable_pub,
    clippy::panic,
    reason = "tests stop by panicking, in their helpers too"
)]

mod budget;
mod prompt;
mod store;
mod support;
mod transcript;
mod turn;
