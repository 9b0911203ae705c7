//! What a line that was typed means. Pure.

/// The commands, for a person.
pub(super) const HELP: &str = "\
/session  the session's name, for `boxmaker chat --session`
/label    the session's label: what it has read, and whether a stranger may have written it
/help     this
/quit     leaves (so does Ctrl-D)
Ctrl-C stops the turn under way, and a second one leaves.";

/// What a line means.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Said<'a> {
    /// Nothing.
    Nothing,
    /// A message for the model.
    Message(&'a str),
    /// `/help`.
    Help,
    /// `/session`.
    Session,
    /// `/label`.
    Label,
    /// `/quit`.
    Quit,
    /// Something that looks like a command and is none.
    Unknown(&'a str),
}

/// Tells commands from messages.
///
/// A path such as `/etc/hosts` is a message: a command is one word of letters.
pub(super) fn understand(line: &str) -> Said<'_> {
    let line = line.trim();
    let is_command = line
        .strip_prefix('/')
        .is_some_and(|word| !word.is_empty() && word.bytes().all(|byte| byte.is_ascii_lowercase()));
    match line {
        "" => Said::Nothing,
        "/help" => Said::Help,
        "/session" => Said::Session,
        "/label" => Said::Label,
        "/quit" | "/exit" => Said::Quit,
        word if is_command => Said::Unknown(word),
        message => Said::Message(message),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn commands_are_told_from_messages() {
        for (line, expect) in [
            ("", Said::Nothing),
            ("  \t", Said::Nothing),
            (" /help ", Said::Help),
            ("/quit", Said::Quit),
            ("/lable", Said::Unknown("/lable")),
            ("/", Said::Message("/")),
            (
                "/etc/hosts what is it",
                Said::Message("/etc/hosts what is it"),
            ),
            ("/help me", Said::Message("/help me")),
            ("hello", Said::Message("hello")),
        ] {
            assert_eq!(understand(line), expect, "{line}");
        }
    }
}
