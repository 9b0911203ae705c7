//! The client as a person meets it.

mod usage;
