//! All secrets, by name, and finding them in what would be sent.

use super::file::{Secret, SecretError};
use super::shapes::{Shapes, percent_decodings};
use bxkit::fsx::PrivateFileError;
use serde::Deserialize;
use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};
use std::fmt;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, PoisonError, RwLock};

/// The most secrets.
pub const MAX_SECRETS: usize = 64;
/// A secret of fewer bytes is probably none: keys of services have 20 and more.
const SHORT_BYTES: usize = 8;
/// The longest name of a secret, in bytes.
const MAX_NAME_BYTES: usize = 64;

/// The name of a secret, which is its file's: 1 to 64 of a-z, A-Z, 0-9 and `- _ .`.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Deserialize)]
#[serde(try_from = "String")]
pub struct SecretName(String);

impl SecretName {
    /// The name as text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for SecretName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl TryFrom<String> for SecretName {
    type Error = String;
    fn try_from(text: String) -> Result<Self, String> {
        let allowed = |b: u8| b.is_ascii_alphanumeric() || b"-_.".contains(&b);
        let fits = (1..=MAX_NAME_BYTES).contains(&text.len()) && text.bytes().all(allowed);
        if fits && !text.starts_with('.') {
            return Ok(Self(text));
        }
        // Somebody may have written the secret itself here, so it is not repeated.
        Err("not the name of a secret: 1 to 64 of a-z, A-Z, 0-9 and - _ .".to_owned())
    }
}

/// What was read last.
#[derive(Debug, Default)]
struct Held {
    /// Those that can be used, by name; of two with one name that of the earlier folder.
    by_name: BTreeMap<String, Secret>,
    /// What is looked for: all that could be read, whatever it is called, with its file's name.
    looked_for: Vec<(String, Shapes)>,
    /// Why something could not be read. What it holds can't be looked for.
    unread: Vec<String>,
}

/// What looking for secrets in a text says.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Search {
    /// None stands in it.
    Absent,
    /// This one does.
    Present {
        /// Its name, never its value.
        name: String,
    },
    /// A file among the secrets can't be read, so that nobody can tell.
    Unsure,
}

/// The secrets that brokerd holds. Cheap to clone; all clones see what was read last.
#[derive(Debug, Clone, Default)]
pub struct Secrets {
    folders: Arc<[PathBuf]>,
    held: Arc<RwLock<Held>>,
}

impl Secrets {
    /// Secrets of these folders; of two with one name that of the earlier folder counts.
    ///
    /// `needed` must be there and in order. Any other that can't be read is told in the log, and
    /// keeps everything that sends from running; see [`Secrets::search`].
    ///
    /// # Errors
    /// A needed secret can't be used.
    pub fn open(folders: Vec<PathBuf>, needed: &[&SecretName]) -> Result<Self, SecretError> {
        let secrets = Self {
            folders: folders.into(),
            held: Arc::default(),
        };
        secrets.read_again(needed)?;
        Ok(secrets)
    }

    /// Reads all files anew. A needed secret that can't be used any more stays as it was read
    /// before; but what its file holds now can't be looked for, so that nothing may be sent.
    ///
    /// # Errors
    /// A needed secret can't be used.
    pub fn read_again(&self, needed: &[&SecretName]) -> Result<(), SecretError> {
        let mut found = read_all(&self.folders, needed);
        let mut failure = Ok(());
        let mut held = self.held.write().unwrap_or_else(PoisonError::into_inner);
        for name in needed {
            if found.by_name.contains_key(name.as_str()) {
                continue;
            }
            failure = Err(self.why_not(name));
            if let Some(before) = held.by_name.get(name.as_str()) {
                found.hold(OsStr::new(name.as_str()), before.clone());
            }
        }
        *held = found;
        failure
    }

    /// Why a needed secret is not among those that were read.
    fn why_not(&self, name: &SecretName) -> SecretError {
        let paths = self.folders.iter().map(|folder| folder.join(name.as_str()));
        let is_missing = |error: &SecretError| match error {
            SecretError::File(PrivateFileError::Open { source, .. }) => {
                source.kind() == io::ErrorKind::NotFound
            }
            _ => false,
        };
        let mut errors: Vec<SecretError> =
            paths.filter_map(|path| Secret::read(&path).err()).collect();
        let telling = errors.iter().position(|error| !is_missing(error));
        match telling.or_else(|| errors.len().checked_sub(1)) {
            Some(at) => errors.swap_remove(at),
            // It came or was mended in between; the next reading finds it.
            None => {
                let path = PathBuf::from(name.as_str());
                let source = io::ErrorKind::NotFound.into();
                PrivateFileError::Open { path, source }.into()
            }
        }
    }

    /// The secret of a name, as it was read last.
    pub fn get(&self, name: &SecretName) -> Option<Secret> {
        let held = self.held.read().unwrap_or_else(PoisonError::into_inner);
        held.by_name.get(name.as_str()).cloned()
    }

