//! What a person is told about a backend that can't be used. Pure.

use super::layout::SlotMissing;
use super::upstream::UpstreamError;
use bxcore::code::Code;
use bxcore::problem::Problem;
use bxcore::wire::inferproxy::{BackendInfo, BackendKind, BackendState};

/// How many model names are told.
const MAX_NAMES_SHOWN: usize = 12;

/// The server can't be reached.
pub fn connect_problem(name: &str, url: &str, error: &UpstreamError) -> Problem {
    Problem::new(
        Code::BackendUnreachable,
        format!("The model server `{name}` can't be reached"),
    )
    .detail(format!("{url}: {}", bxkit::report::chain(error)))
    .hint("start it, or correct `url` in inferproxy.toml; `boxmaker backend list` shows all")
}

pub(super) fn loading(name: &str) -> Problem {
    Problem::new(
        Code::BackendLoading,
        format!("The model server `{name}` is loading its model"),
    )
    .hint("wait a moment; large models take minutes")
}

pub(super) fn needs_key(name: &str, url: &str) -> Problem {
    Problem::new(
        Code::BackendError,
        format!("The model server `{name}` wants an API key"),
    )
    .detail(url.to_owned())
    .hint("start it without a key: on this box only your own programs reach it")
}

pub(super) fn strange(name: &str, url: &str, what: &str, kind: BackendKind) -> Problem {
    let hint = match kind {
        BackendKind::LlamaServer => "is it a llama-server? For another one set kind = \"openai\"",
        BackendKind::Openai => "is it a server with an OpenAI-compatible API at /v1?",
    };
    Problem::new(
        Code::BackendGarbled,
        format!("`{name}` does not answer like a model server"),
    )
    .detail(format!("{url}: {what}"))
    .hint(hint)
}

pub(super) fn slot_missing(name: &str, missing: SlotMissing) -> Problem {
    let wanted = missing.slot.saturating_add(1);
    let hint = if missing.total == 1 {
        format!("start it with -np {wanted}, or set slots = {{ main = [0], background = 0 }}")
    } else {
        format!("start it with -np {wanted}, or name other slots in inferproxy.toml")
    };
    Problem::new(
        Code::BackendSlotMissing,
        format!("A slot of `{name}` does not exist"),
    )
    .detail(missing.to_string())
    .hint(hint)
}

pub(super) fn model_missing<'a>(
    name: &str,
    wanted: Option<&str>,
    offered: impl Iterator<Item = &'a str>,
) -> Problem {
    let offered: Vec<&str> = offered.take(MAX_NAMES_SHOWN).collect();
    match wanted {
        Some(wanted) => Problem::new(
            Code::BackendError,
            format!("`{name}` does not offer the model `{wanted}`"),
        )
        .detail(format!("it offers: {}", offered.join(", ")))
        .hint("correct `model` in inferproxy.toml, or load the model"),
        None => Problem::new(Code::BackendError, format!("`{name}` offers no model"))
            .hint("load one, for example with `ollama pull`"),
    }
}

/// Why a backend can't be used now; none if it can.
pub fn unusable_problem(info: &BackendInfo) -> Option<Problem> {
    let name = info.name.as_str();
    match info.state {
        BackendState::Ready => None,
        BackendState::Loading => Some(loading(name)),
        BackendState::Unreachable | BackendState::Misconfigured => {
            Some(info.problem.clone().unwrap_or_else(|| {
                Problem::new(
                    Code::BackendUnreachable,
                    format!("The model server `{name}` can't be used"),
                )
            }))
        }
    }
}
