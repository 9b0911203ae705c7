//! The start and the end of an output of any length. Pure.

use std::collections::VecDeque;

/// Keeps the first and the last bytes of what it is given.
#[derive(Debug)]
pub(super) struct Capture {
    half_bytes: usize,
    head: Vec<u8>,
    tail: VecDeque<u8>,
    total_bytes: u64,
}

impl Capture {
    /// Keeps so many bytes, half at each end.
    pub(super) fn new(keep_bytes: usize) -> Self {
        Self {
            half_bytes: keep_bytes / 2,
            head: Vec::new(),
            tail: VecDeque::new(),
            total_bytes: 0,
        }
    }

    pub(super) fn add(&mut self, bytes: &[u8]) {
        self.total_bytes += bytes.len() as u64;
        let room = self.half_bytes - self.head.len();
        let (first, rest) = bytes.split_at(room.min(bytes.len()));
        self.head.extend_from_slice(first);
        let rest = &rest[rest.len().saturating_sub(self.half_bytes)..];
        let too_many = (self.tail.len() + rest.len()).saturating_sub(self.half_bytes);
        self.tail.drain(..too_many);
        self.tail.extend(rest);
    }

    /// How much it was given.
    pub(super) fn total_bytes(&self) -> u64 {
        self.total_bytes
    }

    /// The start and the end; together they are all of it, if it was not more.
    pub(super) fn parts(self) -> (Vec<u8>, Vec<u8>) {
        (self.head, self.tail.into())
    }
}

#[cfg(test)]
mod tests {
    use super::Capture;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn both_ends_are_kept_however_they_come(
            pieces in prop::collection::vec(prop::collection::vec(any::<u8>(), 0..40), 0..20),
            half in 0_usize..50,
        ) {
            let whole: Vec<u8> = pieces.concat();
            let mut capture = Capture::new(half * 2);
            for piece in &pieces {
                capture.add(piece);
            }
            prop_assert_eq!(capture.total_bytes(), whole.len() as u64);
            let (head, tail) = capture.parts();
            let split = whole.len().min(half);
            prop_assert_eq!(&head, &whole[..split]);
            let rest = &whole[split..];
            prop_assert_eq!(&tail, &rest[rest.len().saturating_sub(half)..]);
        }
    }
}
