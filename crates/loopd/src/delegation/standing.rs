//! Where a turn stands in its tree.

use super::MAX_SUBAGENT_DEPTH;
use crate::budget::AccountKey;
use crate::schedule::priority_of;
use bxcore::guardrails::ToolRules;
use bxcore::id::{SessionId, TurnId};
use bxcore::transcript::Lineage;
use bxcore::wire::inferproxy::Lane;
use bxcore::wire::loopd::Priority;

/// Where a turn stands in its tree: what its children are made from, and what its model calls are
/// served and paid by.
#[derive(Debug, Clone)]
pub struct Standing {
    /// The session.
    pub session: SessionId,
    /// The turn.
    pub turn: TurnId,
    /// The session that made this one, and where in its tree this one is.
    pub made_by: Option<(SessionId, Lineage)>,
    /// The rules that its tool calls are judged by.
    pub rules: ToolRules,
}

impl Standing {
    /// The root's session and turn, which the caps of the tree are counted at.
    pub fn root(&self) -> (SessionId, TurnId) {
        match &self.made_by {
            Some((_, lineage)) => (lineage.root.clone(), lineage.root_turn),
            None => (self.session.clone(), self.turn),
        }
    }

    /// How many sessions deep its children may go on.
    pub fn depth_left(&self) -> u32 {
        let lineage = self.made_by.as_ref().map(|(_, lineage)| lineage);
        lineage.map_or(MAX_SUBAGENT_DEPTH, |lineage| lineage.depth_left)
    }

    /// The session that made this one.
    pub fn parent(&self) -> Option<&SessionId> {
        self.made_by.as_ref().map(|(parent, _)| parent)
    }

    /// The account above the turn's own, where another turn pays.
    pub fn paid_by(&self) -> Option<AccountKey> {
        let (parent, lineage) = self.made_by.as_ref()?;
        Some(AccountKey::turn(parent, lineage.parent_turn))
    }

    /// Which slots its model calls are served on.
    pub fn lane(&self) -> Lane {
        if self.made_by.is_some() || priority_of(&self.session).is_some() {
            Lane::Background
        } else {
            Lane::Main
        }
    }

    /// How urgent its model calls are: a child's parent waits for it, and is as urgent. What the
    /// clock began waits for what a person began.
    pub fn priority(&self) -> Priority {
        let (root, _) = self.root();
        priority_of(&root).unwrap_or(Priority::Live)
    }
}
