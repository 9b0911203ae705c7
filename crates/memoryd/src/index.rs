//! The index of passages that recall searches: made from memory files and transcripts, and nothing
//! else. Whoever deletes it loses nothing; it is made anew. Blocks.

mod database;
mod error;
mod follow;
mod intake;
mod query;
mod refresh;
mod search;
mod transcript;

pub use error::IndexError;
pub use query::{MAX_TERM_BYTES, MAX_TERMS, terms};
pub use refresh::{Index, Progress, Sources};
pub use search::{HALF_LIFE_DAYS, MAX_CANDIDATES, MAX_SNIPPET_BYTES};
pub use transcript::{MAX_LINE_BYTES, MAX_PASSAGE_BYTES};
