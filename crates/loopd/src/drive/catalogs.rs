//! Catalogues kept from turn to turn: nearly all sessions may use the same tools.
//!
//! Kept by the hash of the list that they were built from, so that none outlives its list.

use crate::tools::Catalog;
use std::collections::VecDeque;
use std::sync::{Arc, Mutex, PoisonError};

/// How many catalogues are kept; the one that was not used for longest goes first.
const MAX_CATALOGS: usize = 16;

/// Catalogues by the hash of their list. Clones share them.
#[derive(Debug, Clone, Default)]
pub(super) struct Catalogs {
    /// The most recently used last.
    kept: Arc<Mutex<VecDeque<Kept>>>,
}

#[derive(Debug)]
struct Kept {
    sha256: String,
    catalog: Arc<Catalog>,
}

impl Catalogs {
    /// The catalogue of a list, if it is kept.
    pub(super) fn get(&self, sha256: &str) -> Option<Arc<Catalog>> {
        let mut kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner);
        let at = kept.iter().position(|known| known.sha256 == sha256)?;
        let found = kept.remove(at)?;
        let catalog = Arc::clone(&found.catalog);
        kept.push_back(found);
        Some(catalog)
    }

    /// Keeps the catalogue of a list.
    pub(super) fn keep(&self, sha256: &str, catalog: &Arc<Catalog>) {
        let mut kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner);
        if kept.iter().any(|known| known.sha256 == sha256) {
            return;
        }
        if kept.len() == MAX_CATALOGS {
            kept.pop_front();
        }
        kept.push_back(Kept {
            sha256: sha256.to_owned(),
            catalog: Arc::clone(catalog),
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_least_recently_used_goes_first() {
        let catalogs = Catalogs::default();
        let keep = |n: usize| catalogs.keep(&n.to_string(), &Arc::default());
        (0..MAX_CATALOGS).for_each(keep);
        assert!(catalogs.get("0").is_some());
        keep(MAX_CATALOGS);
        assert!(catalogs.get("1").is_none());
        assert!(catalogs.get("0").is_some());
        assert!(catalogs.get(&MAX_CATALOGS.to_string()).is_some());
    }
}
