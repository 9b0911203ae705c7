//! Delegation: a turn has a piece of its work done by a child session.
//!
//! Pure. [`Delegation::open`] is the only way in which a child comes to be; what it may do is never
//! more than what its parent may, and where it stands is stored with its first entry.

mod end;
mod open;
mod standing;
mod tree;

pub use end::ChildEnd;
pub(crate) use open::child_of;
pub use open::{Delegation, Refused, is_allowed, needs_approval, subagent};
pub use standing::Standing;
pub use tree::{Alive, MAX_ALIVE, MAX_CREATED, TreeFull, Trees};

/// How many sessions deep a tree of children may be, below its root.
pub const MAX_SUBAGENT_DEPTH: u32 = 8;
