//! One executable for every role: dispatch, supervisor, first run, starter engine.
