//! From page to page: each one that a redirect leads to is judged like the first. Pure.

use super::FetchError;
use crate::egress::target::{Target, UrlError, check_text, sent_path};
use std::collections::BTreeSet;

/// How many redirects are followed.
pub const MAX_REDIRECTS: usize = 3;

/// The way of one fetch, from the address that was asked for on.
pub struct Trail<'a> {
    /// Whether the grant admits a host.
    admits: &'a (dyn Fn(&str) -> bool + Sync),
    /// Ports that the grant admits beside 80 and 443.
    ports: &'a BTreeSet<u16>,
    followed: usize,
}

impl<'a> Trail<'a> {
    /// A way under one grant.
    pub fn new(admits: &'a (dyn Fn(&str) -> bool + Sync), ports: &'a BTreeSet<u16>) -> Self {
        Self {
            admits,
            ports,
            followed: 0,
        }
    }

    /// The address that was asked for, where it may be fetched.
    ///
    /// # Errors
    /// Its text, its host or its port is against it.
    pub fn begin(&self, url: &str) -> Result<Target, FetchError> {
        let target = Target::parse(url)?;
        self.check(&target)?;
        Ok(target)
    }

    /// The address that a page sends on to, where it may be fetched.
    ///
    /// # Errors
    /// Its text, its host or its port is against it, it gives up TLS, or there were enough.
    pub fn follow(&mut self, from: &Target, location: &str) -> Result<Target, FetchError> {
        if self.followed == MAX_REDIRECTS {
            return Err(FetchError::TooManyRedirects);
        }
        self.followed += 1;
        let target = resolved(from, location)?;
        if from.is_tls() && !target.is_tls() {
            return Err(FetchError::Downgrade);
        }
        self.check(&target)?;
        Ok(target)
    }

    fn check(&self, target: &Target) -> Result<(), FetchError> {
        let host = target.host();
        if !(self.admits)(&host) {
            return Err(FetchError::Host(host));
        }
        if !target.has_usual_port() && !self.ports.contains(&target.port()) {
            return Err(FetchError::Port(target.port()));
        }
        Ok(())
    }
}

/// What a `location` means on a page.
fn resolved(from: &Target, location: &str) -> Result<Target, UrlError> {
    check_text(location)?;
    let before_path = location.split(['/', '?', '#']).next().unwrap_or_default();
    if before_path.contains(':') {
        return Target::parse(location);
    }
    let scheme = if from.is_tls() { "https" } else { "http" };
    if location.starts_with("//") {
        return Target::parse(&format!("{scheme}:{location}"));
    }
    let own = from.path.split('?').next().unwrap_or_default();
    let path = if location.starts_with('/') {
        sent_path(location)
    } else if location.starts_with('?') {
        sent_path(&format!("{own}{location}"))
    } else if location.is_empty() || location.starts_with('#') {
        from.path.clone()
    } else {
        let folder = own.rfind('/').map_or("/", |end| &own[..=end]);
        sent_path(&format!("{folder}{location}"))
    };
    Ok(Target {
        path,
        ..from.clone()
    })
}
