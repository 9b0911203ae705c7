//! `man`: the manual, made from the definition of the command line.

use crate::cli::Cli;
use crate::context::Context;
use crate::failure::{Failure, Outcome, file_problem};
use bxcore::code::Code;
use clap::{Args, CommandFactory};
use std::path::{Path, PathBuf};

/// Options of `man`.
#[derive(Debug, Args)]
pub struct ManArgs {
    /// A folder for the pages of all commands; without one, the main page is printed.
    pub folder: Option<PathBuf>,
}

pub(crate) fn run(context: &Context<'_>, args: &ManArgs) -> Outcome {
    let command = Cli::command().name(context.program);
    match &args.folder {
        None => {
            let mut page = Vec::new();
            clap_mangen::Man::new(command)
                .render(&mut page)
                .map_err(crate::output::Gone::from)?;
            context.output.answer_bytes(&page)?;
        }
        Some(folder) => {
            write_all(command, folder)?;
            context
                .output
                .note(&format!("the pages are in {}", folder.display()));
        }
    }
    Ok(())
}

fn write_all(command: clap::Command, folder: &Path) -> Result<(), Failure> {
    std::fs::create_dir_all(folder)
        .and_then(|()| clap_mangen::generate_to(command, folder))
        .map_err(|error| {
            file_problem(
                Code::BadUsage,
                "The manual can't be written",
                folder,
                &error,
            )
            .into()
        })
}
