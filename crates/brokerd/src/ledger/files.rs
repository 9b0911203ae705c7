//! The labels of files that tools wrote: their writer's, until the owner says otherwise.
//!
//! A label is put here before the file is written, so that nobody reads it without.

use super::error::LedgerError;
use super::open::Ledger;
use bxcore::label::Label;
use rusqlite::{OptionalExtension, params};
use serde::Serialize;

/// The most files of one folder that have a label of their own; with more, the folder as a whole
/// has the join of all later ones.
pub const MAX_LABELLED_FILES: u32 = 10_000;

/// The path of a folder itself.
pub const WHOLE: &str = ".";

/// A place in a folder that tools work in.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Spot {
    /// Which folder: its lasting name.
    pub root: String,
    /// The path in it; [`WHOLE`] for the folder itself.
    pub path: String,
    /// Whether everything below the path is meant too.
    pub below: bool,
}

impl Spot {
    /// All of the folder that this is in.
    pub fn widened(&self) -> Self {
        Self {
            root: self.root.clone(),
            path: WHOLE.to_owned(),
            below: true,
        }
    }

    /// Whether something can be in both: they are the same, or one is below the other.
    pub fn overlaps(&self, other: &Self) -> bool {
        let holds = |outer: &Self, inner: &Self| {
            let below = inner.path.strip_prefix(&outer.path);
            outer.path == WHOLE
                || below.is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
        };
        self.root == other.root && (holds(self, other) || holds(other, self))
    }
}

impl Ledger {
    /// The join of what was written at these places; the lowest label where nothing was.
    pub fn written_label(&self, spots: &[Spot]) -> Result<Label, LedgerError> {
        let sql = "SELECT class, untrusted FROM files WHERE root = ?1 AND (path IN (?2, '.')
                       OR (?3 AND (?2 = '.' OR (path > ?2 || '/' AND path < ?2 || '0')))
                       OR substr(?2, 1, length(path) + 1) = path || '/')";
        let mut select = self.db.prepare_cached(sql)?;
        let mut joined = Label::BOTTOM;
        for spot in spots {
            let rows = select.query_map(params![spot.root, spot.path, spot.below], |row| {
                let class: String = row.get(0)?;
                Ok(Label::parse_stored(&class, row.get(1)?))
            })?;
            for label in rows {
                joined = joined.join(label?);
            }
        }
        Ok(joined)
    }

    /// Joins a writer's label to a file's; belongs into a transaction, before the file is written.
    pub fn raise_written(&mut self, spot: &Spot, by: Label) -> Result<(), LedgerError> {
        let held = self.own_label(spot)?;
        let mut place = spot;
        let whole = spot.widened();
        if held.is_none() && self.labelled_files(&spot.root)? >= MAX_LABELLED_FILES {
            place = &whole;
        }
        let held = self.own_label(place)?.unwrap_or(Label::BOTTOM);
        self.put_written(place, held.join(by))
    }

    /// Gives one file the label that the owner says it has; belongs into a transaction. Gives the
    /// label that it had; none if no tool wrote it, and then nothing changes.
    pub fn endorse_written(
        &mut self,
        spot: &Spot,
        label: Label,
    ) -> Result<Option<Label>, LedgerError> {
        let held = self.own_label(spot)?;
        if held.is_some() {
            self.put_written(spot, label)?;
        }
        Ok(held)
    }

    /// The label that a place itself was given, by what wrote it or by the owner.
    pub fn own_label(&self, spot: &Spot) -> Result<Option<Label>, LedgerError> {
        let sql = "SELECT class, untrusted FROM files WHERE root = ?1 AND path = ?2";
        let mut select = self.db.prepare_cached(sql)?;
        let row = select.query_row(params![spot.root, spot.path], |row| {
            let class: String = row.get(0)?;
            Ok(Label::parse_stored(&class, row.get(1)?))
        });
        Ok(row.optional()?)
    }

    fn labelled_files(&self, root: &str) -> Result<u32, LedgerError> {
        let sql = "SELECT count(*) FROM files WHERE root = ?1";
        let mut select = self.db.prepare_cached(sql)?;
        Ok(select.query_row([root], |row| row.get(0))?)
    }

    fn put_written(&mut self, spot: &Spot, label: Label) -> Result<(), LedgerError> {
        let sql = "INSERT INTO files (root, path, class, untrusted) VALUES (?1, ?2, ?3, ?4)
                   ON CONFLICT (root, path) DO UPDATE SET
                       class = excluded.class, untrusted = excluded.untrusted";
        let mut insert = self.db.prepare_cached(sql)?;
        insert.execute(params![
            spot.root,
            spot.path,
            label.class.name(),
            label.untrusted
        ])?;
        Ok(())
    }
}
