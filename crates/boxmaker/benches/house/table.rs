//! Tables as they are printed, and the figures in them.

use std::time::Duration;

/// Prints a heading and rows of what, how much, and a remark.
pub(crate) fn print(heading: &str, rows: &[(String, String, String)]) {
    println!("\n{heading}");
    let widest = |column: fn(&(String, String, String)) -> &String| {
        rows.iter()
            .map(|row| column(row).chars().count())
            .max()
            .unwrap_or(0)
    };
    let (first, second) = (widest(|row| &row.0), widest(|row| &row.1));
    for (what, figure, remark) in rows {
        println!("  {what:<first$}  {figure:>second$}  {remark}");
    }
}

/// One row.
pub(crate) fn row(
    what: impl Into<String>,
    figure: impl Into<String>,
    remark: impl Into<String>,
) -> (String, String, String) {
    (what.into(), figure.into(), remark.into())
}

/// Milliseconds with two places.
pub(crate) fn ms(time: Duration) -> String {
    format!("{:.2} ms", time.as_secs_f64() * 1e3)
}

/// What some times are where nothing else disturbs: a tenth of them are shorter. Other work on the
/// machine only ever adds.
pub(crate) fn undisturbed(times: &mut [Duration]) -> Duration {
    times.sort_unstable();
    times[times.len() / 10]
}
