//! The stream of a model's answer, looked at while it passes. Pure.

mod glance;
mod meter;

pub use glance::{Fault, error_text};
pub use meter::{CallFacts, MAX_ANSWER_TEXT_BYTES, MAX_STREAM_BYTES, Meter};
