//! A scripted llama-server over HTTP: it checks every request, simulates slots and their caches,
//! and answers as the test's script says. It runs no model and decides nothing by itself.
//!
//! ```no_run
//! # async fn example() {
//! use bxtest::llama::{LlamaServer, Reply};
//! use serde_json::json;
//!
//! let server = LlamaServer::builder()
//!     .slots(3)
//!     .reply(Reply::tool_call("clock", json!({})))
//!     .reply(Reply::text("It is noon.").chunk_bytes(4))
//!     .start()
//!     .await;
//! // … let the product work a turn against `server.url()` …
//! assert_eq!(server.counts().completed, 2);
//! server.assert_clean(); // also done when the server is dropped
//! # }
//! ```

mod builder;
mod cache;
mod chat;
mod chunks;
mod ending;
mod garbage;
mod gate;
mod http;
mod info;
mod journal;
mod plan;
mod render;
mod reply;
mod request;
mod runner;
mod server;
mod shared;
mod slots;
mod spec;

pub use builder::{Builder, Kind};
pub use gate::Gate;
pub use journal::{Counts, Figures, Outcome, Recorded};
pub use reply::{Call, Finish, Garbage, Reply};
pub use request::Request;
pub use server::LlamaServer;
pub use spec::{Order, Script};
