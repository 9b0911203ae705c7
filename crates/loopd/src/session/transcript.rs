//! A transcript as bytes: lines are written, and read back with everything that must hold checked.

use bxcore::id::SessionId;
use bxcore::transcript::{Entry, Line, LineError, parse_line};
use std::fmt;

/// Writes one line, with its line end.
///
/// `None` if it can't be: the entry's raw JSON holds a line end of its own, which would cut it in
/// two.
pub fn encode(line: &Line) -> Option<String> {
    let mut text = serde_json::to_string(line).ok()?;
    if text.contains('\n') {
        return None;
    }
    text.push('\n');
    Some(text)
}

/// The first place from which a transcript can't be read on.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Fault {
    /// The line, from 1.
    pub line: u64,
    /// What is wrong with it.
    pub why: String,
    /// Whether it looks like a write that was cut short: the last line, and no entry at all.
    pub torn: bool,
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "line {}: {}", self.line, self.why)
    }
}

/// How far a transcript can be read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Scan {
    /// How many entries are sound, from the first.
    pub entries: u64,
    /// How many bytes they take, line ends included.
    pub good_bytes: usize,
    /// Whether the last of them lacks its line end.
    pub unended: bool,
    /// What comes after them, if not the end.
    pub fault: Option<Fault>,
}

/// Reads a transcript from the start, handing each sound line to `each`, until its end or the first
/// line that is none.
///
/// Sound means: one entry a line, in a version that is known, numbered 1, 2, 3 …, the first and
/// only the first an `open` of this session.
pub fn scan(session: &SessionId, bytes: &[u8], mut each: impl FnMut(Line)) -> Scan {
    let mut scan = Scan {
        entries: 0,
        good_bytes: 0,
        unended: false,
        fault: None,
    };
    // Every pass takes at least one byte off the rest.
    while let Some(rest) = bytes.get(scan.good_bytes..).filter(|rest| !rest.is_empty()) {
        let length = rest.iter().position(|byte| *byte == b'\n');
        let text = &rest[..length.unwrap_or(rest.len())];
        match sound_line(session, scan.entries + 1, text) {
            Ok(line) => each(line),
            Err((why, is_entry)) => {
                let last = length.is_none_or(|length| length + 1 == rest.len());
                scan.fault = Some(Fault {
                    line: scan.entries + 1,
                    why,
                    torn: last && !is_entry,
                });
                return scan;
            }
        }
        scan.entries += 1;
        scan.unended = length.is_none();
        scan.good_bytes += length.map_or(text.len(), |length| length + 1);
    }
    scan
}

/// Reads a whole transcript.
///
/// # Errors
/// The first line that is not sound; see [`scan`].
pub fn read(session: &SessionId, bytes: &[u8]) -> Result<Vec<Line>, Fault> {
    let mut lines = Vec::new();
    match scan(session, bytes, |line| lines.push(line)).fault {
        None => Ok(lines),
        Some(fault) => Err(fault),
    }
}

