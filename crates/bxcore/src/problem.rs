//! The one error body of every interface.

use crate::code::Code;
use serde::{Deserialize, Serialize};
use std::fmt;

/// What went wrong, why, and what to do, as a body of RFC 9457 ("problem details").
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Problem {
    /// The runbook code.
    pub code: Code,
    /// What happened, in one sentence for a person.
    pub title: String,
    /// Why it happened: the values that matter.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub detail: Option<String>,
    /// What the person can do about it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub hint: Option<String>,
}

impl Problem {
    /// A problem of which only the title is known so far.
    pub fn new(code: Code, title: impl Into<String>) -> Self {
        Self {
            code,
            title: title.into(),
            detail: None,
            hint: None,
        }
    }

    /// Adds why it happened.
    pub fn detail(mut self, detail: impl Into<String>) -> Self {
        self.detail = Some(detail.into());
        self
    }

    /// Adds what can be done about it.
    pub fn hint(mut self, hint: impl Into<String>) -> Self {
        self.hint = Some(hint.into());
        self
    }
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.title)?;
        if let Some(detail) = &self.detail {
            write!(f, ": {detail}")?;
        }
        Ok(())
    }
}

impl std::error::Error for Problem {}
