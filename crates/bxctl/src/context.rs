//! What every command is given.

use crate::launcher::Launcher;
use crate::output::{Output, Progress};
use crate::turn::Looks;
use bxkit::home::Home;

/// What every command is given.
#[derive(Clone, Copy)]
pub(crate) struct Context<'a> {
    /// The name of the executable, as the person typed it.
    pub(crate) program: &'static str,
    /// Where everything is.
    pub(crate) home: &'a Home,
    /// Where words go.
    pub(crate) output: Output,
    /// What only the full executable can do.
    pub(crate) launcher: Option<&'a dyn Launcher>,
}

impl Context<'_> {
    /// A progress line.
    pub(crate) fn progress(&self) -> Progress {
        Progress::new(self.output)
    }

    /// How answers are shown.
    pub(crate) fn looks(&self) -> Looks {
        Looks {
            live: self.output.out_is_terminal,
            paint_out: self.output.paint_out,
            paint_err: self.output.paint_err,
            columns: self.output.columns,
        }
    }
}
