//! From a request for a turn to a turn that may begin.

use super::choosing::Chosen;
use super::engine::{Engine, held};
use super::holds::{Hold, HoldError};
use super::said::{opening, said};
use super::sink::EventSink;
use crate::delegation::{self, MAX_SUBAGENT_DEPTH, Standing};
use crate::prompt::{Conversation, KeptReasoning};
use crate::schedule::priority_of;
use crate::slots::Layout;
use crate::store::StoreError;
use crate::tools::Catalog;
use crate::turn::{Limits, Lost, Turn, TurnContext};
use bxcore::code::Code;
use bxcore::id::SessionId;
use bxcore::label::{Class, Label};
use bxcore::money::Price;
use bxcore::problem::Problem;
use bxcore::transcript::{Epoch, Lineage};
use bxcore::wire::brokerd::{Authority, Register};
use bxcore::wire::inferproxy::BackendInfo;
use bxcore::wire::loopd::{SessionRow, SessionStatus, TurnEvent, TurnRequest, WaitReason};
use bxcore::wire::provider::ProviderInfo;
use bxkit::keys::Token;
use std::sync::Arc;
use std::time::Duration;

/// How long roles that went away may take to come back before a turn gives up.
const ROLES_RETURN: Duration = Duration::from_secs(10);
/// The longest message of a person, in bytes.
const MAX_MESSAGE_BYTES: usize = 1024 * 1024;

/// What a session had before a turn.
pub(super) struct Past {
    pub(super) conversation: Conversation,
    pub(super) is_new: bool,
}

/// What a turn stands on besides its session.
pub(super) struct Ground {
    pub(super) backend: BackendInfo,
    /// What it costs and admits, where it is a provider.
    pub(super) provider: Option<ProviderInfo>,
    pub(super) authority: Authority,
    pub(super) catalog: Arc<Catalog>,
    /// The epoch that is due, if one is.
    pub(super) epoch: Option<Epoch>,
}

impl Engine {
    /// Works one message to its end.
    pub(super) async fn turn(&self, request: TurnRequest, mut sink: EventSink) {
        if let Err(problem) = self.try_turn(request, &mut sink).await {
            sink.send(TurnEvent::Refused { problem }).await;
        }
    }

    async fn try_turn(&self, request: TurnRequest, sink: &mut EventSink) -> Result<(), Problem> {
        check_text(&request.text)?;
        let session = match &request.session {
            Some(session) => session.clone(),
            None => new_session_id()?,
        };
        if session.is_reserved() {
            return Err(match self.session(&session).await {
                Ok(row) => of_a_helper(&row),
                Err(_) => reserved(&session),
            });
        }
        self.not_of_the_clock(&session).await?;
        let hold = self.hold(&session, request.no_wait, sink).await?;
        self.turn_in(&session, &request, &hold, sink).await
    }

    /// Works a message to its end in a session that is held.
    pub(super) async fn turn_in(
        &self,
        session: &SessionId,
        request: &TurnRequest,
        hold: &Hold,
        sink: &mut EventSink,
    ) -> Result<(), Problem> {
        let past = self.past(session).await?;
        let label = Label::new(request.class.unwrap_or(Class::Private), false);
        let ground = match self.ground(session, &past, request, label, sink).await {
            Err(problem) if problem.code == Code::RoleUnreachable => {
                // Somebody died and is being started again. All of this can be asked twice.
                // Seldom needed, and its state needs not be part of every turn's.
                Box::pin(self.roles_return(problem)).await?;
                self.ground(session, &past, request, label, sink).await?
            }
            ground => ground?,
        };
        let news = match ground.epoch {
            // A new epoch begins with what there is.
            Some(_) => None,
            None => {
                let class = ground.authority.label.class;
                self.news(&past.conversation, class).await
            }
        };
        let opening = opening(session, &past, &ground, said(&request.text, label, news));
        let context = self.context(session, &past, &ground, Lost::default());
        let standing = Standing {
            session: session.clone(),
            turn: opening.turn(),
            made_by: None,
            rules: ground.authority.rules.clone(),
        };
        let begun = Turn::begin(context, past.conversation, opening);
        let (turn, first) = begun.map_err(|error| internal(&error))?;
        self.carry_out(turn, first, &ground.backend, standing, hold, sink)
            .await;
        Ok(())
    }

