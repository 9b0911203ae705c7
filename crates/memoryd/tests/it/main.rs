//! What memoryd does for those who call it.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "tests report by panicking"
)]

mod files;
mod index;
mod role;
mod support;
