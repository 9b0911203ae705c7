//! The owner's secrets: one private file each, read into memory that is wiped, and looked for in
//! whatever would leave the box.

mod file;
mod shapes;
mod store;

pub use file::{Secret, SecretError};
pub use store::{MAX_SECRETS, Search, SecretName, Secrets};

use bxkit::home::Home;
use std::path::PathBuf;

/// Where secrets are: what the service manager hands over comes first.
pub fn folders(home: &Home) -> Vec<PathBuf> {
    let handed = std::env::var_os("CREDENTIALS_DIRECTORY").map(PathBuf::from);
    handed.into_iter().chain([home.secrets_dir()]).collect()
}
