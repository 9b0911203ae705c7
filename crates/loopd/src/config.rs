//! `loopd.toml`: how turns run and what they may use.
//!
//! Slots and backends stand in `inferproxy.toml` only; grants stand in `brokerd.toml` only.

mod compact;
mod guardrails;
mod sampling;
mod schedule;
mod summarise;

pub use compact::Compact;
pub use guardrails::Guardrails;
pub use sampling::Sampling;
pub use schedule::{Heartbeat, Job, MAX_JOB_TEXT_BYTES, MAX_JOBS};
pub use summarise::Summarise;

use crate::schedule::Schedule;
use bxkit::config::{ConfigError, InvalidValue};
use serde::{Deserialize, Serialize};
use std::path::Path;

/// The most rounds of tools that a turn can be configured to have.
const MAX_TOOL_ITERATIONS: u32 = 256;
/// The least and the most bytes that a result can be capped to.
const TOOL_RESULT_BYTES: std::ops::RangeInclusive<u32> = 256..=1_048_576;
/// The least and the most tokens that an answer can be limited to.
const ANSWER_TOKENS: std::ops::RangeInclusive<u32> = 16..=1_000_000;

/// The whole file. Every key has a default, so that no file is needed.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Config {
    /// How many times a turn may ask the model before the last call, which may only answer.
    pub tool_iterations: u32,
    /// The cap of a tool's result and of a tool's arguments, in bytes.
    pub tool_result_bytes: u32,
    /// The most tokens that one answer may have.
    pub answer_tokens: u32,
    /// How the model picks its words.
    pub sampling: Sampling,
    /// Summaries of long conversations.
    pub compact: Compact,
    /// Summaries of long results of tools.
    pub summarise: Summarise,
    /// Limits of every session that no other session asked for.
    pub guardrails: Guardrails,
    /// Turns that begin by the clock.
    #[serde(rename = "job")]
    pub jobs: Vec<Job>,
    /// A turn that begins again and again; none if left out.
    pub heartbeat: Option<Heartbeat>,
}

impl Default for Config {
    fn default() -> Self {
        Self {
            tool_iterations: 16,
            tool_result_bytes: 16_384,
            answer_tokens: 2_048,
            sampling: Sampling::default(),
            compact: Compact::default(),
            summarise: Summarise::default(),
            guardrails: Guardrails::default(),
            jobs: Vec::new(),
            heartbeat: None,
        }
    }
}

impl Config {
    /// Reads the file; a missing one is the defaults.
    pub fn load(path: &Path) -> Result<Self, ConfigError> {
        bxkit::config::load_checked(path, Self::check)
    }

    /// What begins by the clock.
    ///
    /// # Errors
    /// The key whose value can't be used.
    pub fn schedule(&self) -> Result<Schedule, InvalidValue> {
        Schedule::new(&self.jobs, self.heartbeat.as_ref())
    }

    fn check(&self) -> Result<(), InvalidValue> {
        if !(1..=MAX_TOOL_ITERATIONS).contains(&self.tool_iterations) {
            let why = format!("must be from 1 to {MAX_TOOL_ITERATIONS}");
            return Err(InvalidValue::new("tool_iterations", why));
        }
        if !TOOL_RESULT_BYTES.contains(&self.tool_result_bytes) {
            let (least, most) = (TOOL_RESULT_BYTES.start(), TOOL_RESULT_BYTES.end());
            let why = format!("must be from {least} to {most} bytes");
            return Err(InvalidValue::new("tool_result_bytes", why));
        }
        if !ANSWER_TOKENS.contains(&self.answer_tokens) {
            let (least, most) = (ANSWER_TOKENS.start(), ANSWER_TOKENS.end());
            let why = format!("must be from {least} to {most} tokens");
            return Err(InvalidValue::new("answer_tokens", why));
        }
        self.guardrails.check()?;
        self.schedule()?;
        self.compact.check()?;
        self.summarise.check()?;
        self.sampling.check()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(text: &str) -> Result<Config, ConfigError> {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("loopd.toml");
        std::fs::write(&path, text).unwrap();
        Config::load(&path)
    }

    #[test]
    fn an_empty_file_is_the_defaults() {
        assert_eq!(parse("").unwrap(), Config::default());
    }

    #[test]
    fn values_out_of_range_are_refused_by_name() {
        for (text, key) in [
            ("tool_iterations = 0", "tool_iterations"),
            ("tool_result_bytes = 1", "tool_result_bytes"),
            ("answer_tokens = 1", "answer_tokens"),
            ("[sampling]\ntemperature = 9.0", "sampling.temperature"),
            ("[compact]\nat_percent = 99", "compact.at_percent"),
            ("[compact]\nkeep_percent = 75", "compact.keep_percent"),
            (
                "[compact]\nat_percent = 40\nkeep_percent = 40",
                "at_percent",
            ),
            ("[compact]\nsummary_chars = 1", "compact.summary_chars"),
            ("[compact]\nprompt = \" \"", "compact.prompt"),
            ("[summarise]\nread_bytes = 1", "summarise.read_bytes"),
            ("[guardrails]\nusd = \"1.0000001\"", "usd"),
            ("[guardrails]\ntokns = 1", "tokns"),
            ("[guardrails]\nallow = [\"shel\"]", "did you mean `shell`?"),
            (
                "[guardrails]\ndeny = [\"netwrk\"]",
                "did you mean `network`?",
            ),
            (
                "[guardrails]\napproval_required = [\"mcp:x\"]",
                "approval_required",
            ),
        ] {
            let problem = parse(text).unwrap_err().problem();
            let shown = format!("{problem} {}", problem.hint.as_deref().unwrap_or_default());
            assert!(shown.contains(key), "{text}: {shown}");
        }
    }

    #[test]
    fn a_full_file_is_read() {
        let config = parse(
            "tool_iterations = 4\n[guardrails]\ntokens = 1000\nusd = \"0.50\"\ndaily_tokens = 0\ndeny = [\"shell\"]\n",
        )
        .unwrap();
        assert_eq!(config.guardrails.per_turn().tokens, Some(1000));
        assert_eq!(config.guardrails.per_turn().usd.unwrap().micros(), 500_000);
        assert_eq!(config.guardrails.per_day().tokens, Some(0));
    }
}
