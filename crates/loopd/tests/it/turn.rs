//! The turn from outside: transitions one by one, ordinary courses, and random histories.

mod courses;
mod histories;
mod tape;
mod template;
mod transitions;
pub mod world;
