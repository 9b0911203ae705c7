//! Labels: how private data is, and whether a stranger may have written it.
//!
//! A label is a class and an `untrusted` flag: six elements that form a lattice under `join`.
//! What a session reads joins its label, which so only ever rises.

use serde::{Deserialize, Serialize};
use std::fmt;
use std::str::FromStr;

/// How far data may travel: `public` < `private` < `secret`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Class {
    /// Anyone may see it.
    Public,
    /// It stays with the owner unless a grant lets it out.
    Private,
    /// It stays on the box.
    Secret,
}

impl Class {
    /// Every class, lowest first.
    pub const ALL: [Self; 3] = [Self::Public, Self::Private, Self::Secret];

    /// The class as it is written in configuration and output.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Public => "public",
            Self::Private => "private",
            Self::Secret => "secret",
        }
    }
}

impl fmt::Display for Class {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// A word that names no class.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("`{0}` is not a class; the classes are public, private and secret")]
pub struct UnknownClass(pub String);

impl FromStr for Class {
    type Err = UnknownClass;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        Self::ALL
            .into_iter()
            .find(|class| class.name() == text)
            .ok_or_else(|| UnknownClass(text.to_owned()))
    }
}

/// What is known about a piece of data: its class, and whether it may be hostile.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Label {
    /// How far it may travel.
    pub class: Class,
    /// Whether somebody other than the owner may have written it.
    pub untrusted: bool,
}

impl Label {
    /// The lowest label: public and trusted.
    pub const BOTTOM: Self = Self::new(Class::Public, false);
    /// The highest label, and the one for whatever is unknown, missing or unreadable.
    pub const TOP: Self = Self::new(Class::Secret, true);
    /// What the owner's own words carry unless they say otherwise.
    pub const OWNER: Self = Self::new(Class::Private, false);
    /// All six labels.
    pub const ALL: [Self; 6] = [
        Self::new(Class::Public, false),
        Self::new(Class::Public, true),
        Self::new(Class::Private, false),
        Self::new(Class::Private, true),
        Self::new(Class::Secret, false),
        Self::new(Class::Secret, true),
    ];

    /// Builds a label.
    pub const fn new(class: Class, untrusted: bool) -> Self {
        Self { class, untrusted }
    }

    /// The label of data made from both: the higher class, and untrusted if either is.
    pub fn join(self, other: Self) -> Self {
        Self {
            class: self.class.max(other.class),
            untrusted: self.untrusted || other.untrusted,
        }
    }

    /// Whether data of this label may be treated as `other` without losing a restriction.
    pub fn is_within(self, other: Self) -> bool {
        self.join(other) == other
    }

    /// Reads a stored label, taking anything that can't be read for the highest one.
    pub fn parse_stored(class: &str, untrusted: i64) -> Self {
        match (class.parse(), untrusted) {
            (Ok(class), 0) => Self::new(class, false),
            (Ok(class), 1) => Self::new(class, true),
            _ => Self::TOP,
        }
    }
}

impl fmt::Display for Label {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.class)?;
        if self.untrusted {
            f.write_str(", untrusted")?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn join_is_a_lattice_on_all_pairs_and_triples() {
        for a in Label::ALL {
            assert_eq!(a.join(a), a);
            assert_eq!(a.join(Label::BOTTOM), a);
            assert_eq!(a.join(Label::TOP), Label::TOP);
            for b in Label::ALL {
                assert_eq!(a.join(b), b.join(a));
                assert!(a.is_within(a.join(b)) && b.is_within(a.join(b)));
                for c in Label::ALL {
                    assert_eq!(a.join(b).join(c), a.join(b.join(c)));
                    let bounds_both = a.is_within(c) && b.is_within(c);
                    assert_eq!(bounds_both, a.join(b).is_within(c));
                }
            }
        }
    }

    #[test]
    fn what_cannot_be_read_is_the_highest() {
        for (class, untrusted) in [("", 0), ("Private", 0), ("private", 2), ("public", -1)] {
            assert_eq!(Label::parse_stored(class, untrusted), Label::TOP);
        }
        assert_eq!(Label::parse_stored("private", 0), Label::OWNER);
    }
}
