//! Configuration files: strict, with errors that point at the place.

mod error;
mod load;
mod locate;
mod snippet;
mod suggest;

pub use error::{ConfigError, InvalidValue};
pub use load::{MAX_CONFIG_BYTES, load, load_checked, parse, read};
pub use suggest::instead_of;
