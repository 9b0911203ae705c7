//! Which backend serves a turn. Pure.

use bxcore::code::Code;
use bxcore::id::BackendName;
use bxcore::problem::Problem;
use bxcore::wire::inferproxy::{BackendInfo, BackendState, by_default};

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
