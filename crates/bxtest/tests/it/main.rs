//! Tests of the test support itself: each check must catch what it is for.

#![allow(clippy::unwrap_used, clippy::panic, reason = "tests fail by panicking")]

mod checker;
mod client;
mod endpoints;
mod faults;
mod homes;
mod replies;
mod slots;
mod wire;
