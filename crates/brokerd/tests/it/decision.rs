//! The walk: by table for what it says, exhaustively for what it decides.

use crate::support::tool;
use brokerd::decision::{
    Approval, Arguments, Facts, Next, Question, Reservation, SecretsFound, decide,
};
use bxcore::code::Code;
use bxcore::grant::{Approval as Asks, Grant};
use bxcore::guardrails::ToolRules;
use bxcore::label::{Class, Label};
use bxcore::tool::{Repeat, RiskTag, ToolSpec};
use bxcore::wire::brokerd::{Rule, Verdict};
use proptest::prelude::*;
use serde_json::json;
use std::collections::BTreeSet;

const TAGS: [RiskTag; 6] = [
    RiskTag::Network,
    RiskTag::Write,
    RiskTag::Exec,
    RiskTag::Egress,
    RiskTag::Spend,
    RiskTag::Subcouncil,
];

fn spec(tags: impl IntoIterator<Item = RiskTag>) -> ToolSpec {
    ToolSpec {
        name: tool("shell"),
        description: String::new(),
        parameters: json!({"type": "object"}),
        tags: tags.into_iter().collect(),
        repeat: Repeat::Never,
        reserve: None,
    }
}

fn tags_of(bits: usize) -> BTreeSet<RiskTag> {
    let chosen = (0..TAGS.len()).filter(|bit| bits >> bit & 1 == 1);
    chosen.map(|bit| TAGS[bit]).collect()
}

fn grant(max_taint: Class, accept_untrusted: bool, approval: Asks) -> Grant {
    Grant {
        tool: tool("shell"),
        max_taint,
        accept_untrusted,
        result_class: Some(Class::Private),
        untrusted: None,
        approval,
        hosts: Vec::new(),
        ports: BTreeSet::new(),
    }
}

fn set(items: &[&str]) -> BTreeSet<String> {
    items.iter().map(|item| (*item).to_owned()).collect()
}

/// A question whose every part is a value, so that a table can vary one of them.
#[derive(Debug, Clone)]
struct Case {
    tool: Option<ToolSpec>,
    arguments: Arguments,
    label: Label,
    rules: ToolRules,
    grants: Vec<Grant>,
    facts: Facts,
}

impl Case {
    fn allowed() -> Self {
        Self {
            tool: Some(spec([RiskTag::Exec])),
            arguments: Arguments::Valid(json!({})),
            label: Label::OWNER,
            rules: ToolRules::default(),
            grants: vec![grant(Class::Private, false, Asks::Never)],
            facts: Facts::default(),
        }
    }

    fn decide(&self) -> brokerd::decision::Decision {
        decide(&Question {
            name: &tool("shell"),
            tool: self.tool.as_ref(),
            arguments: &self.arguments,
            label: self.label,
            rules: &self.rules,
            grants: &self.grants,
            facts: &self.facts,
        })
    }
}

/// Changes one thing about a call that is allowed, and expects where the walk ends.
fn check(expect: Option<(Rule, Code)>, change: impl FnOnce(&mut Case)) {
    let mut case = Case::allowed();
    change(&mut case);
    let decision = case.decide();
    let walk = &decision.walk;
    let failed = walk.steps.iter().find(|step| step.verdict == Verdict::Fail);
    let got = failed.map(|step| (step.rule, walk.denied.unwrap()));
    assert_eq!(got, expect, "{case:?}");
    // Every step up to the failing one is there, in order, and each says why.
    let walked: Vec<Rule> = walk.steps.iter().map(|step| step.rule).collect();
    assert_eq!(walked, Rule::WALK[..walked.len()]);
    assert_eq!(
        walked.len() == Rule::WALK.len(),
        failed.is_none_or(|s| s.rule == Rule::Approval)
    );
    assert!(walk.steps.iter().all(|step| !step.because.is_empty()));
    let next = expect.map_or(Next::Run, |(_, code)| Next::Refuse(code));
    assert_eq!(decision.next, next);
}

