//! The supervisor's own routes, for the owner alone.

use super::machine::{End, Event};
use super::part::Part;
use super::presence::Presence;
use axum::extract::{Path, State};
use axum::response::Response;
use axum::{Json, Router, routing};
use bxcore::code::Code;
use bxcore::problem::Problem;
use bxcore::role::Role;
use bxcore::wire::supervisor::{ProcessState, Status};
use bxkit::home::Home;
use bxkit::rpc::{ApiError, event_stream};
use futures_util::StreamExt;
use std::time::{Duration, Instant};
use tokio::sync::{mpsc, watch};
use tokio_util::sync::CancellationToken;

/// How long a restart that was asked for may take, in seconds.
const RESTART_WITHIN_SECS: u64 = 30;

/// What the routes work with.
#[derive(Debug, Clone)]
pub(crate) struct Desk {
    pub(crate) home: Home,
    pub(crate) events: mpsc::Sender<Event>,
    pub(crate) status: watch::Receiver<Status>,
    pub(crate) began: Instant,
    pub(crate) stopping: CancellationToken,
    pub(crate) presence: Presence,
}

/// The routes of `bxcore::wire::supervisor`.
pub(crate) fn routes(desk: Desk) -> Router {
    Router::new()
        .route("/v1/status", routing::get(status))
        .route("/v1/down", routing::post(down))
        .route("/v1/leave", routing::post(leave))
        .route("/v1/attach", routing::get(attach))
        .route("/v1/starter", routing::post(starter))
        .route("/v1/roles/{role}/restart", routing::post(restart))
        .with_state(desk)
}

async fn status(State(desk): State<Desk>) -> Json<Status> {
    Json(desk.now())
}

async fn down(State(desk): State<Desk>) -> Result<(), ApiError> {
    desk.presence.leave(usize::MAX);
    desk.send(Event::Stop(End::Asked)).await
}

async fn leave(State(desk): State<Desk>) -> Result<Json<bool>, ApiError> {
    // Whoever asks is in, too.
    let leaves = desk.presence.leave(1);
    if leaves {
        desk.send(Event::Stop(End::Asked)).await?;
    }
    Ok(Json(leaves))
}

async fn attach(State(desk): State<Desk>) -> Result<Response, ApiError> {
    let here = desk.presence.enter();
    let here = here.filter(|_| !desk.stopping.is_cancelled());
    let here = here.ok_or_else(about_to_leave)?;
    let stopping = desk.stopping;
    let until_the_end = futures_util::stream::once(async move {
        // Counted until the client goes away, which drops this.
        let _here = here;
        stopping.cancelled().await;
    });
    let silent = until_the_end.filter_map(|()| std::future::ready(None));
    Ok(event_stream(silent))
}

fn about_to_leave() -> ApiError {
    ApiError::new(Code::RoleUnreachable, "The supervisor is about to leave")
}

async fn starter(State(desk): State<Desk>) -> Result<Json<Status>, ApiError> {
    if !super::engine::is_installed(&desk.home) {
        return Err(
            Problem::new(Code::StarterFailed, "The starter engine is not set up")
                .hint("boxmaker ask \"hello\" sets it up where there is no model server")
                .into(),
        );
    }
    desk.send(Event::Restart(Part::Starter)).await?;
    Ok(Json(desk.now()))
}

async fn restart(State(mut desk): State<Desk>, Path(role): Path<String>) -> Result<(), ApiError> {
    let role: Role = role
        .parse()
        .map_err(|error| Problem::new(Code::NotFound, format!("{error}")))?;
    let row = |status: &Status| status.roles.iter().find(|row| row.role == role).cloned();
    let before = row(&desk.status.borrow_and_update()).and_then(|row| row.pid);
    desk.send(Event::Restart(Part::Role(role))).await?;
    let is_new = |status: &Status| {
        row(status).is_some_and(|row| row.state == ProcessState::Ready && row.pid != before)
    };
    let within = Duration::from_secs(RESTART_WITHIN_SECS);
    let back = tokio::select! {
        back = tokio::time::timeout(within, desk.status.wait_for(is_new)) => matches!(back, Ok(Ok(_))),
        () = desk.stopping.cancelled() => false,
    };
    if back {
        Ok(())
    } else {
        Err(not_back(role).into())
    }
}

fn not_back(role: Role) -> Problem {
    Problem::new(
        Code::RoleUnreachable,
        format!("{role} is not back after it was started again"),
    )
    .hint(format!("look into state/logs/{role}.log"))
}

impl Desk {
    fn now(&self) -> Status {
        let up_ms = u64::try_from(self.began.elapsed().as_millis()).unwrap_or(u64::MAX);
        Status {
            up_ms,
            ..self.status.borrow().clone()
        }
    }

    async fn send(&self, event: Event) -> Result<(), ApiError> {
        self.events.send(event).await.map_err(|_| about_to_leave())
    }
}
