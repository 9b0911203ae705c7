//! What each rule of the walk says of a question.

use super::arguments::Arguments;
use super::facts::{Approval, Reservation, SecretsFound, Unroutable};
use super::grants::{self, Chosen};
use super::question::Question;
use bxcore::code::Code;
use bxcore::guardrails::RuleBroken;
use bxcore::tool::{RiskTag, ToolSpec};

/// What one rule said, with the values that matter.
pub(super) enum Said {
    Pass(String),
    Open(String),
    Fail(Code, String),
}

fn pass(because: impl Into<String>) -> Said {
    Said::Pass(because.into())
}

pub(super) fn known(question: &Question<'_>) -> Said {
    match question.facts.lacks {
        None => pass("the tool exists"),
        Some(code) => Said::Fail(code, lacking(code).to_owned()),
    }
}

/// Why a name is no tool's.
pub(super) fn unknown(question: &Question<'_>) -> (Code, String) {
    let code = question.facts.lacks.unwrap_or(Code::UnknownTool);
    (code, lacking(code).to_owned())
}

const fn lacking(code: Code) -> &'static str {
    match code {
        Code::UnknownTool => "no tool has this name",
        Code::McpNotTrusted => "the owner has not trusted this tool as its server has it now",
        _ => "the tool exists, and is not set up here",
    }
}

pub(super) fn arguments(question: &Question<'_>) -> Said {
    match question.arguments {
        Arguments::Valid(_) => pass("they fit the schema"),
        Arguments::NotGiven => Said::Open("none were given".to_owned()),
        Arguments::Invalid(why) => Said::Fail(Code::InvalidArguments, why.clone()),
    }
}

pub(super) fn guardrails(question: &Question<'_>, tool: &ToolSpec) -> Said {
    let why = match question.rules.check(question.name, &tool.tags) {
        Ok(()) => return pass("no rule of the session or of an ancestor is against it"),
        Err(RuleBroken::Denied(entry)) => format!("`{entry}` is on the deny list"),
        Err(RuleBroken::NotAllowed) => "it is not on the allow list".to_owned(),
    };
    Said::Fail(Code::DeniedByGuardrail, why)
}

pub(super) fn grant(question: &Question<'_>, tool: &ToolSpec, chosen: Option<Chosen<'_>>) -> Said {
    if let Some(Chosen { number, .. }) = chosen {
        return pass(format!("grant {number} names it"));
    }
    if !grants::needs_grant(tool) {
        return pass("it needs none");
    }
    let named = question
        .grants
        .iter()
        .any(|grant| grant.tool == *question.name);
    let why = match &question.facts.destination {
        Some(host) if named => format!("no grant for it admits the host `{host}`"),
        _ => "no grant names it".to_owned(),
    };
    Said::Fail(Code::NoGrant, why)
}

pub(super) fn class(question: &Question<'_>, chosen: Option<Chosen<'_>>) -> Said {
    let Some(Chosen { number, grant }) = chosen else {
        return pass("no grant limits it");
    };
    let (has, admits) = (question.label.class, grant.max_taint);
    let why = format!("the session is {has}, grant {number} admits up to {admits}");
    if grants::admits_class(grant, question.label) {
        return pass(why);
    }
    Said::Fail(Code::TaintTooHigh, why)
}

pub(super) fn integrity(
    question: &Question<'_>,
    tool: &ToolSpec,
    chosen: Option<Chosen<'_>>,
) -> Said {
    let grant = chosen.map(|chosen| chosen.grant);
    if !grants::admits_integrity(grant, tool, question.label) {
        let does = if grants::acts(tool) {
            "writes or runs code"
        } else {
            "sends what is not public"
        };
        return Said::Fail(
            Code::UntrustedSession,
            format!("the session has read untrusted data, and the tool {does}"),
        );
    }
    pass(match question.label.untrusted {
        false => "the session is trusted",
        true if grant.is_some_and(|grant| grant.accept_untrusted) => {
            "the session has read untrusted data, and the grant accepts that"
        }
        true => "the session has read untrusted data, which this tool can do no harm with",
    })
}

pub(super) fn secrets(question: &Question<'_>) -> Said {
    match &question.facts.secrets {
        SecretsFound::Absent => pass("no stored secret would be sent"),
        SecretsFound::Present { name } => Said::Fail(
            Code::SecretInPayload,
            format!("the secret `{name}` stands in what would be sent"),
        ),
        SecretsFound::Unsure => Said::Fail(
            Code::SecretUnreadable,
            "a file among the owner's secrets can't be read, so nothing may be sent".to_owned(),
        ),
    }
}

pub(super) fn budget(question: &Question<'_>, tool: &ToolSpec) -> Said {
    if !tool.tags.contains(&RiskTag::Spend) {
        return pass("it costs nothing");
    }
    let why = match question.facts.reservation {
        Reservation::Held => return pass("its cost is reserved"),
        Reservation::Missing => "nothing is reserved for it",
        Reservation::DayLimit => "the day's limit is reached",
    };
    Said::Fail(Code::BudgetExhausted, why.to_owned())
}

/// What asks the owner before each use of a tool, as it is disclosed.
pub(super) fn asked_by(
    question: &Question<'_>,
    tool: &ToolSpec,
    chosen: Option<Chosen<'_>>,
) -> Option<&'static str> {
    if chosen.is_some_and(|chosen| chosen.grant.approval == bxcore::grant::Approval::Always) {
        return Some("the grant asks the owner each time");
    }
    let by_rule = question.rules.needs_approval(question.name, &tool.tags);
    by_rule.then_some("a guardrail asks the owner each time")
}

pub(super) fn approval(
    question: &Question<'_>,
    tool: &ToolSpec,
    chosen: Option<Chosen<'_>>,
) -> Said {
    let Some(asks) = asked_by(question, tool, chosen) else {
        return pass("nobody has to be asked");
    };
    let (code, then) = match question.facts.approval {
        Approval::Given => return pass(format!("{asks}, and the owner approved")),
        Approval::Askable => return Said::Open(format!("{asks}, and there is no answer yet")),
        Approval::Unroutable(why) => (
            Code::ApprovalUnroutable,
            match why {
                Unroutable::Nobody => "there is nobody to ask",
                Unroutable::Provider => "nobody could read a whole conversation at each step",
                Unroutable::TooMany => "too many questions wait for an answer already",
                Unroutable::TooLong => "the call is too long to be shown in full",
            },
        ),
        Approval::Denied => (Code::ApprovalDenied, "the owner denied it"),
        Approval::Expired => (Code::ApprovalExpired, "nobody answered in time"),
    };
    Said::Fail(code, format!("{asks}, and {then}"))
}
