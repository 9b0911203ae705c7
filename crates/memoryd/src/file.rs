//! The form of a memory file: Markdown with a comment line before and behind each entry. Pure.
//!
//! Reading never fails and never loses a byte. What a person wrote between entries is the owner's;
//! what only looks like an entry counts as the worst that it could be.

mod edit;
mod limits;
mod marker;
mod parse;
mod policy;

pub use edit::{EditError, Editor};
pub use limits::{MAX_ENTRIES, MAX_FILE_BYTES};
pub use marker::{Marker, MarkerError};
pub use parse::{File, Piece};
pub use policy::{Asked, Change, Landing, land};
