//! What a model is sent and how its replies are read.
//!
//! Holds the prefix contract: within an epoch each request's messages extend those of the one
//! before byte for byte, and everything but the named few fields stays the same. Pure.

mod baseline;
mod beside;
mod circles;
mod compaction;
mod conversation;
mod convert;
mod epoch;
mod grammar;
mod ladder;
mod message;
mod offer;
mod question;
mod reply;
mod request;
mod schema;
mod stream;
mod summary;
mod system;

pub use baseline::remembering;
pub use beside::Beside;
pub use compaction::Compaction;
pub use conversation::{Conversation, EpochFacts};
pub use grammar::grammar;
pub use ladder::{Asked, Fitted, Ladder, MAX_REPAIRS, Rejected, Step, fit};
pub(crate) use message::recorded_answer;
pub use message::{KeptReasoning, assistant, tool_result, wire_id};
pub use offer::Offered;
pub use question::MEMORY_ANSWER_TOKENS;
pub use reply::{Reply, last_call_is_cut, read_reply};
pub use request::{Call, Stage};
pub use schema::{grammar_schema, held_to, reply_schema};
pub use stream::AnswerStream;
pub use summary::{Summary, summary_text};
