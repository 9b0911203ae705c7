//! How much of a server is listened to.

use std::ops::RangeInclusive;

/// The most servers.
pub const MAX_SERVERS: usize = 16;
/// The most tools of one server.
pub const MAX_TOOLS: usize = 128;
/// The longest description of a tool, in bytes.
pub const MAX_DESCRIPTION_BYTES: usize = 16 * 1024;
/// The longest schema of a tool's arguments, in bytes.
pub const MAX_SCHEMA_BYTES: usize = 32 * 1024;
/// The longest list of tools, in bytes.
pub const MAX_LIST_BYTES: usize = 1024 * 1024;
/// The longest message of a server's, in bytes.
pub const MAX_LINE_BYTES: usize = 4 * 1024 * 1024;
/// The most messages of one connection, whatever they are.
pub const MAX_MESSAGES: usize = 1000;
/// How much of one connection is read, in bytes.
pub(super) const MAX_TOTAL_BYTES: usize = 16 * 1024 * 1024;

/// The least and the most of `start_ms`.
pub(super) const START_MS: RangeInclusive<u64> = 1_000..=120_000;
/// The least and the most of `call_ms`. loopd waits longer than both together for any tool.
pub(super) const CALL_MS: RangeInclusive<u64> = 1_000..=600_000;

/// How much longer than its limits a program may live, in seconds.
pub(super) const GRACE_SECS: u64 = 5;
/// The longest that a server may take from its start to the end of a call, in seconds.
pub const LONGEST_SECS: u64 = (*START_MS.end() + *CALL_MS.end()) / 1000 + GRACE_SECS;

/// How many parts a schema may have, each counted as often as it is referred to.
pub(super) const MAX_SCHEMA_PARTS: usize = 10_000;
/// The most patterns of a schema, each counted as often as it is referred to.
pub(super) const MAX_PATTERNS: usize = 64;
/// The longest pattern, in bytes.
pub(super) const MAX_PATTERN_BYTES: usize = 512;
/// How deep a schema may go, references followed.
pub(super) const MAX_SCHEMA_DEPTH: usize = 64;
/// The most words of a command.
pub(super) const MAX_WORDS: usize = 64;
/// The longest word of a command and value in an environment, in bytes.
pub(super) const MAX_WORD_BYTES: usize = 4096;
/// The most folders of a server.
pub(super) const MAX_FOLDERS: usize = 16;
/// The most values in an environment.
pub(super) const MAX_ENVIRONMENT: usize = 64;
/// How much of a server's own words about its failure is shown, in bytes.
pub(super) const MAX_SAID_BYTES: usize = 500;
