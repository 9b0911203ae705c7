//! The last records of a log. Trusts the log: checking it is `verify`'s matter.

use super::error::AuditFault;
use super::find::lines;
use super::segments::segments;
use std::collections::VecDeque;
use std::ops::ControlFlow;
use std::path::Path;

/// The last records, at most `count`, as raw lines in their order.
///
/// # Errors
/// The log can't be read.
pub fn latest(folder: &Path, count: usize) -> Result<Vec<String>, AuditFault> {
    let mut found: VecDeque<String> = VecDeque::new();
    for segment in segments(folder)?.iter().rev() {
        let missing = count.saturating_sub(found.len());
        if missing == 0 {
            break;
        }
        let mut last: VecDeque<String> = VecDeque::new();
        // It never breaks off.
        let _ = lines(segment, &mut |line, _| {
            if last.len() == missing {
                last.pop_front();
            }
            last.push_back(line.to_owned());
            ControlFlow::Continue(())
        })?;
        last.append(&mut found);
        found = last;
    }
    Ok(found.into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_are_found_across_segments() {
        let root = tempfile::tempdir().unwrap();
        let line = |seq: u64| format!("{{\"seq\":{seq},\"kind\":\"config\"}}\n");
        let write = |name: &str, seqs: &[u64]| {
            let text: String = seqs.iter().map(|seq| line(*seq)).collect();
            std::fs::write(root.path().join(name), text).unwrap();
        };
        write("000001.jsonl", &[1, 2, 3]);
        write("000002.jsonl", &[4, 5]);
        for (count, expect) in [
            (0, &[][..]),
            (1, &[5]),
            (2, &[4, 5]),
            (4, &[2, 3, 4, 5]),
            (9, &[1, 2, 3, 4, 5]),
        ] {
            let found: String = latest(root.path(), count)
                .unwrap()
                .iter()
                .flat_map(|line| [line.as_str(), "\n"])
                .collect();
            let expect: String = expect.iter().map(|seq| line(*seq)).collect();
            assert_eq!(found, expect, "{count}");
        }
    }
}
