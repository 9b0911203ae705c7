//! All secrets, by name, and finding them in what would be sent.

use super::file::{Secret, SecretError};
use super::shapes::Shapes;
use bxkit::fsx::PrivateFileError;
use serde::Deserialize;
use std::collections::BTreeMap;
use std::ffi::OsString;
use std::fmt;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, PoisonError, RwLock};

/// The most secrets.
pub const MAX_SECRETS: usize = 64;
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

#[derive(Debug)]
struct Held {
    secret: Secret,
    shapes: Shapes,
}

/// The secrets that brokerd holds. Cheap to clone; all clones see what was read last.
#[derive(Debug, Clone, Default)]
pub struct Secrets {
    folders: Arc<[PathBuf]>,
    held: Arc<RwLock<BTreeMap<String, Arc<Held>>>>,
}

impl Secrets {
    /// Secrets of these folders; of two with one name that of the earlier folder counts.
    ///
    /// `needed` must be there and in order. Any other that can't be used is told in the log and
    /// left out.
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

    /// Reads all files anew. What was read before stays in force where that fails.
    ///
    /// # Errors
    /// A needed secret can't be used.
    pub fn read_again(&self, needed: &[&SecretName]) -> Result<(), SecretError> {
        let mut held = BTreeMap::new();
        for folder in &*self.folders {
            for name in names(folder)? {
                if held.contains_key(&name) {
                    continue;
                }
                match Secret::read(&folder.join(&name)) {
                    Ok(secret) => {
                        let shapes = Shapes::of(secret.expose());
                        held.insert(name, Arc::new(Held { secret, shapes }));
                    }
                    Err(error) if needed.iter().any(|wanted| wanted.as_str() == name) => {
                        return Err(error);
                    }
                    Err(error) => {
                        let why = bxkit::report::chain(&error);
                        tracing::warn!(%why, "a secret is left out");
                    }
                }
            }
        }
        if let Some(name) = needed.iter().find(|name| !held.contains_key(name.as_str())) {
            let folder = self.folders.last().map(PathBuf::as_path);
            let path = folder.unwrap_or(Path::new("")).join(name.as_str());
            let source = io::Error::from(io::ErrorKind::NotFound);
            return Err(PrivateFileError::Open { path, source }.into());
        }
        *self.held.write().unwrap_or_else(PoisonError::into_inner) = held;
        Ok(())
    }

    /// The secret of a name, as it was read last.
    pub fn get(&self, name: &SecretName) -> Option<Secret> {
        let held = self.held.read().unwrap_or_else(PoisonError::into_inner);
        held.get(name.as_str()).map(|held| held.secret.clone())
    }

    /// The name of a secret that stands in one of these texts, if one does.
    pub fn found_in(&self, texts: &[&[u8]]) -> Option<String> {
        let held = self.held.read().unwrap_or_else(PoisonError::into_inner);
        let stands = |held: &Held| texts.iter().any(|text| held.shapes.stand_in(text));
        held.iter()
            .find(|(_, held)| stands(held))
            .map(|(name, _)| name.clone())
    }
}

/// The names of the files in a folder; none where there is no folder.
fn names(folder: &Path) -> Result<Vec<String>, SecretError> {
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
        let name: OsString = entry.map_err(failed)?.file_name();
        let usable = name.into_string().ok().map(SecretName::try_from);
        // Hidden files are leftovers of editors.
        let Some(Ok(name)) = usable else { continue };
        if names.len() == MAX_SECRETS {
            return Err(SecretError::TooMany {
                folder: folder.to_owned(),
                max: MAX_SECRETS,
            });
        }
        names.push(name.0);
    }
    names.sort_unstable();
    Ok(names)
}

#[cfg(test)]
mod tests;
