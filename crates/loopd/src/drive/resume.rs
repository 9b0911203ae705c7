//! Goes on with turns that a crash interrupted.

use super::choosing::Chosen;
use super::engine::Engine;
use super::holds::Hold;
use super::opening::{Ground, Past, internal};
use super::sink::EventSink;
use crate::delegation::Standing;
use crate::prompt::Conversation;
use crate::slots::Layout;
use crate::store::{LedgerRow, Unfinished};
use crate::turn::{Lost, Turn, unfinished};
use bxcore::id::SessionId;
use bxcore::problem::Problem;
use bxcore::transcript::{Entry, Line, Lineage};
use bxcore::usage::UsageSource;
use bxcore::wire::inferproxy::BackendInfo;
use std::time::Duration;
use tokio::time::{Instant, sleep};

/// How long the other roles may take to be there.
const ROLES_READY: Duration = Duration::from_mins(1);
/// How long a model server may take to be there after a restart of the whole machine.
const BACKEND_READY: Duration = Duration::from_mins(5);
/// How often to look for it.
const BACKEND_POLL: Duration = Duration::from_secs(2);

impl Engine {
    /// Carries an interrupted turn to its end.
    pub(super) async fn resume_turn(&self, hold: Hold, left: Unfinished) {
        tracing::info!(session = %left.session, turn = %left.turn, "resuming an interrupted turn");
        let mut sink = EventSink::nobody();
        if let Err(problem) = self.try_resume(&hold, &left, &mut sink).await {
            tracing::error!(session = %left.session, code = %problem.code, %problem, "can't resume the turn");
        }
    }

    pub(super) async fn try_resume(
        &self,
        hold: &Hold,
        left: &Unfinished,
        sink: &mut EventSink,
    ) -> Result<(), Problem> {
        let session = &left.session;
        let lines = self.store.load(session).await?;
        let counters = self.store.counters(session).await?;
        let Some(interrupted) = unfinished(&lines) else {
            return Ok(());
        };
        let mut conversation = Conversation::from_lines(&lines);
        conversation.skip_to(
            conversation.next_turn(),
            counters.call.next(),
            counters.model_call.next(),
        );
        let past = Past {
            conversation,
            is_new: false,
        };
        self.broker.wait_ready(ROLES_READY).await?;
        self.inference.wait_ready(ROLES_READY).await?;
        let made_by = made_by(&lines);
        let label = past.conversation.label();
        let (authority, catalog) = self.authority(session, label, made_by.as_ref()).await?;
        let standing = Standing {
            session: session.clone(),
            turn: left.turn,
            made_by,
            rules: authority.rules.clone(),
        };
        self.remember_tree(&standing).await?;
        let found = self.backend_for(&past).await;
        let Chosen { backend, provider } = match found.clone() {
            Ok(chosen) => chosen,
            // The turn has to end even so; it is stopped below before it would need the backend.
            Err(problem) => Chosen {
                backend: self.stand_in(&past).await.ok_or(problem)?,
                provider: None,
            },
        };
        let epoch = match &found {
            Ok(chosen) => {
                self.memory.wait_ready(ROLES_READY).await?;
                let class = authority.label.class;
                self.next_epoch(&past.conversation, &chosen.backend, class)
                    .await?
            }
            Err(_) => None,
        };
        let ground = Ground {
            backend,
            provider,
            authority,
            catalog,
            epoch,
        };
        let context = self.context(
            session,
            &past,
            &ground,
            self.charged(left, interrupted).await?,
        );
        let resumed = Turn::resume(
            context,
            past.conversation,
            ground.epoch.clone(),
            interrupted,
        );
        let (turn, commands) = resumed.map_err(|error| internal(&error))?;
        // Without a backend, or with nobody who waits for it, the turn has to end even so.
        if found.is_err() || !self.is_waited_for(&standing).await {
            hold.stop().cancel();
        }
        self.carry_out(turn, commands, &ground.backend, standing, hold, sink)
            .await;
        Ok(())
    }

