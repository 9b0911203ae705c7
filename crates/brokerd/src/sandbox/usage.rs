//! What the processes of this sandbox use together, read from its own `/proc`.

use super::limits::MAX_PROCESSES;
use std::path::PathBuf;

/// What is used together.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
pub(super) struct Usage {
    /// Memory that is nobody else's: shared pages and files' are left out.
    pub(super) memory_bytes: u64,
}

impl Usage {
    /// Adds up all processes, as far as there may be any.
    pub(super) fn of_all() -> Self {
        let page_bytes = rustix::param::page_size() as u64;
        let most = usize::try_from(MAX_PROCESSES).unwrap_or(usize::MAX);
        let own = processes().take(most).filter_map(|process| {
            let statm = std::fs::read_to_string(process.join("statm")).ok()?;
            own_pages(&statm)
        });
        Self {
            memory_bytes: own.sum::<u64>().saturating_mul(page_bytes),
        }
    }

    /// Whether there are more processes than there may be. The kernel keeps count by itself, but
    /// not of the user root's, whatever its name in here.
    pub(super) fn is_crowded() -> bool {
        processes().count() as u64 > MAX_PROCESSES
    }
}

fn processes() -> impl Iterator<Item = PathBuf> {
    let entries = std::fs::read_dir("/proc").into_iter().flatten().flatten();
    let is_process = |entry: &std::fs::DirEntry| {
        let name = entry.file_name();
        name.as_encoded_bytes().iter().all(u8::is_ascii_digit)
    };
    entries.filter(is_process).map(|entry| entry.path())
}

/// Resident pages without the shared ones, from the words of a `statm` file.
fn own_pages(statm: &str) -> Option<u64> {
    let mut words = statm.split_ascii_whitespace().skip(1);
    let resident: u64 = words.next()?.parse().ok()?;
    let shared: u64 = words.next()?.parse().ok()?;
    Some(resident.saturating_sub(shared))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pages_of_its_own_are_counted() {
        for (statm, expect) in [
            ("100 50 20 1 0 30 0", Some(30)),
            ("100 20 50 1 0 30 0", Some(0)),
            ("", None),
            ("1 x 2", None),
        ] {
            assert_eq!(own_pages(statm), expect, "{statm:?}");
        }
        assert!(Usage::of_all().memory_bytes > 0);
    }
}
