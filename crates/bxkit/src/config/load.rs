//! Reading a configuration file into a role's table.

use super::error::{ConfigError, InvalidValue};
use super::locate::locate;
use super::suggest::suggestion;
use serde::de::DeserializeOwned;
use std::fs::File;
use std::io::{ErrorKind, Read};
use std::path::Path;

/// The largest configuration file that is read.
pub const MAX_CONFIG_BYTES: u64 = 1024 * 1024;

/// Reads a configuration file; a missing one gives the defaults.
///
/// `T` should refuse unknown fields: the error then names the nearest known one.
///
/// # Errors
/// The file can't be read or does not fit `T`; the error shows file, line, column and the place.
pub fn load<T: DeserializeOwned + Default>(path: &Path) -> Result<T, ConfigError> {
    load_checked(path, |_| Ok(()))
}

/// Like [`load`], followed by a check of what the types can't say.
///
/// The check names the key whose value is wrong; the error then points at it.
pub fn load_checked<T: DeserializeOwned + Default>(
    path: &Path,
    check: impl FnOnce(&T) -> Result<(), InvalidValue>,
) -> Result<T, ConfigError> {
    match read(path)? {
        Some(text) => parse(path, &text, check),
        None => Ok(T::default()),
    }
}

/// Reads a table from text; `path` is only for the error.
pub fn parse<T: DeserializeOwned>(
    path: &Path,
    text: &str,
    check: impl FnOnce(&T) -> Result<(), InvalidValue>,
) -> Result<T, ConfigError> {
    let table: T = toml::from_str(text).map_err(|error| {
        let span = error.span().unwrap_or(0..0);
        match suggestion(error.message()) {
            Some((unknown, hint)) => ConfigError::at(path, text, span, unknown, Some(hint)),
            None => ConfigError::at(path, text, span, error.message(), None),
        }
    })?;
    check(&table).map_err(|invalid| {
        let span = locate(text, &invalid.key).unwrap_or(0..0);
        ConfigError::at(
            path,
            text,
            span,
            &format!("`{}`: {}", invalid.key, invalid.why),
            invalid.hint,
        )
    })?;
    Ok(table)
}

fn read(path: &Path) -> Result<Option<String>, ConfigError> {
    let unreadable = |source| ConfigError::Unreadable {
        path: path.to_owned(),
        source,
    };
    let file = match File::open(path) {
        Ok(file) => file,
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
        Err(source) => return Err(unreadable(source)),
    };
    let mut text = String::new();
    let length = file
        .take(MAX_CONFIG_BYTES + 1)
        .read_to_string(&mut text)
        .map_err(unreadable)?;
    if length as u64 > MAX_CONFIG_BYTES {
        return Err(unreadable(ErrorKind::FileTooLarge.into()));
    }
    Ok(Some(text))
}
