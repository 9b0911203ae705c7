//! A model call: what may be sent, how it is sent, what comes back.

mod allow;
mod call;
mod drain;
mod engine;
mod events;
mod framer;
mod glance;
mod head;
mod life;
mod messages;
mod meter;
mod refusal;
mod relay;
mod rules;
mod running;

pub use allow::{Expected, check_body};
pub use engine::Engine;
pub use events::{AnswerReceiver, AnswerSender, CallerGone, MAX_QUEUED_PIECES, answer_channel};
pub use framer::{EventTooLong, Framer, MAX_EVENT_BYTES};
pub use glance::{Fault, error_text};
pub use head::ChatHead;
pub use life::{LifeWatch, Pulse};
pub use meter::{CallFacts, MAX_ANSWER_TEXT_BYTES, MAX_STREAM_BYTES, Meter};
pub use refusal::{Refusal, read_refusal};
pub use rules::MAX_REPLY_TOKENS;
pub use running::{Running, RunningCall};
