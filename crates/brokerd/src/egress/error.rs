//! Why there is no answer.

use std::io;

/// Why there is no answer. None of these says anything that the other side wrote.
#[derive(Debug, thiserror::Error)]
pub enum EgressError {
    /// The name leads nowhere.
    #[error("the host `{host}` can't be found")]
    Dns {
        /// The name.
        host: String,
        /// What the system said.
        source: io::Error,
    },
    /// The name leads to where it must not.
    #[error("the host `{host}` leads to {leads_to}, which is not allowed")]
    Refused {
        /// The name.
        host: String,
        /// Where it leads.
        leads_to: String,
    },
    /// No connection.
    #[error("no connection to `{host}`")]
    Connect {
        /// Where to.
        host: String,
        /// What the system said.
        source: io::Error,
    },
    /// The other side can't show that it is who it should be, or speaks no TLS.
    #[error("`{host}` could not be trusted")]
    Tls {
        /// Where to.
        host: String,
        /// What is wrong.
        source: io::Error,
    },
    /// The connection broke before or while the request went out.
    #[error("the connection broke before there was an answer")]
    Broken(#[source] hyper::Error),
    /// The answer broke off.
    #[error("the answer was cut off")]
    CutOff(#[source] hyper::Error),
    /// The answer is too long.
    #[error("the answer is longer than {max_bytes} bytes")]
    TooLong {
        /// The limit.
        max_bytes: usize,
    },
    /// It took too long.
    #[error("there was no whole answer within {timeout_ms} ms")]
    TimedOut {
        /// The limit.
        timeout_ms: u64,
        /// Whether the request may have gone out by then.
        sent: bool,
    },
    /// It went silent.
    #[error("it went silent for {silent_ms} ms in the middle of its answer")]
    Stalled {
        /// How long it was allowed to be silent.
        silent_ms: u64,
    },
    /// The request can't be written as HTTP: a fault of the program.
    #[error("the request can't be written")]
    Request(#[source] axum::http::Error),
}

impl EgressError {
    /// The class, as it is told to a model and counted.
    pub const fn class(&self) -> &'static str {
        match self {
            Self::Dns { .. } => "dns",
            Self::Refused { .. } => "address-refused",
            Self::Connect { .. } => "unreachable",
            Self::Tls { .. } => "tls",
            Self::Broken(_) => "connection-broken",
            Self::CutOff(_) => "cut-off",
            Self::TooLong { .. } => "too-long",
            Self::TimedOut { .. } => "timeout",
            Self::Stalled { .. } => "stalled",
            Self::Request(_) => "request",
        }
    }

    /// Whether a byte of the request may have left.
    pub const fn may_have_been_sent(&self) -> bool {
        match self {
            Self::Dns { .. }
            | Self::Refused { .. }
            | Self::Connect { .. }
            | Self::Tls { .. }
            | Self::Request(_) => false,
            Self::Broken(_) | Self::CutOff(_) | Self::TooLong { .. } | Self::Stalled { .. } => true,
            Self::TimedOut { sent, .. } => *sent,
        }
    }
}
