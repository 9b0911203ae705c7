//! How a scripted answer breaks off: cuts, stalls, and frames cut anywhere. Pure, as `plan` is.

use super::plan::{Step, sent};
use super::reply::Ending;

/// Applies the scripted ending: a cut or a stall at a place in the body.
pub(super) fn end(steps: Vec<Step>, ending: &Ending) -> Vec<Step> {
    match ending {
        Ending::Whole => steps,
        Ending::CutAfterBytes(bytes) => cut_after_bytes(steps, *bytes),
        Ending::CutAfterChunks(chunks) => {
            let at = after_chunks(&steps, *chunks);
            cut_at(steps.into_iter().take(at))
        }
        Ending::StallAfterChunks(chunks, gate) => {
            let at = after_chunks(&steps, *chunks);
            let stop = gate.clone().map_or(Step::Stall, Step::Gate);
            let mut steps = steps;
            steps.insert(at, stop);
            steps
        }
    }
}

/// The place right after so many chunks, not counting those that only report progress.
fn after_chunks(steps: &[Step], chunks: usize) -> usize {
    let start = steps
        .iter()
        .position(|step| matches!(step, Step::Generate))
        .unwrap_or(0);
    let is_chunk = |(_, step): &(usize, &Step)| matches!(step, Step::Bytes { .. });
    let mut places = steps
        .iter()
        .enumerate()
        .skip(start)
        .filter(is_chunk)
        .map(|(at, _)| at);
    if let Some(last) = chunks.checked_sub(1) {
        return places.nth(last).map_or(steps.len(), |at| at + 1);
    }
    let settles = steps.iter().position(|step| matches!(step, Step::Settle));
    places
        .next()
        .into_iter()
        .chain(settles)
        .min()
        .unwrap_or(steps.len())
}

fn cut_after_bytes(steps: Vec<Step>, limit: usize) -> Vec<Step> {
    let mut left = limit;
    let mut kept = Vec::new();
    for step in steps {
        match step {
            Step::Bytes { bytes, .. } if bytes.len() > left => {
                kept.push(sent(bytes.slice(..left), 0));
                break;
            }
            Step::Bytes { bytes, grown } => {
                left -= bytes.len();
                kept.push(Step::Bytes { bytes, grown });
            }
            other => kept.push(other),
        }
    }
    cut_at(kept)
}

/// What is cut is never complete, even when only the end of the stream is missing.
fn cut_at(steps: impl IntoIterator<Item = Step>) -> Vec<Step> {
    let unsettled = steps
        .into_iter()
        .filter(|step| !matches!(step, Step::Settle));
    unsettled.chain([Step::Cut]).collect()
}

pub(super) fn split(step: Step, size: usize) -> Vec<Step> {
    let Step::Bytes { bytes, grown } = step else {
        return vec![step];
    };
    let piece = |from: usize| bytes.slice(from..(from + size).min(bytes.len()));
    let pieces = (0..bytes.len()).step_by(size).map(piece);
    pieces
        .enumerate()
        .map(|(at, bytes)| sent(bytes, if at == 0 { grown } else { 0 }))
        .collect()
}
