//! How much a command may use of the box.

/// The longest that a command may run, in seconds.
pub const MAX_COMMAND_SECS: u64 = 600;
/// The longest that a program may run that is talked with, in seconds.
pub const MAX_SERVICE_SECS: u64 = 750;
/// How long it may take until a command runs, in seconds: bubblewrap and the stage.
pub const STARTING_SECS: u64 = 30;
/// How long the processes of a sandbox may take to be gone once they are killed, in seconds.
pub(super) const KILLING_SECS: u64 = 10;

/// How much longer than its command a run may take from end to end, in seconds.
pub const COMMAND_OVERHEAD_SECS: u64 = STARTING_SECS + 3 * KILLING_SECS;

/// The most processes and threads at once. The kernel keeps to it, except for the user root.
pub const MAX_PROCESSES: u64 = 256;
/// The most memory of all processes together; one process may have as much data.
pub const MAX_MEMORY_BYTES: u64 = 2 * 1024 * 1024 * 1024;
/// The longest file that may be written.
pub const MAX_FILE_BYTES: u64 = 256 * 1024 * 1024;
/// The most open files of one process.
pub(super) const MAX_DESCRIPTORS: u64 = 1024;
/// The size of `/tmp`.
pub(super) const TMP_BYTES: u64 = 256 * 1024 * 1024;
/// The sizes of the home folder and of `/dev/shm`.
pub(super) const SMALL_TMP_BYTES: u64 = 64 * 1024 * 1024;
/// The niceness of a command, the lowest priority there is.
pub(super) const NICENESS: i32 = 19;
/// The niceness of launcher and stage where they run as root, whose processes only the stage
/// counts: it must have its turn among any number of them.
pub(super) const ROOT_NICENESS: i32 = -10;

/// The most output that a command may give before it is ended.
pub const MAX_OUTPUT_BYTES: u64 = 64 * 1024 * 1024;
/// The most of it that is kept, whatever is asked for.
pub(super) const MAX_KEPT_BYTES: usize = 1024 * 1024;

/// How much is kept of what a program says beside its output, in bytes.
pub(super) const SERVICE_KEEP_BYTES: usize = 2 * 1024;

/// The longest message between the processes; a command is part of one.
pub(super) const MAX_MESSAGE_BYTES: u64 = 8 * 1024 * 1024;
/// How many sandboxes the launcher runs at once.
pub(super) const MAX_SANDBOXES: usize = 16;
