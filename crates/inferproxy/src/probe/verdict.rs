//! What follows from the figures of a probe. Pure.

use bxcore::wire::inferproxy::{BackendInfo, BackendKind, ProbeCall, ProbeVerdict};

/// How many tokens of the first prompt may be missing from the cache of the third.
const MAX_LOST_TOKENS: u64 = 16;
/// How many slots are enough for a live turn and its helpers.
const GOOD_SLOTS: u32 = 3;

/// What a probe measured: main, background, main again.
#[derive(Debug, Clone)]
pub struct Figures<'a> {
    /// The three calls, in order; fewer where a call was not made.
    pub calls: &'a [ProbeCall],
    /// Whether the server shows its slots.
    pub shows_slots: bool,
}

/// A verdict, what it means, and the flags of llama-server that would change it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Judgement {
    /// The verdict.
    pub verdict: ProbeVerdict,
    /// What it means and what to do.
    pub advice: String,
    /// Flags to set.
    pub flags: Vec<String>,
}

/// Judges a backend by the figures of its probe.
pub fn judge(info: &BackendInfo, figures: &Figures<'_>) -> Judgement {
    if info.kind == BackendKind::Openai {
        return slotless(figures);
    }
    let single = info
        .slots
        .as_ref()
        .is_none_or(|slots| slots.main == [slots.background]);
    let mut judgement = match (single, kept(figures)) {
        (true, kept) => single_slot(kept.as_ref()),
        (false, Some(Kept::Whole { cached, prompt })) => Judgement {
            verdict: ProbeVerdict::CacheSurvives,
            advice: format!(
                "A live turn's cache survives a helper: after it {cached} tokens were found, and the prompt before it had {prompt}."
            ),
            flags: Vec::new(),
        },
        (false, Some(Kept::Lost { cached, prompt })) => Judgement {
            verdict: ProbeVerdict::CacheLost,
            advice: format!(
                "After a helper has run, a live turn finds {cached} of its {prompt} tokens in the cache and \
                 reads the rest again: the slots share one cache, or idle ones are cleared. Start the server with \
                 these flags."
            ),
            flags: vec![
                format!("-np {}", slots_wanted(info)),
                "--no-cache-idle-slots".to_owned(),
            ],
        },
        (false, None) => Judgement {
            verdict: ProbeVerdict::CacheLost,
            advice: "The server does not say how much of a prompt was in its cache, so it can't be told whether a \
                     live turn's survives a helper. A newer llama-server says it."
                .to_owned(),
            flags: Vec::new(),
        },
    };
    if !figures.shows_slots {
        judgement.flags.push("--slots".to_owned());
        judgement.advice.push_str(
            " It does not show its slots either, so that a stopped call can't be followed to its end.",
        );
    }
    judgement
}

/// The verdict on a backend one of whose configured slots is not there.
pub(super) fn slot_missing(wanted: u32, detail: &str) -> Judgement {
    Judgement {
        verdict: ProbeVerdict::SlotMissing,
        advice: format!(
            "A configured slot does not exist: {detail}. Its requests would be served on another slot without a word."
        ),
        flags: vec![format!("-np {wanted}")],
    }
}

enum Kept {
    Whole { cached: u64, prompt: u64 },
    Lost { cached: u64, prompt: u64 },
}

/// How much of the first call's prompt the third one found in the cache.
fn kept(figures: &Figures<'_>) -> Option<Kept> {
    let [first, _, third] = figures.calls else {
        return None;
    };
    let (cached, prompt) = (third.cache_n?, first.prompt_tokens);
    Some(if cached.saturating_add(MAX_LOST_TOKENS) >= prompt {
        Kept::Whole { cached, prompt }
    } else {
        Kept::Lost { cached, prompt }
    })
}

