//! Pages of the public web: which addresses may be asked for, where they lead, and what a page
//! says. Whoever fetches brings the connection; all that is asked is one GET for each address.

mod fetcher;
mod html;
mod page;
mod reach;
mod redirect;

pub use fetcher::{DESCRIPTION, Fetcher, TIMEOUT_MS, is_for_fetch, parameters, url_of};
pub use html::text_of;
pub use page::{Limits, Page, fetch};
pub use reach::{Addresses, Dialer, Resolver, SystemResolver, look_up};
pub use redirect::{MAX_REDIRECTS, Trail};

pub use crate::egress::{MAX_URL_BYTES, Target, UrlError};

use crate::egress::EgressError;
use bxcore::code::Code;

/// The tool's name.
pub const HTTP_FETCH: &str = "http_fetch";

/// Why a page is not fetched, or can't be. None of these repeats what the other side wrote.
#[derive(Debug, thiserror::Error)]
pub enum FetchError {
    /// It is no address that may be fetched.
    #[error(transparent)]
    Url(#[from] UrlError),
    /// The grant does not admit the host.
    #[error("the grant does not admit the host `{0}`")]
    Host(String),
    /// The port is neither of the web's nor granted.
    #[error("port {0} is not granted")]
    Port(u16),
    /// The host is not on the public network, or not on it alone.
    #[error("the host `{0}` leads to an address that is not of the public network")]
    NotPublic(String),
    /// The exchange itself failed.
    #[error(transparent)]
    Egress(#[from] EgressError),
    /// Too many requests were under way for too long.
    #[error("too many requests are under way; nothing was sent")]
    Busy,
    /// The page broke off.
    #[error("the page was cut off")]
    CutOff(#[source] hyper::Error),
    /// It took too long, redirects included.
    #[error("there was no whole page within {timeout_ms} ms")]
    TimedOut {
        /// The limit.
        timeout_ms: u64,
    },
    /// It is no page, by its status.
    #[error("the answer is no page but status {0}")]
    Status(u16),
    /// It is no text.
    #[error("what is there is no text that could be read")]
    NotText,
    /// A redirect leads from https to http.
    #[error("the page sends on from https to http, where everybody on the way could read it")]
    Downgrade,
    /// There are too many redirects.
    #[error("the page sends on more than {MAX_REDIRECTS} times")]
    TooManyRedirects,
}

impl FetchError {
    /// The runbook code.
    pub const fn code(&self) -> Code {
        match self {
            Self::Url(_)
            | Self::Host(_)
            | Self::Port(_)
            | Self::NotPublic(_)
            | Self::Downgrade
            | Self::TooManyRedirects => Code::FetchRefused,
            Self::Egress(_)
            | Self::Busy
            | Self::CutOff(_)
            | Self::TimedOut { .. }
            | Self::Status(_)
            | Self::NotText => Code::FetchFailed,
        }
    }

    /// What lies behind it, for the owner's log.
    pub fn cause(&self) -> Option<String> {
        match self {
            Self::Egress(error) => error.cause(),
            _ => None,
        }
    }

    /// The class, as it is told and counted.
    pub const fn class(&self) -> &'static str {
        match self {
            Self::Url(_) => "url",
            Self::Host(_) => "host-not-granted",
            Self::Port(_) => "port-not-granted",
            Self::NotPublic(_) => "address-refused",
            Self::Egress(error) => error.class(),
            Self::Busy => "busy",
            Self::CutOff(_) => "cut-off",
            Self::TimedOut { .. } => "timeout",
            Self::Status(_) => "status",
            Self::NotText => "not-text",
            Self::Downgrade => "downgrade",
            Self::TooManyRedirects => "too-many-redirects",
        }
    }
}

#[cfg(test)]
mod tests;
