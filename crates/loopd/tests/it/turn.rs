//! The turn from outside: transitions one by one, courses and endings, and random histories.

mod compaction;
mod course;
mod courses;
mod endings;
mod histories;
mod questions;
mod tape;
mod template;
mod transitions;
pub mod world;
