//! Questions that a person answers with yes or no.

use crate::context::Context;
use crate::failure::Failure;
use bxcore::code::Code;
use bxcore::problem::Problem;
use std::io::{BufRead, IsTerminal, Read};

/// The longest reply that is read, in bytes.
const MAX_REPLY_BYTES: u64 = 64;

/// Asks for a plain yes: anything else is a no.
///
/// # Errors
/// There is no terminal to ask on.
pub(crate) fn firmly(context: &Context<'_>, question: &str) -> Result<bool, Failure> {
    match reply(context, &format!("{question} [y/N] ")) {
        Some(reply) => Ok(matches!(reply.as_str(), "y" | "yes")),
        None => Err(
            Problem::new(Code::BadUsage, "There is nobody to ask for a confirmation")
                .hint("say so with --yes")
                .into(),
        ),
    }
}

/// Asks where an empty reply is a yes; none without a terminal to ask on.
pub(crate) fn gladly(context: &Context<'_>, question: &str) -> Option<bool> {
    let reply = reply(context, &format!("{question} [Y/n] "))?;
    Some(matches!(reply.as_str(), "" | "y" | "yes"))
}

/// What the person types, in lower case; `no` where they close the input.
fn reply(context: &Context<'_>, question: &str) -> Option<String> {
    let input = std::io::stdin();
    if !input.is_terminal() || !context.output.err_is_terminal {
        return None;
    }
    context.output.note_raw(question);
    // What was typed before the question was seen is no answer to it.
    let _ = rustix::termios::tcflush(&input, rustix::termios::QueueSelector::IFlush);
    let mut reply = String::new();
    match input.lock().take(MAX_REPLY_BYTES).read_line(&mut reply) {
        Ok(length) if length > 0 => Some(reply.trim().to_lowercase()),
        _ => Some("no".to_owned()),
    }
}
