//! How a problem is shown to a person.
//!
//! One shape everywhere: what happened, why, what to do, where to read more.

use bxcore::code::Code;
use bxcore::problem::Problem;
use bxcore::text::deceives;
use std::fmt::Write;

/// How many causes of an error are told.
const MAX_CAUSES: usize = 8;

const RED_BOLD: &str = "\x1b[1;31m";
const BOLD: &str = "\x1b[1m";
const CYAN: &str = "\x1b[36m";
const DIM: &str = "\x1b[2m";
const RESET: &str = "\x1b[0m";

/// Whether standard error takes colours: it is a terminal and `NO_COLOR` is not set.
pub fn color_on_stderr() -> bool {
    let plain = std::env::var_os("NO_COLOR").is_some_and(|value| !value.is_empty());
    !plain && std::io::IsTerminal::is_terminal(&std::io::stderr())
}

/// The runbook's page about a code.
pub fn page(code: Code) -> String {
    format!("docs/runbook/{code}.md")
}

/// The problem as lines for a person, ending in a line break.
///
/// ```text
/// error[no-backend]: No model server was found
///   looked at 127.0.0.1:8080 and 127.0.0.1:11434
///   try: boxmaker backend add NAME URL
///   see: docs/runbook/no-backend.md
/// ```
/// Control characters in the texts are shown, never sent to the terminal.
pub fn render_problem(problem: &Problem, color: bool) -> String {
    let paint = |style: &'static str| if color { style } else { "" };
    let (red, bold, cyan, dim, reset) = (
        paint(RED_BOLD),
        paint(BOLD),
        paint(CYAN),
        paint(DIM),
        paint(RESET),
    );
    let code = problem.code;
    let mut text = String::new();
    let title = visible(&problem.title);
    // Writing to a String can't fail, hence the ignored results.
    let _ = writeln!(text, "{red}error[{code}]{reset}{bold}: {title}{reset}");
    for line in problem.detail.iter().flat_map(|detail| detail.lines()) {
        let line = visible(line);
        let _ = writeln!(text, "{}", format!("  {line}").trim_end());
    }
    for (number, line) in problem
        .hint
        .iter()
        .flat_map(|hint| hint.lines())
        .enumerate()
    {
        let lead = if number == 0 { "try:" } else { "    " };
        let _ = writeln!(text, "  {cyan}{lead}{reset} {}", visible(line));
    }
    let _ = writeln!(text, "  {dim}see: {}{reset}", page(code));
    text
}

/// An error and everything that caused it, on one line.
pub fn chain(error: &(dyn std::error::Error + 'static)) -> String {
    let mut text = error.to_string();
    let mut next = error.source();
    for _ in 0..MAX_CAUSES {
        let Some(cause) = next else { break };
        let _ = write!(text, ": {cause}");
        next = cause.source();
    }
    text
}

/// A line without anything that a terminal would act on, or that deceives its reader.
fn visible(line: &str) -> String {
    let mut shown = String::with_capacity(line.len());
    for character in line.chars() {
        if character.is_control() || deceives(character) {
            shown.extend(character.escape_default());
        } else {
            shown.push(character);
        }
    }
    shown
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_parts_are_shown_in_order() {
        let problem = Problem::new(Code::NoBackend, "No model server was found")
            .detail("looked at 127.0.0.1:8080\nand at 127.0.0.1:11434")
            .hint("boxmaker backend add NAME URL\nor start one");
        insta::assert_snapshot!(render_problem(&problem, false), @r"
        error[no-backend]: No model server was found
          looked at 127.0.0.1:8080
          and at 127.0.0.1:11434
          try: boxmaker backend add NAME URL
               or start one
          see: docs/runbook/no-backend.md
        ");
    }

    #[test]
    fn a_bare_title_still_names_its_page() {
        insta::assert_snapshot!(render_problem(&Problem::new(Code::Internal, "Broken"), false), @r"
        error[internal]: Broken
          see: docs/runbook/internal.md
        ");
    }

    #[test]
    fn control_characters_never_reach_the_terminal() {
        let problem = Problem::new(Code::ToolFailed, "a\x1b[2Jb").detail("c\rd\u{9b}e");
        let text = render_problem(&problem, false);
        assert!(!text.contains(['\x1b', '\r', '\u{9b}']), "{text:?}");
        assert!(render_problem(&problem, true).starts_with("\x1b[1;31merror[tool-failed]"));
    }

    #[test]
    fn what_a_stranger_says_neither_acts_nor_deceives() {
        let shown = visible("a\u{1b}[31m b\u{202e}c \u{e0041}");
        assert_eq!(shown, r"a\u{1b}[31m b\u{202e}c \u{e0041}");
    }
}
