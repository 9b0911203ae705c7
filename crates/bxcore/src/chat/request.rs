//! What the body of a model call may hold, whoever sends it. Pure.

mod allow;
mod messages;
mod rules;

pub use allow::{Expected, check_body};
pub use rules::MAX_REPLY_TOKENS;
