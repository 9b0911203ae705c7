//! A role with a few routes, in the real daemon shell.

use axum::{Router, routing};
use bxcore::code::Code;
use bxcore::problem::Problem;
use bxcore::role::Role;
use bxkit::confine::Confinement;
use bxkit::daemon::{Context, Fatal, Prelude, Prepared, run as run_daemon};
use bxkit::keys::Caller;
use bxkit::rpc::Json;
use serde::Deserialize;
use std::process::ExitCode;

#[derive(Debug, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
struct Table {
    greeting: String,
}

pub(crate) fn run() -> ExitCode {
    run_daemon(Role::Brokerd, prepare, serve)
}

fn prepare(prelude: &Prelude) -> Result<Prepared<Table>, Fatal> {
    let table = bxkit::config::load(&prelude.home.config_file(prelude.role))?;
    let confinement = Confinement::strict().write(prelude.home.state_dir());
    Ok(Prepared::new(confinement, table))
}

async fn serve(context: Context, table: Table) -> Result<(), Fatal> {
    let owner_token = context.home.owner_token_file();
    let in_state = context.home.state_dir().join("written");
    let fatal = context.fatal.clone();
    let mut reload = context.reload.clone();
    let routes = Router::new()
        .route(
            "/greeting",
            routing::get(async move |caller: Caller| Json(format!("{} {caller}", table.greeting))),
        )
        .route(
            "/owner-token",
            routing::get(async move || Json(std::fs::read(&owner_token).is_ok())),
        )
        .route(
            "/write",
            routing::get(async move || Json(std::fs::write(&in_state, "x").is_ok())),
        )
        .route(
            "/reloaded",
            routing::get(async move || {
                reload.wanted().await;
                Json(true)
            }),
        )
        .route(
            "/fatal",
            routing::get(async move || {
                fatal.end(Problem::new(
                    Code::AuditUnavailable,
                    "The audit log can't be written",
                ));
                Json(true)
            }),
        );
    context.serve(routes).await
}
