//! How long to wait before a process is started again. Pure.

/// The pause after the first failure, in milliseconds.
pub(crate) const FIRST_PAUSE_MS: u64 = 100;

/// The longest pause, in milliseconds.
pub(crate) const MAX_PAUSE_MS: u64 = 30_000;

/// Who was ready for this long has recovered: the next failure counts as the first, in
/// milliseconds.
pub(crate) const RECOVERED_AFTER_MS: u64 = 30_000;

/// The pause after the given number of failures in a row: doubled each time, up to a limit.
pub(crate) fn pause_ms(failures: u32) -> u64 {
    let doublings = failures.saturating_sub(1);
    let pause = 1_u64
        .checked_shl(doublings)
        .and_then(|factor| FIRST_PAUSE_MS.checked_mul(factor));
    pause.unwrap_or(MAX_PAUSE_MS).min(MAX_PAUSE_MS)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pauses_double_up_to_the_limit() {
        for (failures, pause) in [
            (0, 100),
            (1, 100),
            (2, 200),
            (3, 400),
            (9, 25_600),
            (10, 30_000),
            (64, 30_000),
            (u32::MAX, 30_000),
        ] {
            assert_eq!(pause_ms(failures), pause, "{failures}");
        }
    }
}
