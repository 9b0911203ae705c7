//! inferproxy behind its socket, against a scripted model server.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::allow_attributes,
    clippy::unused_async,
    reason = "tests fail by panicking"
)]

mod support;

mod backends;
mod faults;
mod limits_of_calls;
mod probe;
mod slots;
mod stops;
mod streams;
