//! What happens meanwhile: a line that moves on a terminal, a few plain lines elsewhere.

use super::sink::Output;
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use std::time::Duration;

/// How often the line moves, in milliseconds.
const TICK_MS: u64 = 120;

/// A line on standard error that tells what is going on. Gone when dropped.
#[derive(Debug)]
pub struct Progress {
    output: Output,
    bar: Option<ProgressBar>,
    said: String,
}

impl Progress {
    /// Nothing is shown until there is something to say.
    pub fn new(output: Output) -> Self {
        Self {
            output,
            bar: None,
            said: String::new(),
        }
    }

    /// Says what goes on, for a terminal only.
    pub fn status(&mut self, text: &str) {
        if !self.output.err_is_terminal || self.output.json {
            return;
        }
        self.bar().set_message(text.to_owned());
    }

    /// Says what goes on, on a terminal in the moving line and elsewhere as a line of its own.
    pub fn say(&mut self, text: &str) {
        if self.output.err_is_terminal && !self.output.json {
            self.status(text);
        } else if !self.output.json && self.said != text {
            text.clone_into(&mut self.said);
            self.output.note(text);
        }
    }

    /// Shows how much of something is done, in bytes, for a terminal only.
    pub fn bytes(&mut self, done: u64, total: u64) {
        if !self.output.err_is_terminal || self.output.json {
            return;
        }
        let bar = self.bar();
        if bar.length() != Some(total) {
            bar.set_length(total);
            bar.set_style(style("{spinner} {msg} [{bar:24}] {bytes}/{total_bytes}"));
        }
        bar.set_position(done);
    }

    /// Writes a line above the moving one.
    pub fn note(&mut self, line: &str) {
        self.aside(|output| output.note(line));
    }

    /// Does something that writes, with the moving line out of the way.
    pub fn aside<T>(&mut self, write: impl FnOnce(&Output) -> T) -> T {
        match &self.bar {
            Some(bar) => bar.suspend(|| write(&self.output)),
            None => write(&self.output),
        }
    }

    /// Takes the moving line away.
    pub fn clear(&mut self) {
        if let Some(bar) = self.bar.take() {
            bar.finish_and_clear();
        }
    }

    fn bar(&mut self) -> &ProgressBar {
        self.bar.get_or_insert_with(|| {
            let bar = ProgressBar::with_draw_target(None, ProgressDrawTarget::stderr());
            bar.set_style(style("{spinner} {wide_msg}"));
            bar.enable_steady_tick(Duration::from_millis(TICK_MS));
            bar
        })
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        self.clear();
    }
}

fn style(template: &str) -> ProgressStyle {
    ProgressStyle::with_template(template).unwrap_or_else(|_| ProgressStyle::default_spinner())
}
