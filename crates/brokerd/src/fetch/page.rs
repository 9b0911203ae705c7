//! The fetch itself: one GET on one connection for each address on the way.

use super::FetchError;
use super::html::text_of;
use super::reach::{Dialer, Resolver, look_up};
use super::redirect::Trail;
use crate::egress::target::Target;
use crate::egress::{self, EgressError, USER_AGENT};
use axum::http::{HeaderMap, Request, Response, header};
use bytes::Bytes;
use http_body_util::{BodyExt, Empty};
use hyper::body::Incoming;
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncWrite};

const ACCEPTED: &str = "text/html, text/plain, application/json, text/*";

/// The limits of one fetch.
#[derive(Debug, Clone, Copy)]
pub struct Limits {
    /// How long it may take from the first look-up to the last byte, in milliseconds.
    pub timeout_ms: u64,
    /// How much of a page's body is read, in bytes. The connection is closed there.
    pub max_bytes: usize,
}

/// A page.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Page {
    /// Where it was found in the end.
    pub url: String,
    /// What it says.
    pub text: String,
    /// Whether it is longer than what was read of it.
    pub is_cut: bool,
}

/// What an address answered with.
enum Answer {
    Page { text: String, is_cut: bool },
    SentOn(String),
}

/// Fetches a page, over redirects that the trail admits.
///
/// # Errors
/// There is no page that may be read, within the limits.
pub async fn fetch(
    url: &str,
    mut trail: Trail<'_>,
    resolver: &impl Resolver,
    dialer: &impl Dialer,
    limits: Limits,
) -> Result<Page, FetchError> {
    let walk = async {
        let mut target = trail.begin(url)?;
        // The trail ends the loop: it admits a few redirects only.
        loop {
            let addresses = look_up(&target, resolver).await?;
            let stream = dialer.dial(&target, &addresses).await?;
            match get(stream, &target, limits.max_bytes).await? {
                Answer::SentOn(location) => target = trail.follow(&target, &location)?,
                Answer::Page { text, is_cut } => {
                    let url = target.to_string();
                    return Ok(Page { url, text, is_cut });
                }
            }
        }
    };
    let within = Duration::from_millis(limits.timeout_ms);
    let timed_out = FetchError::TimedOut {
        timeout_ms: limits.timeout_ms,
    };
    tokio::time::timeout(within, walk)
        .await
        .unwrap_or(Err(timed_out))
}

async fn get(
    stream: impl AsyncRead + AsyncWrite + Unpin + Send + 'static,
    target: &Target,
    max_bytes: usize,
) -> Result<Answer, FetchError> {
    let request = request(target).map_err(EgressError::Request)?;
    let egress::Answer { response, driver } = egress::speak(stream, request)
        .await
        .map_err(EgressError::Broken)?;
    let status = response.status();
    if matches!(status.as_u16(), 301 | 302 | 303 | 307 | 308) {
        let location = plain(response.headers(), &header::LOCATION);
        return location
            .map(Answer::SentOn)
            .ok_or(FetchError::Status(status.as_u16()));
    }
    if !status.is_success() {
        return Err(FetchError::Status(status.as_u16()));
    }
    let answer = read(response, max_bytes).await;
    drop(driver);
    answer
}

/// Nothing in it but the address tells anything of the box or of the session.
fn request(target: &Target) -> Result<Request<Empty<Bytes>>, axum::http::Error> {
    Request::builder()
        .uri(target.path())
        .header(header::HOST, target.authority())
        .header(header::USER_AGENT, USER_AGENT)
        .header(header::ACCEPT, ACCEPTED)
        .header(header::CONNECTION, "close")
        .body(Empty::new())
}

async fn read(response: Response<Incoming>, max_bytes: usize) -> Result<Answer, FetchError> {
    let kind = plain(response.headers(), &header::CONTENT_TYPE).unwrap_or_default();
    let kind = kind
        .split(';')
        .next()
        .unwrap_or_default()
        .trim()
        .to_ascii_lowercase();
    let is_html = kind == "text/html" || kind == "application/xhtml+xml";
    let is_text = kind.starts_with("text/")
        || kind.ends_with("json")
        || kind.ends_with("xml")
        || kind.is_empty();
    // Nothing was said to be accepted in a packed form, so nothing is unpacked.
    let is_packed = response.headers().contains_key(header::CONTENT_ENCODING);
    if is_packed || !(is_html || is_text) {
        return Err(FetchError::NotText);
    }
    let mut body = response.into_body();
    let mut bytes = Vec::new();
    let mut is_cut = false;
    while let Some(frame) = body.frame().await {
        let frame = frame.map_err(FetchError::CutOff)?;
        let Some(data) = frame.data_ref() else {
            continue;
        };
        let room = max_bytes - bytes.len();
        bytes.extend_from_slice(&data[..data.len().min(room)]);
        if data.len() > room {
            is_cut = true;
            break;
        }
    }
    if bytes.contains(&0) {
        return Err(FetchError::NotText);
    }
    let text = String::from_utf8_lossy(&bytes);
    let text = if is_html {
        text_of(&text)
    } else {
        text.into_owned()
    };
    Ok(Answer::Page { text, is_cut })
}

/// A header of the answer, where it is plain.
fn plain(headers: &HeaderMap, name: &header::HeaderName) -> Option<String> {
    headers.get(name)?.to_str().ok().map(str::to_owned)
}

#[cfg(test)]
mod tests;
