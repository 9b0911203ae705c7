//! The asynchronous shell of loopd: carries out what turns want done, and decides nothing itself.

mod authority;
mod backend;
mod catalogs;
mod child;
mod choosing;
mod compact;
mod engine;
mod holds;
mod inference;
mod ledger;
mod live;
mod memory;
mod model;
mod opening;
mod perform;
mod resume;
mod said;
mod scheduler;
mod sink;
mod tools;

pub use authority::Broker;
pub use engine::{Engine, Parts};
pub use holds::{Hold, HoldError, Holds, MAX_WAITING_TURNS};
pub use inference::{Inference, InferenceError, Listener, ModelRequest, Piece};
pub use memory::Memory;
pub use sink::{EventSink, MAX_EVENT_QUEUE};
