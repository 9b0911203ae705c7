//! `session export`: the transcript as it is, byte for byte.

use super::ExportArgs;
use crate::connection::Connection;
use crate::context::Context;
use crate::failure::{Failure, Outcome, file_problem};
use bxcore::code::Code;
use bxcore::id::SessionId;
use bxkit::rpc::RawResponse;
use std::fs::{File, OpenOptions};
use std::io::Write;
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

pub(super) async fn run(
    context: &Context<'_>,
    connection: &Connection,
    args: &ExportArgs,
) -> Outcome {
    let mut log = transcript(connection, &args.id).await?;
    let Some(path) = &args.file else {
        while let Some(piece) = log.body.chunk().await {
            context.output.answer_bytes(&piece?)?;
        }
        return Ok(());
    };
    let failed = |error: &std::io::Error| {
        file_problem(
            Code::BadRequest,
            "The transcript can't be written",
            path,
            error,
        )
    };
    let mut file = create(path).map_err(|error| failed(&error))?;
    while let Some(piece) = log.body.chunk().await {
        file.write_all(&piece?).map_err(|error| failed(&error))?;
    }
    file.sync_all().map_err(|error| failed(&error))?;
    context
        .output
        .note(&format!("{} is in {}", args.id, path.display()));
    Ok(())
}

/// A session's transcript, as it arrives.
pub(super) async fn transcript(
    connection: &Connection,
    id: &SessionId,
) -> Result<RawResponse, Failure> {
    Ok(connection
        .loopd
        .get_raw(&format!("/v1/sessions/{id}/log"))
        .await?)
}

/// A new file for the owner alone; one that is there is not overwritten.
fn create(path: &Path) -> std::io::Result<File> {
    OpenOptions::new()
        .write(true)
        .create_new(true)
        .mode(0o600)
        .open(path)
}
