//! Gets everything that a turn needs: a supervisor, and a model.

use crate::changed;
use crate::confirm;
use crate::connection::{Connection, not_running};
use crate::context::Context;
use crate::failure::Failure;
use crate::launcher::{Launcher, SetupStep, StarterFacts};
use crate::output::bytes;
use bxcore::code::Code;
use bxcore::id::{BackendName, SessionId};
use bxcore::problem::Problem;
use bxcore::wire::inferproxy::{BackendInfo, BackendOrigin, BackendState, by_default};
use bxcore::wire::provider::ProviderInfo;
use bxcore::wire::supervisor::{ProcessState, RoleStatus, Status};
use bxkit::rpc::CallError;
use serde_json::json;
use std::time::{Duration, Instant};

/// How long the starter engine may take to load its model, in seconds.
const STARTER_WITHIN_SECS: u64 = 180;

/// How long the roles may take to be ready, in seconds.
const ROLES_WITHIN_SECS: u64 = 30;

/// How often it is looked whether they are, in milliseconds.
const ROLES_POLL_MS: u64 = 20;

/// How often it is looked whether the engine is there, in milliseconds.
const POLL_MS: u64 = 200;

/// The environment variable that keeps the starter engine from being set up, with `never`.
const STARTER_VARIABLE: &str = "BOXMAKER_STARTER";

/// Connects to what runs, and starts it in the background where nothing does.
///
/// A supervisor that is on its way out is waited for, and a new one started. The one that is found
/// does not leave by itself for as long as the connection is held.
pub(crate) async fn ensure_up(context: &Context<'_>) -> Result<Connection, Failure> {
    let mut progress = context.progress();
    let deadline = Instant::now() + Duration::from_secs(ROLES_WITHIN_SECS);
    loop {
        let left = match Connection::find(context.home).await? {
            Some(mut connection) => match all_ready(&mut connection).await {
                Ok(()) => {
                    progress.clear();
                    changed::tell(context);
                    return Ok(connection);
                }
                Err(Missing::House(error)) => error.problem(),
                Err(Missing::Role(problem)) => return Err(problem.into()),
            },
            None => {
                let Some(launcher) = context.launcher else {
                    return Err(not_running().into());
                };
                progress.status("starting Boxmaker in the background …");
                launcher.start_background(context.home)?;
                not_running()
            }
        };
        if Instant::now() > deadline {
            return Err(left.into());
        }
        tokio::time::sleep(Duration::from_millis(ROLES_POLL_MS)).await;
    }
}

/// What is not there.
enum Missing {
    /// The whole house: it left, or is about to.
    House(CallError),
    /// A role, that does not come up.
    Role(Problem),
}

/// Waits until every role answers: a house may have been begun by somebody else a moment ago.
async fn all_ready(connection: &mut Connection) -> Result<(), Missing> {
    let deadline = Instant::now() + Duration::from_secs(ROLES_WITHIN_SECS);
    connection.attach().await.map_err(Missing::House)?;
    loop {
        let status = connection.status().await.map_err(Missing::House)?;
        let Some(missing) = status
            .roles
            .iter()
            .find(|role| role.state != ProcessState::Ready)
        else {
            return Ok(());
        };
        if Instant::now() > deadline {
            return Err(Missing::Role(not_ready(missing)));
        }
        tokio::time::sleep(Duration::from_millis(ROLES_POLL_MS)).await;
    }
}

/// Waits while a house is only just beginning: while a role that never ended is not there yet.
///
/// Whatever else is wrong with it is for the caller to see.
pub(crate) async fn begun(connection: &Connection) {
    let deadline = Instant::now() + Duration::from_secs(ROLES_WITHIN_SECS);
    let begins = |role: &RoleStatus| {
        role.state == ProcessState::Starting && role.restarts == 0 && role.last_exit.is_none()
    };
    while Instant::now() < deadline {
        let status = connection.status().await;
        if !status.is_ok_and(|status| status.roles.iter().any(begins)) {
            return;
        }
        tokio::time::sleep(Duration::from_millis(ROLES_POLL_MS)).await;
    }
}

