//! What a session is made of: its transcript as bytes, and what the index says of it.
//!
//! Pure: the store brings the bytes and keeps the results.

mod cache;
mod summary;
mod transcript;

pub use cache::{CACHE_SLACK_TOKENS, cache_rows};
pub use summary::{MAX_TITLE_BYTES, Summary};
pub use transcript::{Fault, Scan, encode, read, scan};
