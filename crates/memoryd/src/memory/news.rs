//! What has changed in memory since a session was told what it holds. Pure.

use super::baseline::{admitted, baseline, line_of};
use bxcore::id::MemoryFile;
use bxcore::label::Class;
use bxcore::wire::memoryd::{MemoryFileEntries, MemoryNews};
use std::collections::HashSet;
use std::fmt::Write as _;

/// What has changed since `known` was the baseline, line by line.
///
/// An entry that no longer finds room is not gone, and is not told; one that was changed is both new
/// and gone.
pub fn news(
    files: &[MemoryFileEntries],
    class: Class,
    max_bytes: usize,
    known: &str,
) -> MemoryNews {
    let now = baseline(files, class, max_bytes);
    let mut there = String::new();
    for file in files {
        // Writing to a String can't fail.
        let _ = writeln!(there, "# {}", file.file.file_name());
        there.extend(admitted(file, class).into_iter().map(line_of));
    }
    let before: HashSet<_> = lines(known).collect();
    // The baseline too: it may show the beginning of an entry.
    let after: HashSet<_> = lines(&there).chain(lines(&now.text)).collect();
    MemoryNews {
        added: listed(lines(&now.text).filter(|line| !before.contains(line))),
        removed: listed(lines(known).filter(|line| !after.contains(line))),
        now,
    }
}

/// The lines of a baseline, each with the heading that it stands under.
fn lines(text: &str) -> impl Iterator<Item = (&str, &str)> {
    let mut heading = "";
    text.lines().filter_map(move |line| {
        if is_heading(line) {
            heading = line;
            return None;
        }
        (!line.trim().is_empty()).then_some((heading, line))
    })
}

fn is_heading(line: &str) -> bool {
    let name = line.strip_prefix("# ");
    name.is_some_and(|name| MemoryFile::parse(name).is_ok_and(|file| file.file_name() == name))
}

fn listed<'a>(lines: impl Iterator<Item = (&'a str, &'a str)>) -> String {
    let mut text = String::new();
    let mut under = "";
    for (heading, line) in lines {
        if heading != under {
            let _ = writeln!(text, "{heading}");
            under = heading;
        }
        let _ = writeln!(text, "{line}");
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use bxcore::id::EntryId;
    use bxcore::label::Label;
    use bxcore::memory::{MemoryEntry, Writer};

    fn notes(entries: &[(u32, Label, &str)]) -> Vec<MemoryFileEntries> {
        let entry = |(day, label, text): &(u32, Label, &str)| MemoryEntry {
            id: EntryId::new(format!("m{day}")).ok(),
            time: format!("2026-12-{day:02}T00:00:00Z"),
            writer: Some(Writer::Owner),
            label: *label,
            text: (*text).to_owned(),
            trouble: None,
        };
        vec![MemoryFileEntries {
            file: MemoryFile::notes(),
            entries: entries.iter().map(entry).collect(),
        }]
    }

    const OWN: Label = Label::OWNER;

    #[test]
    fn what_is_new_and_what_is_gone_are_told_by_file() {
        let check = |entries: &[(u32, Label, &str)], known: &str, added: &str, removed: &str| {
            let found = news(&notes(entries), Class::Private, 1000, known);
            assert_eq!(
                (found.added.as_str(), found.removed.as_str()),
                (added, removed)
            );
        };
        check(&[], "", "", "");
        check(&[(1, OWN, "a")], "# notes.md\na\n", "", "");
        check(&[(1, OWN, "a")], "", "# notes.md\na\n", "");
        check(&[], "# notes.md\na\n", "", "# notes.md\na\n");
        check(
            &[(1, OWN, "a"), (2, OWN, "c")],
            "# notes.md\na\nb\n",
            "# notes.md\nc\n",
            "# notes.md\nb\n",
        );
        // The same words in another file are not the same.
        check(
            &[(1, OWN, "a")],
            "# identity.md\na\n",
            "# notes.md\na\n",
            "# identity.md\na\n",
        );
    }

    #[test]
    fn nobody_hears_of_what_they_may_not_know() {
        for label in Label::ALL {
            let found = news(&notes(&[(1, label, "a")]), Class::Private, 1000, "");
            let told = !found.added.is_empty();
            assert_eq!(told, label.is_within(OWN), "{label}");
        }
        // What became secret is gone for whoever may not read it.
        let secret = Label::new(Class::Secret, false);
        let found = news(
            &notes(&[(1, secret, "a")]),
            Class::Private,
            1000,
            "# notes.md\na\n",
        );
        assert_eq!(found.removed, "# notes.md\na\n");
    }

    #[test]
    fn what_finds_no_room_is_not_gone() {
        let entries = [(1, OWN, "first"), (2, OWN, "second"), (3, OWN, "third")];
        let room = "# notes.md\nsecond\nthird\n";
        let known = "# notes.md\nfirst\nsecond\n";
        let found = news(&notes(&entries), Class::Private, room.len(), known);
        assert_eq!(found.now.text, room);
        assert_eq!(
            (found.added.as_str(), found.removed.as_str()),
            ("# notes.md\nthird\n", "")
        );
    }
}
