//! Runbook codes: a stable name for everything that can go wrong in front of a person.
//!
//! Each code has a page `docs/runbook/<code>.md`; a test pairs the two lists.

use serde::{Deserialize, Serialize};
use std::fmt;

macro_rules! codes {
    ($($(#[$doc:meta])* $variant:ident = $text:literal, $status:literal;)*) => {
        /// A stable name for one kind of failure, shown to people and programs alike.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
        pub enum Code {
            $($(#[$doc])* #[serde(rename = $text)] $variant,)*
        }

        impl Code {
            /// Every code there is.
            pub const ALL: &'static [Self] = &[$(Self::$variant),*];

            /// The code as it is written in messages and as the name of its runbook page.
            pub const fn as_str(self) -> &'static str {
                match self { $(Self::$variant => $text,)* }
            }

            /// The HTTP status that answers carry with this code.
            pub const fn status(self) -> u16 {
                match self { $(Self::$variant => $status,)* }
            }
        }
    };
}

codes! {
    // Decisions of brokerd: the closed list of reasons.
    /// No grant of the owner lets this tool run.
    NoGrant = "no-grant", 403;
    /// The tool, or what it needs, is not configured here.
    NotConfigured = "not-configured", 409;
    /// The arguments do not fit the tool's schema.
    InvalidArguments = "invalid-arguments", 422;
    /// A guardrail of the session or of an ancestor forbids it.
    DeniedByGuardrail = "denied-by-guardrail", 403;
    /// The session's class is above what the grant admits.
    TaintTooHigh = "taint-too-high", 403;
    /// The session has read untrusted data.
    UntrustedSession = "untrusted-session", 403;
    /// A stored secret is part of what would be sent.
    SecretInPayload = "secret-in-payload", 403;
    /// Something among the stored secrets can't be read, so that nothing may be sent.
    SecretUnreadable = "secret-unreadable", 403;
    /// A limit of the budget tree is reached.
    BudgetExhausted = "budget-exhausted", 402;
    /// The owner denied it.
    ApprovalDenied = "approval-denied", 403;
    /// Nobody answered in time.
    ApprovalExpired = "approval-expired", 403;
    /// There is nobody who could be asked.
    ApprovalUnroutable = "approval-unroutable", 403;
    /// The audit log can't be written, so nothing may run.
    AuditUnavailable = "audit-unavailable", 503;
    /// No tool has this name, or the session may not see it.
    UnknownTool = "unknown-tool", 404;

    // Tools.
    /// Nobody is configured whom `consult` could ask.
    ConsultNotConfigured = "consult-not-configured", 409;
    /// The secret that `[consult]` names is missing, or others could have read it.
    ConsultSecretUnreadable = "consult-secret-unreadable", 500;
    /// A consultation got no answer; the result names the class of the failure.
    ConsultFailed = "consult-failed", 502;
    /// The secret that a `[provider.NAME]` names is missing, or others could have read it.
    ProviderSecretUnreadable = "provider-secret-unreadable", 500;
    /// A provider did not take a model call: nothing was charged.
    ProviderRefused = "provider-refused", 502;
    /// A provider took a model call and gave no whole answer: it may be charged for.
    ProviderFailed = "provider-failed", 502;
    /// A tool ran and failed.
    ToolFailed = "tool-failed", 500;
    /// A path leads out of the session's workspace.
    PathOutsideWorkspace = "path-outside-workspace", 422;
    /// A page may not be fetched: its address, or one that it sends on to, is not allowed.
    FetchRefused = "fetch-refused", 403;
    /// A page may be fetched, and there was none that could be read.
    FetchFailed = "fetch-failed", 502;
    /// The owner has not trusted this tool of an MCP server, or it is not what was trusted.
    McpNotTrusted = "mcp-not-trusted", 403;
    /// An MCP server can't be started or reached, or does not keep to the protocol.
    McpFailed = "mcp-failed", 502;
    /// It is unknown whether the call took effect before a crash; it was not repeated.
    Interrupted = "interrupted", 409;

    // Inference.
    /// No model server is configured or found.
    NoBackend = "no-backend", 503;
    /// The named backend is not configured.
    BackendUnknown = "backend-unknown", 404;
    /// The model server can't be reached.
    BackendUnreachable = "backend-unreachable", 503;
    /// The model server is still loading its model.
    BackendLoading = "backend-loading", 503;
    /// The configured slot does not exist on the server.
    BackendSlotMissing = "backend-slot-missing", 409;
    /// The model server answered with an error.
    BackendError = "backend-error", 502;
    /// The model server sent something that is not a chat completion.
    BackendGarbled = "backend-garbled", 502;
    /// The model server went silent.
    BackendStalled = "backend-stalled", 504;
    /// The answer stopped before it was complete.
    BackendCutOff = "backend-cut-off", 502;
    /// The model server limits how often it may be asked.
    BackendBusy = "backend-busy", 429;
    /// The server's slots share one cache, so a helper wipes its parent's.
    BackendCacheShared = "backend-cache-shared", 409;
    /// A request named no slot, or one that its caller doesn't own.
    SlotNotOwned = "slot-not-owned", 403;
    /// The slot is still serving, or draining, another request.
    SlotBusy = "slot-busy", 409;
    /// A field towards the model server is not allowed, or out of its range.
    FieldNotAllowed = "field-not-allowed", 422;

    // Sessions and turns.
    /// No session has this id.
    SessionUnknown = "session-unknown", 404;
    /// The id breaks the rule for session ids.
    SessionIdInvalid = "session-id-invalid", 422;
    /// A helper's name would be too long; its call ends with `invalid-arguments`, which names this.
    SubagentId = "subagent-id", 400;
    /// Another turn holds the session.
    SessionHeld = "session-held", 409;
    /// The session's transcript can't be read.
    TranscriptBroken = "transcript-broken", 500;
    /// The conversation no longer fits the model's context.
    ContextFull = "context-full", 409;
    /// A summary of the conversation is empty, or longer than what it sums up.
    SummaryUnusable = "summary-unusable", 502;
    /// The model answered nothing.
    EmptyAnswer = "empty-answer", 502;
    /// The turn was stopped.
    Stopped = "stopped", 409;
    /// The limit on tool rounds ended the turn without an answer.
    IterationsExhausted = "iterations-exhausted", 409;

    // Memory.
    /// A memory file can't be read as one: a link, a pipe, too long, not text.
    MemoryFileUnusable = "memory-file-unusable", 409;
    /// A memory file was changed by somebody else in the middle of a write.
    MemoryChanged = "memory-changed", 409;
    /// A memory file has no entry of this id.
    MemoryEntryUnknown = "memory-entry-unknown", 404;
    /// A memory entry, a memory file or the memory folder has reached its limit.
    MemoryFull = "memory-full", 413;

    // The box.
    /// A configuration file is wrong.
    ConfigInvalid = "config-invalid", 500;
    /// The home folder can't be used.
    HomeUnusable = "home-unusable", 500;
    /// Another supervisor holds this home.
    HomeHeld = "home-held", 409;
    /// No space is left on the disk.
    DiskFull = "disk-full", 507;
    /// A state database can't be used.
    StateBroken = "state-broken", 500;
    /// The chain of the audit log does not hold.
    AuditChainBroken = "audit-chain-broken", 500;
    /// A needed role does not answer.
    RoleUnreachable = "role-unreachable", 503;
    /// Who calls can't be shown to be allowed to.
    NotAuthorised = "not-authorised", 401;
    /// The request is not what this address takes.
    BadRequest = "bad-request", 400;
    /// What was typed can't be done as it stands.
    BadUsage = "bad-usage", 422;
    /// There is nothing at this address.
    NotFound = "not-found", 404;
    /// What was sent is larger than the limit.
    TooLarge = "too-large", 413;
    /// The starter engine could not be set up.
    StarterFailed = "starter-failed", 500;
    /// A sandbox for tools can't be built on this machine.
    SandboxUnavailable = "sandbox-unavailable", 503;
    /// A fault in Boxmaker itself.
    Internal = "internal", 500;
}

impl fmt::Display for Code {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl Code {
    /// Reads a code as it is written in messages.
    pub fn parse(text: &str) -> Option<Self> {
        Self::ALL.iter().copied().find(|code| code.as_str() == text)
    }
}
