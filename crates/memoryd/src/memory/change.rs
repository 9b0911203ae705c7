//! A session's change of a memory file.

use crate::file::{Asked, Change, EditError, Editor, File, Landing, land};
use crate::folder::{Folder, FolderError};
use bxcore::id::{EntryId, MemoryFile};
use bxcore::label::Label;
use bxcore::wire::memoryd::{MemoryAction, MemoryChange, MemoryChanged};
use jiff::Timestamp;

/// What became of a change within one file.
enum Done {
    Changed(EntryId, Label),
    /// It has to become a note.
    Elsewhere,
    Refused,
}

/// Makes a change, where the session's label lets it be made.
///
/// # Errors
/// There is no such entry, no room, or the session may not; or the file can't be read or written.
pub fn change(
    folder: &Folder,
    asked: &MemoryChange,
    now: Timestamp,
) -> Result<MemoryChanged, FolderError> {
    let by = Editor {
        session: asked.session.clone(),
        call: asked.call,
        label: asked.label,
        now,
    };
    let done = folder.change(&asked.file, |file| within(file, asked, &by))?;
    match done {
        Done::Changed(id, label) => Ok(MemoryChanged {
            file: asked.file.clone(),
            id,
            label,
            as_note: false,
        }),
        Done::Elsewhere => note(folder, asked, &by),
        Done::Refused => Err(FolderError::Untrusted(asked.file.clone())),
    }
}

fn within(file: &mut File, asked: &MemoryChange, by: &Editor) -> Result<Done, EditError> {
    let change = match &asked.action {
        MemoryAction::Add { .. } => Change::Add,
        MemoryAction::Replace { id, .. } => Change::Replace(file.label_of(id)?),
        MemoryAction::Remove { id } => Change::Remove(file.label_of(id)?),
    };
    let landing = land(Asked {
        change,
        file: &asked.file,
        session: by.label,
    });
    match (landing, &asked.action) {
        (Landing::Note, _) => Ok(Done::Elsewhere),
        (Landing::Refused, _) => Ok(Done::Refused),
        (Landing::Here, MemoryAction::Add { text }) => {
            Ok(Done::Changed(file.add(text, by)?, by.label))
        }
        (Landing::Here, MemoryAction::Replace { id, text }) => {
            Ok(Done::Changed(id.clone(), file.replace(id, text, by)?))
        }
        (Landing::Here, MemoryAction::Remove { id }) => {
            let label = file.label_of(id)?;
            file.remove(id)?;
            Ok(Done::Changed(id.clone(), label))
        }
    }
}

/// Keeps as a note what was meant for elsewhere.
fn note(folder: &Folder, asked: &MemoryChange, by: &Editor) -> Result<MemoryChanged, FolderError> {
    let meant = asked.file.file_name();
    let text = match &asked.action {
        MemoryAction::Add { text } => format!("Meant for {meant}: {text}"),
        MemoryAction::Replace { id, text } => {
            format!("Meant for {meant}, in place of {id}: {text}")
        }
        MemoryAction::Remove { .. } => return Err(FolderError::Untrusted(asked.file.clone())),
    };
    let notes = MemoryFile::notes();
    let id = folder.change(&notes, |file| file.add(&text, by))?;
    Ok(MemoryChanged {
        file: notes,
        id,
        label: by.label,
        as_note: true,
    })
}
