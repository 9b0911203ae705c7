//! Follows a turn to its end, and stops it when the person asks.

use super::view::{Piece, View};
use crate::connection::Connection;
use crate::context::Context;
use crate::failure::Failure;
use crate::output::Progress;
use bxcore::code::Code;
use bxcore::id::{BackendName, SessionId};
use bxcore::problem::Problem;
use bxcore::wire::loopd::{StopReport, TurnEvent, TurnReport, TurnRequest};
use bxkit::rpc::EventStream;
use serde_json::json;

/// A turn that ran to its end.
#[derive(Debug)]
pub(crate) struct Ended {
    /// How it ended.
    pub(crate) report: TurnReport,
    /// The backend that served it.
    pub(crate) backend: Option<BackendName>,
}

/// Begins a turn and shows it; Ctrl-C stops it, twice leaves at once.
///
/// Without a view nothing is shown.
pub(crate) async fn follow(
    context: &Context<'_>,
    connection: &Connection,
    request: &TurnRequest,
    mut view: Option<View>,
) -> Result<Ended, Failure> {
    let mut progress = context.progress();
    let mut events = connection.loopd.stream("/v1/turns", request).await?;
    let mut turn = Turn::default();
    loop {
        tokio::select! {
            event = next(&mut events) => {
                let Some(event) = event? else { return Err(cut_off()) };
                if let Some(view) = &mut view {
                    for piece in view.on(&event) {
                        show(&mut progress, &piece)?;
                    }
                }
                match turn.on(event) {
                    Some(end) => return end,
                    None => {}
                }
            }
            pressed = tokio::signal::ctrl_c() => {
                // Where the signal can't be waited for, it ends the process as it always does.
                if pressed.is_err() || turn.stop_asked {
                    return Err(Failure::Stopped);
                }
                turn.stop_asked = true;
                let Some(session) = turn.session.clone() else { return Err(Failure::Stopped) };
                progress.status("stopping the turn …");
                stop(connection, &session, &mut progress).await?;
            }
        }
    }
}

/// What is known of the turn so far.
#[derive(Debug, Default)]
struct Turn {
    session: Option<SessionId>,
    backend: Option<BackendName>,
    stop_asked: bool,
}

impl Turn {
    fn on(&mut self, event: TurnEvent) -> Option<Result<Ended, Failure>> {
        match event {
            TurnEvent::Started {
                session, backend, ..
            } => {
                self.session = Some(session);
                self.backend = Some(backend);
                None
            }
            TurnEvent::End { report } => Some(Ok(Ended {
                report: *report,
                backend: self.backend.take(),
            })),
            TurnEvent::Refused { problem } => Some(Err(problem.into())),
            _ => None,
        }
    }
}

async fn next(events: &mut EventStream) -> Result<Option<TurnEvent>, Failure> {
    let Some(event) = events.next().await else {
        return Ok(None);
    };
    let event = event?;
    serde_json::from_str(&event.data)
        .map(Some)
        .map_err(|error| {
            Problem::new(Code::Internal, "An event of the turn can't be understood")
            .detail(error.to_string())
            .hint("client and roles may be of different versions: `boxmaker down`, then try again")
            .into()
        })
}

/// Asks loopd to stop; a second Ctrl-C doesn't wait for the answer.
async fn stop(
    connection: &Connection,
    session: &SessionId,
    progress: &mut Progress,
) -> Result<(), Failure> {
    let path = format!("/v1/sessions/{session}/stop");
    let body = json!({});
    let stopping = connection.loopd.post::<_, StopReport>(&path, &body);
    tokio::select! {
        report = stopping => {
            if report?.draining > 0 {
                progress.note("the server still ends its current batch; its slot is free after that");
            }
            Ok(())
        }
        _ = tokio::signal::ctrl_c() => Err(Failure::Stopped),
    }
}

fn show(progress: &mut Progress, piece: &Piece) -> Result<(), Failure> {
    match piece {
        Piece::Out(text) => {
            progress.clear();
            progress.aside(|output| output.answer(text))?;
        }
        Piece::Note(line) => progress.note(line),
        Piece::Status(text) => progress.status(text),
        Piece::Wait(text) => progress.say(text),
    }
    Ok(())
}

fn cut_off() -> Failure {
    Problem::new(
        Code::RoleUnreachable,
        "The turn's events ended before the turn did",
    )
    .detail("loopd went away; it goes on with the turn when it is back")
    .hint("`boxmaker session log ID` shows how it ended")
    .into()
}
