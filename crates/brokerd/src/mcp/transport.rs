//! The two ways to a server, in bounds: everything that comes is counted before it is read.

mod lines;
mod noted;
mod posts;
mod reading;

pub(super) use lines::Lines;
pub(super) use noted::Noted;
pub(super) use posts::{Posts, Sender};
