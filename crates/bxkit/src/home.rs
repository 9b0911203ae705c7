//! Where everything of one Boxmaker is kept: configuration, state, sockets.

mod error;
mod folder;
mod layout;
mod place;

pub use error::HomeError;
pub use layout::{Home, MAX_SOCKET_PATH_BYTES};
pub use place::Surroundings;
