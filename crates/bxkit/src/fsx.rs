//! Files that must be whole, private or both.
//!
//! Everything here blocks; async code calls it from `spawn_blocking` or before its runtime starts.

use bxcore::code::Code;
use rustix::fs::{Mode, OFlags};
use std::fs::{File, OpenOptions};
use std::io::{self, Read, Write};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

/// The most a private file (a token, a secret) may hold.
pub const MAX_PRIVATE_BYTES: u64 = 64 * 1024;

/// How many names are tried for a temporary file before giving up.
const MAX_TEMPORARY_NAMES: u32 = 16;

/// Why a private file was not opened.
#[derive(Debug, thiserror::Error)]
pub enum PrivateFileError {
    /// The system refused to open or read it; a symbolic link ends up here too.
    #[error("`{}` can't be opened", path.display())]
    Open {
        /// The file.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// It opened, but others could have read or planted it.
    #[error("`{}` is not private: {why}", path.display())]
    NotPrivate {
        /// The file.
        path: PathBuf,
        /// Which condition does not hold.
        why: &'static str,
    },
}

/// Replaces a file's content in one step that survives a crash.
///
/// The bytes go to a new file beside it, which is synced, renamed over `path`, and made durable by
/// syncing the folder. A reader sees the old content or the new, never a mixture. `mode` is the
/// file's mode, for example `0o600`.
pub fn write_atomic(path: &Path, bytes: &[u8], mode: u32) -> io::Result<()> {
    write_atomic_if(path, bytes, mode, || Ok(()))
}

/// Replaces a file's content as [`write_atomic`] does, unless a last look says no.
///
/// `look` is called when all that is left to do is the rename, so that what it sees is what is
/// replaced, but for the moment in between.
///
/// # Errors
/// Writing fails, or `look` does; the file is then as it was.
pub fn write_atomic_if(
    path: &Path,
    bytes: &[u8],
    mode: u32,
    look: impl FnOnce() -> io::Result<()>,
) -> io::Result<()> {
    let folder = folder_of(path);
    let (temporary, mut file) = create_beside(path, mode)?;
    let written = file
        .write_all(bytes)
        // The mode given to open is cut by the umask; the caller asked for this one exactly.
        .and_then(|()| rustix::fs::fchmod(&file, Mode::from_raw_mode(mode)).map_err(Into::into))
        .and_then(|()| file.sync_all())
        .and_then(|()| look())
        .and_then(|()| std::fs::rename(&temporary, path));
    if let Err(error) = written {
        // The write failed already; a leftover file is the smaller of the two troubles.
        let _ = std::fs::remove_file(&temporary);
        return Err(error);
    }
    sync_dir(folder)
}

/// Options for opening a file that somebody else may have put there: a link is refused, and a pipe
/// without a writer is not waited for.
///
/// What was opened may still be no regular file; its kind is to be looked at.
pub fn careful() -> OpenOptions {
    let mut options = OpenOptions::new();
    let flags = OFlags::NOFOLLOW | OFlags::NONBLOCK;
    options.custom_flags(flags.bits().cast_signed());
    options
}

/// Makes the names in a folder durable.
pub fn sync_dir(folder: &Path) -> io::Result<()> {
    File::open(folder)?.sync_all()
}

/// Opens a file that only its owner may touch.
///
/// The checks are made on the open descriptor, so nothing can be swapped between check and use:
/// a regular file, ours, no rights for group or others, a single link, 1 B to
/// [`MAX_PRIVATE_BYTES`]. A symbolic link is refused.
pub fn open_nofollow_private(path: &Path) -> Result<File, PrivateFileError> {
    let refused = |why| PrivateFileError::NotPrivate {
        path: path.to_owned(),
        why,
    };
    let failed = |source: io::Error| PrivateFileError::Open {
        path: path.to_owned(),
        source,
    };
    let file = careful().read(true).open(path).map_err(failed)?;
    let found = file.metadata().map_err(failed)?;
    if !found.is_file() {
        return Err(refused("it is not a regular file"));
    }
    if found.uid() != rustix::process::geteuid().as_raw() {
        return Err(refused("it belongs to another user"));
    }
    if found.mode() & 0o077 != 0 {
        return Err(refused(
            "group or others have rights on it (it must have mode 0600)",
        ));
    }
    if found.nlink() != 1 {
        return Err(refused("it has more than one link"));
    }
    if found.len() < 1 {
        return Err(refused("it is empty"));
    }
    if found.len() > MAX_PRIVATE_BYTES {
        return Err(refused("it is larger than 64 KiB"));
    }
    Ok(file)
}

/// Reads a file that only its owner may touch; see [`open_nofollow_private`].
pub fn read_nofollow_private(path: &Path) -> Result<Vec<u8>, PrivateFileError> {
    let file = open_nofollow_private(path)?;
    let mut bytes = Vec::new();
    // The size was checked, but the file may grow under our hands.
    file.take(MAX_PRIVATE_BYTES)
        .read_to_end(&mut bytes)
        .map_err(|source| PrivateFileError::Open {
            path: path.to_owned(),
            source,
        })?;
    Ok(bytes)
}

/// Opens a file of our own for reading. A link is not followed, and what is no regular file is
/// refused: a pipe that somebody put there would never end.
///
/// # Errors
/// It can't be opened, or is no regular file.
pub fn open_regular(path: &Path) -> io::Result<File> {
    let file = careful().read(true).open(path)?;
    if !file.metadata()?.is_file() {
        return Err(io::Error::other("it is not a regular file"));
    }
    Ok(file)
}

/// Reads a whole file that a person named, of at most so many bytes. Links are followed, but what
/// they lead to must be a regular file: a device or a pipe may never end.
///
/// # Errors
/// It can't be read, is no regular file, or is longer.
pub fn read_regular(path: &Path, max_bytes: u64) -> io::Result<Vec<u8>> {
    let mut options = OpenOptions::new();
    options.custom_flags(OFlags::NONBLOCK.bits().cast_signed());
    let file = options.read(true).open(path)?;
    let found = file.metadata()?;
    if !found.is_file() {
        return Err(io::Error::other("it is not a regular file"));
    }
    let mut bytes = Vec::new();
    // The file may grow while it is read, and some say that they are empty and are not.
    file.take(max_bytes.saturating_add(1))
        .read_to_end(&mut bytes)?;
    if bytes.len() as u64 > max_bytes {
        let why = format!("it is larger than {max_bytes} bytes");
        return Err(io::Error::new(io::ErrorKind::FileTooLarge, why));
    }
    Ok(bytes)
}

/// The code for a failed file operation: a full disk has its own, anything else is `otherwise`.
pub fn code_for(error: &io::Error, otherwise: Code) -> Code {
    match error.kind() {
        io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => Code::DiskFull,
        _ => otherwise,
    }
}

fn folder_of(path: &Path) -> &Path {
    match path.parent() {
        Some(folder) if !folder.as_os_str().is_empty() => folder,
        _ => Path::new("."),
    }
}

fn create_beside(path: &Path, mode: u32) -> io::Result<(PathBuf, File)> {
    let name = path.file_name().ok_or(io::ErrorKind::InvalidInput)?;
    let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::CLOEXEC | OFlags::NOFOLLOW;
    let process = std::process::id();
    for attempt in 0..MAX_TEMPORARY_NAMES {
        let mut beside = std::ffi::OsString::from(".");
        beside.push(name);
        beside.push(format!(".{process}-{attempt}.new"));
        let temporary = folder_of(path).join(beside);
        match rustix::fs::open(&temporary, flags, Mode::from_raw_mode(mode)) {
            Ok(file) => return Ok((temporary, File::from(file))),
            Err(rustix::io::Errno::EXIST) => {}
            Err(errno) => return Err(errno.into()),
        }
    }
    Err(io::ErrorKind::AlreadyExists.into())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::{PermissionsExt, symlink};

    fn private(folder: &Path, name: &str, bytes: &[u8]) -> PathBuf {
        let path = folder.join(name);
        write_atomic(&path, bytes, 0o600).unwrap();
        path
    }

    fn refusal(path: &Path) -> String {
        open_nofollow_private(path).unwrap_err().to_string()
    }

    #[test]
    fn writing_replaces_the_content_and_sets_the_mode() {
        let folder = tempfile::tempdir().unwrap();
        let path = private(folder.path(), "a", b"one");
        write_atomic(&path, b"two", 0o640).unwrap();
        assert_eq!(std::fs::read(&path).unwrap(), b"two");
        assert_eq!(path.metadata().unwrap().permissions().mode() & 0o777, 0o640);
        assert_eq!(
            std::fs::read_dir(folder.path()).unwrap().count(),
            1,
            "no leftovers"
        );
    }

    #[test]
    fn a_leftover_temporary_file_does_not_stop_a_write() {
        let folder = tempfile::tempdir().unwrap();
        let leftover = folder
            .path()
            .join(format!(".a.{}-0.new", std::process::id()));
        std::fs::write(&leftover, "torn").unwrap();
        let path = private(folder.path(), "a", b"whole");
        assert_eq!(std::fs::read(path).unwrap(), b"whole");
    }

    #[test]
    fn a_failed_write_leaves_the_old_content_and_no_leftover() {
        let folder = tempfile::tempdir().unwrap();
        let target = folder.path().join("folder");
        std::fs::create_dir(&target).unwrap();
        write_atomic(&target, b"x", 0o600).unwrap_err();
        assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 1);
    }

