//! `completions`: what a shell needs to complete our words.

use crate::cli::Cli;
use crate::context::Context;
use crate::failure::Outcome;
use clap::{Args, CommandFactory};
use clap_complete::Shell;

/// Options of `completions`.
#[derive(Debug, Args)]
pub struct CompletionsArgs {
    /// The shell.
    pub shell: Shell,
}

pub(crate) fn run(context: &Context<'_>, args: &CompletionsArgs) -> Outcome {
    let mut script = Vec::new();
    clap_complete::generate(
        args.shell,
        &mut Cli::command(),
        context.program,
        &mut script,
    );
    context.output.answer_bytes(&script)?;
    Ok(())
}
