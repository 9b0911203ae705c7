//! A decision as lines for a person. Pure.

use crate::output::{Paint, Style, one_line};
use bxcore::wire::brokerd::{Verdict, Walk};

/// The longest reason that is shown, in characters.
const MAX_REASON_CHARS: usize = 300;

/// A decision, a rule a line, and what follows from it.
pub(super) fn render_walk(tool: &str, walk: &Walk, paint: Paint) -> String {
    let mut text = String::new();
    for step in &walk.steps {
        let (style, mark) = match step.verdict {
            Verdict::Pass => (Style::Good, "pass"),
            Verdict::Fail => (Style::Bad, "FAIL"),
            Verdict::Open => (Style::Warn, "open"),
        };
        let rule = serde_json::to_value(step.rule).unwrap_or_default();
        let rule = rule.as_str().unwrap_or("?");
        let because = one_line(&step.because, MAX_REASON_CHARS);
        text.push_str(&format!(
            "{}  {rule:<10}  {because}\n",
            paint.paint(style, mark)
        ));
    }
    let by = walk
        .grant
        .map(|number| format!(" by grant {number}"))
        .unwrap_or_default();
    let verdict = match walk.denied {
        None => paint.paint(Style::Good, &format!("{tool} may run{by}")),
        Some(code) => {
            let text = format!("{tool} is denied{by}: {code} (see docs/runbook/{code}.md)");
            paint.paint(Style::Bad, &text)
        }
    };
    text + &verdict + "\n"
}

#[cfg(test)]
mod tests {
    use super::*;
    use bxcore::code::Code;
    use bxcore::wire::brokerd::{Rule, Step};

    #[test]
    fn a_walk_ends_with_its_verdict() {
        let step = |rule, verdict, because: &str| Step {
            rule,
            verdict,
            because: because.into(),
        };
        let mut walk = Walk {
            steps: vec![
                step(Rule::Known, Verdict::Pass, "http_fetch"),
                step(Rule::Arguments, Verdict::Open, "none were given"),
                step(
                    Rule::Class,
                    Verdict::Fail,
                    "secret is above private\u{1b}[2J",
                ),
            ],
            denied: Some(Code::TaintTooHigh),
            grant: Some(2),
        };
        insta::assert_snapshot!(render_walk("http_fetch", &walk, Paint::Plain), @"
        pass  known       http_fetch
        open  arguments   none were given
        FAIL  class       secret is above private
        http_fetch is denied by grant 2: taint-too-high (see docs/runbook/taint-too-high.md)
        ");
        walk.denied = None;
        assert!(render_walk("clock", &walk, Paint::Plain).ends_with("clock may run by grant 2\n"));
    }
}