fn single_slot(kept: Option<&Kept>) -> Judgement {
    let measured = match kept {
        Some(Kept::Whole { cached, prompt }) => {
            format!("this time {cached} tokens were found all the same, after a prompt of {prompt}")
        }
        Some(Kept::Lost { cached, prompt }) => format!("{cached} of {prompt} tokens were kept"),
        None => "the server does not say how much was kept".to_owned(),
    };
    Judgement {
        verdict: ProbeVerdict::SingleSlot,
        advice: format!(
            "There is a single slot: everything works, but a helper takes the place of the live turn's cache ({measured})."
        ),
        flags: vec![
            format!("-np {GOOD_SLOTS}"),
            "--no-cache-idle-slots".to_owned(),
        ],
    }
}

fn slotless(figures: &Figures<'_>) -> Judgement {
    let measured = match kept(figures) {
        Some(Kept::Whole { cached, prompt }) => {
            format!("It kept a prompt of {prompt} tokens while a helper ran ({cached} were found).")
        }
        Some(Kept::Lost { cached, prompt }) => {
            format!("It kept {cached} of {prompt} tokens while a helper ran.")
        }
        None => "It does not say how much of a prompt was in its cache.".to_owned(),
    };
    Judgement {
        verdict: ProbeVerdict::NoSlots,
        advice: format!("The server has no slots, and its cache is its own affair. {measured}"),
        flags: Vec::new(),
    }
}

fn slots_wanted(info: &BackendInfo) -> u32 {
    let Some(slots) = &info.slots else {
        return GOOD_SLOTS;
    };
    let all = slots
        .main
        .iter()
        .chain(&slots.seats)
        .chain([&slots.background]);
    all.max().map_or(GOOD_SLOTS, |last| last.saturating_add(1))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::backend::{Look, Models, Props, Spec, assess};
    use crate::config::BackendUrl;
    use bxcore::id::BackendName;
    use bxcore::wire::inferproxy::BackendOrigin;

    fn info(look: &Look) -> BackendInfo {
        let name = BackendName::new("a").unwrap();
        let url = BackendUrl::loopback(1);
        assess(
            &Spec::unconfigured(name, BackendOrigin::Configured, url, None),
            look,
        )
    }

    fn llama(slots: u32) -> BackendInfo {
        let props = format!("{{\"total_slots\":{slots}}}");
        info(&Look::Llama(Box::new(
            Props::parse(props.as_bytes()).unwrap(),
        )))
    }

    fn judged(info: &BackendInfo, third: Option<u64>, shows_slots: bool) -> Judgement {
        let call = |what: &str, cache_n| ProbeCall {
            what: what.to_owned(),
            slot: None,
            prompt_tokens: 300,
            cache_n,
        };
        let calls = [
            call("main", Some(0)),
            call("background", Some(0)),
            call("main again", third),
        ];
        judge(
            info,
            &Figures {
                calls: &calls,
                shows_slots,
            },
        )
    }

    #[test]
    fn the_verdict_follows_the_cache() {
        let check = |info: &BackendInfo, third, verdict, flags: &[&str]| {
            let found = judged(info, third, true);
            assert_eq!(found.verdict, verdict, "{third:?}");
            assert_eq!(found.flags, flags, "{third:?}");
        };
        let three = llama(3);
        check(&three, Some(305), ProbeVerdict::CacheSurvives, &[]);
        check(&three, Some(284), ProbeVerdict::CacheSurvives, &[]);
        check(
            &three,
            Some(283),
            ProbeVerdict::CacheLost,
            &["-np 3", "--no-cache-idle-slots"],
        );
        check(
            &llama(4),
            Some(0),
            ProbeVerdict::CacheLost,
            &["-np 4", "--no-cache-idle-slots"],
        );
        check(&three, None, ProbeVerdict::CacheLost, &[]);
        check(
            &llama(1),
            Some(300),
            ProbeVerdict::SingleSlot,
            &["-np 3", "--no-cache-idle-slots"],
        );
        let openai = info(&Look::Openai(
            Models::parse(br#"{"data":[{"id":"m"}]}"#).unwrap(),
        ));
        check(&openai, None, ProbeVerdict::NoSlots, &[]);
        check(&openai, Some(9), ProbeVerdict::NoSlots, &[]);
    }

    #[test]
    fn hidden_slots_are_named() {
        assert_eq!(judged(&llama(3), Some(300), false).flags, ["--slots"]);
    }
}
