//! `backend test`: the probe of a server's slots and abilities.

use crate::connection::Connection;
use crate::context::Context;
use crate::failure::{Failure, Outcome};
use crate::output::{Paint, Style, Table, sanitize};
use bxcore::code::Code;
use bxcore::id::BackendName;
use bxcore::problem::Problem;
use bxcore::wire::inferproxy::{BackendInfo, ProbeReport, ProbeVerdict};
use bxkit::exit;
use serde_json::json;
use std::time::Duration;

/// How long a probe may take, in seconds: three prompts on a slow machine.
const PROBE_WITHIN_SECS: u64 = 600;

pub(super) async fn run(
    context: &Context<'_>,
    connection: &Connection,
    name: Option<&BackendName>,
) -> Outcome {
    let names = match name {
        Some(name) => {
            let providers = super::providers(connection).await;
            if providers.iter().any(|info| info.backend.name == *name) {
                return Err(not_tested(name).into());
            }
            vec![name.clone()]
        }
        None => all(connection).await?,
    };
    let mut reports = Vec::new();
    for name in &names {
        let mut progress = context.progress();
        progress.say(&format!("testing {name} …"));
        reports.push(probe(connection, name).await?);
    }
    if context.output.json {
        context.output.answer_json(&reports)?;
    } else {
        for report in &reports {
            context
                .output
                .answer(&render(report, context.output.paint_out))?;
        }
    }
    let fine = reports.iter().all(|report| is_fine(report.verdict));
    if fine {
        Ok(())
    } else {
        Err(Failure::Said(exit::FAILED))
    }
}

/// What is said of a provider: a test would cost, and its slots are its own matter.
fn not_tested(name: &BackendName) -> Problem {
    let title = format!("`{name}` is a provider, and no provider is tested by itself");
    Problem::new(Code::BadUsage, title)
        .detail("a test would cost money")
        .hint(format!(
            "boxmaker ask --class public --backend {name} \"Are you there?\""
        ))
}

async fn all(connection: &Connection) -> Result<Vec<BackendName>, Failure> {
    let backends: Vec<BackendInfo> = connection.inferproxy.get("/v1/backends").await?;
    if backends.is_empty() {
        return Err(crate::ready::no_model().into());
    }
    Ok(backends.into_iter().map(|info| info.name).collect())
}

/// Probes one backend.
pub(crate) async fn probe(
    connection: &Connection,
    name: &BackendName,
) -> Result<ProbeReport, Failure> {
    let client = connection
        .inferproxy
        .clone()
        .timeout(Duration::from_secs(PROBE_WITHIN_SECS));
    Ok(client
        .post(&format!("/v1/backends/{name}/probe"), &json!({}))
        .await?)
}

/// Whether a verdict leaves nothing to do.
pub(crate) fn is_fine(verdict: ProbeVerdict) -> bool {
    !matches!(verdict, ProbeVerdict::CacheLost | ProbeVerdict::SlotMissing)
}

fn render(report: &ProbeReport, paint: Paint) -> String {
    let (style, verdict) = match report.verdict {
        ProbeVerdict::CacheSurvives => (Style::Good, "the cache of a live turn survives a helper"),
        ProbeVerdict::CacheLost => (Style::Bad, "a helper wipes the cache of a live turn"),
        ProbeVerdict::SingleSlot => (
            Style::Warn,
            "a single slot: everything works, the cache may not be kept",
        ),
        ProbeVerdict::SlotMissing => (Style::Bad, "a configured slot is not there"),
        ProbeVerdict::NoSlots => (
            Style::Good,
            "no slots: whether it keeps a cache is the server's matter",
        ),
    };
    let mut text = format!("{}: {}\n", report.name, paint.paint(style, verdict));
    if !report.calls.is_empty() {
        let mut table = Table::new(&["call", "slot", "prompt", "cache_n"], paint);
        let or_dash = |value: Option<String>| value.unwrap_or_else(|| "-".to_owned());
        for call in &report.calls {
            table.row([
                call.what.as_str(),
                &or_dash(call.slot.map(|slot| slot.to_string())),
                &call.prompt_tokens.to_string(),
                &or_dash(call.cache_n.map(|cached| cached.to_string())),
            ]);
        }
        text.push_str(&table.render());
    }
    text.push_str(if report.forced_tool {
        "forced tool call: works\n"
    } else {
        "forced tool call: does not work (nothing to do: turns don't need it)\n"
    });
    text.push_str(if report.json_schema {
        "JSON schema: works\n"
    } else {
        "JSON schema: does not work (the model may call tools badly; a newer server helps)\n"
    });
    if !report.advice.is_empty() {
        text.push_str(&format!("{}\n", sanitize(&report.advice)));
    }
    if !report.flags.is_empty() {
        let flags = sanitize(&report.flags.join(" "));
        text.push_str(&format!(
            "set on the server: {}\n",
            paint.paint(Style::Strong, &flags)
        ));
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_flags_to_set_are_named() {
        let report: ProbeReport = serde_json::from_value(json!({
            "name": "local",
            "calls": [
                {"what": "main", "slot": 0, "prompt_tokens": 300, "cache_n": 0},
                {"what": "main again", "slot": 0, "prompt_tokens": 320, "cache_n": null}
            ],
            "verdict": "cache-lost", "advice": "The slots share one cache.",
            "flags": ["-np 3", "--no-cache-idle-slots"], "forced_tool": false, "json_schema": true
        }))
        .unwrap();
        insta::assert_snapshot!(render(&report, Paint::Plain), @"
        local: a helper wipes the cache of a live turn
        call        slot  prompt  cache_n
        main        0     300     0
        main again  0     320     -
        forced tool call: does not work (nothing to do: turns don't need it)
        JSON schema: works
        The slots share one cache.
        set on the server: -np 3 --no-cache-idle-slots
        ");
        assert!(!is_fine(report.verdict));
    }
}
