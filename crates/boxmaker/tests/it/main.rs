//! The real executable in a disposable home.

mod starter;
mod templates;
mod supervisor;
