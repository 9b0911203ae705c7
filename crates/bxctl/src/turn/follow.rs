//! Follows a turn to its end, and stops it when the person asks.

use super::aftermath;
use super::asking::{Asking, Replied};
use super::view::{Piece, View};
use crate::commands::approvals::say;
use crate::connection::Connection;
use crate::context::Context;
use crate::failure::Failure;
use crate::output::Progress;
use bxcore::code::Code;
use bxcore::id::{BackendName, SessionId, TurnId};
use bxcore::problem::Problem;
use bxcore::wire::loopd::{StopReport, TurnEvent, TurnReport, TurnRequest};
use bxkit::rpc::{CallError, Client, EventStream};
use serde_json::json;
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::task::{JoinError, JoinSet};

/// A turn that ran to its end.
#[derive(Debug)]
pub(crate) struct Ended {
    /// How it ended.
    pub(crate) report: TurnReport,
    /// The backend that served it.
    pub(crate) backend: Option<BackendName>,
}

/// Begins a turn and shows it; Ctrl-C or SIGTERM stops it, twice leaves at once.
///
/// Without a view nothing is shown.
pub(crate) async fn follow(
    context: &Context<'_>,
    connection: &Connection,
    request: &TurnRequest,
    view: Option<View>,
) -> Result<Ended, Failure> {
    let events = connection.loopd.stream("/v1/turns", request).await?;
    follow_events(context, connection, events, view).await
}

/// Has a session summed up, and shows how that goes as a turn is shown.
pub(crate) async fn follow_compaction(
    context: &Context<'_>,
    connection: &Connection,
    session: &SessionId,
    view: Option<View>,
) -> Result<Ended, Failure> {
    let path = format!("/v1/sessions/{session}/compact");
    let events = connection.loopd.stream(&path, &json!({})).await?;
    follow_events(context, connection, events, view).await
}

async fn follow_events(
    context: &Context<'_>,
    connection: &Connection,
    mut events: EventStream,
    mut view: Option<View>,
) -> Result<Ended, Failure> {
    let mut progress = context.progress();
    let mut turn = Turn::default();
    let mut interrupts = caught(SignalKind::interrupt())?;
    let mut terminations = caught(SignalKind::terminate())?;
    let mut stops = JoinSet::new();
    let mut asking = Asking::default();
    loop {
        tokio::select! {
            event = next(&mut events) => {
                let event = match event {
                    Ok(Some(event)) => event,
                    Ok(None) => break,
                    Err(_) if turn.place().is_some() => break,
                    Err(error) => return Err(error),
                };
                if asking_of(context, connection, &event, &mut asking, &mut progress) {
                    progress.note(if turn.stop_asked { "\n(taken back)" } else { "\n(the question is answered, or void)" });
                }
                if let Some(view) = &mut view {
                    for piece in view.on(&event) {
                        // A question has the terminal for itself.
                        let moves = matches!(piece, Piece::Status(_) | Piece::Wait(_));
                        if !(moves && asking.is_open()) {
                            show(&mut progress, &piece)?;
                        }
                    }
                }
                if let Some(end) = turn.on(event) {
                    return end;
                }
            }
            () = either(&mut interrupts, &mut terminations) => {
                if turn.stop_asked {
                    return Err(Failure::Stopped);
                }
                turn.stop_asked = true;
                let Some(session) = turn.session.clone() else { return Err(Failure::Stopped) };
                progress.status("stopping the turn …");
                stops.spawn(stop(connection.loopd.clone(), session));
            }
            replied = asking.replied() => {
                if let Some(problem) = answered(connection, replied).await {
                    progress.aside(|output| output.problem(&problem));
                }
            }
            Some(outcome) = stops.join_next() => stopped(&mut progress, outcome),
        }
    }
    let Some((session, id)) = turn.place() else {
        return Err(cut_off());
    };
    if asking.give_up() {
        progress.note(
            "\n(the question is taken back; `boxmaker approvals` lists it if it still waits)",
        );
    }
    let ended = tokio::select! {
        ended = aftermath::wait(context.home, connection, &mut progress, &session, id) => ended?,
        () = either(&mut interrupts, &mut terminations) => {
            // It can't be asked to stop while it is away.
            let _ = stop(connection.loopd.clone(), session).await;
            return Err(Failure::Stopped);
        }
    };
    progress.clear();
    if let Some(view) = &mut view {
        let report = Box::new(ended.report.clone());
        let mut pieces = view.on(&TurnEvent::Retract);
        pieces.extend(view.on(&TurnEvent::End { report }));
        for piece in pieces {
            show(&mut progress, &piece)?;
        }
    }
    Ok(Ended {
        backend: turn.backend,
        ..ended
    })
}

