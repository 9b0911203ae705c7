//! `backend list`.

use super::providers::{as_json, render_providers};
use crate::connection::Connection;
use crate::context::Context;
use crate::failure::Outcome;
use crate::output::{Paint, Style, Table, one_line};
use bxcore::transcript::ToolMode;
use bxcore::wire::inferproxy::{BackendInfo, BackendKind, BackendOrigin, BackendState, by_default};
use bxcore::wire::provider::ProviderInfo;
use serde_json::{Value, json};

/// The longest line about what is wrong, in characters.
const MAX_PROBLEM_CHARS: usize = 200;

pub(super) async fn run(context: &Context<'_>, connection: &Connection) -> Outcome {
    let backends: Vec<BackendInfo> = connection.inferproxy.get("/v1/backends").await?;
    let elsewhere: Vec<ProviderInfo> = connection.brokerd.get("/v1/providers").await?;
    if context.output.json {
        let here = backends.iter().map(|info| json!(info));
        let all: Vec<Value> = here.chain(elsewhere.iter().map(as_json)).collect();
        context.output.answer_json(&all)?;
        return Ok(());
    }
    if backends.is_empty() {
        context
            .output
            .answer("no model server is configured or found\n")?;
        context
            .output
            .note("boxmaker backend add NAME URL adds one");
    } else {
        context
            .output
            .answer(&render_all(&backends, context.output.paint_out))?;
    }
    let table = render_providers(&elsewhere, context.output.paint_out);
    if !table.is_empty() {
        context.output.answer(&format!("\n{table}"))?;
    }
    Ok(())
}

/// All backends there are, and which of them a new session uses.
pub(crate) fn render_all(backends: &[BackendInfo], paint: Paint) -> String {
    let mut text = render(backends, paint);
    if let Some(info) = by_default(backends) {
        text.push_str(&format!("a new session uses {}\n", info.name));
    }
    text
}

/// The backends as a table, and below it what is wrong with any of them.
pub(super) fn render(backends: &[BackendInfo], paint: Paint) -> String {
    if backends.is_empty() {
        return String::new();
    }
    let heads = [
        "backend", "state", "origin", "kind", "url", "model", "context", "slots", "tools",
    ];
    let mut table = Table::new(&heads, paint);
    for info in backends {
        table.row([
            info.name.as_str(),
            state(info.state),
            origin(info.origin),
            match info.kind {
                BackendKind::LlamaServer => "llama-server",
                BackendKind::Openai => "openai",
            },
            &info.url,
            &info.model,
            &info
                .context_tokens
                .map_or_else(|| "-".to_owned(), |tokens| tokens.to_string()),
            &slots(info),
            match info.tools {
                ToolMode::Native => "native",
                ToolMode::Schema => "schema",
            },
        ]);
    }
    let mut text = table.render();
    for info in backends {
        let Some(problem) = &info.problem else {
            continue;
        };
        let line = format!("{}: {problem}", info.name);
        text.push_str(&paint.paint(Style::Warn, &one_line(&line, MAX_PROBLEM_CHARS)));
        text.push('\n');
        if let Some(hint) = &problem.hint {
            text.push_str(&format!("  try: {}\n", one_line(hint, MAX_PROBLEM_CHARS)));
        }
    }
    text
}

fn slots(info: &BackendInfo) -> String {
    let Some(layout) = &info.slots else {
        return format!("none ({} at once)", info.max_concurrency);
    };
    let numbers = |slots: &[u32]| {
        slots
            .iter()
            .map(ToString::to_string)
            .collect::<Vec<_>>()
            .join(",")
    };
    let mut text = format!(
        "main {}, background {}",
        numbers(&layout.main),
        layout.background
    );
    if !layout.seats.is_empty() {
        text.push_str(&format!(", seats {}", numbers(&layout.seats)));
    }
    text
}

fn state(state: BackendState) -> &'static str {
    match state {
        BackendState::Ready => "ready",
        BackendState::Loading => "loading",
        BackendState::Unreachable => "unreachable",
        BackendState::Misconfigured => "misconfigured",
    }
}

fn origin(origin: BackendOrigin) -> &'static str {
    match origin {
        BackendOrigin::Configured => "configured",
        BackendOrigin::Found => "found",
        BackendOrigin::Starter => "starter",
        BackendOrigin::Provider => "provider",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_backend_has_a_row_and_its_trouble() {
        let backends: Vec<BackendInfo> = serde_json::from_value(json!([
            {"name": "local", "origin": "configured", "url": "http://127.0.0.1:8080", "kind": "llama-server",
             "model": "smol", "slots": {"main": [0, 1], "background": 2, "seats": [3]}, "max_concurrency": 4,
             "context_tokens": 8192, "tools": "native", "keeps_reasoning": false, "fingerprint": "f",
             "state": "ready"},
            {"name": "far", "origin": "found", "url": "http://127.0.0.1:11434", "kind": "openai",
             "model": "q\u{1b}[2J", "slots": null, "max_concurrency": 4, "context_tokens": null,
             "tools": "schema", "keeps_reasoning": false, "fingerprint": "f", "state": "unreachable",
             "problem": {"code": "backend-unreachable", "title": "It does not answer", "detail": "refused",
                         "hint": "start it"}}
        ]))
        .unwrap();
        insta::assert_snapshot!(render_all(&backends, Paint::Plain), @"
        backend  state        origin      kind          url                     model  context  slots                            tools
        local    ready        configured  llama-server  http://127.0.0.1:8080   smol   8192     main 0,1, background 2, seats 3  native
        far      unreachable  found       openai        http://127.0.0.1:11434  q      -        none (4 at once)                 schema
        far: It does not answer: refused
          try: start it
        a new session uses local
        ");
    }
}
