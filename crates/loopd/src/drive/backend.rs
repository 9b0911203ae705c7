//! Which backend serves a turn. Pure.

use crate::prompt::EpochFacts;
use bxcore::code::Code;
use bxcore::id::BackendName;
use bxcore::problem::Problem;
use bxcore::tool::PROVIDER_PREFIX;
use bxcore::wire::inferproxy::{BackendInfo, BackendState, by_default};

/// The provider that a turn may be led by, if it may be one: the one that the caller names where
/// no server of the owner's has that name, else the session's own.
///
/// A session that was led by a server of the owner's never gets a provider by itself.
pub(super) fn elsewhere<'a>(
    known: &[BackendInfo],
    wanted: Option<&'a BackendName>,
    own: Option<&'a EpochFacts>,
) -> Option<&'a BackendName> {
    match wanted {
        Some(name) => known
            .iter()
            .all(|backend| backend.name != *name)
            .then_some(name),
        None => own
            .filter(|epoch| epoch.fingerprint.starts_with(PROVIDER_PREFIX))
            .map(|epoch| &epoch.backend),
    }
}

/// Chooses the backend of a turn.
///
/// The one that the caller names; else the session's own, so that a model never changes without
/// anybody asking; else the first that is ready; else the first that is loading.
pub(super) fn choose<'a>(
    known: &'a [BackendInfo],
    wanted: Option<&BackendName>,
    own: Option<&BackendName>,
) -> Result<&'a BackendInfo, Problem> {
    let named = |name: &BackendName| known.iter().find(|backend| backend.name == *name);
    if let Some(name) = wanted {
        return usable(named(name).ok_or_else(|| unknown(name, known))?);
    }
    if let Some(backend) = own.and_then(named) {
        return usable(backend);
    }
    match by_default(known) {
        Some(backend) => usable(backend),
        None => Err(none_at_all()),
    }
}

fn usable(backend: &BackendInfo) -> Result<&BackendInfo, Problem> {
    match (backend.state, &backend.problem) {
        // inferproxy waits out a server that is loading.
        (BackendState::Ready | BackendState::Loading, _) => Ok(backend),
        (_, Some(problem)) => Err(problem.clone()),
        (_, None) => {
            let title = format!("The backend `{}` can't be used now", backend.name);
            Err(Problem::new(Code::BackendUnreachable, title).detail(backend.url.clone()))
        }
    }
}

/// There is no backend of this name among these.
fn unknown(name: &BackendName, known: &[BackendInfo]) -> Problem {
    let names: Vec<_> = known.iter().map(|backend| backend.name.as_str()).collect();
    let detail = if names.is_empty() {
        "no backend is known".to_owned()
    } else {
        format!("the backends are {}", names.join(", "))
    };
    Problem::new(
        Code::BackendUnknown,
        format!("There is no backend `{name}`"),
    )
    .detail(detail)
    .hint(format!("`boxmaker backend add {name} URL` adds one"))
}

fn none_at_all() -> Problem {
    Problem::new(Code::NoBackend, "There is no model server")
        .detail("none is configured, and none of the usual loopback ports answers")
        .hint("`boxmaker backend add local http://127.0.0.1:8080` points at one; `boxmaker ask` offers the starter engine")
}

#[cfg(test)]
mod tests {
    use super::*;
    use bxcore::transcript::ToolMode;
    use bxcore::wire::inferproxy::{BackendKind, BackendOrigin};

    fn backend(name: &str, state: BackendState) -> BackendInfo {
        BackendInfo {
            name: BackendName::new(name).unwrap(),
            origin: BackendOrigin::Configured,
            url: "http://127.0.0.1:1".into(),
            kind: BackendKind::Openai,
            model: "m".into(),
            slots: None,
            max_concurrency: 1,
            context_tokens: None,
            tools: ToolMode::Native,
            keeps_reasoning: false,
            fingerprint: String::new(),
            state,
            problem: None,
        }
    }

    #[test]
    fn a_provider_leads_by_name_or_by_habit_and_never_by_itself() {
        let known = [backend("a", BackendState::Unreachable)];
        let name = |text: &str| BackendName::new(text).unwrap();
        let epoch = |text: &str, fingerprint: &str| EpochFacts {
            id: bxcore::id::EpochId::FIRST,
            backend: name(text),
            fingerprint: fingerprint.to_owned(),
            model: "m".to_owned(),
            mode: ToolMode::Native,
            context_tokens: None,
            memory: "".into(),
        };
        let check = |wanted: Option<&str>, own: Option<&EpochFacts>, expect: Option<&str>| {
            let wanted = wanted.map(name);
            let found = elsewhere(&known, wanted.as_ref(), own);
            assert_eq!(found.map(BackendName::as_str), expect);
        };
        let (led, local) = (epoch("big", "provider:1"), epoch("big", "f"));
        check(None, None, None);
        check(Some("big"), None, Some("big"));
        check(None, Some(&led), Some("big"));
        // Where the owner's own server of that name is gone, nobody takes its place.
        check(None, Some(&local), None);
        check(Some("a"), Some(&led), None);
    }

    #[test]
    fn the_choice_follows_who_asked_then_habit_then_readiness() {
        use BackendState::{Loading, Ready, Unreachable};
        let known = [
            backend("a", Unreachable),
            backend("b", Loading),
            backend("c", Ready),
        ];
        let name = |text: &str| BackendName::new(text).unwrap();
        let check = |wanted: Option<&str>, own: Option<&str>, expect: Result<&str, Code>| {
            let (wanted, own) = (wanted.map(name), own.map(name));
            let chosen = choose(&known, wanted.as_ref(), own.as_ref());
            let chosen = chosen
                .map(|backend| backend.name.as_str())
                .map_err(|problem| problem.code);
            assert_eq!(chosen, expect);
        };
        check(None, None, Ok("c"));
        check(None, Some("b"), Ok("b"));
        check(None, Some("gone"), Ok("c"));
        check(Some("b"), Some("c"), Ok("b"));
        check(Some("a"), None, Err(Code::BackendUnreachable));
        check(None, Some("a"), Err(Code::BackendUnreachable));
        check(Some("x"), None, Err(Code::BackendUnknown));
        assert_eq!(choose(&[], None, None).unwrap_err().code, Code::NoBackend);
    }
}