#[test]
fn each_rule_has_its_say() {
    check(None, |_| {});
    check(Some((Rule::Known, Code::UnknownTool)), |case| {
        case.tool = None;
    });
    check(Some((Rule::Arguments, Code::InvalidArguments)), |case| {
        case.arguments = Arguments::Invalid("no".into());
    });
    check(Some((Rule::Guardrails, Code::DeniedByGuardrail)), |case| {
        case.rules.deny = set(&["exec"]);
    });
    check(Some((Rule::Guardrails, Code::DeniedByGuardrail)), |case| {
        case.rules.allow = Some(set(&["read_file"]));
    });
    check(Some((Rule::Grant, Code::NoGrant)), |case| {
        case.grants.clear();
    });
    check(Some((Rule::Grant, Code::NoGrant)), |case| {
        case.grants[0].tool = tool("shell2");
    });
    check(Some((Rule::Class, Code::TaintTooHigh)), |case| {
        case.label = Label::new(Class::Secret, false);
    });
    check(Some((Rule::Integrity, Code::UntrustedSession)), |case| {
        case.label.untrusted = true;
    });
    check(Some((Rule::Secrets, Code::SecretUnreadable)), |case| {
        case.facts.secrets = SecretsFound::Unsure;
    });
    check(Some((Rule::Secrets, Code::SecretInPayload)), |case| {
        case.facts.secrets = SecretsFound::Present {
            name: "consult".into(),
        };
    });
    check(Some((Rule::Budget, Code::BudgetExhausted)), |case| {
        case.tool = Some(spec([RiskTag::Exec, RiskTag::Spend]));
    });
    check(Some((Rule::Budget, Code::BudgetExhausted)), |case| {
        case.tool = Some(spec([RiskTag::Spend]));
        case.facts.reservation = Reservation::DayLimit;
    });
    check(None, |case| {
        case.tool = Some(spec([RiskTag::Spend]));
        case.facts.reservation = Reservation::Held;
    });
}

#[test]
fn an_approval_is_needed_where_grant_or_guardrail_say_so() {
    for (approval, expect) in [
        (Approval::Given, None),
        (
            Approval::default(),
            Some((Rule::Approval, Code::ApprovalUnroutable)),
        ),
        (
            Approval::Denied,
            Some((Rule::Approval, Code::ApprovalDenied)),
        ),
        (
            Approval::Expired,
            Some((Rule::Approval, Code::ApprovalExpired)),
        ),
    ] {
        check(expect, |case| {
            case.facts.approval = approval;
            case.grants[0].approval = Asks::Always;
        });
        check(expect, |case| {
            case.facts.approval = approval;
            case.rules.approval_required = set(&["exec"]);
        });
        check(None, |case| case.facts.approval = approval);
    }
}

#[test]
fn what_is_not_known_yet_neither_runs_nor_fails() {
    let mut case = Case::allowed();
    case.grants[0].approval = Asks::Always;
    case.facts.approval = Approval::Askable;
    assert_eq!(case.decide().next, Next::Ask);
    assert!(case.decide().walk.allows());
    case.arguments = Arguments::NotGiven;
    assert_eq!(case.decide().next, Next::Unclear);
    case.grants[0].approval = Asks::Never;
    assert_eq!(case.decide().next, Next::Unclear);
}

#[test]
fn the_first_grant_that_admits_the_session_is_used() {
    let mut case = Case::allowed();
    case.grants = vec![
        grant(Class::Public, false, Asks::Never),
        grant(Class::Secret, false, Asks::Always),
    ];
    case.facts.approval = Approval::Given;
    for (class, expect) in [(Class::Public, 1), (Class::Private, 2), (Class::Secret, 2)] {
        case.label = Label::new(class, false);
        assert_eq!(case.decide().walk.grant, Some(expect));
    }
    // Where none admits it, the first is what the refusal is about.
    case.label = Label::TOP;
    assert_eq!(case.decide().walk.grant, Some(1));
    assert_eq!(case.decide().walk.denied, Some(Code::TaintTooHigh));
}

#[test]
fn hosts_of_a_grant_are_matched_with_the_destination() {
    let mut case = Case::allowed();
    case.tool = Some(spec([RiskTag::Network]));
    case.grants[0].hosts = vec!["*.example.org".into()];
    for (host, expect) in [
        (Some("www.example.org"), None),
        (Some("example.org.evil.test"), Some(Code::NoGrant)),
        (None, None),
    ] {
        case.facts.destination = host.map(str::to_owned);
        assert_eq!(case.decide().walk.denied, expect, "{host:?}");
    }
}

