//! One thing that was looked at. Pure.

use crate::output::{Paint, Style, sanitize};
use bxcore::problem::Problem;
use serde::Serialize;

/// How it stands with something.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Level {
    /// Fine.
    Ok,
    /// Works, but not with everything.
    Warn,
    /// Doesn't work.
    Fail,
}

/// One thing that was looked at.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub(crate) struct Finding {
    /// How it stands.
    pub(crate) level: Level,
    /// What was looked at.
    pub(crate) what: String,
    /// What was found.
    pub(crate) found: String,
    /// What to do, unless it is fine.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) todo: Option<String>,
}

impl Finding {
    pub(crate) fn ok(what: impl Into<String>, found: impl Into<String>) -> Self {
        Self {
            level: Level::Ok,
            what: what.into(),
            found: found.into(),
            todo: None,
        }
    }

    pub(crate) fn warn(
        what: impl Into<String>,
        found: impl Into<String>,
        todo: impl Into<String>,
    ) -> Self {
        Self {
            level: Level::Warn,
            todo: Some(todo.into()),
            ..Self::ok(what, found)
        }
    }

    pub(crate) fn fail(
        what: impl Into<String>,
        found: impl Into<String>,
        todo: impl Into<String>,
    ) -> Self {
        Self {
            level: Level::Fail,
            ..Self::warn(what, found, todo)
        }
    }

    /// A problem as a finding, with the page to read.
    pub(crate) fn problem(level: Level, what: impl Into<String>, problem: &Problem) -> Self {
        let page = format!("see docs/runbook/{}.md", problem.code);
        let todo = match &problem.hint {
            Some(hint) => format!("{hint}\n{page}"),
            None => page,
        };
        Self {
            level,
            what: what.into(),
            found: problem.to_string(),
            todo: Some(todo),
        }
    }
}

/// The findings as lines for a person.
pub(crate) fn render(findings: &[Finding], paint: Paint) -> String {
    let mut text = String::new();
    for finding in findings {
        let (style, mark) = match finding.level {
            Level::Ok => (Style::Good, "ok  "),
            Level::Warn => (Style::Warn, "warn"),
            Level::Fail => (Style::Bad, "FAIL"),
        };
        let found = sanitize(&finding.found)
            .trim_end()
            .replace('\n', "\n      ");
        let what = paint.paint(Style::Strong, &finding.what);
        text.push_str(&format!("{}  {what}: {found}\n", paint.paint(style, mark)));
        for line in finding.todo.iter().flat_map(|todo| todo.lines()) {
            text.push_str(&format!("      → {}\n", sanitize(line)));
        }
    }
    let count = |level| {
        findings
            .iter()
            .filter(|finding| finding.level == level)
            .count()
    };
    text.push_str(&format!(
        "\n{} fine, {} to be looked at, {} broken\n",
        count(Level::Ok),
        count(Level::Warn),
        count(Level::Fail)
    ));
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use bxcore::code::Code;

    #[test]
    fn findings_say_what_to_do() {
        let problem = Problem::new(Code::ConfigInvalid, "A configuration file is wrong")
            .detail("loopd.toml:1:1: unknown key `x`\n  1 | x = 1")
            .hint("did you mean `y`?");
        let findings = [
            Finding::ok("disk", "10.0 GiB free"),
            Finding::warn("bubblewrap", "not found", "apt install bubblewrap"),
            Finding::problem(Level::Fail, "loopd.toml", &problem),
        ];
        insta::assert_snapshot!(render(&findings, Paint::Plain), @"
        ok    disk: 10.0 GiB free
        warn  bubblewrap: not found
              → apt install bubblewrap
        FAIL  loopd.toml: A configuration file is wrong: loopd.toml:1:1: unknown key `x`
                1 | x = 1
              → did you mean `y`?
              → see docs/runbook/config-invalid.md

        1 fine, 1 to be looked at, 1 broken
        ");
    }
}