    /// Whether a person may write in a session by its name: those of the clock are begun by it alone.
    async fn not_of_the_clock(&self, session: &SessionId) -> Result<(), Problem> {
        if priority_of(session).is_none() {
            return Ok(());
        }
        match self.store.session(session).await {
            Err(StoreError::SessionUnknown(_)) => Err(Problem::new(
                Code::SessionIdInvalid,
                format!("A session can't be named `{session}`"),
            )
            .detail("`heartbeat` and ids that begin with `job-` are for what the clock begins")
            .hint("choose another id; `boxmaker jobs` lists what begins by the clock")),
            Err(error) => Err(error.into()),
            Ok(_) => Ok(()),
        }
    }

    /// Waits for the other roles; gives the problem back where they don't return.
    pub(super) async fn roles_return(&self, problem: Problem) -> Result<(), Problem> {
        let there = tokio::try_join!(
            self.inference.wait_ready(ROLES_RETURN),
            self.broker.wait_ready(ROLES_RETURN),
            self.memory.wait_ready(ROLES_RETURN),
        );
        there.map(drop).map_err(|_| problem)
    }

    async fn hold(
        &self,
        session: &SessionId,
        no_wait: bool,
        sink: &mut EventSink,
    ) -> Result<Hold, Problem> {
        match self.holds.try_take(session) {
            Err(HoldError::Held) if !no_wait => {}
            taken => return taken.map_err(|error| not_held(session, error)),
        }
        sink.send(TurnEvent::Waiting {
            reason: WaitReason::Session,
        })
        .await;
        tokio::select! {
            taken = self.holds.take(session) => {
                taken.map_err(|error| not_held(session, error))
            }
            // Nobody waits for a turn that has not begun.
            () = sink.gone() => Err(went_away()),
        }
    }

    pub(super) async fn past(&self, session: &SessionId) -> Result<Past, Problem> {
        if let Some(conversation) = self.live.take(session) {
            return Ok(Past {
                conversation,
                is_new: false,
            });
        }
        let lines = match self.store.load(session).await {
            Ok(lines) => lines,
            Err(StoreError::SessionUnknown(_)) => Vec::new(),
            Err(error) => return Err(error.into()),
        };
        let counters = self.store.counters(session).await?;
        let mut conversation = Conversation::from_lines(&lines);
        conversation.skip_to(
            counters.turn.next(),
            counters.call.next(),
            counters.model_call.next(),
        );
        Ok(Past {
            conversation,
            is_new: lines.is_empty(),
        })
    }

    /// Looks what backends there are, has brokerd join the message's label, and asks memoryd what a
    /// new epoch begins with.
    async fn ground(
        &self,
        session: &SessionId,
        past: &Past,
        request: &TurnRequest,
        label: Label,
        sink: &mut EventSink,
    ) -> Result<Ground, Problem> {
        let own = past.conversation.epoch();
        // The backend comes first in the order of refusals: without one, nothing else matters, and
        // a session that never begins must not leave a label behind.
        let wanted = request.backend.as_ref();
        let chosen = self.ready_backend(wanted, own, sink).await?;
        let Chosen { backend, provider } = chosen;
        if let Some(provider) = &provider {
            self.admitted(session, past, label, provider).await?;
        }
        self.gate.declare(&backend.name, &Layout::of(&backend));
        let (authority, catalog) = self.authority(session, label, None).await?;
        let class = authority.label.class;
        let epoch = self.next_epoch(&past.conversation, &backend, class).await?;
        Ok(Ground {
            backend,
            provider,
            authority,
            catalog,
            epoch,
        })
    }

