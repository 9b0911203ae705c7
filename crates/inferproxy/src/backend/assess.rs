//! What follows from a look at a server. Pure.

use super::facts::{Models, Props};
use super::layout::layout;
use super::problems;
use super::spec::Spec;
use crate::config::ToolsSetting;
use bxcore::problem::Problem;
use bxcore::text::hex;
use bxcore::transcript::ToolMode;
use bxcore::wire::inferproxy::{BackendInfo, BackendKind, BackendState};
use sha2::{Digest, Sha256};

/// How many bytes of the hash make a fingerprint.
const FINGERPRINT_BYTES: usize = 8;

/// What a look at a server showed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Look {
    /// It did not answer.
    Silent(Problem),
    /// It is loading its model.
    Loading(BackendKind),
    /// It wants an API key that we don't have.
    NeedsKey(BackendKind),
    /// It answered something else than its kind does.
    Strange(BackendKind, String),
    /// A llama-server that is ready.
    Llama(Box<Props>),
    /// Another server that is ready.
    Openai(Models),
}

/// Says what is known of a backend after a look at it.
pub fn assess(spec: &Spec, look: &Look) -> BackendInfo {
    let (name, url) = (spec.name.as_str(), spec.url.to_string());
    match look {
        Look::Silent(problem) => {
            unusable(spec, spec.kind, BackendState::Unreachable, problem.clone())
        }
        Look::Loading(kind) => unusable(
            spec,
            Some(*kind),
            BackendState::Loading,
            problems::loading(name),
        ),
        Look::NeedsKey(kind) => unusable(
            spec,
            Some(*kind),
            BackendState::Misconfigured,
            problems::needs_key(name, &url),
        ),
        Look::Strange(kind, what) => {
            let problem = problems::strange(name, &url, what, *kind);
            unusable(spec, Some(*kind), BackendState::Misconfigured, problem)
        }
        Look::Llama(props) => llama(spec, props),
        Look::Openai(models) => openai(spec, models),
    }
}

/// What is known after a look that showed less than an earlier one did.
///
/// A server that is away or loads stays what it was, so that nobody takes a restart for another
/// model; only its state is new.
pub(super) fn carried_over(before: &BackendInfo, now: BackendInfo) -> BackendInfo {
    let is_away = matches!(now.state, BackendState::Loading | BackendState::Unreachable);
    if !is_away || before.fingerprint.is_empty() {
        return now;
    }
    BackendInfo {
        state: now.state,
        problem: now.problem,
        ..before.clone()
    }
}

fn llama(spec: &Spec, props: &Props) -> BackendInfo {
    let caps = props.chat_template_caps;
    let native = caps.supports_tools && caps.supports_tool_calls;
    let context = props.context_tokens();
    let text = |text: &Option<String>| text.clone().unwrap_or_default();
    let mut info = BackendInfo {
        model: props.model(),
        context_tokens: context,
        tools: tools(spec.tools, native),
        keeps_reasoning: caps.supports_preserve_reasoning,
        fingerprint: fingerprint(&[
            &text(&props.model_alias),
            &text(&props.model_path),
            &text(&props.model_ftype),
            &text(&props.chat_template),
            &context.unwrap_or(0).to_string(),
        ]),
        ..blank(spec, BackendKind::LlamaServer)
    };
    match layout(spec.slots.as_ref(), &spec.seats, props.total_slots) {
        Ok(layout) => info.slots = Some(layout),
        Err(missing) => {
            info.state = BackendState::Misconfigured;
            info.problem = Some(problems::slot_missing(spec.name.as_str(), missing));
        }
    }
    info
}

fn openai(spec: &Spec, models: &Models) -> BackendInfo {
    let wanted = spec.model.as_deref();
    let Some(model) = models.pick(wanted) else {
        let problem = problems::model_missing(spec.name.as_str(), wanted, models.names());
        return unusable(
            spec,
            Some(BackendKind::Openai),
            BackendState::Misconfigured,
            problem,
        );
    };
    BackendInfo {
        model: model.id.clone(),
        context_tokens: model.context_tokens,
        tools: tools(spec.tools, true),
        fingerprint: fingerprint(&[&model.id, &model.context_tokens.unwrap_or(0).to_string()]),
        ..blank(spec, BackendKind::Openai)
    }
}

fn tools(setting: ToolsSetting, native: bool) -> ToolMode {
    match setting {
        ToolsSetting::Native => ToolMode::Native,
        ToolsSetting::Auto if native => ToolMode::Native,
        ToolsSetting::Auto | ToolsSetting::Schema => ToolMode::Schema,
    }
}

fn unusable(
    spec: &Spec,
    kind: Option<BackendKind>,
    state: BackendState,
    problem: Problem,
) -> BackendInfo {
    BackendInfo {
        state,
        problem: Some(problem),
        ..blank(spec, kind.unwrap_or(BackendKind::Openai))
    }
}

