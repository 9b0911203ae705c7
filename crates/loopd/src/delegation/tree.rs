//! The caps of a tree, counted at its root for the root's turn.

use bxcore::id::{SessionId, TurnId};
use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

/// The most sessions that may be made below one turn of a root, at any depth.
pub const MAX_CREATED: u32 = 64;
/// The most of them that may be at work at once.
pub const MAX_ALIVE: u32 = 16;

/// Why a tree takes no more.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum TreeFull {
    /// [`MAX_CREATED`] were made.
    #[error("{MAX_CREATED} were made for this message, and more may not be")]
    Created,
    /// [`MAX_ALIVE`] are at work.
    #[error("{MAX_ALIVE} are at work, and more may not be at once")]
    Alive,
}

/// A root's session and turn.
type Root = (SessionId, TurnId);

#[derive(Debug, Clone, Default)]
struct Counts {
    created: u32,
    /// Those at work, each with who made it.
    alive: HashMap<SessionId, SessionId>,
}

/// The trees that have children now or had some in a turn that is under way. Cheap to clone.
#[derive(Debug, Clone, Default)]
pub struct Trees {
    trees: Arc<Mutex<HashMap<Root, Counts>>>,
}

impl Trees {
    /// Counts one more, unless the tree is full. One that is `known` was counted before.
    pub(super) fn enter(
        &self,
        root: Root,
        child: &SessionId,
        parent: &SessionId,
        known: bool,
    ) -> Result<Alive, TreeFull> {
        self.with(|trees| {
            let counts = trees.entry(root.clone()).or_default();
            if counts.alive.len() >= MAX_ALIVE as usize {
                return Err(TreeFull::Alive);
            }
            if !known && counts.created >= MAX_CREATED {
                return Err(TreeFull::Created);
            }
            counts.alive.insert(child.clone(), parent.clone());
            counts.created += u32::from(!known);
            Ok(())
        })?;
        Ok(Alive {
            trees: self.clone(),
            root,
            child: child.clone(),
        })
    }

    /// Everyone at work below a session, at any depth.
    pub fn below(&self, session: &SessionId) -> Vec<SessionId> {
        self.with(|trees| {
            let mut below: Vec<SessionId> = Vec::new();
            let mut next = Some(session.clone());
            let mut looked = 0;
            while let Some(above) = next {
                let children = trees.values().flat_map(|counts| &counts.alive);
                let children = children.filter(|(_, parent)| **parent == above);
                below.extend(children.map(|(child, _)| child.clone()));
                next = below.get(looked).cloned();
                looked += 1;
            }
            below
        })
    }

    /// Counts children that an earlier start made.
    pub fn remember(&self, root: &SessionId, turn: TurnId, created: u32) {
        self.with(|trees| {
            let counts = trees.entry((root.clone(), turn)).or_default();
            counts.created = counts.created.max(created);
        });
    }

    /// Lets a tree go whose root's turn is over.
    pub fn forget(&self, root: &SessionId, turn: TurnId) {
        self.with(|trees| trees.remove(&(root.clone(), turn)));
    }

    fn with<T>(&self, act: impl FnOnce(&mut HashMap<Root, Counts>) -> T) -> T {
        act(&mut self.trees.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

/// Being one of those at work in a tree. Given back when dropped.
#[derive(Debug)]
pub struct Alive {
    trees: Trees,
    root: Root,
    child: SessionId,
}

impl Drop for Alive {
    fn drop(&mut self) {
        self.trees.with(|trees| {
            if let Some(counts) = trees.get_mut(&self.root) {
                counts.alive.remove(&self.child);
            }
        });
    }
}
