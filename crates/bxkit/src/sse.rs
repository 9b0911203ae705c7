//! Server-sent events: text in, events out, and back. No I/O.

mod decoder;
mod encode;
mod framer;

pub use decoder::{Decoder, MAX_EVENT_BYTES, TooLong};
pub use encode::{KEEP_ALIVE, encode};
pub use framer::{EventTooLong, Framer};

/// One event of a stream.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Event {
    /// Its kind; `message` where the stream names none.
    pub event: String,
    /// Its lines, joined by line feeds.
    pub data: String,
    /// The last id that the stream has given, if any.
    pub id: Option<String>,
}
