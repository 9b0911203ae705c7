//! What is the same for each model service that is configured.

use super::endpoint::Endpoint;
use super::exchange::Client;
use super::tls::{Roots, RootsError};
use bxkit::config::InvalidValue;
use std::path::Path;

/// The longest name of a model, in bytes.
const MAX_MODEL_BYTES: usize = 200;

/// Makes ready to send to a service. Its certificates are read now: later there is no right to.
///
/// # Errors
/// There are no certificates to check the other side's against.
pub fn reach(url: &Endpoint, ca_file: Option<&Path>) -> Result<Client, RootsError> {
    let roots = match (ca_file, url.is_tls()) {
        (_, false) => None,
        (Some(file), true) => Some(Roots::of_file(file)?),
        (None, true) => Some(Roots::of_system()?),
    };
    Ok(Client::new(url.clone(), roots))
}

/// Checks a service's `model` and `ca_file`; `table` is where they stand.
///
/// # Errors
/// The key whose value can't be used.
pub fn check_service(
    table: &str,
    url: &Endpoint,
    model: &str,
    ca_file: Option<&Path>,
) -> Result<(), InvalidValue> {
    let wrong = |key: &str, why: &str| InvalidValue::new(format!("{table}.{key}"), why);
    let is_name =
        !model.is_empty() && model.len() <= MAX_MODEL_BYTES && !model.contains(char::is_control);
    if !is_name {
        return Err(wrong("model", "it is not the name of a model"));
    }
    check_ca_file(table, url, ca_file)
}

/// Checks the `ca_file` of whatever is sent to; `table` is where it stands.
///
/// # Errors
/// It can't be used.
pub fn check_ca_file(
    table: &str,
    url: &Endpoint,
    ca_file: Option<&Path>,
) -> Result<(), InvalidValue> {
    let wrong = |key: &str, why: &str| InvalidValue::new(format!("{table}.{key}"), why);
    match ca_file {
        Some(file) if !file.is_absolute() => Err(wrong("ca_file", "it is not an absolute path")),
        Some(_) if !url.is_tls() => {
            let why = "without https there is no certificate to check";
            Err(wrong("ca_file", why).hint("remove it"))
        }
        _ => Ok(()),
    }
}
