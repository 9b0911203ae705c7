//! Reading a configuration file into a role's table.

use super::error::{ConfigError, InvalidValue};
use super::locate::locate;
use super::suggest::suggestion;
use rustix::fs::{Mode, OFlags};
use rustix::io::Errno;
use serde::de::DeserializeOwned;
use std::fs::{File, Metadata};
use std::io::{ErrorKind, Read};
use std::os::unix::fs::MetadataExt;
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
            &format!("{}: {}", as_written(&invalid.key), invalid.why),
            invalid.hint,
        )
    })?;
    Ok(table)
}

/// A key as a person finds it in the file: tables of a list are counted from 1, as they are
/// everywhere else.
fn as_written(key: &str) -> String {
    let mut parts = key.splitn(3, '.');
    let listed = (
        parts.next(),
        parts.next().map(str::parse::<usize>),
        parts.next(),
    );
    match listed {
        (Some(list), Some(Ok(index)), Some(rest)) => format!("{list} {}: `{rest}`", index + 1),
        (Some(list), Some(Ok(index)), None) => format!("{list} {}", index + 1),
        _ => format!("`{key}`"),
    }
}

/// Reads the text of a configuration file; none where there is no file.
///
/// # Errors
/// The file can't be read, is too large, or others than its owner could have written it.
pub fn read(path: &Path) -> Result<Option<String>, ConfigError> {
    let unreadable = |source| ConfigError::Unreadable {
        path: path.to_owned(),
        source,
    };
    // NONBLOCK: opening a pipe must not hang before its kind has been looked at.
    let flags = OFlags::RDONLY | OFlags::CLOEXEC | OFlags::NONBLOCK;
    let file = match rustix::fs::open(path, flags, Mode::empty()) {
        Ok(file) => File::from(file),
        // A link that leads nowhere is a mistake, and no missing file.
        Err(Errno::NOENT) if path.symlink_metadata().is_err() => return Ok(None),
        Err(errno) => return Err(unreadable(errno.into())),
    };
    if let Some(why) = unsafe_because(&file.metadata().map_err(unreadable)?) {
        return Err(ConfigError::Unsafe {
            path: path.to_owned(),
            why,
        });
    }
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

/// Why an open file can't say what a role may do; none if it can.
///
/// Whoever can write it decides what is granted, so that must be us or the system's administrator.
fn unsafe_because(found: &Metadata) -> Option<&'static str> {
    let ours = rustix::process::geteuid().as_raw();
    if !found.is_file() {
        Some("it is not a regular file")
    } else if found.uid() != ours && found.uid() != 0 {
        Some("it belongs to another user")
    } else if found.mode() & 0o022 != 0 {
        Some("group or others may write it")
    } else {
        None
    }
}

#[cfg(test)]
mod tests {
    use super::as_written;

    #[test]
    fn tables_of_a_list_are_counted_from_one() {
        for (key, expect) in [
            ("tokens", "`tokens`"),
            ("guardrails.usd", "`guardrails.usd`"),
            ("grant.4.hosts", "grant 5: `hosts`"),
            ("grant.0", "grant 1"),
            ("mcp.1.environment.A", "mcp 2: `environment.A`"),
        ] {
            assert_eq!(as_written(key), expect);
        }
    }
}
