//! `up`: runs in the `boxmaker` executable, which is the supervisor; only its options are here.

use crate::failure::Failure;
use crate::launcher::UpOptions;
use bxcore::code::Code;
use bxcore::problem::Problem;
use clap::Args;

/// After how long with nothing to do a background supervisor leaves, in seconds.
const IDLE_SECS: u64 = 600;

/// Options of `up`.
#[derive(Debug, Args)]
pub struct UpArgs {
    /// Show what the roles say.
    #[arg(short, long)]
    pub verbose: bool,
    /// Leave when nothing happened for a while (how `ask` and `chat` start it).
    #[arg(long, hide = true)]
    pub background: bool,
    /// After how many seconds to leave.
    #[arg(long, hide = true, default_value_t = IDLE_SECS)]
    pub idle_seconds: u64,
}

impl UpArgs {
    pub(crate) fn options(&self) -> UpOptions {
        UpOptions {
            background: self.background,
            idle_seconds: self.idle_seconds,
            verbose: self.verbose,
        }
    }
}

/// What a mere client says to `up`.
pub(crate) fn only_boxmaker() -> Failure {
    Problem::new(
        Code::BadUsage,
        "`up` is a command of the `boxmaker` executable",
    )
    .detail("bxctl is the client alone: it can't be the roles")
    .hint("boxmaker up")
    .into()
}
