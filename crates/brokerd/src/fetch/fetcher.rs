//! `http_fetch` as a tool: one page for a session, under one grant.

use super::page::{Limits, fetch};
use super::reach::{Addresses, Dialer, SystemResolver};
use super::redirect::Trail;
use super::{FetchError, HTTP_FETCH};
use crate::decision::admits_host;
use crate::egress::target::Target;
use crate::egress::{EgressError, Roots, Stream};
use crate::tools::Output;
use bxcore::grant::Grant;
use bxcore::label::Label;
use serde_json::{Value, json};
use std::io;

/// What a model reads of the tool.
pub const DESCRIPTION: &str = "Fetches a page of the public web by its address and returns its \
    text. Only reads; can't log in, send forms or run scripts.";
/// The name of the tool's one argument.
const ARGUMENT: &str = "url";
/// How long a fetch may take, redirects included, in milliseconds.
pub const TIMEOUT_MS: u64 = 30_000;
/// How much of a page is read, in bytes.
const MAX_PAGE_BYTES: usize = 2 * 1024 * 1024;

/// The schema of its arguments.
pub fn parameters() -> Value {
    json!({
        "type": "object",
        "properties": {
            ARGUMENT: {"type": "string", "minLength": 1, "description": "http:// or https://"}
        },
        "required": [ARGUMENT],
        "additionalProperties": false
    })
}

/// The address among arguments that fit the schema.
pub fn url_of(arguments: &Value) -> Option<&str> {
    arguments.get(ARGUMENT)?.as_str()
}

/// Fetches pages. Cheap to clone.
#[derive(Debug, Clone)]
pub struct Fetcher {
    /// Whom to trust; none where the system has no authorities, so that `https` can't be spoken.
    roots: Option<Roots>,
}

impl Fetcher {
    /// With the authorities that were read before the confinement.
    pub fn new(roots: Option<Roots>) -> Self {
        Self { roots }
    }

    /// Fetches a page. Every address on the way must be one that the grant admits.
    pub async fn fetch(&self, url: &str, grant: &Grant) -> Output {
        let admits = |host: &str| admits_host(grant, host);
        let trail = Trail::new(&admits, &grant.ports);
        let limits = Limits {
            timeout_ms: TIMEOUT_MS,
            max_bytes: MAX_PAGE_BYTES,
        };
        // What the result carries besides is the grant's to say.
        match fetch(url, trail, &SystemResolver, self, limits).await {
            Ok(page) => {
                let cut = if page.is_cut {
                    "\n[the page is longer; this is its beginning]"
                } else {
                    ""
                };
                Output::ok(format!("{}\n\n{}{cut}", page.url, page.text), Label::BOTTOM)
            }
            Err(error) => failed(&error),
        }
    }

    /// What becomes of a page that was not asked for, since too many requests are under way.
    pub fn busy() -> Output {
        failed(&FetchError::Busy)
    }
}

fn failed(error: &FetchError) -> Output {
    let (class, cause) = (error.class(), error.cause());
    // The address is in the audit log, which is the owner's alone.
    tracing::warn!(class, cause, "a page was not fetched");
    metrics::counter!("boxmaker_fetch_failures_total", "class" => class).increment(1);
    Output {
        failure: Some(error.code()),
        ..Output::ok(
            format!("The page was not fetched ({class}): {error}."),
            Label::BOTTOM,
        )
    }
}

impl Dialer for Fetcher {
    type Stream = Stream;

    async fn dial(&self, target: &Target, addresses: &Addresses) -> Result<Stream, FetchError> {
        let stream = addresses.connect().await?;
        if !target.is_tls() {
            return Ok(Stream::Open(stream));
        }
        let host = target.host();
        match &self.roots {
            Some(roots) => Ok(roots.secure(&host, stream).await?),
            None => {
                let source = io::Error::other("this system has no certificates of authorities");
                Err(EgressError::Tls { host, source }.into())
            }
        }
    }
}

/// Whether a grant is for the tool.
pub fn is_for_fetch(grant: &Grant) -> bool {
    grant.tool.as_str() == HTTP_FETCH
}
