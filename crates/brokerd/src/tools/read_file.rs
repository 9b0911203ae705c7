//! `read_file`: a part of a file in the workspace.

use super::output::{Output, ToolError};
use super::place::RelativePath;
use super::registry::{Done, Run};
use super::workspaces::Opened;
use serde::Deserialize;
use serde_json::{Value, json};
use std::fmt::Write as _;
use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom};

pub(super) const DESCRIPTION: &str = "Read a text file in the workspace. Long files come in parts; \
    the end of each part says how to go on.";

/// The most that is read at once, whatever is asked for.
const MAX_READ_BYTES: u64 = 1024 * 1024;
/// What is read if nothing is asked for.
const DEFAULT_READ_BYTES: u64 = 64 * 1024;
/// How many bytes it takes to show one that is no text.
const MAX_SHOWN_PER_BYTE: usize = char::REPLACEMENT_CHARACTER.len_utf8();
/// What the closing line needs of the result's space.
const CLOSING_BYTES: usize = 240;

pub(super) fn parameters() -> Value {
    json!({
        "type": "object",
        "properties": {
            "path": {"type": "string", "description": "Path in the workspace, e.g. notes/a.txt"},
            "offset": {"type": "integer", "minimum": 0, "description": "Byte to start at; default 0"},
            "max_bytes": {"type": "integer", "minimum": 1, "description": "Most bytes to read"}
        },
        "required": ["path"],
        "additionalProperties": false
    })
}

#[derive(Deserialize)]
struct Arguments {
    path: String,
    #[serde(default)]
    offset: u64,
    max_bytes: Option<u64>,
}

pub(super) fn run(run: &Run<'_>) -> Done {
    let nothing_read = run.view.own_root().label;
    let arguments: Arguments = super::output::arguments(run.arguments, nothing_read)?;
    let path = RelativePath::parse(&arguments.path).map_err(|error| (error, nothing_read))?;
    let (root, path) = run.view.resolve(&path);
    let label = root.label;
    let shown = root.shown(&path);
    let (file, bytes) = match root.open(&path).map_err(|error| (error, label))? {
        Opened::File { file, bytes } => (file, bytes),
        Opened::Folder(_) => {
            let is = "a folder; list_dir shows what is in it";
            return Err((ToolError::WrongKind { path: shown, is }, label));
        }
        Opened::Other(is) => return Err((ToolError::WrongKind { path: shown, is }, label)),
    };
    let fits = run.result_bytes.saturating_sub(CLOSING_BYTES).max(1);
    let wanted = arguments
        .max_bytes
        .unwrap_or(DEFAULT_READ_BYTES)
        .min(MAX_READ_BYTES);
    let wanted = wanted.min(fits as u64);
    let mut part = Vec::new();
    if arguments.offset < bytes {
        part = read_part(file, arguments.offset, wanted).map_err(|source| {
            (
                ToolError::System {
                    path: shown,
                    source,
                },
                label,
            )
        })?;
    }
    if String::from_utf8_lossy(&part).len() > fits {
        // Each byte that is no text takes three to show; the closing line must not be cut off.
        part.truncate((fits / MAX_SHOWN_PER_BYTE).max(1));
    }
    Ok(Output::ok(show(&part, arguments.offset, bytes), label))
}

fn read_part(mut file: File, offset: u64, wanted: u64) -> io::Result<Vec<u8>> {
    file.seek(SeekFrom::Start(offset))?;
    let mut part = Vec::new();
    file.take(wanted).read_to_end(&mut part)?;
    Ok(part)
}

/// The part as text, and a closing line unless it is the whole of a file that is all text.
fn show(part: &[u8], offset: u64, file_bytes: u64) -> String {
    let part = without_split_end(part, offset, file_bytes);
    let end = offset.saturating_add(part.len() as u64);
    let mut text = String::from_utf8_lossy(part).into_owned();
    if std::str::from_utf8(part).is_err() {
        text.push_str("\n[not all of it is UTF-8 text; other bytes are shown as \u{fffd}]");
    }
    // Writing to a String can't fail, hence the ignored results.
    if part.is_empty() && offset > 0 {
        let _ = write!(
            text,
            "[nothing at byte {offset}; the file has {file_bytes} bytes]"
        );
    } else if part.is_empty() {
        text.push_str("[the file is empty]");
    } else if end < file_bytes {
        let _ = write!(
            text,
            "\n[bytes {offset} to {end} of {file_bytes}; go on with \"offset\": {end}]"
        );
    } else if offset > 0 {
        let _ = write!(text, "\n[bytes {offset} to {end}, the end of the file]");
    }
    text
}

/// Leaves a character that the part cuts in two to the next part.
fn without_split_end(part: &[u8], offset: u64, file_bytes: u64) -> &[u8] {
    let is_last = offset.saturating_add(part.len() as u64) >= file_bytes;
    match std::str::from_utf8(part) {
        Err(error) if !is_last && error.error_len().is_none() && error.valid_up_to() > 0 => {
            &part[..error.valid_up_to()]
        }
        _ => part,
    }
}

#[cfg(test)]
mod tests {
    use super::show;

    #[test]
    fn parts_join_without_a_split_character() {
        let check = |part: &[u8], offset, total, expect: &str| {
            assert_eq!(show(part, offset, total), expect);
        };
        check(b"all", 0, 3, "all");
        check(b"", 0, 0, "[the file is empty]");
        check(b"", 9, 3, "[nothing at byte 9; the file has 3 bytes]");
        check(
            b"ab",
            0,
            5,
            "ab\n[bytes 0 to 2 of 5; go on with \"offset\": 2]",
        );
        check(
            "aü".as_bytes().split_at(2).0,
            0,
            9,
            "a\n[bytes 0 to 1 of 9; go on with \"offset\": 1]",
        );
        check(b"cd", 3, 5, "cd\n[bytes 3 to 5, the end of the file]");
        check(
            b"a\xffb",
            0,
            3,
            "a\u{fffd}b\n[not all of it is UTF-8 text; other bytes are shown as \u{fffd}]",
        );
        check(
            b"\xc3",
            0,
            1,
            "\u{fffd}\n[not all of it is UTF-8 text; other bytes are shown as \u{fffd}]",
        );
    }
}