/// The line, or why it is not sound and whether it is an entry all the same.
fn sound_line(session: &SessionId, n: u64, text: &[u8]) -> Result<Line, (String, bool)> {
    let text = std::str::from_utf8(text).map_err(|error| (error.to_string(), false))?;
    let line = parse_line(text).map_err(|error| {
        let is_entry = matches!(error, LineError::TooNew(_));
        (error.to_string(), is_entry)
    })?;
    if line.n != n {
        return Err((format!("has the number {} instead of {n}", line.n), true));
    }
    match &line.entry {
        Entry::Open(open) if n == 1 && open.session == *session => Ok(line),
        Entry::Open(open) if n == 1 => {
            Err((format!("belongs to session `{}`", open.session), true))
        }
        Entry::Open(_) => Err(("opens the session a second time".to_owned(), true)),
        _ if n == 1 => Err(("does not open the session".to_owned(), true)),
        _ => Ok(line),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use bxcore::label::Label;
    use bxcore::transcript::{Open, TRANSCRIPT_VERSION, TurnEnd, TurnOutcome};

    fn id() -> SessionId {
        SessionId::new("chat-1").unwrap()
    }

    fn line(n: u64, entry: Entry) -> String {
        encode(&Line {
            v: TRANSCRIPT_VERSION,
            n,
            ts: "2026-11-30T18:05:00.000Z".into(),
            entry,
        })
        .unwrap()
    }

    fn open(name: &str) -> Entry {
        Entry::Open(Open {
            session: SessionId::new(name).unwrap(),
            parent: None,
            lineage: None,
            label: Label::OWNER,
        })
    }

    fn end() -> Entry {
        Entry::TurnEnd(TurnEnd {
            turn: bxcore::id::TurnId(1),
            outcome: TurnOutcome::Completed,
            code: None,
            detail: None,
            label: Label::OWNER,
            usage: bxcore::usage::Usage::default(),
            cost: bxcore::money::MicroUsd::ZERO,
        })
    }

    #[test]
    fn a_sound_transcript_is_read_whole() {
        let text = line(1, open("chat-1")) + &line(2, end()) + &line(3, end());
        assert_eq!(read(&id(), text.as_bytes()).unwrap().len(), 3);
        assert!(read(&id(), b"").unwrap().is_empty());
    }

    #[test]
    fn faults_are_told_apart() {
        let first = line(1, open("chat-1"));
        let second = line(2, end());
        let check = |tail: &[u8], torn: bool, says: &str| {
            let bytes = [first.as_bytes(), tail].concat();
            let mut seen = 0;
            let scan = scan(&id(), &bytes, |_| seen += 1);
            let fault = scan.fault.unwrap();
            assert_eq!((seen, scan.good_bytes), (1, first.len()));
            assert_eq!((fault.line, fault.torn), (2, torn), "{fault}");
            assert!(fault.to_string().contains(says), "{fault}");
        };
        check(&second.as_bytes()[..20], true, "not a transcript entry");
        check(b"\0\0\0\0", true, "not a transcript entry");
        check(b"{}\n", true, "missing field");
        check(b"\xff\n", true, "utf-8");
        check(b"\n", true, "EOF");
        check(
            format!("nonsense\n{second}").as_bytes(),
            false,
            "not a transcript entry",
        );
        check(line(3, end()).as_bytes(), false, "number 3 instead of 2");
        check(line(2, open("chat-1")).as_bytes(), false, "second time");
        check(b"{\"v\":9,\"n\":2}\n", false, "version 9");
    }

    #[test]
    fn the_first_line_opens_this_session() {
        let other = read(&id(), line(1, open("chat-2")).as_bytes()).unwrap_err();
        assert!(other.why.contains("belongs to session `chat-2`") && !other.torn);
        let none = read(&id(), line(1, end()).as_bytes()).unwrap_err();
        assert!(none.why.contains("does not open"));
    }

    #[test]
    fn a_last_line_that_only_lacks_its_end_counts() {
        let text = line(1, open("chat-1")) + line(2, end()).trim_end();
        let scan = scan(&id(), text.as_bytes(), |_| ());
        assert_eq!((scan.entries, scan.unended, scan.fault), (2, true, None));
        assert_eq!(scan.good_bytes, text.len());
    }

    #[test]
    fn raw_json_with_a_line_end_is_not_written() {
        let message = serde_json::from_str("{\"role\":\n\"user\"}").unwrap();
        let entry = Entry::User(bxcore::transcript::User {
            turn: bxcore::id::TurnId(1),
            label: Label::OWNER,
            memory: None,
            message,
        });
        let line = Line {
            v: TRANSCRIPT_VERSION,
            n: 1,
            ts: String::new(),
            entry,
        };
        assert_eq!(encode(&line), None);
    }
}
