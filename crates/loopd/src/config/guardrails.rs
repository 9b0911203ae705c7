//! `[guardrails]`: limits of every session that the owner or a door starts.

use bxcore::guardrails::{Limits, ToolRules, can_match, known_entries};
use bxcore::money::Usd;
use bxkit::config::{InvalidValue, instead_of};
use serde::{Deserialize, Serialize};
use std::collections::BTreeSet;

/// Limits on tokens, money and tools. Left out means unlimited; 0 means nothing at all.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Guardrails {
    /// The most tokens of one turn, its helpers' included.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tokens: Option<u64>,
    /// The most money of one turn, its helpers' included, in dollars as text: `"0.50"`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub usd: Option<Usd>,
    /// The most tokens of all sessions together in one day (UTC).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub daily_tokens: Option<u64>,
    /// The most money of all sessions together in one day (UTC).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub daily_usd: Option<Usd>,
    /// If given, only these tools (names or risk tags) may be used.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub allow: Option<BTreeSet<String>>,
    /// These tools (names or risk tags) may not be used.
    pub deny: BTreeSet<String>,
    /// These tools (names or risk tags) need the owner's approval each time.
    pub approval_required: BTreeSet<String>,
}

impl Guardrails {
    /// The limits of one turn.
    pub fn per_turn(&self) -> Limits {
        Limits {
            tokens: self.tokens,
            usd: self.usd.map(|usd| usd.0),
        }
    }

    /// The limits of a day.
    pub fn per_day(&self) -> Limits {
        Limits {
            tokens: self.daily_tokens,
            usd: self.daily_usd.map(|usd| usd.0),
        }
    }

    /// Refuses an entry that no tool could match: a slip in a rule would leave it void.
    pub(super) fn check(&self) -> Result<(), InvalidValue> {
        let none = BTreeSet::new();
        for (key, entries) in [
            ("allow", self.allow.as_ref().unwrap_or(&none)),
            ("deny", &self.deny),
            ("approval_required", &self.approval_required),
        ] {
            if let Some(entry) = entries.iter().find(|entry| !can_match(entry)) {
                let known: Vec<&str> = known_entries().collect();
                let why = format!("`{entry}` is neither a tool nor a risk tag");
                let error = InvalidValue::new(format!("guardrails.{key}"), why);
                return Err(error.hint(instead_of(entry, &known)));
            }
        }
        Ok(())
    }

    /// The rules that brokerd judges the session's tool calls by.
    pub fn tool_rules(&self) -> ToolRules {
        ToolRules {
            allow: self.allow.clone(),
            deny: self.deny.clone(),
            approval_required: self.approval_required.clone(),
        }
    }
}
