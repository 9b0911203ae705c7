//! What a session may change, by its label. Pure.
//!
//! A session that has read what a stranger wrote may keep notes, and nothing that would be taken for
//! the owner's: it neither touches the identity nor an entry that is trusted.

use bxcore::id::MemoryFile;
use bxcore::label::Label;

/// A change as it is asked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Asked<'a> {
    /// What.
    pub change: Change,
    /// The file.
    pub file: &'a MemoryFile,
    /// The label of the session that asks.
    pub session: Label,
}

/// What is to be changed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Change {
    /// A new entry.
    Add,
    /// The text of an entry with this label.
    Replace(Label),
    /// An entry with this label is to go.
    Remove(Label),
}

/// Where a change lands.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Landing {
    /// As it was asked for.
    Here,
    /// As a new note.
    Note,
    /// Nowhere: the session is untrusted.
    Refused,
}

/// Decides where a change lands.
pub fn land(asked: Asked<'_>) -> Landing {
    if !asked.session.untrusted {
        return Landing::Here;
    }
    let is_identity = *asked.file == MemoryFile::identity();
    match asked.change {
        Change::Add if is_identity => Landing::Note,
        Change::Replace(held) if is_identity || !held.untrusted => Landing::Note,
        Change::Remove(held) if is_identity || !held.untrusted => Landing::Refused,
        Change::Add | Change::Replace(_) | Change::Remove(_) => Landing::Here,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_untrusted_session_never_touches_what_is_trusted() {
        let files = [MemoryFile::identity(), MemoryFile::notes()];
        for session in Label::ALL {
            for file in &files {
                for held in Label::ALL {
                    let landed = |change| {
                        land(Asked {
                            change,
                            file,
                            session,
                        })
                    };
                    let all =
                        [Change::Add, Change::Replace(held), Change::Remove(held)].map(landed);
                    let guarded = *file == files[0] || !held.untrusted;
                    let expect = match (session.untrusted, guarded) {
                        (false, _) | (true, false) => [Landing::Here; 3],
                        (true, true) => {
                            let add = if *file == files[0] {
                                Landing::Note
                            } else {
                                Landing::Here
                            };
                            [add, Landing::Note, Landing::Refused]
                        }
                    };
                    assert_eq!(all, expect, "{session} {file} {held}");
                }
            }
        }
    }
}
