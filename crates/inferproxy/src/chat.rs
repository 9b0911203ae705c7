//! A model call: what may be sent, how it is sent, what comes back.

mod call;
mod drain;
mod engine;
mod events;
mod head;
mod life;
mod refusal;
mod relay;
mod running;

pub use engine::Engine;
pub use events::{AnswerReceiver, AnswerSender, CallerGone, MAX_QUEUED_PIECES, answer_channel};
pub use head::ChatHead;
pub use life::{LifeWatch, Pulse};
pub use refusal::{Refusal, read_refusal};
pub use running::{Running, RunningCall};