    pub(super) async fn authority(
        &self,
        session: &SessionId,
        raise: Label,
        made_by: Option<&(SessionId, Lineage)>,
    ) -> Result<(Authority, Arc<Catalog>), Problem> {
        let parent = made_by.map(|(parent, _)| parent);
        let depth_left = made_by.map_or(MAX_SUBAGENT_DEPTH, |(_, lineage)| lineage.depth_left);
        // A child's rules are these as well, narrowed by its parent's at brokerd.
        let rules = self.config.guardrails.tool_rules();
        let register = Register {
            raise,
            parent: parent.cloned(),
            rules,
        };
        let authority = self.broker.register(session, &register).await?;
        let delegates = depth_left > 0 && delegation::is_allowed(&authority.rules);
        let catalog = self
            .broker
            .catalog(session, &authority.tools_sha256, delegates)
            .await?;
        Ok((authority, catalog))
    }

    pub(super) fn context(
        &self,
        session: &SessionId,
        past: &Past,
        ground: &Ground,
        lost: Lost,
    ) -> TurnContext {
        // A server of the owner's costs nothing but its tokens.
        let (price, answer_tokens) = match &ground.provider {
            Some(provider) => (provider.price, provider.answer_tokens),
            None => (Price::FREE, u32::MAX),
        };
        TurnContext {
            session: session.clone(),
            label: ground.authority.label,
            next_model_call: past.conversation.next_model_call(),
            limits: Limits {
                tool_iterations: self.config.tool_iterations,
                answer_tokens: answer_tokens.min(self.config.answer_tokens),
                tool_result_bytes: self.config.tool_result_bytes,
            },
            price,
            compact: Arc::new(self.config.compact.clone()),
            summarise: self.config.summarise,
            reasoning: kept(&ground.backend),
            catalog: Arc::clone(&ground.catalog),
            lost,
        }
    }
}

/// A new session's id: the day, for people, and enough chance that no two are equal.
fn new_session_id() -> Result<SessionId, Problem> {
    const CHANCE_CHARS: usize = 8;
    let token = Token::generate().map_err(|error| internal(&error))?;
    let chance = &token.expose()[..CHANCE_CHARS];
    let day = jiff::Zoned::now().strftime("%Y%m%d").to_string();
    SessionId::new(format!("chat-{day}-{chance}")).map_err(|error| internal(&error))
}

fn kept(backend: &BackendInfo) -> KeptReasoning {
    if backend.keeps_reasoning {
        KeptReasoning::SentBack
    } else {
        KeptReasoning::Dropped
    }
}

fn check_text(text: &str) -> Result<(), Problem> {
    if text.trim().is_empty() {
        return Err(Problem::new(
            Code::BadUsage,
            "There is nothing to answer: the message is empty",
        ));
    }
    if text.len() > MAX_MESSAGE_BYTES {
        let title = format!(
            "The message is {} bytes long; the limit is {MAX_MESSAGE_BYTES}",
            text.len()
        );
        let hint = "put long material into a file of the workspace and name it in the message";
        return Err(Problem::new(Code::TooLarge, title).hint(hint));
    }
    Ok(())
}

fn not_held(session: &SessionId, error: HoldError) -> Problem {
    held(session).detail(error.to_string()).hint(format!(
        "wait for it, or stop it with `boxmaker session stop {session}`"
    ))
}

pub(super) fn went_away() -> Problem {
    Problem::new(Code::Stopped, "Whoever asked for the turn went away")
}

/// A helper has one task, and its parent alone hears of it.
pub(super) fn of_a_helper(row: &SessionRow) -> Problem {
    let status = match row.status {
        SessionStatus::Running => "still at work",
        SessionStatus::Idle => "done with it",
        SessionStatus::Broken => "broken",
    };
    Problem::new(
        Code::SessionIdInvalid,
        format!("`{}` is a helper's session and takes no messages", row.id),
    )
    .detail(format!("it had one task, and is {status}"))
    .hint(format!(
        "`boxmaker session log {}` shows what it did",
        row.id
    ))
}

fn reserved(session: &SessionId) -> Problem {
    Problem::new(
        Code::SessionIdInvalid,
        format!("A session can't be named `{session}`"),
    )
    .detail("ids that begin with `sub-` or `seat-` are given by Boxmaker alone")
    .hint("choose another id, or leave `--session` out for a new one")
}

pub(super) fn internal(error: &dyn std::error::Error) -> Problem {
    Problem::new(Code::Internal, "A fault in Boxmaker").detail(error.to_string())
}
