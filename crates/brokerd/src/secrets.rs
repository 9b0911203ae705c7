//! The owner's secrets: one private file each, read into memory that is wiped, and looked for in
//! whatever would leave the box.

mod file;
mod shapes;
mod store;

pub use file::{Secret, SecretError};
pub use store::{MAX_SECRETS, Search, SecretName, Secrets};
