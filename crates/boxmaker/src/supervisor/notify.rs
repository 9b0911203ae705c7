//! What the service manager is told. Where there is none, nothing happens.

use sd_notify::NotifyState;

/// All roles answer.
pub(crate) fn ready() {
    tell(&[
        NotifyState::Ready,
        NotifyState::Status("all roles are ready"),
    ]);
}

/// The end begins.
pub(crate) fn stopping() {
    tell(&[NotifyState::Stopping]);
}

/// One line on how things are.
pub(crate) fn status(text: &str) {
    tell(&[NotifyState::Status(text)]);
}

fn tell(states: &[NotifyState<'_>]) {
    if let Err(error) = sd_notify::notify(states) {
        tracing::debug!(%error, "the service manager can't be told");
    }
}
