//! The real executable in a disposable home.

mod cli;
mod house;
mod kills;
mod starter;
mod templates;
mod supervisor;
