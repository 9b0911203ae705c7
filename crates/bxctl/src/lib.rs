//! The command line, as a library and as the bxctl executable.