fn not_ready(missing: &RoleStatus) -> Problem {
    let role = missing.role;
    let last = missing
        .last_exit
        .as_deref()
        .unwrap_or("it has not ended yet");
    Problem::new(Code::RoleUnreachable, format!("{role} does not come up"))
        .detail(format!(
            "started again {} times; last end: {last}",
            missing.restarts
        ))
        .hint(format!(
            "look into state/logs/{role}.log, or run `boxmaker doctor`"
        ))
}

/// Whether the starter engine is the only way to a model. Pure.
pub fn needs_starter(backends: &[BackendInfo]) -> bool {
    let usable = |info: &BackendInfo| {
        matches!(info.state, BackendState::Ready | BackendState::Loading)
            // What the owner configured is never replaced behind their back.
            || info.origin == BackendOrigin::Configured
    };
    !backends.iter().any(usable)
}

/// Whether the owner's environment keeps the starter engine from being used.
pub fn starter_forbidden() -> bool {
    std::env::var_os(STARTER_VARIABLE).is_some_and(|value| value == "never")
}

/// Makes sure that a model can be asked: sets up the starter engine where there is none.
///
/// Gives the backends as they are then.
pub(crate) async fn ensure_model(
    context: &Context<'_>,
    connection: &Connection,
    named: Option<&BackendName>,
    session: Option<&SessionId>,
) -> Result<Vec<BackendInfo>, Failure> {
    let backends: Vec<BackendInfo> = connection.inferproxy.get("/v1/backends").await?;
    // A backend that was named is found by the turn, or it fails with what is wrong with it.
    if named.is_some() || !needs_starter(&backends) {
        return Ok(backends);
    }
    // A session may be led by a provider, which only the turn finds out.
    if session.is_some() && has_providers(connection).await {
        return Ok(backends);
    }
    let launcher = context.launcher.filter(|_| !starter_forbidden());
    let Some(launcher) = launcher else {
        return Err(no_model().into());
    };
    let facts = launcher.starter(context.home);
    if !facts.installed {
        consent(context, &facts)?;
        install(context, launcher)?;
    }
    start(context, connection).await
}

async fn has_providers(connection: &Connection) -> bool {
    let providers = connection.brokerd.get::<Vec<ProviderInfo>>("/v1/providers");
    providers.await.is_ok_and(|providers| !providers.is_empty())
}

fn consent(context: &Context<'_>, facts: &StarterFacts) -> Result<(), Failure> {
    let output = &context.output;
    if !output.json {
        output.note("No model server is configured or found on this machine.");
        output.note(&format!(
            "Boxmaker can set up its starter engine: {}",
            facts.description
        ));
        output.note(&format!("It downloads {}.", bytes(facts.download_bytes)));
    }
    match confirm::gladly(context, "Set it up now?") {
        Some(true) => Ok(()),
        Some(false) => Err(no_model().into()),
        None => {
            if !output.json {
                output.note(
                    "Going ahead, as there is nobody to ask (BOXMAKER_STARTER=never prevents it).",
                );
            }
            Ok(())
        }
    }
}

fn install(context: &Context<'_>, launcher: &dyn Launcher) -> Result<(), Failure> {
    let mut progress = context.progress();
    launcher.install_starter(context.home, &mut |step| match step {
        SetupStep::Doing(what) => progress.say(&what),
        SetupStep::Downloaded { done, total } => progress.bytes(done, total),
    })?;
    progress.clear();
    Ok(())
}

async fn start(
    context: &Context<'_>,
    connection: &Connection,
) -> Result<Vec<BackendInfo>, Failure> {
    let mut progress = context.progress();
    progress.say("Starting the starter engine …");
    let _: Status = connection
        .supervisor
        .post("/v1/starter", &json!({}))
        .await?;
    let deadline = Instant::now() + Duration::from_secs(STARTER_WITHIN_SECS);
    loop {
        // inferproxy is started again with the engine's address, so it may be away for a moment.
        let backends: Vec<BackendInfo> = connection
            .inferproxy
            .get("/v1/backends")
            .await
            .unwrap_or_default();
        let there = |info: &BackendInfo| info.state == BackendState::Ready;
        if backends.iter().any(there) {
            progress.clear();
            return Ok(backends);
        }
        let engine = connection
            .status()
            .await
            .ok()
            .and_then(|status| status.starter);
        let failed = matches!(
            engine,
            Some(ProcessState::BackingOff | ProcessState::Stopped)
        );
        if failed || Instant::now() > deadline {
            return Err(starter_silent(&backends).into());
        }
        tokio::time::sleep(Duration::from_millis(POLL_MS)).await;
        progress.status("waiting until the starter engine has loaded its model …");
    }
}