/// What the design says, written down a second time and without the walk.
fn expected(case: &Case) -> Result<(), Code> {
    let tags = &case.tool.as_ref().unwrap().tags;
    let has = |tag| tags.contains(&tag);
    let grant = case.grants.first();
    if case
        .rules
        .deny
        .iter()
        .any(|entry| tags.iter().any(|tag| tag.name() == entry))
    {
        return Err(Code::DeniedByGuardrail);
    }
    if !tags.is_empty() && grant.is_none() {
        return Err(Code::NoGrant);
    }
    if grant.is_some_and(|grant| case.label.class > grant.max_taint) {
        return Err(Code::TaintTooHigh);
    }
    let acts = has(RiskTag::Write) || has(RiskTag::Exec);
    let sends = has(RiskTag::Network) || has(RiskTag::Egress);
    let above_public = case.label.class != Class::Public;
    let accepted = grant.is_some_and(|grant| grant.accept_untrusted);
    if case.label.untrusted && !accepted && (acts || (sends && above_public)) {
        return Err(Code::UntrustedSession);
    }
    if has(RiskTag::Spend) && case.facts.reservation != Reservation::Held {
        return Err(Code::BudgetExhausted);
    }
    let asks = grant.is_some_and(|grant| grant.approval == Asks::Always);
    if asks && case.facts.approval != Approval::Given {
        return Err(Code::ApprovalUnroutable);
    }
    Ok(())
}

fn grant_shapes() -> Vec<Vec<Grant>> {
    let mut shapes = vec![Vec::new()];
    for max_taint in Class::ALL {
        for accept_untrusted in [false, true] {
            for approval in [Asks::Never, Asks::Always] {
                shapes.push(vec![grant(max_taint, accept_untrusted, approval)]);
            }
        }
    }
    shapes
}

#[test]
fn every_label_grant_and_tag_set_is_decided_as_the_rules_say() {
    let mut decided = 0;
    for label in Label::ALL {
        for grants in grant_shapes() {
            for bits in 0..1 << TAGS.len() {
                for reservation in [Reservation::Missing, Reservation::Held] {
                    for approval in [Approval::default(), Approval::Given] {
                        for deny in [set(&[]), set(&["network"])] {
                            let facts = Facts {
                                reservation: reservation.clone(),
                                approval,
                                ..Facts::default()
                            };
                            let case = Case {
                                tool: Some(spec(tags_of(bits))),
                                label,
                                grants: grants.clone(),
                                rules: ToolRules {
                                    deny,
                                    ..ToolRules::default()
                                },
                                facts,
                                ..Case::allowed()
                            };
                            let decision = case.decide();
                            let got = decision.walk.denied.map_or(Ok(()), Err);
                            assert_eq!(got, expected(&case), "{case:?}");
                            assert_eq!(decision.next == Next::Run, got.is_ok());
                            decided += 1;
                        }
                    }
                }
            }
        }
    }
    assert_eq!(decided, 6 * 13 * 64 * 8);
}

fn any_rules() -> impl Strategy<Value = ToolRules> {
    let entry = prop::sample::select(vec!["shell", "exec", "network", "write", "other"]);
    let entries = || prop::collection::btree_set(entry.clone().prop_map(str::to_owned), 0..3);
    (prop::option::of(entries()), entries(), entries()).prop_map(
        |(allow, deny, approval_required)| ToolRules {
            allow,
            deny,
            approval_required,
        },
    )
}

proptest! {
    /// Whatever a child is registered with, and however much it has read besides, it may do
    /// nothing that its parent may not.
    #[test]
    fn narrower_rules_and_higher_labels_never_allow_more(
        parent in any_rules(),
        child in any_rules(),
        bits in 0_usize..64,
        shape in 0_usize..13,
        low in 0_usize..6,
        high in 0_usize..6,
    ) {
        let wide = Case {
            tool: Some(spec(tags_of(bits))),
            label: Label::ALL[low],
            rules: parent.clone(),
            grants: grant_shapes().swap_remove(shape),
            ..Case::allowed()
        };
        let narrow = Case {
            rules: child.narrowed_by(&parent),
            label: Label::ALL[low].join(Label::ALL[high]),
            ..wide.clone()
        };
        if narrow.decide().next == Next::Run {
            prop_assert_eq!(wide.decide().next, Next::Run);
        }
    }
}

#[test]
fn a_refusal_reads_as_an_explanation() {
    let mut case = Case::allowed();
    case.label = Label::TOP;
    case.grants[0].max_taint = Class::Secret;
    let walk = case.decide().walk;
    let lines: Vec<String> = walk
        .steps
        .iter()
        .map(|step| format!("{:?} {:?}: {}", step.rule, step.verdict, step.because))
        .collect();
    insta::assert_snapshot!(lines.join("\n"), @r"
    Known Pass: the tool exists
    Arguments Pass: they fit the schema
    Guardrails Pass: no rule of the session or of an ancestor is against it
    Grant Pass: grant 1 names it
    Class Pass: the session is secret, grant 1 admits up to secret
    Integrity Fail: the session has read untrusted data, and the tool writes or runs code
    ");
}
