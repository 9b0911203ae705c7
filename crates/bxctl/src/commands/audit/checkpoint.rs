//! `audit checkpoint`, and reading what it wrote.

use crate::context::Context;
use crate::failure::{Outcome, file_problem};
use crate::ready::ensure_up;
use bxcore::audit::Checkpoint;
use bxcore::code::Code;
use bxcore::problem::Problem;
use bxkit::audit_reader::{CHECKPOINT_FILE, last_checkpoint, read_checkpoint};
use bxkit::fsx::read_regular;
use serde_json::json;
use std::path::Path;

/// The largest file that is read as a checkpoint, in bytes.
const MAX_FILE_BYTES: u64 = 1024 * 1024;

/// Prints a new checkpoint: one line of JSON, whatever the output is.
pub(super) async fn make(context: &Context<'_>) -> Outcome {
    let connection = ensure_up(context).await?;
    let signed: Checkpoint = connection
        .brokerd
        .post("/v1/audit/checkpoint", &json!({}))
        .await?;
    let line = serde_json::to_string(&signed).map_err(|error| {
        Problem::new(Code::Internal, "The checkpoint can't be written").detail(error.to_string())
    })?;
    context.output.answer(&format!("{line}\n"))?;
    Ok(())
}

/// Reads a checkpoint's file and checks its signature.
pub(super) fn read(path: &Path) -> Result<Checkpoint, Problem> {
    let wrong = |why: String| {
        Problem::new(
            Code::BadUsage,
            "This is not a checkpoint that can be trusted",
        )
        .detail(format!("{}: {why}", path.display()))
        .hint("name the file that `boxmaker audit checkpoint > FILE` wrote, unchanged")
    };
    let text = read_regular(path, MAX_FILE_BYTES).map_err(|error| wrong(error.to_string()))?;
    let text = String::from_utf8(text).map_err(|error| wrong(error.to_string()))?;
    read_checkpoint(&text).map_err(|error| wrong(error.to_string()))
}

/// The last checkpoint of a log, if there is one.
pub(super) fn own(folder: &Path) -> Result<Option<Checkpoint>, Problem> {
    last_checkpoint(folder).map_err(|error| {
        let path = folder.join(CHECKPOINT_FILE);
        let title = "The log's own checkpoints can't be read";
        file_problem(Code::AuditUnavailable, title, &path, &error)
    })
}

/// Whether the log's own checkpoints are by the same key: another key is another log's, or a log
/// that somebody wrote anew.
pub(super) fn same_key(own: Option<&Checkpoint>, signed: &Checkpoint) -> Result<(), Problem> {
    match own {
        Some(own) if own.key != signed.key => Err(Problem::new(
            Code::AuditChainBroken,
            "The log signs with another key than the checkpoint's",
        )
        .detail("the record of the checkpoint is in the log; its key is not the log's")
        .hint("after a restore without `audit/checkpoint.key` that is so, and the record is what counts")),
        // A backup may lack them; the record itself was found.
        _ => Ok(()),
    }
}
