//! `session delete`: a session with its transcript and with the files in its own folder.
//!
//! A folder that stayed would be found by the next session of that name. Folders that the owner
//! shares with sessions are never touched.

use super::DeleteArgs;
use crate::confirm;
use crate::connection::Connection;
use crate::context::Context;
use crate::failure::{Failure, Outcome, file_problem};
use bxcore::code::Code;
use bxcore::problem::Problem;
use serde_json::json;
use std::fs;
use std::io::{self, ErrorKind};
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

/// How many files are counted before it is said that there are many.
const MAX_COUNTED: usize = 10_000;

pub(super) async fn run(
    context: &Context<'_>,
    connection: &Connection,
    args: &DeleteArgs,
) -> Outcome {
    let id = &args.id;
    let folder = context.home.workspaces_dir().join(id.as_str());
    let files = count(&folder);
    let question = format!(
        "Delete {id}, its transcript and {} of its own?",
        told(files)
    );
    if !args.yes && !confirm::firmly(context, &question)? {
        return Err(Failure::Stopped);
    }
    connection
        .loopd
        .delete::<()>(&format!("/v1/sessions/{id}"))
        .await?;
    remove(&folder).map_err(|error| left(&folder, &error))?;
    if context.output.json {
        let value = json!({ "deleted": id, "files": files });
        context.output.answer_json(&value)?;
    } else {
        let text = format!("{id} is deleted, with {} of its own\n", told(files));
        context.output.answer(&text)?;
    }
    Ok(())
}

/// How many files lie below a folder, up to [`MAX_COUNTED`]; a link is one, wherever it leads.
fn count(folder: &Path) -> usize {
    let mut folders = vec![folder.to_owned()];
    let mut files = 0;
    while let Some(folder) = folders.pop() {
        // What can't be looked into is told when it can't be removed either.
        for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
            if entry.file_type().is_ok_and(|kind| kind.is_dir()) {
                folders.push(entry.path());
            } else {
                files += 1;
            }
            if files >= MAX_COUNTED || folders.len() >= MAX_COUNTED {
                return MAX_COUNTED;
            }
        }
    }
    files
}

fn told(files: usize) -> String {
    match files {
        0 => "no files".to_owned(),
        1 => "1 file".to_owned(),
        MAX_COUNTED.. => format!("{MAX_COUNTED} files or more"),
        _ => format!("{files} files"),
    }
}

/// Removes a folder with all that is in it. Links go, what they lead to stays.
fn remove(folder: &Path) -> io::Result<()> {
    let done = match fs::remove_dir_all(folder) {
        // A command may have locked a folder of its own, which is ours all the same.
        Err(error) if error.kind() == ErrorKind::PermissionDenied => {
            unlock(folder)?;
            fs::remove_dir_all(folder)
        }
        done => done,
    };
    match done {
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(()),
        done => done,
    }
}

/// Lets us into every folder below one. Links are not followed.
fn unlock(folder: &Path) -> io::Result<()> {
    let mut folders = vec![folder.to_owned()];
    while let Some(folder) = folders.pop() {
        fs::set_permissions(&folder, fs::Permissions::from_mode(0o700))?;
        for entry in fs::read_dir(&folder)? {
            let entry = entry?;
            if entry.file_type()?.is_dir() {
                folders.push(entry.path());
            }
        }
    }
    Ok(())
}

fn left(folder: &Path, error: &io::Error) -> Problem {
    let title = "The session is deleted, but its files are not";
    file_problem(Code::HomeUnusable, title, folder, error)
        .hint("remove the folder by hand: the next session of that name would find it")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_go_with_their_session_and_links_lead_nowhere() {
        let root = tempfile::tempdir().unwrap();
        let (folder, other) = (root.path().join("chat-1"), root.path().join("other"));
        assert_eq!(count(&folder), 0);
        remove(&folder).unwrap();
        fs::create_dir_all(folder.join("a/b")).unwrap();
        fs::create_dir(&other).unwrap();
        fs::write(other.join("mine"), "x").unwrap();
        fs::write(folder.join("a/b/one"), "x").unwrap();
        std::os::unix::fs::symlink(&other, folder.join("link")).unwrap();
        assert_eq!(told(count(&folder)), "2 files");
        fs::set_permissions(folder.join("a"), fs::Permissions::from_mode(0o000)).unwrap();
        remove(&folder).unwrap();
        assert!(!folder.exists() && other.join("mine").is_file());
    }

    #[test]
    fn a_folder_is_let_into_again_and_what_a_link_leads_to_is_not_touched() {
        let root = tempfile::tempdir().unwrap();
        let (folder, other) = (root.path().join("chat-1"), root.path().join("other"));
        fs::create_dir_all(folder.join("a/b")).unwrap();
        fs::create_dir(&other).unwrap();
        std::os::unix::fs::symlink(&other, folder.join("link")).unwrap();
        let set = |path: &Path, mode| fs::set_permissions(path, fs::Permissions::from_mode(mode));
        let mode = |path: &Path| fs::metadata(path).unwrap().permissions().mode() & 0o777;
        set(&other, 0o500).unwrap();
        set(&folder.join("a/b"), 0o000).unwrap();
        set(&folder.join("a"), 0o100).unwrap();
        unlock(&folder).unwrap();
        assert_eq!(
            (mode(&folder.join("a")), mode(&folder.join("a/b"))),
            (0o700, 0o700)
        );
        assert_eq!(mode(&other), 0o500);
    }
}
