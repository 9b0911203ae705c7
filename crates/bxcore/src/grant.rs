//! Grants: the owner's rules that let consequential tools run.

use crate::label::Class;
use crate::tool::ToolName;
use serde::de::Visitor;
use serde::{Deserialize, Deserializer, Serialize};
use std::collections::BTreeSet;
use std::fmt;

/// When a grant asks the owner before each use.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Approval {
    /// It does not ask.
    #[default]
    Never,
    /// It asks each time.
    Always,
}

impl<'de> Deserialize<'de> for Approval {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(Word)
    }
}

/// Reads the word, and tells whoever wrote `true` which words there are.
struct Word;

impl Visitor<'_> for Word {
    type Value = Approval;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("\"never\" or \"always\"")
    }

    fn visit_str<E: serde::de::Error>(self, text: &str) -> Result<Approval, E> {
        match text {
            "never" => Ok(Approval::Never),
            "always" => Ok(Approval::Always),
            other => Err(E::unknown_variant(other, &["never", "always"])),
        }
    }
}

/// One `[[grant]]` of `brokerd.toml`.
///
/// Constraints that only some tools take (such as `hosts`) are typed fields here, so that a
/// constraint on a tool that doesn't know it is an error and never silently void.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Grant {
    /// The tool that it is for.
    pub tool: ToolName,
    /// The highest class of session that may use it; public if left out.
    #[serde(default = "public")]
    pub max_taint: Class,
    /// Whether a session that has read untrusted data may use it; no if left out.
    #[serde(default)]
    pub accept_untrusted: bool,
    /// The class of what comes back; [`Grant::result_class`] tells what it is if left out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub result_class: Option<Class>,
    /// Whether what comes back is untrusted; the tool's own default if left out.
    #[serde(default)]
    pub untrusted: Option<bool>,
    /// Whether the owner is asked each time.
    #[serde(default)]
    pub approval: Approval,
    /// Hosts that may be reached, exact or `*.example.org`; for tools that reach out.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub hosts: Vec<String>,
    /// Ports that may be reached beside 80 and 443; for `http_fetch`.
    #[serde(default, skip_serializing_if = "BTreeSet::is_empty")]
    pub ports: BTreeSet<u16>,
}

impl Grant {
    /// The class of what comes back.
    ///
    /// Private if the grant does not say; public for a provider, which leads public sessions only:
    /// the first answer would end any other.
    pub fn result_class(&self) -> Class {
        let by_default = if self.tool.is_provider() {
            Class::Public
        } else {
            Class::Private
        };
        self.result_class.unwrap_or(by_default)
    }
}

const fn public() -> Class {
    Class::Public
}
