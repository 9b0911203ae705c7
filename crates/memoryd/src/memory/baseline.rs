//! What a session's epoch begins with: trusted entries up to a class. Pure but for reading.

use bxcore::label::Class;
use bxcore::memory::MemoryEntry;
use bxcore::text::{cap, neutralise};
use bxcore::wire::memoryd::{MemoryBaseline, MemoryFileEntries};

/// How long the text may be where the owner says nothing else, in bytes: about a thousand tokens,
/// which every request of every session carries.
pub const DEFAULT_BASELINE_BYTES: usize = 4 * 1024;

/// What stands behind an entry that is not shown whole.
const CUT: &str = " […]";

/// The trusted entries up to a class as one text, file by file.
///
/// The identity comes first and whole, as far as it fits; of every other file the newest entries find
/// room first, and are shown in the order of the file.
pub fn baseline(files: &[MemoryFileEntries], class: Class, max_bytes: usize) -> MemoryBaseline {
    let mut room = max_bytes;
    let mut left_out = 0;
    let mut text = String::new();
    for file in files {
        let entries = admitted(file, class);
        if entries.is_empty() {
            continue;
        }
        let heading = format!("# {}\n", file.file.file_name());
        let is_identity = file.file == bxcore::id::MemoryFile::identity();
        let Some(left) = room.checked_sub(heading.len()) else {
            left_out += entries.len();
            continue;
        };
        let shown = choose(&entries, is_identity, left);
        left_out += entries.len() - shown.len();
        if shown.is_empty() {
            continue;
        }
        text.push_str(&heading);
        for line in shown {
            text.push_str(&line);
        }
        room = max_bytes.saturating_sub(text.len());
    }
    MemoryBaseline {
        text,
        left_out: u32::try_from(left_out).unwrap_or(u32::MAX),
    }
}

/// The trusted entries of a file up to a class.
pub(super) fn admitted(file: &MemoryFileEntries, class: Class) -> Vec<&MemoryEntry> {
    let fits = |entry: &&MemoryEntry| {
        !entry.label.untrusted && entry.label.class <= class && !entry.text.trim().is_empty()
    };
    file.entries.iter().filter(fits).collect()
}

/// An entry as it is shown. Files are edited by hand, and a prompt has markers of its own.
pub(super) fn line_of(entry: &MemoryEntry) -> String {
    format!("{}\n", neutralise(entry.text.trim()))
}

/// The entries that find room, in the order of the file.
fn choose(entries: &[&MemoryEntry], is_identity: bool, room: usize) -> Vec<String> {
    let mut order: Vec<usize> = (0..entries.len()).collect();
    if !is_identity {
        order.sort_by(|a, b| entries[*b].time.cmp(&entries[*a].time).then(b.cmp(a)));
    }
    let mut left = room;
    let mut chosen: Vec<(usize, String)> = Vec::new();
    for at in order {
        let line = shown(entries[at], left, is_identity && chosen.is_empty());
        let Some(line) = line else { break };
        left -= line.len();
        chosen.push((at, line));
    }
    chosen.sort_by_key(|(at, _)| *at);
    chosen.into_iter().map(|(_, line)| line).collect()
}

/// An entry as it is shown, if it fits; its beginning, where it `must`.
fn shown(entry: &MemoryEntry, room: usize, must: bool) -> Option<String> {
    let line = line_of(entry);
    if line.len() <= room {
        return Some(line);
    }
    let kept = room
        .checked_sub(CUT.len() + 1)
        .filter(|kept| must && *kept > 0)?;
    Some(format!("{}{CUT}\n", cap(&line, kept)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use bxcore::id::{EntryId, MemoryFile};
    use bxcore::label::Label;
    use bxcore::memory::Writer;
    use proptest::prelude::*;

    fn entry(day: u32, label: Label, text: &str) -> MemoryEntry {
        MemoryEntry {
            id: EntryId::new(format!("m{day}")).ok(),
            time: format!("2026-12-{day:02}T00:00:00Z"),
            writer: Some(Writer::Owner),
            label,
            text: text.to_owned(),
            trouble: None,
        }
    }

    fn file(name: MemoryFile, entries: Vec<MemoryEntry>) -> MemoryFileEntries {
        MemoryFileEntries {
            file: name,
            entries,
        }
    }

    #[test]
    fn only_what_is_trusted_and_not_above_the_class_is_in_it() {
        for class in Class::ALL {
            let entries = Label::ALL.map(|label| entry(1, label, &format!("({label})")));
            let files = [file(MemoryFile::notes(), entries.to_vec())];
            let found = baseline(&files, class, 10_000);
            for label in Label::ALL {
                let is_in = found.text.contains(&format!("({label})\n"));
                assert_eq!(
                    is_in,
                    label.is_within(Label::new(class, false)),
                    "{class} {label}"
                );
            }
            assert_eq!(found.left_out, 0);
        }
    }

    #[test]
    fn the_newest_find_room_and_stand_in_their_order() {
        let notes = (1..=9)
            .map(|day| entry(day, Label::OWNER, &format!("day {day}")))
            .collect();
        let files = [
            file(
                MemoryFile::identity(),
                vec![entry(1, Label::OWNER, "I am Ada.")],
            ),
            file(MemoryFile::notes(), notes),
        ];
        let found = baseline(&files, Class::Private, 56);
        assert_eq!(
            found.text,
            "# identity.md\nI am Ada.\n# notes.md\nday 7\nday 8\nday 9\n"
        );
        assert_eq!(found.left_out, 6);
        assert_eq!(baseline(&[], Class::Secret, 100).text, "");
    }

    #[test]
    fn a_long_identity_is_cut_and_says_so() {
        let files = [file(
            MemoryFile::identity(),
            vec![entry(1, Label::OWNER, &"ä".repeat(100))],
        )];
        let found = baseline(&files, Class::Private, 40);
        assert_eq!(found.text, "# identity.md\näääääääää […]\n");
    }

    proptest! {
        #[test]
        fn no_text_is_longer_than_it_may_be(
            texts in prop::collection::vec("[aä<| ]{0,40}", 0..12),
            identity in prop::collection::vec("[aä<| ]{0,80}", 0..3),
            max in 0_usize..400,
        ) {
            let entries = |texts: &[String]| texts.iter().map(|text| entry(1, Label::OWNER, text)).collect();
            let files = [
                file(MemoryFile::identity(), entries(&identity)),
                file(MemoryFile::notes(), entries(&texts)),
            ];
            prop_assert!(baseline(&files, Class::Private, max).text.len() <= max);
        }
    }
}