/// What is known of the turn so far.
#[derive(Debug, Default)]
struct Turn {
    session: Option<SessionId>,
    id: Option<TurnId>,
    backend: Option<BackendName>,
    stop_asked: bool,
}

impl Turn {
    /// The session and the turn, once it has begun.
    fn place(&self) -> Option<(SessionId, TurnId)> {
        self.session.clone().zip(self.id)
    }

    fn on(&mut self, event: TurnEvent) -> Option<Result<Ended, Failure>> {
        match event {
            TurnEvent::Started {
                session,
                turn,
                backend,
            } => {
                self.session = Some(session);
                self.id = Some(turn);
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

/// Puts the question that an event asks for, on a terminal; takes it back when its call has ended,
/// and gives whether that was without a reply from here.
fn asking_of(
    context: &Context<'_>,
    connection: &Connection,
    event: &TurnEvent,
    asking: &mut Asking,
    progress: &mut Progress,
) -> bool {
    match event {
        // A helper's question is asked here as well: nobody else follows it.
        TurnEvent::Child { event, .. } => {
            return asking_of(context, connection, event, asking, progress);
        }
        TurnEvent::Approval { call, awaiting, .. } => {
            let output = context.output;
            if Asking::is_possible(&output) {
                progress.clear();
                let id = awaiting.approval.clone();
                asking.put(output, connection.brokerd.clone(), *call, id);
            } else if output.json {
                output.note(&json!(event).to_string());
            }
        }
        TurnEvent::ToolResult { call, .. } => return asking.ended(*call),
        _ => {}
    }
    false
}

/// Tells brokerd what the person said; what kept it from counting, if something did.
async fn answered(
    connection: &Connection,
    replied: Result<Option<Replied>, CallError>,
) -> Option<Problem> {
    let said = match replied {
        Ok(Some(Replied { seen, said })) => say(&connection.brokerd, &seen, said).await.map(drop),
        Ok(None) => Ok(()),
        Err(error) => Err(error),
    };
    said.err().map(|error| error.problem())
}

/// Asks loopd to stop, beside the events: the turn ends with one of them.
async fn stop(loopd: Client, session: SessionId) -> Result<StopReport, CallError> {
    loopd
        .post(&format!("/v1/sessions/{session}/stop"), &json!({}))
        .await
}

/// Tells what became of a stop, where the turn's own end doesn't.
fn stopped(progress: &mut Progress, outcome: Result<Result<StopReport, CallError>, JoinError>) {
    match outcome {
        Ok(Ok(report)) if report.draining > 0 => {
            progress.note("the server still ends its current batch; its slot is free after that");
        }
        Ok(Ok(_)) | Err(_) => {}
        Ok(Err(error)) => progress.aside(|output| output.problem(&error.problem())),
    }
}

async fn either(one: &mut Signal, other: &mut Signal) {
    tokio::select! {
        _ = one.recv() => {}
        _ = other.recv() => {}
    }
}

/// A signal as an event from now on, in place of the end of the process.
fn caught(kind: SignalKind) -> Result<Signal, Failure> {
    signal(kind).map_err(|error| {
        Problem::new(Code::Internal, "Signals can't be caught")
            .detail(error.to_string())
            .into()
    })
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
        "The turn's events ended before the turn began",
    )
    .detail("loopd went away")
    .hint("ask again")
    .into()
}