fn starter_silent(backends: &[BackendInfo]) -> Problem {
    let problem = backends.iter().find_map(|info| info.problem.as_ref());
    let why = problem.map_or_else(|| "it does not answer".to_owned(), ToString::to_string);
    Problem::new(Code::StarterFailed, "The starter engine does not come up")
        .detail(why)
        .hint("look into state/logs/starter.log, or point at a model server:\nboxmaker backend add NAME URL")
}

/// What is said where there is no model and none may be set up.
pub(crate) fn no_model() -> Problem {
    Problem::new(Code::NoBackend, "There is no model server to ask")
        .detail("none is configured, and none was found on the usual ports of this machine")
        .hint("boxmaker backend add NAME URL\nfor example: boxmaker backend add local http://127.0.0.1:8080")
}

/// Says before an answer that the first backend can't be used and another stands in, where that is so.
pub(crate) fn tell_stand_in(context: &Context<'_>, backends: &[BackendInfo]) {
    if let Some(line) = stand_in(backends).filter(|_| !context.output.json) {
        context.output.note(&line);
    }
}

fn stand_in(backends: &[BackendInfo]) -> Option<String> {
    let (first, used) = (backends.first()?, by_default(backends)?);
    if first.name == used.name {
        return None;
    }
    let why = match first.state {
        BackendState::Loading => "is still loading",
        _ => "can't be used now",
    };
    Some(format!(
        "{} {why}: {} answers in its place (`boxmaker doctor` says more)",
        first.name, used.name
    ))
}

/// What is said after an answer of the starter engine; none if another backend gave it.
pub(crate) fn better_model(
    backends: &[BackendInfo],
    served: Option<&BackendName>,
) -> Option<&'static str> {
    let starter = backends
        .iter()
        .find(|info| Some(&info.name) == served)?
        .origin
        == BackendOrigin::Starter;
    starter.then_some(
        "This is the small starter model. To use a better one: boxmaker backend add NAME URL",
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn backend(origin: &str, state: &str) -> BackendInfo {
        serde_json::from_value(json!({
            "name": "b", "origin": origin, "url": "http://127.0.0.1:1", "kind": "openai", "model": "m",
            "slots": null, "max_concurrency": 1, "context_tokens": null, "tools": "schema",
            "keeps_reasoning": false, "fingerprint": "f", "state": state
        }))
        .unwrap()
    }

    #[test]
    fn the_starter_engine_is_the_last_resort() {
        let check = |backends: &[BackendInfo], expect: bool| {
            assert_eq!(needs_starter(backends), expect, "{backends:?}");
        };
        check(&[], true);
        check(&[backend("found", "ready")], false);
        check(&[backend("found", "loading")], false);
        check(&[backend("found", "unreachable")], true);
        check(&[backend("configured", "unreachable")], false);
        check(&[backend("configured", "misconfigured")], false);
        check(&[backend("starter", "unreachable")], true);
    }

    #[test]
    fn another_backend_does_not_answer_unseen() {
        let named = |name: &str, state| BackendInfo {
            name: BackendName::new(name).unwrap(),
            ..backend("configured", state)
        };
        let check = |first, expect: Option<&str>| {
            let said = stand_in(&[named("a", first), named("b", "ready")]);
            let said = said.as_deref().and_then(|said| said.split(':').next());
            assert_eq!(said, expect, "{first}");
        };
        check("ready", None);
        check("unreachable", Some("a can't be used now"));
        check("loading", Some("a is still loading"));
        assert_eq!(stand_in(&[named("a", "unreachable")]), None);
        assert_eq!(stand_in(&[]), None);
    }

    #[test]
    fn the_way_to_a_better_model_is_told_after_the_starter_alone() {
        let name = BackendName::new("b").unwrap();
        assert!(better_model(&[backend("starter", "ready")], Some(&name)).is_some());
        assert!(better_model(&[backend("found", "ready")], Some(&name)).is_none());
        assert!(better_model(&[backend("starter", "ready")], None).is_none());
    }
}
