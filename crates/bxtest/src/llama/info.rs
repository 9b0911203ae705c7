//! The server's other endpoints: health, properties, models, slots, metrics.

use axum::body::Body as HttpBody;
use axum::http::{Response, StatusCode};
use serde_json::json;

use super::builder::Kind;
use super::chat::json_response;
use super::chunks;
use super::shared::Shared;

pub(super) fn health() -> Response<HttpBody> {
    json_response(StatusCode::OK, json!({"status": "ok"}).to_string())
}

pub(super) fn not_found() -> Response<HttpBody> {
    error(StatusCode::NOT_FOUND, "not_found_error", "File Not Found")
}

pub(super) fn error(status: StatusCode, kind: &str, message: &str) -> Response<HttpBody> {
    json_response(
        status,
        chunks::error(status.as_u16(), kind, message).to_string(),
    )
}

pub(super) fn props(shared: &Shared) -> Response<HttpBody> {
    if shared.config.kind != Kind::LlamaServer {
        return not_found();
    }
    let tools = shared.config.template.has_tools;
    let reasoning = shared.config.template.keeps_reasoning;
    let model = shared.model();
    let body = json!({
        "default_generation_settings": {
            "params": {"temperature": 0.8, "n_predict": -1},
            "n_ctx": shared.config.context_tokens,
        },
        "total_slots": shared.config.slots,
        "model_alias": model,
        "model_ftype": "Q4_1",
        "model_path": format!("/models/{model}.gguf"),
        "modalities": {"vision": false, "video": false, "audio": false},
        "media_marker": "<scripted>",
        "endpoint_slots": shared.config.slots_endpoint,
        "endpoint_props": false,
        "endpoint_metrics": true,
        "ui": false,
        "ui_settings": {},
        "chat_template": "<|role|>\ncontent<|end|>\n",
        "chat_template_caps": {
            "supports_object_arguments": false,
            "supports_parallel_tool_calls": tools,
            "supports_preserve_reasoning": reasoning,
            "supports_reasoning_effort": false,
            "supports_string_content": true,
            "supports_system_role": true,
            "supports_tool_calls": tools,
            "supports_tools": tools,
            "supports_typed_content": false,
        },
        "bos_token": "",
        "eos_token": "<|end|>",
        "build_info": "b0-scripted",
        "is_sleeping": false,
        "cors_proxy_enabled": false,
    });
    json_response(StatusCode::OK, body.to_string())
}

pub(super) fn models(shared: &Shared) -> Response<HttpBody> {
    let model = shared.model();
    let mut entry = json!({"id": model, "object": "model", "created": 1_796_000_000});
    entry["owned_by"] = match shared.config.kind {
        Kind::LlamaServer => "llamacpp",
        Kind::OpenAi => "library",
    }
    .into();
    if shared.config.kind == Kind::LlamaServer {
        entry["aliases"] = json!([model]);
        entry["tags"] = json!([]);
        entry["meta"] = json!({
            "vocab_type": 2, "n_vocab": 49_152, "n_ctx": shared.config.context_tokens,
            "n_ctx_train": shared.config.context_tokens, "n_embd": 576,
            "n_params": 134_515_008, "size": 96_576_768, "ftype": "Q4_1",
        });
    }
    json_response(
        StatusCode::OK,
        json!({"object": "list", "data": [entry]}).to_string(),
    )
}

pub(super) fn slots(shared: &Shared) -> Response<HttpBody> {
    match shared.config.kind {
        Kind::LlamaServer if shared.config.slots_endpoint => {
            let body = shared.slots.describe(shared.config.context_tokens);
            json_response(StatusCode::OK, body.to_string())
        }
        Kind::LlamaServer => error(
            StatusCode::NOT_IMPLEMENTED,
            "not_supported_error",
            "This server does not support slots endpoint. Start it with `--slots`",
        ),
        Kind::OpenAi => not_found(),
    }
}

pub(super) fn metrics(shared: &Shared) -> Response<HttpBody> {
    if shared.config.kind != Kind::LlamaServer {
        return not_found();
    }
    let counts = shared.journal.counts();
    let busy = shared.slots.busy();
    let lines = [
        ("prompt_tokens_total", "counter", counts.prompt_n),
        ("tokens_predicted_total", "counter", counts.predicted_n),
        ("requests_processing", "gauge", busy),
        (
            "requests_deferred",
            "gauge",
            counts.running.saturating_sub(busy),
        ),
    ]
    .map(|(name, kind, value)| format!("# TYPE llamacpp:{name} {kind}\nllamacpp:{name} {value}\n"));
    Response::new(HttpBody::from(lines.concat()))
}
