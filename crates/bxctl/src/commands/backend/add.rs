//! `backend add`: a new entry in inferproxy.toml, in use at once.

use super::{AddArgs, Kind, edit, list, look};
use crate::connection::Connection;
use crate::context::Context;
use crate::failure::{Failure, Outcome, file_problem};
use bxcore::code::Code;
use bxcore::id::BackendName;
use bxcore::problem::Problem;
use bxcore::role::Role;
use bxcore::wire::inferproxy::{BackendInfo, BackendState};
use serde_json::json;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// How long inferproxy may take to be back, in seconds.
const BACK_WITHIN_SECS: u64 = 10;

/// How often it is asked, in milliseconds.
const POLL_MS: u64 = 50;

/// The mode of the file.
const CONFIG_MODE: u32 = 0o600;

pub(super) async fn run(context: &Context<'_>, args: &AddArgs) -> Outcome {
    context.home.create().map_err(|error| error.problem())?;
    let path = context.home.config_file(Role::Inferproxy);
    let args = &settled(context, &path, args)?;
    let text = edit::added(&current(&path)?, args)?;
    check(context, &path, &text)?;
    look::own_addresses(&args.url)?;
    write(&path, &text)?;
    let running = Connection::find(context.home).await?;
    let found = match &running {
        Some(connection) => Some(in_use(connection, &args.name).await?),
        None => None,
    };
    if context.output.json {
        context
            .output
            .answer_json(&json!({ "file": path.display().to_string(), "backend": found }))?;
        return Ok(());
    }
    context
        .output
        .answer(&format!("{} is in {}\n", args.name, path.display()))?;
    match &found {
        Some(info) => {
            let one = std::slice::from_ref(info);
            context
                .output
                .answer(&list::render(one, context.output.paint_out))?;
            if info.state == BackendState::Ready {
                context.output.note(&format!(
                    "`boxmaker backend test {}` tries its slots",
                    args.name
                ));
            }
        }
        None => context
            .output
            .note("It is used from the next start on; nothing runs in this home now."),
    }
    Ok(())
}

/// Puts a text in the place of a file.
pub(super) fn write(path: &Path, text: &str) -> Outcome {
    let title = "inferproxy.toml can't be written";
    bxkit::fsx::write_atomic(path, text.as_bytes(), CONFIG_MODE)
        .map_err(|error| file_problem(Code::HomeUnusable, title, path, &error))?;
    Ok(())
}

/// The text of the file; empty where there is none.
pub(super) fn current(path: &Path) -> Result<String, Failure> {
    match std::fs::read_to_string(path) {
        Ok(text) => Ok(text),
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(String::new()),
        Err(error) => Err(file_problem(
            Code::HomeUnusable,
            "inferproxy.toml can't be read",
            path,
            &error,
        )
        .into()),
    }
}

/// The options with the server's kind told, by itself if the person didn't.
fn settled(context: &Context<'_>, path: &Path, args: &AddArgs) -> Result<AddArgs, Failure> {
    let mut args = args.clone();
    let has_slots = !args.main.is_empty() || args.background.is_some() || !args.seat.is_empty();
    let has_models = args.model.is_some() || args.max_concurrency.is_some();
    args.kind = match (args.kind, has_slots, has_models) {
        (Kind::Auto, true, _) => Kind::LlamaServer,
        (Kind::Auto, false, true) => Kind::Openai,
        (Kind::Auto, false, false) => {
            // The address is judged before anything is sent to it.
            let draft = AddArgs {
                kind: Kind::Openai,
                ..args.clone()
            };
            check(context, path, &edit::added(&current(path)?, &draft)?)?;
            look::kind(&args.url)?.ok_or_else(|| unknown_kind(&args.url))?
        }
        (kind, ..) => kind,
    };
    Ok(args)
}

fn unknown_kind(url: &str) -> Problem {
    Problem::new(
        Code::BackendUnreachable,
        "Nobody answers there, so the server's kind can't be told",
    )
    .detail(url)
    .hint("start the server first, or say what it is: --kind llama-server or --kind openai")
}

/// Lets the role's own reader judge the text before it takes the file's place.
pub(super) fn check(context: &Context<'_>, path: &Path, text: &str) -> Outcome {
    let Some(launcher) = context.launcher else {
        return Ok(());
    };
    let draft = Draft(path.with_extension("toml.draft"));
    write(&draft.0, text)?;
    let checked = launcher.check_config(context.home, Role::Inferproxy, &draft.0);
    checked.map_err(|problem| as_of(problem, &draft.0, path).into())
}

/// The problem with the owner's file named, in place of the draft that nobody has seen.
fn as_of(problem: Problem, draft: &Path, path: &Path) -> Problem {
    let named = |path: &Path| {
        let name = path.file_name().unwrap_or_default();
        [
            path.display().to_string(),
            name.to_string_lossy().into_owned(),
        ]
    };
    let mut detail = problem.detail;
    for (of_draft, of_file) in named(draft).iter().zip(named(path)) {
        detail = detail.map(|detail| detail.replace(of_draft, &of_file));
    }
    Problem { detail, ..problem }
}

/// A file that is gone again whatever happens.
struct Draft(PathBuf);

impl Drop for Draft {
    fn drop(&mut self) {
        // It may never have been made.
        let _ = std::fs::remove_file(&self.0);
    }
}

/// Has inferproxy read its file again.
pub(super) async fn read_again(connection: &Connection) -> Outcome {
    connection
        .supervisor
        .post::<_, ()>("/v1/roles/inferproxy/restart", &json!({}))
        .await?;
    Ok(())
}

/// Has inferproxy read its file again, and asks it what it makes of the new backend.
async fn in_use(connection: &Connection, name: &BackendName) -> Result<BackendInfo, Failure> {
    read_again(connection).await?;
    let deadline = Instant::now() + Duration::from_secs(BACK_WITHIN_SECS);
    loop {
        let answer = connection
            .inferproxy
            .get::<Vec<BackendInfo>>("/v1/backends")
            .await;
        let now = Instant::now();
        match answer {
            Ok(backends) => {
                if let Some(info) = backends.into_iter().find(|info| info.name == *name) {
                    return Ok(info);
                }
                if now > deadline {
                    let title =
                        format!("inferproxy does not know `{name}` after it was started again");
                    return Err(Failure::new(Code::BackendUnknown, title));
                }
            }
            Err(error) if now > deadline => return Err(error.into()),
            Err(_) => {}
        }
        tokio::time::sleep(Duration::from_millis(POLL_MS)).await;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_owner_reads_the_name_of_their_own_file() {
        let problem = Problem::new(Code::ConfigInvalid, "wrong")
            .detail("/c/inferproxy.toml.draft:3:7: x\nin inferproxy.toml.draft");
        let draft = Path::new("/c/inferproxy.toml.draft");
        let shown = as_of(problem, draft, Path::new("/c/inferproxy.toml"));
        assert_eq!(
            shown.detail.unwrap(),
            "/c/inferproxy.toml:3:7: x\nin inferproxy.toml"
        );
    }
}
