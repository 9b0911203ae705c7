//! What the owner approves: a call bound to eight things, and the text that shows it.
//!
//! Pure. Where approvals are kept is in [`crate::ledger`]; when they are asked for, used and void
//! is in [`crate::broker`].

mod binding;
mod render;
mod settings;
mod webhook;

pub use binding::Binding;
pub use render::{MAX_SHOWN_BYTES, render};
pub use settings::Settings;
pub use webhook::{WEBHOOK, Webhook, WebhookError, WebhookSettings, notification, unusable};

/// The most approvals that wait at once; further calls are denied.
pub const MAX_PENDING: usize = 256;
