//! What of the folders a call reads and writes, told by its arguments alone. Pure.

use super::place::RelativePath;
use crate::ledger::{Spot, WHOLE};
use bxcore::id::SessionId;
use bxcore::label::Label;

/// A folder of the owner's, as far as labels are concerned.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Place {
    /// The name under which it is seen.
    pub name: String,
    /// Its lasting name: where it is.
    pub key: String,
    /// What everything in it carries.
    pub label: Label,
}

/// The owner's folders.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Places(pub Vec<Place>);

/// What a call reads and writes.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Touch {
    /// What its result may tell of.
    pub reads: Vec<Spot>,
    /// What it may change.
    pub writes: Vec<Spot>,
}

/// The lasting name of a session's own folder.
pub(super) fn own_key(session: &SessionId) -> String {
    format!("session:{session}")
}

fn whole(root: String) -> Spot {
    Spot {
        root,
        path: WHOLE.to_owned(),
        below: true,
    }
}

impl Places {
    /// The place of a path as a session sees it. Its own folder is one place: a command may have
    /// moved and linked files in it at will.
    pub(super) fn spot(&self, session: &SessionId, path: &RelativePath, below: bool) -> Spot {
        let split = path.split_first();
        let named = split.and_then(|(first, rest)| {
            let place = self.0.iter().find(|place| place.name == first)?;
            Some(Spot {
                root: place.key.clone(),
                path: rest.to_system(),
                below,
            })
        });
        named.unwrap_or_else(|| whole(own_key(session)))
    }

    /// The place that a path names for a session, or for none: then only the owner's folders have
    /// names.
    pub fn named(&self, session: Option<&SessionId>, path: &str) -> Option<Spot> {
        let path = RelativePath::parse(path).ok()?;
        let first = path.split_first().map(|(first, _)| first);
        match session {
            Some(session) => Some(self.spot(session, &path, false)),
            None => {
                let place = self
                    .0
                    .iter()
                    .find(|place| Some(place.name.as_str()) == first)?;
                let (_, rest) = path.split_first()?;
                Some(Spot {
                    root: place.key.clone(),
                    path: rest.to_system(),
                    below: false,
                })
            }
        }
    }

    /// A session's own folder and all of the owner's up to a label.
    pub(super) fn up_to(&self, session: &SessionId, label: Label) -> Vec<Spot> {
        let within = self.0.iter().filter(|place| place.label.is_within(label));
        let owner = within.map(|place| whole(place.key.clone()));
        std::iter::once(whole(own_key(session)))
            .chain(owner)
            .collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_is_in_the_folder_that_its_first_part_names() {
        let places = Places(vec![Place {
            name: "notes".to_owned(),
            key: "owner:/n".to_owned(),
            label: Label::OWNER,
        }]);
        let session = SessionId::new("s").unwrap();
        let check = |path: &str, root: &str, expect: &str| {
            let path = RelativePath::parse(path).unwrap();
            let spot = places.spot(&session, &path, false);
            assert_eq!((spot.root.as_str(), spot.path.as_str()), (root, expect));
        };
        check("notes/a/b.txt", "owner:/n", "a/b.txt");
        check("notes", "owner:/n", ".");
        check("a/notes", "session:s", ".");
        check(".", "session:s", ".");
        assert_eq!(places.up_to(&session, Label::TOP).len(), 2);
        assert_eq!(places.up_to(&session, Label::BOTTOM).len(), 1);
    }
}
