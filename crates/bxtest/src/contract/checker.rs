//! One checker for all rules of a request, with what a test tolerates.

use bytes::Bytes;
use std::collections::BTreeSet;

use super::body::Body;
use super::breach::{Breach, BreachKind};
use super::fields::{self, Dialect};
use super::messages;
use super::prefix::{Heads, Link, Openers};

/// What is checked, and what a test lets pass.
#[derive(Debug, Clone)]
pub struct Rules {
    /// Whose fields a request may carry.
    pub dialect: Dialect,
    /// Kinds that are counted as tolerated instead of as breaches.
    pub tolerated: BTreeSet<BreachKind>,
    /// Whether conversations may open alike.
    pub openers: Openers,
    /// How many requests may break off their conversation and start a new epoch.
    pub new_epochs: usize,
}

impl Rules {
    /// Everything is checked and nothing tolerated.
    pub fn strict(dialect: Dialect) -> Self {
        Self {
            dialect,
            tolerated: BTreeSet::new(),
            openers: Openers::MayRepeat,
            new_epochs: 0,
        }
    }
}

/// What the checker makes of one request.
#[derive(Debug)]
pub struct Observation {
    /// The body, where it is one at all.
    pub body: Option<Body>,
    /// How it hangs together with earlier requests, where the prefix contract holds.
    pub link: Option<Link>,
    /// What is wrong and not tolerated.
    pub breaches: Vec<Breach>,
    /// What is wrong and tolerated.
    pub tolerated: Vec<Breach>,
}

/// Checks requests one after the other, in the order in which they were sent.
#[derive(Debug)]
pub struct Checker {
    rules: Rules,
    heads: Heads,
}

impl Checker {
    /// A checker that has seen nothing yet.
    pub fn new(rules: Rules) -> Self {
        let heads = Heads::new(rules.openers);
        Self { rules, heads }
    }

    /// Lets `count` more requests start a new epoch.
    pub fn allow_new_epochs(&mut self, count: usize) {
        self.rules.new_epochs = self.rules.new_epochs.saturating_add(count);
    }

    /// Notes that request `seq` got no whole answer, so that its repetition counts as a retry.
    pub fn cut_short(&mut self, seq: usize) {
        self.heads.cut_short(seq);
    }

    /// Checks the request with number `seq`.
    pub fn observe(&mut self, seq: usize, raw: Bytes) -> Observation {
        let body = match Body::parse(raw) {
            Ok(body) => body,
            Err(found) => return self.sort(seq, vec![found], None, None),
        };
        let mut found = fields::check(self.rules.dialect, &body);
        found.extend(messages::check(body.messages()));
        let link = match self.heads.observe(seq, &body) {
            Ok(link) => Some(link),
            Err(_) if self.rules.new_epochs > 0 => {
                self.rules.new_epochs -= 1;
                Some(self.heads.start(seq, &body))
            }
            Err(breach) => {
                found.push(breach);
                // Checked on from here, so that one break is reported once.
                self.heads.start(seq, &body);
                None
            }
        };
        self.sort(seq, found, Some(body), link)
    }

    fn sort(
        &self,
        seq: usize,
        found: Vec<(BreachKind, String)>,
        body: Option<Body>,
        link: Option<Link>,
    ) -> Observation {
        let (tolerated, breaches) = found
            .into_iter()
            .map(|(kind, detail)| Breach::new(seq, kind, detail))
            .partition(|breach| self.rules.tolerated.contains(&breach.kind));
        Observation {
            body,
            link,
            breaches,
            tolerated,
        }
    }
}
