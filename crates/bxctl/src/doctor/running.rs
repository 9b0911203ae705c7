//! What runs, and the model servers behind it.

use super::finding::{Finding, Level};
use super::servers::servers;
use crate::changed;
use crate::commands::backend::{is_fine, probe, providers, spent};
use crate::connection::Connection;
use crate::context::Context;
use crate::failure::Failure;
use bxcore::wire::approval::Approvals;
use bxcore::wire::inferproxy::{BackendInfo, BackendState, ProbeReport};
use bxcore::wire::loopd::{SessionRow, SessionStatus};
use bxcore::wire::memoryd::MemoryListing;
use bxcore::wire::provider::ProviderInfo;
use bxcore::wire::supervisor::{ProcessState, Status};
use bxkit::home::Home;
use std::path::PathBuf;

/// How many sessions that can't be read are named.
const MAX_NAMED_SESSIONS: usize = 5;

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
    findings.extend(changed_since(context.home));
    let sessions = connection
        .loopd
        .get::<Vec<SessionRow>>("/v1/sessions")
        .await;
    findings.extend(match sessions {
        Ok(rows) => broken_sessions(&rows),
        Err(error) => Some(Finding::problem(Level::Fail, "sessions", &error.problem())),
    });
    findings.extend(match connection.memoryd.get("/v1/memory").await {
        Ok(listing) => memory(&listing),
        Err(error) => vec![Finding::problem(Level::Fail, "memory", &error.problem())],
    });
    findings.extend(webhook(connection).await);
    let providers = providers(connection).await;
    findings.extend(providers.iter().map(provider));
    findings.extend(servers(connection).await);
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
    findings.extend(same_servers(&backends));
    findings.extend(same_names(&backends, &providers));
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

/// Whether the owner is told elsewhere of what waits, where that is wanted.
async fn webhook(connection: &Connection) -> Option<Finding> {
    // A brokerd that does not answer has a line of its own.
    let approvals: Approvals = connection.brokerd.get("/v1/approvals").await.ok()?;
    let why = approvals.webhook_failure?;
    let waiting = approvals.pending.len();
    let found = format!("the last notification was not delivered ({why}); {waiting} calls wait");
    let todo =
        "look at `[approvals.webhook]` in brokerd.toml; `boxmaker approvals` lists what waits";
    Some(Finding::warn("approvals", found, todo))
}

