//! Memory files that a person can edit, and a search over them and over transcripts.
//!
//! It decides nothing about who may read what: whatever it gives carries the label of its writer,
//! and brokerd joins that to the reader's before the reader gets it.

pub mod config;
pub mod file;
pub mod folder;
pub mod http;
pub mod index;
pub mod memory;
mod role;
pub mod searcher;
pub mod service;

pub use role::{confinement, run};
