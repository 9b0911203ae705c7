//! One secret, and the file that it comes from.

use bxkit::fsx::{PrivateFileError, read_nofollow_private};
use secrecy::zeroize::Zeroize;
use secrecy::{ExposeSecret, SecretString};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

/// A secret. Its value shows in no debug output, and its memory is wiped.
#[derive(Debug, Clone)]
pub struct Secret(SecretString);

/// Why a secret can't be used. Never says anything of its value.
#[derive(Debug, thiserror::Error)]
pub enum SecretError {
    /// The file can't be opened, or others could have read or planted it.
    #[error(transparent)]
    File(#[from] PrivateFileError),
    /// Others may put another file in its place.
    #[error("the folder `{}` is not private: group or others may write in it", .0.display())]
    Folder(PathBuf),
    /// The content is not one line of visible ASCII, so that no header could carry it.
    #[error("`{}` does not hold one line of visible ASCII characters", .0.display())]
    Content(PathBuf),
    /// There are too many.
    #[error("`{}` holds more than {max} files", folder.display())]
    TooMany {
        /// Where.
        folder: PathBuf,
        /// The limit.
        max: usize,
    },
}

impl SecretError {
    /// What to do about it.
    pub fn hint(&self) -> String {
        match self {
            Self::File(PrivateFileError::Open { path, .. }) => format!(
                "write it there: (umask 077; cat > '{}'), paste it, then Ctrl-D",
                path.display()
            ),
            Self::File(PrivateFileError::NotPrivate { path, .. }) => {
                format!("chmod 600 '{}'", path.display())
            }
            Self::Content(path) => format!(
                "write the one line of the secret alone into '{}'",
                path.display()
            ),
            Self::Folder(folder) => format!("chmod 700 '{}'", folder.display()),
            Self::TooMany { folder, .. } => {
                format!("move what is no secret out of '{}'", folder.display())
            }
        }
    }
}

impl Secret {
    /// Reads a secret's file; line ends at its end don't belong to it.
    ///
    /// # Errors
    /// The file or its folder is not private, or the content can't be a secret.
    pub fn read(path: &Path) -> Result<Self, SecretError> {
        let folder = path.parent().unwrap_or(Path::new("/"));
        let open = std::fs::metadata(folder).is_ok_and(|found| found.mode() & 0o022 != 0);
        if open {
            return Err(SecretError::Folder(folder.to_owned()));
        }
        let mut bytes = read_nofollow_private(path)?;
        let kept = bytes.trim_ascii_end().len();
        let is_usable = kept > 0 && bytes[..kept].iter().all(u8::is_ascii_graphic);
        let text = is_usable
            .then(|| std::str::from_utf8(&bytes[..kept]).ok())
            .flatten()
            .map(|text| SecretString::from(text.to_owned()));
        bytes.zeroize();
        text.map(Self)
            .ok_or_else(|| SecretError::Content(path.to_owned()))
    }

    /// The value, for the one header that carries it and for looking for it.
    pub(crate) fn expose(&self) -> &str {
        self.0.expose_secret()
    }
}
