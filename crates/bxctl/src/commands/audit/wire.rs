//! `audit diff`: what is on record against what went over the wire.

use super::{DiffArgs, record_of};
use crate::context::Context;
use crate::failure::{Failure, Outcome, file_problem};
use bxcore::code::Code;
use bxcore::problem::Problem;
use bxkit::exit;
use bxkit::fsx::read_regular;
use serde_json::json;
use std::borrow::Cow;
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
    let differs_at = first_difference(recorded.as_bytes(), &body);
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
    read_regular(path, MAX_WIRE_BYTES).map_err(failed)
}

/// The body of a captured request; a capture that begins with no request line is the body. One in
/// chunks, as a proxy may pass it on, is put together.
fn body_of(wire: &[u8]) -> Cow<'_, [u8]> {
    let line = wire.split(|byte| *byte == b'\n').next().unwrap_or_default();
    let is_request = line.ends_with(b" HTTP/1.1\r");
    let end = wire.windows(HEAD_END.len()).position(|at| at == HEAD_END);
    let Some(end) = end.filter(|_| is_request) else {
        return Cow::Borrowed(wire);
    };
    let body = &wire[end + HEAD_END.len()..];
    let whole = is_chunked(&wire[..end]).then(|| put_together(body));
    whole.flatten().map_or(Cow::Borrowed(body), Cow::Owned)
}

fn is_chunked(head: &[u8]) -> bool {
    head.split(|byte| *byte == b'\n').any(|line| {
        let line = line.to_ascii_lowercase();
        let coding = line.strip_prefix(b"transfer-encoding:");
        coding.is_some_and(|coding| coding.trim_ascii().ends_with(b"chunked"))
    })
}

/// The chunks of a body (RFC 9112, section 7.1) as one; none where these are not whole, or where
/// more than a trailer follows.
fn put_together(mut rest: &[u8]) -> Option<Vec<u8>> {
    let mut body = Vec::new();
    loop {
        let end = rest.windows(2).position(|at| at == b"\r\n")?;
        let line = std::str::from_utf8(&rest[..end]).ok()?;
        let size = line.split(';').next().unwrap_or_default().trim();
        let size = usize::from_str_radix(size, 16).ok()?;
        rest = &rest[end + 2..];
        if size == 0 {
            return rest.ends_with(b"\r\n").then_some(body);
        }
        body.extend_from_slice(rest.get(..size)?);
        rest = rest.get(size..)?.strip_prefix(b"\r\n")?;
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
        let check = |wire: &[u8], expect: &[u8]| {
            let shown = String::from_utf8_lossy(wire).into_owned();
            assert_eq!(*body_of(wire), *expect, "{shown}");
        };
        check(b"POST / HTTP/1.1\r\na: b\r\n\r\n{}\r\n\r\n", b"{}\r\n\r\n");
        for body in [
            &b"{\"a\":1}"[..],
            b"{}\r\n\r\n{}",
            b"POST / HTTP/1.1\r\na: b\r\n",
        ] {
            check(body, body);
        }
        let chunked = |chunks: &str| {
            let head = "POST / HTTP/1.1\r\nTransfer-Encoding: Chunked\r\n\r\n";
            format!("{head}{chunks}").into_bytes()
        };
        check(
            &chunked("2\r\n{\"\r\nA;x=y\r\n0123456789\r\n0\r\n\r\n"),
            b"{\"0123456789",
        );
        check(&chunked("0\r\na: trailer\r\n\r\n"), b"");
        // What is not whole is compared as it is.
        for chunks in [
            "2\r\n{}",
            "2\r\n{}\r\n",
            "x\r\n{}\r\n0\r\n\r\n",
            "ffffffffffffffff\r\n",
        ] {
            check(&chunked(chunks), chunks.as_bytes());
        }
    }

    #[test]
    fn the_first_difference_is_found() {
        assert_eq!(first_difference(b"abc", b"abc"), None);
        assert_eq!(first_difference(b"abc", b"abd"), Some(2));
        assert_eq!(first_difference(b"abc", b"ab"), Some(2));
        assert_eq!(first_difference(b"", b"a"), Some(0));
    }
}