    /// Whether somebody waits for a turn's end: a person may always, a parent while it has no result
    /// for the call that made the child.
    async fn is_waited_for(&self, standing: &Standing) -> bool {
        let Some((parent, lineage)) = &standing.made_by else {
            return true;
        };
        let lines = self.store.load(parent).await.unwrap_or_default();
        unfinished(&lines).is_some_and(|lines| {
            let is_turn = |line: &Line| matches!(&line.entry, Entry::User(user) if user.turn == lineage.parent_turn);
            let answers = |line: &Line| matches!(&line.entry, Entry::Tool(tool) if tool.call == lineage.call);
            lines.first().is_some_and(is_turn) && !lines.iter().any(answers)
        })
    }

    /// Counts the children that the turn of a root made before it was interrupted.
    async fn remember_tree(&self, standing: &Standing) -> Result<(), Problem> {
        if standing.made_by.is_some() {
            return Ok(());
        }
        let (root, turn) = standing.root();
        let mut created = 0;
        for row in self.store.sessions().await? {
            if row.parent.is_none() {
                continue;
            }
            let lines = self.store.load(&row.id).await.unwrap_or_default();
            let is_ours = made_by(&lines)
                .is_some_and(|(_, lineage)| lineage.root == root && lineage.root_turn == turn);
            created += u32::from(is_ours);
        }
        self.trees.remember(&root, turn, created);
        Ok(())
    }

    /// The session's backend, once it is there.
    async fn backend_for(&self, past: &Past) -> Result<Chosen, Problem> {
        let own = past.conversation.epoch();
        let deadline = Instant::now() + BACKEND_READY;
        loop {
            match self.choose_backend(None, own).await {
                Ok(chosen) => {
                    let backend = &chosen.backend;
                    self.gate.declare(&backend.name, &Layout::of(backend));
                    return Ok(chosen);
                }
                Err(problem) if Instant::now() >= deadline => return Err(problem),
                Err(_) => sleep(BACKEND_POLL).await,
            }
        }
    }

    /// Any backend that is known, in whatever state.
    async fn stand_in(&self, past: &Past) -> Option<BackendInfo> {
        let own = past.conversation.epoch().map(|epoch| epoch.backend.clone());
        let known = self.inference.backends().await.ok()?;
        let same = known
            .iter()
            .find(|backend| Some(&backend.name) == own.as_ref());
        same.or(known.first()).cloned()
    }

    /// What was charged for calls of the interrupted turn that no entry tells of: whose end nobody
    /// saw, at this start or at an earlier one, or which were made beside the conversation.
    async fn charged(&self, left: &Unfinished, lines: &[Line]) -> Result<Lost, Problem> {
        let rows = self.store.ledger(&left.session).await?;
        let lost = rows.iter().filter(|row| {
            let is_untold = row.source == UsageSource::Lost || is_untold(row, lines);
            row.turn == Some(left.turn) && is_untold
        });
        Ok(lost.fold(Lost::default(), |sum, row| Lost {
            usage: sum.usage.plus(row.usage),
            cost: sum.cost.saturating_add(row.charged.usd),
        }))
    }
}

/// Whether a call went to the session's model and no entry has its number: it was made for a summary
/// that no epoch begins with, or for the result of a tool.
fn is_untold(row: &LedgerRow, lines: &[Line]) -> bool {
    let tells = |line: &Line| match &line.entry {
        Entry::Assistant(answer) => answer.model_call == row.call,
        Entry::Epoch(epoch) => epoch
            .compacted
            .as_ref()
            .is_some_and(|compacted| compacted.model_call == row.call),
        _ => false,
    };
    // What a tool's call cost stands with its result; it is charged no tokens.
    row.charged.tokens > 0 && !lines.iter().any(tells)
}

/// Who made a session, and where in its tree it is, by its first entry.
fn made_by(lines: &[Line]) -> Option<(SessionId, Lineage)> {
    match &lines.first()?.entry {
        Entry::Open(open) => open.parent.clone().zip(open.lineage.clone()),
        _ => None,
    }
}