/// What was changed after it had been read.
fn changed_since(home: &Home) -> Vec<Finding> {
    let shown =
        |file: PathBuf| format!("{} was changed after Boxmaker had started", file.display());
    let files = changed::configuration(home).into_iter();
    let files = files.map(|file| Finding::warn("configuration", shown(file), changed::START_AGAIN));
    let todo = format!("{}, unless brokerd got SIGHUP since", changed::START_AGAIN);
    let secrets = changed::secrets(home).into_iter();
    let secrets = secrets.map(|file| Finding::warn("secrets", shown(file), &todo));
    files.chain(secrets).collect()
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
            ProcessState::Silent => Finding::fail(
                what,
                "lives, but does not answer",
                format!("it is started again if that lasts; look into state/logs/{what}.log"),
            ),
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

/// Backends of this box that have a provider's name: `--backend` means these then.
fn same_names(backends: &[BackendInfo], providers: &[ProviderInfo]) -> Vec<Finding> {
    let is_both = |info: &&BackendInfo| {
        let mut names = providers.iter().map(|provider| &provider.backend.name);
        names.any(|name| *name == info.name)
    };
    let both = backends.iter().filter(is_both);
    let told = both.map(|info| {
        let found = "a server here and a provider have this name: new sessions get the server";
        let todo = "give one of them another name";
        Finding::warn(format!("backend {}", info.name), found, todo)
    });
    told.collect()
}

/// Backends that are one server under two names: each would count its slots as its own.
fn same_servers(backends: &[BackendInfo]) -> Vec<Finding> {
    let place = |info: &BackendInfo| {
        let authority = info.url.strip_prefix("http://").unwrap_or(&info.url);
        let authority = authority.split('/').next().unwrap_or_default();
        authority
            .replace("localhost:", "127.0.0.1:")
            .replace("[::1]:", "127.0.0.1:")
    };
    let mut findings = Vec::new();
    for (number, info) in backends.iter().enumerate() {
        let earlier = backends[..number]
            .iter()
            .find(|earlier| place(earlier) == place(info));
        if let Some(earlier) = earlier {
            findings.push(Finding::warn(
                format!("backends {} and {}", earlier.name, info.name),
                format!("both are the server at {}", place(info)),
                format!("boxmaker backend remove {}", info.name),
            ));
        }
    }
    findings
}

/// What of memory is left out, or counts as the worst.
fn memory(listing: &MemoryListing) -> Vec<Finding> {
    let entries = listing.files.iter().flat_map(|file| &file.entries);
    let broken = entries.filter(|entry| entry.trouble.is_some()).count();
    let mut findings: Vec<Finding> = listing
        .unusable
        .iter()
        .map(|file| {
            let found = format!("{} is left out: {}", file.name, file.why);
            Finding::warn("memory", found, "see docs/runbook/memory-file-unusable.md")
        })
        .collect();
    if broken > 0 {
        let found =
            format!("{broken} entries count as secret and untrusted: a line of theirs is torn");
        let todo = format!(
            "boxmaker memory list, then mend the file in {}",
            listing.folder
        );
        findings.push(Finding::warn("memory", found, todo));
    }
    findings
}

/// The sessions whose transcript can't be read, if any.
fn broken_sessions(rows: &[SessionRow]) -> Option<Finding> {
    let is_broken = |row: &&SessionRow| row.status == SessionStatus::Broken;
    let broken: Vec<&SessionRow> = rows.iter().filter(is_broken).collect();
    if broken.is_empty() {
        return None;
    }
    let named = broken.iter().take(MAX_NAMED_SESSIONS);
    let names: Vec<&str> = named.map(|row| row.id.as_str()).collect();
    let more = if broken.len() > names.len() {
        " …"
    } else {
        ""
    };
    Some(Finding::fail(
        "sessions",
        format!("{} can't be read: {}{more}", broken.len(), names.join(", ")),
        "see docs/runbook/transcript-broken.md",
    ))
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

/// Whether a provider could lead a session now. It is not asked: that would cost.
fn provider(info: &ProviderInfo) -> Finding {
    let backend = &info.backend;
    let what = format!("provider {}", backend.name);
    let found = format!(
        "{} with {}, {} today",
        backend.url,
        backend.model,
        spent(info)
    );
    if info.max_class.is_none() {
        let todo = format!(
            "write a [[grant]] with tool = \"{}\" into brokerd.toml",
            info.tool
        );
        return Finding::warn(what, format!("{found}; no grant is for it"), todo);
    }
    if info.spent_today >= info.daily_usd && !info.daily_usd.is_zero() {
        let todo = "wait for the next day (UTC), or raise `daily_usd` in brokerd.toml";
        return Finding::warn(what, format!("{found}: the day's limit is reached"), todo);
    }
    Finding::ok(what, format!("{found}; leads public sessions"))
}

fn tried(info: &BackendInfo, outcome: Result<ProbeReport, Failure>) -> Finding {
    let what = format!("slots of {}", info.name);
    match outcome {
        Ok(report) if is_fine(report.verdict) && report.flags.is_empty() => {
            Finding::ok(what, report.advice)
        }
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

    fn info(name: &str, url: &str) -> BackendInfo {
        serde_json::from_value(json!({
            "name": name, "origin": "configured", "url": url, "kind": "openai", "model": "m",
            "slots": null, "max_concurrency": 1, "context_tokens": null, "tools": "schema",
            "keeps_reasoning": false, "fingerprint": "f", "state": "ready"
        }))
        .unwrap()
    }

    #[test]
    fn one_server_under_two_names_is_noticed() {
        let one = info("a", "http://127.0.0.1:8080");
        assert_eq!(
            same_servers(&[one.clone(), info("b", "http://127.0.0.1:8081")]),
            []
        );
        let found = same_servers(&[one, info("b", "http://localhost:8080/llm")]);
        assert_eq!(found.len(), 1);
        assert_eq!(found[0].what, "backends a and b");
        assert_eq!(found[0].todo.as_deref(), Some("boxmaker backend remove b"));
    }

    #[test]
    fn a_name_that_is_used_twice_is_noticed() {
        let provider = crate::commands::backend::sample(Some("public"), 0);
        let name = provider.backend.name.as_str();
        let here = info(name, "http://127.0.0.1:1");
        let other = info("other", "http://127.0.0.1:2");
        assert_eq!(same_names(&[other], std::slice::from_ref(&provider)), []);
        let found = same_names(&[here], &[provider]);
        assert_eq!(found.len(), 1);
        assert_eq!(found[0].level, Level::Warn);
    }

    #[test]
    fn a_provider_that_can_lead_nothing_is_told() {
        let level = |max_class, spent| {
            let found = provider(&crate::commands::backend::sample(max_class, spent));
            assert_eq!(found.what, "provider big");
            found.level
        };
        assert_eq!(level(Some("public"), 6_600), Level::Ok);
        assert_eq!(level(None, 0), Level::Warn);
        assert_eq!(level(Some("public"), 5_000_000), Level::Warn);
    }

    #[test]
    fn a_flag_to_set_is_told_as_the_test_tells_it() {
        let report = |flags: &[&str]| -> ProbeReport {
            serde_json::from_value(json!({
                "name": "a", "calls": [], "verdict": "single-slot", "advice": "One slot.",
                "flags": flags, "forced_tool": true, "json_schema": true
            }))
            .unwrap()
        };
        let one = info("a", "http://127.0.0.1:1");
        assert_eq!(tried(&one, Ok(report(&[]))).level, Level::Ok);
        assert_eq!(tried(&one, Ok(report(&["-np 3"]))).level, Level::Warn);
    }

    #[test]
    fn sessions_that_cannot_be_read_are_named() {
        let row = |id: &str, status: &str| -> SessionRow {
            serde_json::from_value(json!({
                "id": id, "parent": null, "status": status, "turns": 1, "updated": "", "title": "",
                "label": {"class": "private", "untrusted": false}
            }))
            .unwrap()
        };
        assert!(broken_sessions(&[row("a", "idle"), row("b", "running")]).is_none());
        let finding = broken_sessions(&[row("a", "idle"), row("b", "broken")]).unwrap();
        assert_eq!(finding.level, Level::Fail);
        assert_eq!(finding.found, "1 can't be read: b");
        let many: Vec<_> = (0..7).map(|n| row(&format!("s{n}"), "broken")).collect();
        let finding = broken_sessions(&many).unwrap();
        assert_eq!(finding.found, "7 can't be read: s0, s1, s2, s3, s4 …");
    }

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
