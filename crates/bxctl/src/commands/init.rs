//! `init`: commented configuration files, where there are none.

use crate::context::Context;
use crate::failure::{Failure, Outcome, file_problem};
use crate::init::template;
use bxcore::code::Code;
use bxcore::role::Role;
use clap::Args;
use serde_json::json;
use std::path::Path;

/// Options of `init`.
#[derive(Debug, Args)]
pub struct InitArgs {}

pub(crate) fn run(context: &Context<'_>, _: &InitArgs) -> Outcome {
    context.home.create().map_err(|error| error.problem())?;
    let mut written = Vec::new();
    let mut kept = Vec::new();
    for role in Role::ALL {
        let path = context.home.config_file(role);
        let name = path.display().to_string();
        if path.symlink_metadata().is_ok() {
            kept.push(name);
        } else {
            write(&path, template(role))?;
            written.push(name);
        }
    }
    if context.output.json {
        context
            .output
            .answer_json(&json!({ "written": written, "kept": kept }))?;
        return Ok(());
    }
    for name in &written {
        context.output.answer(&format!("written  {name}\n"))?;
    }
    for name in &kept {
        context
            .output
            .answer(&format!("kept     {name} (it was there already)\n"))?;
    }
    if !written.is_empty() {
        context
            .output
            .note("Everything in what was written is a comment: without a change nothing changes.");
    }
    Ok(())
}

fn write(path: &Path, text: &str) -> Result<(), Failure> {
    bxkit::fsx::write_atomic(path, text.as_bytes(), 0o600).map_err(|error| {
        file_problem(
            Code::HomeUnusable,
            "A configuration file can't be written",
            path,
            &error,
        )
        .into()
    })
}
