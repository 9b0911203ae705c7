//! Tables for damaged files.
