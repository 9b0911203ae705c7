//! What is put right when a store is opened after a crash, or after somebody worked on its files.

use super::delete::deleted_name;
use super::error::StoreError;
use super::files::{LOG_NAME, folder};
use super::plan::plan_lost;
use super::reconcile::Trust;
use super::rows::{self, Piece};
use super::state::View;
use super::views::{LostCall, Recovery};
use super::writer::Writer;
use bxcore::id::SessionId;
use std::collections::HashMap;

impl Writer {
    /// Settles what a crash left open. Runs once, before the first command.
    pub(super) fn recover(&mut self) -> Result<Recovery, StoreError> {
        self.finish_deletions()?;
        let lost_calls = self.charge_lost_calls()?;
        let names = rows::session_names(&self.db).map_err(|error| self.database(&error))?;
        let names: HashMap<i64, SessionId> = names
            .into_iter()
            .map(|(session, row)| (row, session))
            .collect();
        self.complete_files(&names)?;
        self.adopt_unknown(&names)?;
        let unfinished = rows::unfinished(&self.db).map_err(|error| self.database(&error))?;
        Ok(Recovery {
            unfinished,
            lost_calls,
            repaired: std::mem::take(&mut self.repairs),
        })
    }

    /// Charges every call that something is held for: nobody will ever say what it used.
    fn charge_lost_calls(&mut self) -> Result<Vec<LostCall>, StoreError> {
        let held = rows::reservations(&self.db).map_err(|error| self.database(&error))?;
        if held.is_empty() {
            return Ok(Vec::new());
        }
        let mut calls = Vec::with_capacity(held.len());
        let mut lost = Vec::with_capacity(held.len());
        for (call, held) in held {
            self.read_chain(&held.account)?;
            lost.push(LostCall {
                session: call.0.clone(),
                call: call.1,
                account: held.account.clone(),
                charged: held.amount,
            });
            calls.push(call.clone());
            self.state.hold_again(call, held);
        }
        let changes = plan_lost(&self.state, &calls, &self.now());
        let changes = changes.map_err(|error| StoreError::Database {
            path: self.options.db.clone(),
            why: error.to_string(),
        })?;
        self.apply(changes)?;
        Ok(lost)
    }

    /// Adds to each file what the journal has and it lacks.
    fn complete_files(&mut self, names: &HashMap<i64, SessionId>) -> Result<(), StoreError> {
        let rows = rows::pieces_by_session(&self.db).map_err(|error| self.database(&error))?;
        for (row, seqs) in rows {
            let Some(session) = names.get(&row) else {
                continue;
            };
            let head = rows::head(&self.db, session).map_err(|error| self.database(&error))?;
            let Some((head, _)) = head else { continue };
            let pieces = self.read_pieces(&seqs)?;
            match self.put_right(session, head, &pieces, Trust::Whole) {
                Ok(head) => self.state.know_head(session.clone(), head),
                Err(StoreError::TranscriptBroken { .. }) => {}
                Err(error) => {
                    // One session's trouble is told when the session is used.
                    tracing::warn!(%session, %error, "a transcript file waits for its lines");
                    self.behind.insert(session.clone(), Trust::Whole);
                }
            }
        }
        Ok(())
    }

    fn read_pieces(&self, seqs: &[i64]) -> Result<Vec<Piece>, StoreError> {
        let read = seqs.iter().map(|seq| rows::piece(&self.db, *seq));
        let pieces: rusqlite::Result<Vec<_>> = read.filter_map(Result::transpose).collect();
        pieces.map_err(|error| self.database(&error))
    }

    /// Takes up transcripts that the index does not know: the database is younger than they are.
    fn adopt_unknown(&mut self, names: &HashMap<i64, SessionId>) -> Result<(), StoreError> {
        let known: std::collections::HashSet<&SessionId> = names.values().collect();
        let sessions = self.options.sessions_dir.clone();
        for name in self.folder_names()? {
            let Ok(session) = SessionId::new(name) else {
                continue;
            };
            let has_log = || folder(&sessions, &session).join(LOG_NAME).is_file();
            if known.contains(&session) || !has_log() {
                continue;
            }
            match self.adopt(&session) {
                Ok(_) | Err(StoreError::TranscriptBroken { .. }) => {}
                Err(error @ StoreError::Files { .. }) => {
                    tracing::warn!(%session, %error, "a transcript could not be taken up");
                }
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }

    /// Ends deletions that a crash interrupted: their folder was moved away already.
    fn finish_deletions(&mut self) -> Result<(), StoreError> {
        for name in self.folder_names()? {
            let Some(session) = deleted_name(&name) else {
                continue;
            };
            if !folder(&self.options.sessions_dir, &session).exists() {
                self.remove_rows(&session)?;
            }
            self.remove_moved_folder(&session)?;
        }
        Ok(())
    }

    /// The names in the folder of sessions that are text; ours all are.
    fn folder_names(&self) -> Result<Vec<String>, StoreError> {
        let path = &self.options.sessions_dir;
        let failed = |error: std::io::Error| StoreError::file(path, &error);
        let mut names = Vec::new();
        for entry in std::fs::read_dir(path).map_err(failed)? {
            if let Ok(name) = entry.map_err(failed)?.file_name().into_string() {
                names.push(name);
            }
        }
        names.sort_unstable();
        Ok(names)
    }

    /// Reads a whole transcript again, which turned out not to be sound.
    pub(super) fn recheck(&mut self, session: &SessionId) -> Result<(), StoreError> {
        let head = self.state.head(session).cloned();
        let head = match head {
            Some(head) => Some(head),
            None => rows::head(&self.db, session)
                .map_err(|error| self.database(&error))?
                .map(|(head, _)| head),
        };
        let head = head.ok_or_else(|| StoreError::SessionUnknown(session.clone()))?;
        let pieces = rows::pieces(&self.db, head.row).map_err(|error| self.database(&error))?;
        let head = self.put_right(session, head, &pieces, Trust::Whole)?;
        let head = self.salvage(session, head)?;
        self.state.know_head(session.clone(), head);
        Ok(())
    }
}
