//! What memoryd does for those who call it.