    #[test]
    fn a_last_look_can_keep_the_old_content() {
        let folder = tempfile::tempdir().unwrap();
        let path = private(folder.path(), "a", b"old");
        let refused = || Err(io::ErrorKind::ResourceBusy.into());
        let error = write_atomic_if(&path, b"new", 0o600, refused).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::ResourceBusy);
        assert_eq!(std::fs::read(&path).unwrap(), b"old");
        assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 1);
    }

    #[test]
    fn private_files_are_read_and_all_others_refused() {
        let folder = tempfile::tempdir().unwrap();
        let at = folder.path();
        let good = private(at, "good", b"token");
        assert_eq!(read_nofollow_private(&good).unwrap(), b"token");

        symlink(&good, at.join("link")).unwrap();
        assert!(refusal(&at.join("link")).contains("can't be opened"));
        assert!(refusal(&at.join("missing")).contains("can't be opened"));
        assert!(refusal(at).contains("not a regular file"));
        rustix::fs::mkfifoat(rustix::fs::CWD, at.join("fifo"), Mode::from_raw_mode(0o600)).unwrap();
        assert!(refusal(&at.join("fifo")).contains("not a regular file"));
        write_atomic(&at.join("open"), b"x", 0o640).unwrap();
        assert!(refusal(&at.join("open")).contains("group or others"));
        assert!(refusal(&private(at, "empty", b"")).contains("empty"));
        assert!(refusal(&private(at, "large", &vec![b'x'; 65_537])).contains("64 KiB"));
        std::fs::hard_link(&good, at.join("second")).unwrap();
        assert!(refusal(&good).contains("more than one link"));
    }

    #[test]
    fn what_a_person_names_is_read_if_it_is_a_file_with_an_end() {
        let folder = tempfile::tempdir().unwrap();
        let at = folder.path();
        let file = private(at, "file", b"12345");
        symlink(&file, at.join("link")).unwrap();
        for path in [&file, &at.join("link")] {
            assert_eq!(read_regular(path, 5).unwrap(), b"12345");
        }
        let error = read_regular(&file, 4).unwrap_err();
        assert!(error.to_string().contains("larger than 4 bytes"), "{error}");
        rustix::fs::mkfifoat(rustix::fs::CWD, at.join("pipe"), Mode::from_raw_mode(0o600)).unwrap();
        symlink("/dev/zero", at.join("endless")).unwrap();
        for path in [
            Path::new("/dev/zero"),
            &at.join("endless"),
            &at.join("pipe"),
            at,
        ] {
            let error = read_regular(path, 5).unwrap_err();
            assert!(error.to_string().contains("regular file"), "{error}");
        }
        read_regular(&at.join("missing"), 5).unwrap_err();
    }

    #[test]
    fn a_full_disk_has_its_own_code() {
        let full = io::Error::from(rustix::io::Errno::NOSPC);
        assert_eq!(code_for(&full, Code::StateBroken), Code::DiskFull);
        let other = io::Error::from(rustix::io::Errno::IO);
        assert_eq!(code_for(&other, Code::StateBroken), Code::StateBroken);
    }
}
