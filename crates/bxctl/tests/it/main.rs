//! The client as a person meets it.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "tests stop by panicking, in their helpers too"
)]

mod usage;
