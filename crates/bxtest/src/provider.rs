//! A scripted stand-in for somebody else's model service: it records each byte that it gets, and
//! answers as well or as badly as a test wants.

mod script;
mod server;
mod tls;

pub use script::{Answer, StreamEnd, completion, event};
pub use server::{Provider, Seen};
pub use tls::{Pem, certificate};
