//! `audit diff`: what is on record against what went over the wire.

use super::{DiffArgs, record_of};
use crate::context::Context;
use crate::failure::{Failure, Outcome, file_problem};
use bxcore::code::Code;
use bxcore::problem::Problem;
use bxkit::exit;
use serde_json::json;
use std::path::Path;

/// The largest capture that is read, in bytes.
const MAX_WIRE_BYTES: u64 = 256 * 1024 * 1024;
/// What stands between the head of a request and its body.
const HEAD_END: &[u8] = b"\r\n\r\n";

/// Compares; ends with an exit code of its own where they differ.
pub(super) async fn diff(context: &Context<'_>, args: &DiffArgs) -> Outcome {
    let wire = captured(&args.wire)?;
    let record = record_of(context, args.seq).await?;
    let Some(recorded) = record["body"].as_str() else {
        let title = format!("Record {} holds no bytes to compare", args.seq);
        return Err(Failure::new(Code::BadUsage, title));
    };
    let body = body_of(&wire);
    let differs_at = first_difference(recorded.as_bytes(), body);
    if context.output.json {
        context.output.answer_json(&json!({
            "seq": args.seq,
            "equal": differs_at.is_none(),
            "recorded_bytes": recorded.len(),
            "wire_bytes": body.len(),
            "differs_at": differs_at,
        }))?;
    } else {
        let (seq, recorded, wire) = (args.seq, recorded.len(), body.len());
        context.output.answer(&match differs_at {
            None => format!("equal: record {seq} and the wire have the same {wire} bytes\n"),
            Some(at) => format!(
                "different from byte {at} on: record {seq} has {recorded} bytes, the wire {wire}\n"
            ),
        })?;
    }
    match differs_at {
        None => Ok(()),
        Some(_) => Err(Failure::Said(exit::FAILED)),
    }
}

fn captured(path: &Path) -> Result<Vec<u8>, Problem> {
    let failed = |error| {
        file_problem(
            Code::BadUsage,
            "The captured request can't be read",
            path,
            &error,
        )
    };
    let length = std::fs::metadata(path).map_err(failed)?.len();
    if length > MAX_WIRE_BYTES {
        let title = "The captured request is too large to be one of ours";
        return Err(Problem::new(Code::TooLarge, title));
    }
    std::fs::read(path).map_err(failed)
}

/// The body of a captured request; a capture that begins with no request line is the body.
fn body_of(wire: &[u8]) -> &[u8] {
    let line = wire.split(|byte| *byte == b'\n').next().unwrap_or_default();
    let is_request = line.ends_with(b" HTTP/1.1\r");
    let end = wire.windows(HEAD_END.len()).position(|at| at == HEAD_END);
    match end {
        Some(end) if is_request => &wire[end + HEAD_END.len()..],
        _ => wire,
    }
}

/// The first byte in which two differ, the end of the shorter included.
fn first_difference(a: &[u8], b: &[u8]) -> Option<usize> {
    let differs = a.iter().zip(b).position(|(a, b)| a != b);
    differs.or_else(|| (a.len() != b.len()).then(|| a.len().min(b.len())))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_body_is_what_follows_a_head() {
        assert_eq!(
            body_of(b"POST / HTTP/1.1\r\na: b\r\n\r\n{}\r\n\r\n"),
            b"{}\r\n\r\n"
        );
        assert_eq!(body_of(b"{\"a\":1}"), b"{\"a\":1}");
        assert_eq!(body_of(b"{}\r\n\r\n{}"), b"{}\r\n\r\n{}");
        assert_eq!(
            body_of(b"POST / HTTP/1.1\r\na: b\r\n"),
            b"POST / HTTP/1.1\r\na: b\r\n"
        );
    }

    #[test]
    fn the_first_difference_is_found() {
        assert_eq!(first_difference(b"abc", b"abc"), None);
        assert_eq!(first_difference(b"abc", b"abd"), Some(2));
        assert_eq!(first_difference(b"abc", b"ab"), Some(2));
        assert_eq!(first_difference(b"", b"a"), Some(0));
    }
}
