//! What the ledger holds of a session: label, parent, tool rules.

use super::error::LedgerError;
use super::open::Ledger;
use bxcore::guardrails::ToolRules;
use bxcore::id::SessionId;
use bxcore::label::Label;
use rusqlite::{OptionalExtension, params};
use std::collections::BTreeSet;

/// The most ancestors that a session may have.
pub const MAX_ANCESTORS: usize = 16;

/// What the ledger holds of a session.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SessionRow {
    /// The join of everything that it has read.
    pub label: Label,
    /// The session that made it.
    pub parent: Option<SessionId>,
    /// Its own tool rules; see [`Ledger::rules`] for those that it is judged by.
    pub rules: ToolRules,
}

impl Ledger {
    /// What is held of a session.
    pub fn session(&self, id: &SessionId) -> Result<Option<SessionRow>, LedgerError> {
        let sql = "SELECT class, untrusted, parent, rules FROM sessions WHERE id = ?1";
        let mut select = self.db.prepare_cached(sql)?;
        let row = select.query_row([id.as_str()], |row| {
            let class: String = row.get(0)?;
            let parent: Option<String> = row.get(2)?;
            let rules: String = row.get(3)?;
            Ok(SessionRow {
                label: Label::parse_stored(&class, row.get(1)?),
                parent: parent.and_then(|parent| SessionId::new(parent).ok()),
                rules: parse_rules(&rules),
            })
        });
        Ok(row.optional()?)
    }

    /// What is held of a session that must be known.
    pub fn known_session(&self, id: &SessionId) -> Result<SessionRow, LedgerError> {
        self.session(id)?
            .ok_or_else(|| LedgerError::UnknownSession(id.clone()))
    }

    /// The rules that a session is judged by: its own, narrowed by those of all its ancestors.
    pub fn rules(&self, row: &SessionRow) -> Result<ToolRules, LedgerError> {
        let mut rules = row.rules.clone();
        let mut next = row.parent.clone();
        for _ in 0..MAX_ANCESTORS {
            let Some(id) = next else { return Ok(rules) };
            let ancestor = self.known_session(&id)?;
            rules = rules.narrowed_by(&ancestor.rules);
            next = ancestor.parent;
        }
        Ok(rules)
    }

    /// What a session will hold once it is registered with these values.
    ///
    /// A new session starts with its parent's label, whose words it is about to read. A known one
    /// keeps its parent, and its label can only rise. Its rules can only narrow where it has a
    /// parent; those of a root are the owner's configuration, which the owner may loosen.
    pub fn registered(
        &self,
        id: &SessionId,
        raise: Label,
        parent: Option<&SessionId>,
        rules: &ToolRules,
    ) -> Result<SessionRow, LedgerError> {
        let refused = |parent: &SessionId, why| LedgerError::Parent {
            session: id.clone(),
            parent: parent.clone(),
            why,
        };
        if let Some(held) = self.session(id)? {
            if let Some(parent) = parent.filter(|parent| held.parent.as_ref() != Some(*parent)) {
                return Err(refused(
                    parent,
                    "it is known with another parent, or with none",
                ));
            }
            let rules = match held.parent {
                Some(_) => rules.narrowed_by(&held.rules),
                None => rules.clone(),
            };
            return Ok(SessionRow {
                label: held.label.join(raise),
                parent: held.parent,
                rules,
            });
        }
        let Some(parent) = parent else {
            return Ok(SessionRow {
                label: raise,
                parent: None,
                rules: rules.clone(),
            });
        };
        let Some(above) = self.session(parent)? else {
            return Err(refused(parent, "no session of that name is known"));
        };
        if self.ancestors(&above)? + 1 > MAX_ANCESTORS {
            return Err(LedgerError::TooDeep {
                session: id.clone(),
                max: MAX_ANCESTORS,
            });
        }
        Ok(SessionRow {
            label: raise.join(above.label),
            parent: Some(parent.clone()),
            rules: rules.narrowed_by(&above.rules),
        })
    }

    /// The sessions that a session was made by, the nearest first.
    pub fn lineage(&self, id: &SessionId) -> Result<Vec<SessionId>, LedgerError> {
        let mut lineage = Vec::new();
        let mut next = self.session(id)?.and_then(|row| row.parent);
        while let Some(id) = next.filter(|_| lineage.len() < MAX_ANCESTORS) {
            next = self.session(&id)?.and_then(|row| row.parent);
            lineage.push(id);
        }
        Ok(lineage)
    }

    fn ancestors(&self, row: &SessionRow) -> Result<usize, LedgerError> {
        let mut next = row.parent.clone();
        for count in 0..MAX_ANCESTORS {
            let Some(id) = next else { return Ok(count) };
            next = self.known_session(&id)?.parent;
        }
        Ok(MAX_ANCESTORS)
    }

    /// Writes what a session holds; belongs into a transaction.
    pub fn put_session(&mut self, id: &SessionId, row: &SessionRow) -> Result<(), LedgerError> {
        let sql = "INSERT INTO sessions (id, class, untrusted, parent, rules)
                   VALUES (?1, ?2, ?3, ?4, ?5)
                   ON CONFLICT (id) DO UPDATE SET
                       class = excluded.class, untrusted = excluded.untrusted,
                       parent = excluded.parent, rules = excluded.rules";
        let mut insert = self.db.prepare_cached(sql)?;
        insert.execute(params![
            id.as_str(),
            row.label.class.name(),
            row.label.untrusted,
            row.parent.as_ref().map(SessionId::as_str),
            rules_text(&row.rules),
        ])?;
        Ok(())
    }

    /// Joins a label to a known session's; belongs into a transaction. Gives the new label.
    pub fn raise(&mut self, id: &SessionId, by: Label) -> Result<Label, LedgerError> {
        let held = self.known_session(id)?.label;
        let label = held.join(by);
        if label != held {
            let sql = "UPDATE sessions SET class = ?2, untrusted = ?3 WHERE id = ?1";
            let mut update = self.db.prepare_cached(sql)?;
            update.execute(params![id.as_str(), label.class.name(), label.untrusted])?;
        }
        Ok(label)
    }
}

/// Stored rules; what can't be read allows nothing.
fn parse_rules(text: &str) -> ToolRules {
    serde_json::from_str(text).unwrap_or_else(|_| ToolRules {
        allow: Some(BTreeSet::new()),
        ..ToolRules::default()
    })
}

fn rules_text(rules: &ToolRules) -> String {
    // Sets of strings can always be written; the fallback is read as rules that allow nothing.
    serde_json::to_string(rules).unwrap_or_default()
}
