//! A turn on a server that knows OpenAI's chat endpoint and nothing else, in both ways to call tools.

use crate::support::{asked, audit_records, verify_audit, workspace_file};
use bxtest::home::{BackendConfig, TestHome};
use bxtest::llama::{Kind, LlamaServer, Reply, Request};
use serde_json::{Value, json};

const SESSION: &str = "chat-o";

/// A model that looks for a tool, reads a file with it, and answers.
fn model(request: &Request, reply: impl Fn(&str, Value) -> Reply) -> Reply {
    let answers = request
        .messages()
        .iter()
        .filter(|message| message["role"] == "assistant")
        .count();
    match answers {
        0 => reply("find_tool", json!({"query": "read a file"})),
        1 => reply(
            "call_tool",
            json!({"name": "read_file", "arguments": {"path": "a.txt"}}),
        ),
        _ => {
            let seen = request.last_text().contains("blue as the sea");
            let text = if seen {
                "It is blue."
            } else {
                "I saw nothing."
            };
            match request.response_schema() {
                Some(_) => Reply::json(&json!({"answer": text})),
                None => Reply::text(text),
            }
        }
    }
}

fn keys(value: &Value) -> Vec<&str> {
    let mut keys: Vec<&str> = value
        .as_object()
        .unwrap()
        .keys()
        .map(String::as_str)
        .collect();
    keys.sort_unstable();
    keys
}

#[test]
fn ask_works_on_a_server_without_slots_in_both_tool_modes() {
    for mode in ["native", "schema"] {
        let server = LlamaServer::builder()
            .kind(Kind::OpenAi)
            .respond(move |request| {
                model(request, |name, arguments| match mode {
                    "native" => Reply::tool_call(name, arguments),
                    _ => Reply::json(&json!({name: arguments})),
                })
            })
            .start_blocking();
        let home = TestHome::new();
        home.write_backends(&[BackendConfig::openai(&server.url(), 2).tools(mode)]);
        std::fs::write(workspace_file(&home, SESSION, "a.txt"), "blue as the sea").unwrap();
        let up = home.up();

        let report = asked(&home, SESSION, "what colour is it?");
        assert_eq!(
            keys(&report),
            [
                "answer", "calls", "cost_usd", "label", "outcome", "session", "usage"
            ],
            "{mode}: {report}"
        );
        assert_eq!(report["session"], SESSION);
        assert_eq!(report["outcome"], "completed", "{mode}: {report}");
        assert_eq!(report["answer"], "It is blue.", "{mode}");
        assert_eq!(
            report["label"],
            json!({"class": "private", "untrusted": false})
        );
        assert_eq!(
            report["calls"],
            json!([
                {"call": 1, "tool": "find_tool", "outcome": "ok"},
                {"call": 2, "tool": "read_file", "outcome": "ok"},
            ])
        );
        let usage = &report["usage"];
        assert_eq!(
            keys(usage),
            [
                "cache_n",
                "completion_tokens",
                "model_calls",
                "prompt_tokens"
            ]
        );
        assert_eq!(usage["model_calls"], 3);
        let figures = server.counts();
        assert_eq!(usage["completion_tokens"], figures.predicted_n);
        assert_eq!(
            usage["prompt_tokens"],
            figures.prompt_n + figures.cache_n,
            "{mode}"
        );
        assert_eq!(usage["cache_n"], figures.cache_n);
        assert_eq!(report["cost_usd"], "0.000000");
        for recorded in server.requests() {
            assert_eq!(recorded.request.slot(), None);
            assert_eq!(
                recorded.request.response_schema().is_some(),
                mode == "schema"
            );
        }

        assert_eq!(up.terminate().code(), Some(0));
        verify_audit(&home);
        let decided: Vec<_> = audit_records(&home)
            .into_iter()
            .filter(|record| record["session"] == SESSION)
            .map(|record| record["kind"].as_str().unwrap().to_owned())
            .collect();
        assert_eq!(decided, ["intent", "outcome"], "{mode}");
        server.assert_clean();
    }
}
