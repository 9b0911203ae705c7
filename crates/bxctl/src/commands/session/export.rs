//! `session export`: the transcript as it is, byte for byte.

use super::ExportArgs;
use crate::connection::Connection;
use crate::context::Context;
use crate::failure::{Failure, Outcome, file_problem};
use bxcore::code::Code;
use bxcore::id::SessionId;
use bxcore::problem::Problem;
use bxkit::rpc::RawResponse;
use std::fs::{File, OpenOptions};
use std::io::{ErrorKind, Write};
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
    let failed = |error: &std::io::Error| not_written(path, error);
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

fn not_written(path: &Path, error: &std::io::Error) -> Problem {
    if error.kind() == ErrorKind::AlreadyExists {
        return Problem::new(Code::BadUsage, "The file is there already")
            .detail(path.display().to_string())
            .hint("name another file, or move that one away");
    }
    let title = "The transcript can't be written";
    file_problem(Code::BadUsage, title, path, error)
        .hint("name a file in a folder that you may write to")
}

/// A new file for the owner alone; one that is there is not overwritten.
fn create(path: &Path) -> std::io::Result<File> {
    OpenOptions::new()
        .write(true)
        .create_new(true)
        .mode(0o600)
        .open(path)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_that_is_there_is_kept_and_named() {
        let root = tempfile::tempdir().unwrap();
        let path = root.path().join("out.jsonl");
        create(&path).unwrap();
        let problem = not_written(&path, &create(&path).unwrap_err());
        assert_eq!(problem.code, Code::BadUsage);
        assert_eq!(problem.title, "The file is there already");
        assert!(problem.hint.is_some());
        let nowhere = root.path().join("none/out.jsonl");
        let problem = not_written(&nowhere, &create(&nowhere).unwrap_err());
        assert_eq!(problem.title, "The transcript can't be written");
    }
}
