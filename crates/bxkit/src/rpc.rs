//! HTTP/1.1 and JSON over Unix sockets: how roles talk, and how the CLI talks to them.

mod answer;
mod api_error;
mod auth;
mod body;
mod call_error;
mod client;
mod health;
mod listener;
mod pool;
mod server;
mod stream;
mod unread;

pub use api_error::ApiError;
pub use auth::{Callers, ServerAuth};
pub use axum::Json;
pub use body::{BodyStream, RawResponse};
pub use call_error::{Break, CallError};
pub use client::{CALL_TIMEOUT_SECS, Client, MAX_ANSWER_BYTES, READY_POLL_MS};
pub use health::{Health, health};
pub use listener::{BindError, SocketListener};
pub use pool::MAX_IDLE_CONNECTIONS;
pub use server::{MAX_BODY_BYTES, MAX_CONNECTIONS, SHUTDOWN_WAIT_SECS, serve};
pub use stream::{
    EventStream, KEEP_ALIVE_SECS, MAX_STREAM_QUEUE, ReaderGone, StreamSender, event_channel,
    event_stream,
};