    /// How many were read, whatever they are called.
    pub fn count(&self) -> usize {
        let held = self.held.read().unwrap_or_else(PoisonError::into_inner);
        held.looked_for.len()
    }

    /// The names of those that are so short that nearly every text has them in it by chance, and
    /// may therefore not be sent.
    pub fn short(&self) -> Vec<String> {
        let held = self.held.read().unwrap_or_else(PoisonError::into_inner);
        let short = held.by_name.iter();
        let short = short.filter(|(_, secret)| secret.expose().len() < SHORT_BYTES);
        short.map(|(name, _)| name.clone()).collect()
    }

    /// What could not be read and why, so that nothing may be sent; never anything of its value.
    pub fn unread(&self) -> Vec<String> {
        let held = self.held.read().unwrap_or_else(PoisonError::into_inner);
        held.unread.clone()
    }

    /// A text that came from elsewhere without the secrets that stand in it: whoever got one may send
    /// it back, and what comes back is recorded, and read by models.
    pub fn blotted(&self, text: String) -> String {
        let held = self.held.read().unwrap_or_else(PoisonError::into_inner);
        held.looked_for.iter().fold(text, |text, (name, shapes)| {
            let by = format!("[the secret {name}]");
            shapes.replaced_in(&text, &by).unwrap_or(text)
        })
    }

    /// Whether a secret stands in a text that came from elsewhere, and surely not by chance.
    pub fn came_back(&self, text: &[u8]) -> bool {
        let held = self.held.read().unwrap_or_else(PoisonError::into_inner);
        let mut shapes = held.looked_for.iter().map(|(_, shapes)| shapes);
        shapes.any(|shapes| shapes.surely_stand_in(text))
    }

    /// Whether a secret stands in one of these texts, as it is or encoded.
    pub fn search(&self, texts: &[&[u8]]) -> Search {
        let held = self.held.read().unwrap_or_else(PoisonError::into_inner);
        let decoded: Vec<_> = texts
            .iter()
            .flat_map(|text| percent_decodings(text))
            .collect();
        let decoded = decoded.iter().map(|text| text.as_slice());
        let texts: Vec<&[u8]> = texts.iter().copied().chain(decoded).collect();
        let stands = |shapes: &Shapes| texts.iter().any(|text| shapes.stand_in(text));
        let found = held.looked_for.iter().find(|(_, shapes)| stands(shapes));
        match found {
            Some((name, _)) => Search::Present { name: name.clone() },
            None if !held.unread.is_empty() => Search::Unsure,
            None => Search::Absent,
        }
    }
}

impl Held {
    fn hold(&mut self, name: &OsStr, secret: Secret) {
        let shown = name.to_string_lossy().into_owned();
        let shapes = Shapes::of(secret.expose());
        self.looked_for.push((shown.clone(), shapes));
        // One whose name nothing can refer to is looked for all the same.
        if let Ok(name) = SecretName::try_from(shown) {
            self.by_name.entry(name.0).or_insert(secret);
        }
    }

    fn leave_out(&mut self, error: &SecretError) {
        let why = bxkit::report::chain(error);
        tracing::warn!(%why, "while this can't be read as a secret, nothing may be sent");
        self.unread.push(why);
    }
}

/// Reads everything that lies in these folders; what is needed also where there is too much.
fn read_all(folders: &[PathBuf], needed: &[&SecretName]) -> Held {
    let mut held = Held::default();
    for folder in folders {
        let names = names(folder).unwrap_or_else(|error| {
            held.leave_out(&error);
            let is_there = |name: &OsString| folder.join(name).symlink_metadata().is_ok();
            let needed = needed.iter().map(|name| OsString::from(name.as_str()));
            needed.filter(is_there).collect()
        });
        for name in names {
            match Secret::read(&folder.join(&name)) {
                Ok(secret) => held.hold(&name, secret),
                Err(error) => held.leave_out(&error),
            }
        }
    }
    held
}

/// The names of all that lies in a folder; none where there is no folder.
fn names(folder: &Path) -> Result<Vec<OsString>, SecretError> {
    let failed = |source| {
        SecretError::File(PrivateFileError::Open {
            path: folder.to_owned(),
            source,
        })
    };
    let entries = match std::fs::read_dir(folder) {
        Ok(entries) => entries,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        Err(error) => return Err(failed(error)),
    };
    let mut names = Vec::new();
    for entry in entries {
        if names.len() == MAX_SECRETS {
            return Err(SecretError::TooMany {
                folder: folder.to_owned(),
                max: MAX_SECRETS,
            });
        }
        names.push(entry.map_err(failed)?.file_name());
    }
    names.sort_unstable();
    Ok(names)
}

#[cfg(test)]
mod tests;
