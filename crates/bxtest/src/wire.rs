//! Reads a wire dump (one request body a line, as sent) and checks it with the server's own checker.

use bytes::Bytes;
use std::path::Path;

use crate::contract::{Breach, Breaches, Checker, Link, Rules};

/// The bodies of a dump, in the order sent. A missing file is an empty dump.
///
/// # Panics
/// When the file can't be read, or its last line is torn: the proxy writes whole lines.
pub fn read(path: &Path) -> Vec<Bytes> {
    let bytes = match std::fs::read(path) {
        Ok(bytes) => Bytes::from(bytes),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Vec::new(),
        Err(error) => panic!("wire dump {}: {error}", path.display()),
    };
    assert!(
        bytes.is_empty() || bytes.ends_with(b"\n"),
        "{}: torn last line",
        path.display()
    );
    bytes
        .split(|byte| *byte == b'\n')
        .filter(|line| !line.is_empty())
        .map(|line| bytes.slice_ref(line))
        .collect()
}

/// What a dump looks like to the checker.
#[derive(Debug)]
pub struct Report {
    /// How each request hangs together with those before it; `None` where the contract is broken.
    pub links: Vec<Option<Link>>,
    /// Everything that is wrong.
    pub breaches: Vec<Breach>,
}

impl Report {
    /// Bytes of messages that were sent for the first time, over all requests.
    pub fn appended_bytes(&self) -> usize {
        self.links
            .iter()
            .flatten()
            .map(|link| link.appended_bytes)
            .sum()
    }

    /// How many conversations (or epochs) the dump holds.
    pub fn conversations(&self) -> usize {
        self.links
            .iter()
            .flatten()
            .map(|link| link.conversation + 1)
            .max()
            .unwrap_or(0)
    }
}

/// Checks bodies in the order in which they were sent.
pub fn check(bodies: &[Bytes], rules: Rules) -> Report {
    let mut checker = Checker::new(rules);
    let mut report = Report {
        links: Vec::new(),
        breaches: Vec::new(),
    };
    for (seq, body) in bodies.iter().enumerate() {
        let observation = checker.observe(seq, body.clone());
        report.links.push(observation.link);
        report.breaches.extend(observation.breaches);
    }
    report
}

/// Reads and checks a dump.
///
/// # Panics
/// When the dump is empty or breaks any rule.
pub fn assert_clean(path: &Path, rules: Rules) -> Report {
    let bodies = read(path);
    assert!(!bodies.is_empty(), "wire dump {} is empty", path.display());
    let report = check(&bodies, rules);
    assert!(
        report.breaches.is_empty(),
        "{}:\n{}",
        path.display(),
        Breaches(&report.breaches)
    );
    report
}
