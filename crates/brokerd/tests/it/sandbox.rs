//! Commands in a real sandbox: what they can do, what they can't, and that nothing is left.

mod acts;
mod ends;
mod place;
mod programs;

pub(crate) use ends::wait_gone;
