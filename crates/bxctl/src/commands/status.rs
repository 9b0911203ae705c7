//! `status`: what runs.

use crate::changed;
use crate::connection::{Connection, not_running};
use crate::context::Context;
use crate::failure::Outcome;
use crate::output::{Paint, Style, Table, duration};
use bxcore::wire::inferproxy::BackendInfo;
use bxcore::wire::supervisor::{Lifetime, ProcessState, Status};
use bxkit::home::Home;
use serde_json::json;

pub(crate) async fn run(context: &Context<'_>) -> Outcome {
    let Some(connection) = Connection::find(context.home).await? else {
        return Err(not_running().into());
    };
    let status = connection.status().await?;
    // The house is worth showing even while inferproxy is away.
    let backends: Vec<BackendInfo> = connection
        .inferproxy
        .get("/v1/backends")
        .await
        .unwrap_or_default();
    let providers = super::backend::providers(&connection).await;
    if context.output.json {
        let mut value = json!(status);
        value["backends"] = json!(backends);
        value["providers"] = json!(providers);
        context.output.answer_json(&value)?;
    } else {
        context.output.answer(&render(
            &status,
            &place(context.home),
            &backends,
            context.output.paint_out,
        ))?;
        let table = super::backend::render_providers(&providers, context.output.paint_out);
        if !table.is_empty() {
            context.output.answer(&format!("\n{table}"))?;
        }
        changed::tell(context);
    }
    Ok(())
}

/// Where everything is: in one folder, or in the usual places.
fn place(home: &Home) -> String {
    let (configuration, state) = (home.config_dir(), home.state_dir());
    match configuration.parent() {
        Some(root) if state.parent() == Some(root) => format!("home {}", root.display()),
        _ => format!(
            "configuration {}, state {}",
            configuration.display(),
            state.display()
        ),
    }
}

fn render(status: &Status, place: &str, backends: &[BackendInfo], paint: Paint) -> String {
    let lifetime = match status.lifetime {
        Lifetime::Foreground => "until stopped",
        Lifetime::Background => "in the background, leaves when idle",
    };
    let mut text = format!(
        "Boxmaker {} is up for {} ({lifetime})\n{place}, process {}\n\n",
        status.version,
        duration(status.up_ms),
        status.pid
    );
    let mut table = Table::new(
        &[
            "process",
            "state",
            "pid",
            "restarts",
            "confined by",
            "last exit",
        ],
        paint,
    );
    for role in &status.roles {
        let pid = role.pid.map(|pid| pid.to_string()).unwrap_or_default();
        table.row([
            role.role.name(),
            state(role.state),
            &pid,
            &role.restarts.to_string(),
            role.confinement.as_deref().unwrap_or("-"),
            role.last_exit.as_deref().unwrap_or("-"),
        ]);
    }
    if let Some(starter) = status.starter {
        table.row(["starter", state(starter), "", "", "-", "-"]);
    }
    text.push_str(&table.render());
    text.push('\n');
    text.push_str(&super::backend::render_all(backends, paint));
    if backends.is_empty() {
        text.push_str(&paint.paint(Style::Warn, "no model server is configured or found"));
        text.push('\n');
    }
    text
}

fn state(state: ProcessState) -> &'static str {
    match state {
        ProcessState::Starting => "starting",
        ProcessState::Ready => "ready",
        ProcessState::Silent => "silent",
        ProcessState::BackingOff => "backing off",
        ProcessState::Stopped => "stopped",
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use bxcore::role::Role;
    use bxcore::wire::supervisor::RoleStatus;

    #[test]
    fn the_house_is_shown() {
        let role = |role, state, restarts, last: Option<&str>| RoleStatus {
            role,
            pid: Some(12),
            state,
            restarts,
            last_exit: last.map(str::to_owned),
            confinement: Some("landlock, seccomp".into()),
        };
        let status = Status {
            pid: 11,
            version: "0.1.0".into(),
            lifetime: Lifetime::Background,
            home: "/h".into(),
            roles: vec![
                role(Role::Inferproxy, ProcessState::Ready, 0, None),
                role(Role::Loopd, ProcessState::BackingOff, 2, Some("signal 9")),
            ],
            starter: Some(ProcessState::Starting),
            up_ms: 61_000,
            problem: None,
        };
        insta::assert_snapshot!(render(&status, "home /h", &[], Paint::Plain), @"
        Boxmaker 0.1.0 is up for 1 min 1 s (in the background, leaves when idle)
        home /h, process 11

        process     state        pid  restarts  confined by        last exit
        inferproxy  ready        12   0         landlock, seccomp  -
        loopd       backing off  12   2         landlock, seccomp  signal 9
        starter     starting                    -                  -

        no model server is configured or found
        ");
    }
}