/// A ready backend of which nothing else is known.
fn blank(spec: &Spec, kind: BackendKind) -> BackendInfo {
    BackendInfo {
        name: spec.name.clone(),
        origin: spec.origin,
        url: spec.url.to_string(),
        kind,
        model: spec.model.clone().unwrap_or_default(),
        slots: None,
        max_concurrency: spec.max_concurrency,
        context_tokens: None,
        tools: tools(spec.tools, false),
        keeps_reasoning: false,
        fingerprint: String::new(),
        state: BackendState::Ready,
        problem: None,
    }
}

/// A short hash of what a model is; the lengths keep two lists from reading the same.
fn fingerprint(parts: &[&str]) -> String {
    let mut hash = Sha256::new();
    for part in parts {
        hash.update((part.len() as u64).to_le_bytes());
        hash.update(part.as_bytes());
    }
    hex(&hash.finalize()[..FINGERPRINT_BYTES])
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::{BackendUrl, SlotsTable};
    use bxcore::code::Code;
    use bxcore::id::BackendName;
    use bxcore::wire::inferproxy::BackendOrigin;

    fn spec(kind: BackendKind) -> Spec {
        let name = BackendName::new("local").unwrap();
        Spec::unconfigured(
            name,
            BackendOrigin::Configured,
            BackendUrl::loopback(8080),
            Some(kind),
        )
    }

    fn props(text: &str) -> Look {
        Look::Llama(Box::new(Props::parse(text.as_bytes()).unwrap()))
    }

    #[test]
    fn a_template_with_tools_is_used_natively() {
        let check = |setting, caps: &str, expect| {
            let look = props(&format!(
                r#"{{"total_slots":3,"chat_template_caps":{caps}}}"#
            ));
            let spec = Spec {
                tools: setting,
                ..spec(BackendKind::LlamaServer)
            };
            assert_eq!(assess(&spec, &look).tools, expect, "{setting:?} {caps}");
        };
        let both = r#"{"supports_tools":true,"supports_tool_calls":true}"#;
        check(ToolsSetting::Auto, both, ToolMode::Native);
        check(
            ToolsSetting::Auto,
            r#"{"supports_tools":true}"#,
            ToolMode::Schema,
        );
        check(ToolsSetting::Auto, "{}", ToolMode::Schema);
        check(ToolsSetting::Schema, both, ToolMode::Schema);
        check(ToolsSetting::Native, "{}", ToolMode::Native);
    }

    #[test]
    fn a_missing_slot_makes_a_backend_unusable_and_says_how_to_cure_it() {
        let slots = SlotsTable {
            main: vec![0],
            background: 2,
        };
        let spec = Spec {
            slots: Some(slots),
            ..spec(BackendKind::LlamaServer)
        };
        let info = assess(&spec, &props(r#"{"total_slots":1}"#));
        assert_eq!(info.state, BackendState::Misconfigured);
        let problem = info.problem.unwrap();
        assert_eq!(problem.code, Code::BackendSlotMissing);
        assert!(problem.hint.unwrap().contains("-np 3"));
    }

    #[test]
    fn the_fingerprint_changes_with_the_model_and_not_with_the_start() {
        let look = |alias: &str, template: &str, marker: &str| {
            let text = format!(
                r#"{{"total_slots":1,"model_alias":"{alias}","chat_template":"{template}","media_marker":"{marker}"}}"#
            );
            assess(&spec(BackendKind::LlamaServer), &props(&text)).fingerprint
        };
        assert_eq!(look("a", "t", "1"), look("a", "t", "2"));
        assert_ne!(look("a", "t", "1"), look("b", "t", "1"));
        assert_ne!(look("a", "t", "1"), look("a", "u", "1"));
        assert_ne!(look("ab", "t", "1"), look("a", "bt", "1"));
    }

    #[test]
    fn a_server_that_is_away_stays_what_it_was() {
        let spec = spec(BackendKind::LlamaServer);
        let ready = assess(&spec, &props(r#"{"total_slots":3,"model_alias":"a"}"#));
        let loading = assess(&spec, &Look::Loading(BackendKind::LlamaServer));
        let kept = carried_over(&ready, loading.clone());
        assert_eq!(
            (kept.state, kept.problem.is_some()),
            (BackendState::Loading, true)
        );
        assert_eq!(
            (&kept.fingerprint, &kept.slots),
            (&ready.fingerprint, &ready.slots)
        );
        assert_eq!(carried_over(&loading, loading.clone()), loading);
        let other = assess(&spec, &props(r#"{"total_slots":3,"model_alias":"b"}"#));
        assert_eq!(carried_over(&ready, other.clone()), other);
    }

    #[test]
    fn the_named_model_must_be_offered() {
        let models = Models::parse(br#"{"data":[{"id":"a"},{"id":"b"}]}"#).unwrap();
        let check = |wanted: Option<&str>, expect: Result<&str, Code>| {
            let spec = Spec {
                model: wanted.map(str::to_owned),
                ..spec(BackendKind::Openai)
            };
            let info = assess(&spec, &Look::Openai(models.clone()));
            let found = match info.problem {
                None => Ok(info.model.as_str()),
                Some(problem) => Err(problem.code),
            };
            assert_eq!(found, expect);
        };
        check(None, Ok("a"));
        check(Some("b"), Ok("b"));
        check(Some("c"), Err(Code::BackendError));
    }
}
