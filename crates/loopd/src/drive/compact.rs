//! Sums a session up because a person asks for it, between two turns.

use super::choosing::Chosen;
use super::engine::{Engine, held};
use super::holds::Hold;
use super::opening::{Ground, of_a_helper};
use super::sink::EventSink;
use crate::delegation::Standing;
use crate::slots::Layout;
use crate::turn::{Lost, Turn};
use bxcore::code::Code;
use bxcore::id::SessionId;
use bxcore::problem::Problem;
use bxcore::wire::loopd::TurnEvent;

impl Engine {
    /// Sums a session up; the sink is told how that went, as it is of a turn.
    pub(super) async fn compact(&self, session: SessionId, mut sink: EventSink) {
        let summed = match self.holds.try_take(&session) {
            Ok(hold) => self.try_compact(&session, &hold, &mut sink).await,
            Err(error) => Err(held(&session).detail(error.to_string())),
        };
        if let Err(problem) = summed {
            sink.send(TurnEvent::Refused { problem }).await;
        }
    }

    async fn try_compact(
        &self,
        session: &SessionId,
        hold: &Hold,
        sink: &mut EventSink,
    ) -> Result<(), Problem> {
        let row = self.session(session).await?;
        if session.is_reserved() {
            return Err(of_a_helper(&row));
        }
        let past = self.past(session).await?;
        let own = past.conversation.epoch();
        let Chosen { backend, provider } = self.ready_backend(None, own, sink).await?;
        let label = past.conversation.label();
        if let Some(provider) = &provider {
            self.admitted(session, &past, label, provider).await?;
        }
        self.gate.declare(&backend.name, &Layout::of(&backend));
        let (authority, catalog) = self.authority(session, label, None).await?;
        let class = authority.label.class;
        let epoch = self.next_epoch(&past.conversation, &backend, class).await?;
        let memory = match epoch {
            Some(_) => None,
            None => self.news(&past.conversation, class).await,
        };
        let standing = Standing {
            session: session.clone(),
            turn: past.conversation.next_turn(),
            made_by: None,
            rules: authority.rules.clone(),
        };
        let ground = Ground {
            backend,
            provider,
            authority,
            catalog,
            epoch,
        };
        let context = self.context(session, &past, &ground, Lost::default());
        let begun = Turn::sum_up(
            context,
            past.conversation,
            ground.epoch.clone(),
            memory.map(|memory| memory.now),
        );
        let (turn, first) = begun.map_err(|_| nothing(session))?;
        self.carry_out(turn, first, &ground.backend, standing, hold, sink)
            .await;
        Ok(())
    }
}

fn nothing(session: &SessionId) -> Problem {
    let title = format!("There is nothing in session `{session}` to sum up yet");
    Problem::new(Code::BadUsage, title)
        .detail("the last messages stay as they are, and there is nothing before them")
        .hint("`keep_percent` under [compact] in loopd.toml says how much stays")
}
