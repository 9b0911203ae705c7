//! The day that money is counted for, and that the audit log is signed for.

use jiff::Timestamp;
use jiff::civil::Date;
use jiff::tz::TimeZone;

/// The day of a moment, in coordinated universal time: one all over the world, whatever the box's
/// clock shows to people.
pub fn utc_day(at: Timestamp) -> Date {
    at.to_zoned(TimeZone::UTC).date()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_day_begins_at_midnight_in_utc() {
        let day = |at: &str| utc_day(at.parse().unwrap()).to_string();
        assert_eq!(day("2026-11-30T23:59:59.999Z"), "2026-11-30");
        assert_eq!(day("2026-12-01T00:00:00Z"), "2026-12-01");
        assert_eq!(day("2026-12-01T00:30:00+01:00"), "2026-11-30");
    }
}
