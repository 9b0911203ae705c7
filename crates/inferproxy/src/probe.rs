//! The probe of a backend: whether the cache of a live turn survives a helper, and what the server
//! can hold a model to.

mod collect;
mod run;
mod script;
mod verdict;

pub use run::{PROBE_SESSION, probe};
pub use verdict::{Figures, judge};
