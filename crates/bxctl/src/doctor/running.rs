//! What runs, and the model servers behind it.

use super::finding::{Finding, Level};
use crate::commands::backend::{is_fine, probe};
use crate::connection::Connection;
use crate::context::Context;
use crate::failure::Failure;
use bxcore::wire::inferproxy::{BackendInfo, BackendState, ProbeReport};
use bxcore::wire::supervisor::{ProcessState, Status};

/// Whether the roles are well, and whether each backend is; `with_probe` asks the models, too.
pub(crate) async fn running(
    context: &Context<'_>,
    connection: &Connection,
    with_probe: bool,
) -> Vec<Finding> {
    let mut findings = match connection.status().await {
        Ok(status) => roles(&status),
        Err(error) => vec![Finding::problem(
            Level::Fail,
            "supervisor",
            &error.problem(),
        )],
    };
    let backends: Vec<BackendInfo> = match connection.inferproxy.get("/v1/backends").await {
        Ok(backends) => backends,
        Err(error) => {
            findings.push(Finding::problem(Level::Fail, "backends", &error.problem()));
            return findings;
        }
    };
    if backends.is_empty() {
        findings.push(Finding::problem(
            Level::Warn,
            "backends",
            &crate::ready::no_model(),
        ));
    }
    for info in &backends {
        findings.push(backend(info));
        if info.state == BackendState::Ready && with_probe {
            let mut progress = context.progress();
            progress.say(&format!("testing {} …", info.name));
            findings.push(tried(info, probe(connection, &info.name).await));
        }
    }
    findings
}

fn roles(status: &Status) -> Vec<Finding> {
    let version = env!("CARGO_PKG_VERSION");
    let mut findings = vec![if status.version == version {
        Finding::ok("supervisor", format!("runs as process {}", status.pid))
    } else {
        let found = format!("version {} runs, this is {version}", status.version);
        Finding::warn("supervisor", found, "boxmaker down, then start it again")
    }];
    findings.extend(status.roles.iter().map(|role| {
        let what = role.role.name();
        let confinement = role
            .confinement
            .as_deref()
            .map(|by| format!(", {by}"))
            .unwrap_or_default();
        match role.state {
            ProcessState::Ready => Finding::ok(what, format!("ready{confinement}")),
            _ => {
                let last = role.last_exit.as_deref().unwrap_or("it has not ended yet");
                let found = format!(
                    "not ready after {} restarts; last end: {last}",
                    role.restarts
                );
                Finding::fail(what, found, format!("look into state/logs/{what}.log"))
            }
        }
    }));
    findings
}

fn backend(info: &BackendInfo) -> Finding {
    let what = format!("backend {}", info.name);
    let found = format!(
        "{} with {}",
        info.url,
        if info.model.is_empty() {
            "no model"
        } else {
            &info.model
        }
    );
    match (info.state, &info.problem) {
        (BackendState::Ready, _) => Finding::ok(what, found),
        (BackendState::Loading, _) => {
            Finding::warn(what, format!("{found}: loading"), "wait a moment")
        }
        (BackendState::Unreachable | BackendState::Misconfigured, Some(problem)) => {
            Finding::problem(Level::Fail, what, problem)
        }
        (BackendState::Unreachable | BackendState::Misconfigured, None) => Finding::fail(
            what,
            format!("{found}: not usable"),
            "start the server, or change inferproxy.toml",
        ),
    }
}

fn tried(info: &BackendInfo, outcome: Result<ProbeReport, Failure>) -> Finding {
    let what = format!("slots of {}", info.name);
    match outcome {
        Ok(report) if is_fine(report.verdict) => Finding::ok(what, report.advice),
        Ok(report) => {
            let todo = match report.flags.as_slice() {
                [] => "change the slots in inferproxy.toml".to_owned(),
                flags => format!("set on the server: {}", flags.join(" ")),
            };
            Finding::warn(what, report.advice, todo)
        }
        Err(failure) => match failure.problem() {
            Some(problem) => Finding::problem(Level::Fail, what, &problem),
            None => Finding::fail(
                what,
                failure.to_string(),
                "try `boxmaker backend test` again",
            ),
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn a_backend_that_is_not_there_is_broken_and_says_what_to_do() {
        let info: BackendInfo = serde_json::from_value(json!({
            "name": "b", "origin": "configured", "url": "http://127.0.0.1:1", "kind": "openai", "model": "",
            "slots": null, "max_concurrency": 1, "context_tokens": null, "tools": "schema",
            "keeps_reasoning": false, "fingerprint": "f", "state": "unreachable",
            "problem": {"code": "backend-unreachable", "title": "It does not answer", "hint": "start it"}
        }))
        .unwrap();
        let finding = backend(&info);
        assert_eq!(finding.level, Level::Fail);
        assert_eq!(
            finding.todo.unwrap(),
            "start it\nsee docs/runbook/backend-unreachable.md"
        );
    }
}
