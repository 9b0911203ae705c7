//! Model servers: where they are, what they are, whether they can be used now.

mod assess;
mod facts;
mod inspect;
mod layout;
mod place;
mod problems;
mod registry;
mod server;
mod spec;
mod upstream;

pub use assess::{Look, assess};
pub use facts::{FactsError, Model, Models, Props};
pub use inspect::LOOK_TIMEOUT_MS;
pub use layout::{SlotMissing, layout};
pub use place::Place;
pub use problems::{connect_problem, unusable_problem};
pub use registry::{Registry, USUAL_PORTS};
pub use server::{Backend, Known, READY_FRESH_MS, SlotsError, UNREADY_FRESH_MS};
pub use spec::{DEFAULT_CONCURRENCY, Spec};
pub use upstream::{
    Answer, CONNECT_TIMEOUT_MS, MAX_REPLY_BYTES, Reply, Reuse, Upstream, UpstreamError,
};
