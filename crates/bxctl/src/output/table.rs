//! Lists for a person, and figures in them. Pure.

use super::sanitize::one_line;
use super::style::{Paint, Style};
use bxcore::money::MicroUsd;
use comfy_table::ContentArrangement;
use comfy_table::presets::NOTHING;

/// The longest cell, in characters.
const MAX_CELL_CHARS: usize = 100;

/// A table without borders, as wide as its content.
#[derive(Debug)]
pub struct Table {
    inner: comfy_table::Table,
}

impl Table {
    /// A table with these column heads.
    pub fn new(heads: &[&str], paint: Paint) -> Self {
        let mut inner = comfy_table::Table::new();
        inner
            .load_style(NOTHING)
            .set_content_arrangement(ContentArrangement::Disabled);
        inner.force_no_tty();
        inner.set_header(heads.iter().map(|head| paint.paint(Style::Dim, head)));
        Self { inner }
    }

    /// Adds a row. Its text may come from anywhere: it is made safe and cut to a line.
    pub fn row<'a>(&mut self, cells: impl IntoIterator<Item = &'a str>) {
        self.inner
            .add_row(cells.into_iter().map(|cell| one_line(cell, MAX_CELL_CHARS)));
    }

    /// The table's lines, each ending in a line feed.
    pub fn render(mut self) -> String {
        for column in self.inner.column_iter_mut() {
            column.set_padding((0, 2));
        }
        self.inner
            .lines()
            .fold(String::new(), |text, line| text + line.trim_end() + "\n")
    }
}

/// An amount of dollars, with cents at the least and no zeros at its end beyond.
pub fn dollars(amount: MicroUsd) -> String {
    let text = amount.to_string();
    let (whole, places) = text.split_once('.').unwrap_or((&text, ""));
    let (cents, rest) = places.split_at_checked(2).unwrap_or((places, ""));
    format!("${whole}.{cents}{}", rest.trim_end_matches('0'))
}

/// A time span from milliseconds, to the two units that matter.
pub fn duration(ms: u64) -> String {
    let seconds = ms / 1000;
    match seconds {
        0 => format!("{ms} ms"),
        1..60 => format!("{seconds} s"),
        60..3600 => format!("{} min {} s", seconds / 60, seconds % 60),
        3600..86400 => format!("{} h {} min", seconds / 3600, seconds % 3600 / 60),
        _ => format!("{} d {} h", seconds / 86400, seconds % 86400 / 3600),
    }
}

/// A size in bytes, in the largest unit that leaves a whole number before the point.
pub fn bytes(count: u64) -> String {
    const STEP: u64 = 1024;
    if count < STEP {
        return format!("{count} B");
    }
    let mut unit_bytes = STEP;
    let mut units = ["KiB", "MiB", "GiB", "TiB"].iter();
    let mut unit = units.next();
    while count / unit_bytes >= STEP {
        match units.next() {
            Some(next) => unit = Some(next),
            None => break,
        }
        unit_bytes *= STEP;
    }
    let tenths = count.saturating_mul(10) / unit_bytes;
    format!(
        "{}.{} {}",
        tenths / 10,
        tenths % 10,
        unit.copied().unwrap_or("KiB")
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_line_up() {
        let mut table = Table::new(&["session", "label"], Paint::Plain);
        table.row(["chat-1", "private"]);
        table.row(["a-longer-one", "secret,\x1b[2J untrusted"]);
        insta::assert_snapshot!(table.render(), @"
        session       label
        chat-1        private
        a-longer-one  secret, untrusted
        ");
    }

    #[test]
    fn figures_are_short() {
        let spans = [
            (0, "0 ms"),
            (999, "999 ms"),
            (61_000, "1 min 1 s"),
            (7_260_000, "2 h 1 min"),
            (90_000_000, "1 d 1 h"),
        ];
        for (micros, text) in [
            (0, "$0.00"),
            (5_000_000, "$5.00"),
            (6_600, "$0.0066"),
            (1_234_567_890_123, "$1234567.890123"),
        ] {
            assert_eq!(dollars(MicroUsd::from_micros(micros).unwrap()), text);
        }
        for (ms, text) in spans {
            assert_eq!(duration(ms), text);
        }
        for (count, text) in [
            (0, "0 B"),
            (1023, "1023 B"),
            (1536, "1.5 KiB"),
            (127 << 20, "127.0 MiB"),
            (u64::MAX, "1677721.5 TiB"),
        ] {
            assert_eq!(bytes(count), text);
        }
    }
}
