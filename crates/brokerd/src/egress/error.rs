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

    /// What lies behind it, for the owner's log: the system's words and ours, and none that the
    /// other side wrote.
    pub fn cause(&self) -> Option<String> {
        match self {
            Self::Dns { source, .. } | Self::Connect { source, .. } => Some(source.to_string()),
            Self::Tls { source, .. } => Some(tls_cause(source)),
            _ => None,
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

/// What TLS has against the other side. Its certificate's names are its own words.
fn tls_cause(error: &io::Error) -> String {
    let inner = error.get_ref().and_then(|inner| inner.downcast_ref());
    match inner {
        Some(rustls::Error::InvalidCertificate(fault)) => certificate_cause(fault).to_owned(),
        Some(rustls::Error::AlertReceived(alert)) => format!("it ended the handshake: {alert:?}"),
        Some(_) => "what it speaks is no TLS that we accept".to_owned(),
        // Something of the connection's, in the system's words.
        None => error.kind().to_string(),
    }
}

fn certificate_cause(fault: &rustls::CertificateError) -> &'static str {
    use rustls::CertificateError as Fault;
    match fault {
        Fault::UnknownIssuer => "its certificate is by an authority that is not trusted here",
        Fault::NotValidForName | Fault::NotValidForNameContext { .. } => {
            "its certificate is for another name"
        }
        Fault::Expired | Fault::ExpiredContext { .. } => {
            "its certificate has expired; or this machine's clock is wrong"
        }
        Fault::NotValidYet | Fault::NotValidYetContext { .. } => {
            "its certificate is not valid yet; or this machine's clock is wrong"
        }
        Fault::Revoked => "its certificate was revoked",
        _ => "its certificate does not hold",
    }
}
