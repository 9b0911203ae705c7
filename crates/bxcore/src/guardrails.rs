//! Guardrails: the limits that a session works under. They only ever narrow from parent to child.

use crate::money::MicroUsd;
use crate::tool::{BUILT_IN_TOOLS, RiskTag, ToolName};
use serde::{Deserialize, Serialize};
use std::collections::BTreeSet;

/// Which tools a session may use, by tool name or risk tag.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct ToolRules {
    /// If present, only tools named here (by name or tag) may be used.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub allow: Option<BTreeSet<String>>,
    /// Tools named here (by name or tag) may not be used.
    pub deny: BTreeSet<String>,
    /// Tools named here (by name or tag) need the owner's approval each time.
    pub approval_required: BTreeSet<String>,
}

/// Which rule keeps a tool from being used.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum RuleBroken {
    /// The deny list has this entry.
    Denied(String),
    /// There is an allow list, and the tool is not on it.
    NotAllowed,
}

impl ToolRules {
    /// Whether a tool may be used, and if not, by which rule.
    pub fn check(&self, name: &ToolName, tags: &BTreeSet<RiskTag>) -> Result<(), RuleBroken> {
        if let Some(entry) = matching(&self.deny, name, tags) {
            return Err(RuleBroken::Denied(entry));
        }
        match &self.allow {
            Some(allow) if matching(allow, name, tags).is_none() => Err(RuleBroken::NotAllowed),
            _ => Ok(()),
        }
    }

    /// Whether each use of a tool needs the owner's approval.
    pub fn needs_approval(&self, name: &ToolName, tags: &BTreeSet<RiskTag>) -> bool {
        matching(&self.approval_required, name, tags).is_some()
    }

    /// These rules as a child of `parent` may have them: never looser than the parent's.
    pub fn narrowed_by(&self, parent: &Self) -> Self {
        let allow = match (&parent.allow, &self.allow) {
            (Some(theirs), Some(ours)) => Some(theirs.intersection(ours).cloned().collect()),
            (one, other) => one.as_ref().or(other.as_ref()).cloned(),
        };
        Self {
            allow,
            deny: parent.deny.union(&self.deny).cloned().collect(),
            approval_required: parent
                .approval_required
                .union(&self.approval_required)
                .cloned()
                .collect(),
        }
    }
}

/// Whether an entry of a list of rules can match any tool: it is a risk tag, or the name of a tool
/// that can be here. Any other would be void, and its owner believe that it holds.
pub fn can_match(entry: &str) -> bool {
    let is_tag = RiskTag::ALL.iter().any(|tag| tag.name() == entry);
    is_tag || ToolName::new(entry).is_ok_and(|name| name.is_known())
}

/// What can stand in a list of rules, names of servers' tools and providers aside.
pub fn known_entries() -> impl Iterator<Item = &'static str> {
    let tags = RiskTag::ALL.into_iter().map(RiskTag::name);
    BUILT_IN_TOOLS.into_iter().chain(tags)
}

fn matching(list: &BTreeSet<String>, name: &ToolName, tags: &BTreeSet<RiskTag>) -> Option<String> {
    let named = list.get(name.as_str());
    let tagged = || tags.iter().find_map(|tag| list.get(tag.name()));
    named.or_else(tagged).cloned()
}

/// Limits on tokens and money; none means unlimited, 0 means nothing at all.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Limits {
    /// The most tokens.
    pub tokens: Option<u64>,
    /// The most money.
    pub usd: Option<MicroUsd>,
}

#[cfg(test)]
mod tests {
    use super::*;

    fn set(items: &[&str]) -> BTreeSet<String> {
        items.iter().map(|item| (*item).to_owned()).collect()
    }

    #[test]
    fn deny_beats_allow_and_tags_count_as_names() {
        let shell = ToolName::new("shell").unwrap();
        let tags = BTreeSet::from([RiskTag::Exec]);
        let rules = ToolRules {
            allow: Some(set(&["shell"])),
            deny: set(&["exec"]),
            ..ToolRules::default()
        };
        assert_eq!(
            rules.check(&shell, &tags),
            Err(RuleBroken::Denied("exec".into()))
        );
        let rules = ToolRules {
            allow: Some(set(&["exec"])),
            ..ToolRules::default()
        };
        assert_eq!(rules.check(&shell, &tags), Ok(()));
        let rules = ToolRules {
            allow: Some(set(&[])),
            ..ToolRules::default()
        };
        assert_eq!(rules.check(&shell, &tags), Err(RuleBroken::NotAllowed));
    }

    #[test]
    fn an_entry_that_matches_nothing_is_told_from_one_that_may() {
        for entry in known_entries().chain(["provider:big", "mcp:time/now"]) {
            assert!(can_match(entry), "{entry}");
        }
        for entry in [
            "shel",
            "",
            "Shell",
            "provider:",
            "provider:b b",
            "mcp:time",
            "mcp:/x",
        ] {
            assert!(!can_match(entry), "{entry}");
        }
    }

    #[test]
    fn a_child_is_never_looser() {
        let parent = ToolRules {
            allow: Some(set(&["a", "b"])),
            deny: set(&["x"]),
            ..ToolRules::default()
        };
        let child = ToolRules {
            allow: Some(set(&["b", "c"])),
            ..ToolRules::default()
        };
        let narrowed = child.narrowed_by(&parent);
        assert_eq!(narrowed.allow, Some(set(&["b"])));
        assert_eq!(narrowed.deny, set(&["x"]));
        assert_eq!(narrowed.narrowed_by(&parent), narrowed);
    }
}
