//! The hours of a day in which no heartbeat begins.

use bxkit::config::InvalidValue;
use jiff::civil::Time;
use jiff::{Span, Timestamp, Zoned};

/// From one time of day to another; over midnight where the second is the earlier one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Quiet {
    from: Time,
    to: Time,
}

impl Quiet {
    /// Reads `"22:00-07:00"`.
    pub(super) fn parse(text: &str) -> Result<Self, InvalidValue> {
        let wrong = || {
            let why = format!("`{text}` is no span of two different times of day");
            InvalidValue::new("", why).hint("write it like \"22:00-07:00\"")
        };
        let time = |text: &str| Time::strptime("%H:%M", text.trim()).ok();
        let (from, to) = text.split_once('-').ok_or_else(wrong)?;
        match (time(from), time(to)) {
            (Some(from), Some(to)) if from != to => Ok(Self { from, to }),
            _ => Err(wrong()),
        }
    }

    /// The same time, or the end of the quiet hours where it is within them.
    pub(super) fn past(&self, at: &Zoned) -> Timestamp {
        let time = at.time();
        let days = match (self.from < self.to, time >= self.from, time < self.to) {
            // Within one day, and over midnight.
            (true, true, true) | (false, _, true) => 0,
            (false, true, false) => 1,
            _ => return at.timestamp(),
        };
        let end = at
            .date()
            .checked_add(Span::new().days(days))
            .and_then(|date| date.to_datetime(self.to).to_zoned(at.time_zone().clone()));
        // The end of time is not reached by adding a day; the time itself does then.
        end.map_or_else(
            |_| at.timestamp(),
            |end| end.timestamp().max(at.timestamp()),
        )
    }
}
