//! The routes of inferproxy, one file a resource.

mod backends;
mod chat;
mod router;
mod slots;

pub use router::router;
