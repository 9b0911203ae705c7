//! `[approvals.webhook]`: tells the owner, wherever that is, that a call waits. Never what it is.

use crate::egress::{
    Bounds, Client, EgressError, Endpoint, Reply, RootsError, check_ca_file, reach,
};
use crate::secrets::{Search, SecretName, Secrets};
use bxcore::code::Code;
use bxcore::problem::Problem;
use bxcore::wire::approval::Approval;
use bxkit::config::InvalidValue;
use bytes::Bytes;
use serde::Deserialize;
use serde_json::json;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};
use tokio::sync::{Semaphore, SemaphorePermit};

/// What a notification is called in the audit log.
pub const WEBHOOK: &str = "approvals.webhook";
/// How long one may take, in milliseconds.
const TIMEOUT_MS: u64 = 10_000;
/// The longest answer that is read, in bytes. Nothing in it matters.
const MAX_ANSWER_BYTES: usize = 64 * 1024;
/// How many are sent at once; further ones are not sent at all.
const MAX_AT_ONCE: usize = 8;

/// Where the owner is told.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct WebhookSettings {
    /// The whole address: `https`, or this box.
    pub url: Endpoint,
    /// Certificates to check the other side's against, in place of the system's.
    #[serde(default)]
    pub ca_file: Option<PathBuf>,
    /// The name of the secret that is sent as bearer token, where one is wanted.
    #[serde(default)]
    pub secret: Option<SecretName>,
}

impl WebhookSettings {
    /// What the types can't say.
    ///
    /// # Errors
    /// The key whose value can't be used.
    pub fn check(&self) -> Result<(), InvalidValue> {
        check_ca_file(WEBHOOK, &self.url, self.ca_file.as_deref())
    }
}

/// Everything that a notification needs. Cheap to clone.
#[derive(Debug, Clone)]
pub struct Webhook {
    client: Client,
    secret: Option<SecretName>,
    secrets: Secrets,
    permits: Arc<Semaphore>,
    last_failure: Arc<Mutex<Option<String>>>,
}

/// Why a notification was not delivered.
#[derive(Debug, thiserror::Error)]
pub enum WebhookError {
    /// The secret is gone.
    #[error("its secret can't be read")]
    NoSecret,
    /// A stored secret stands in it, or one can't be read and so not be looked for.
    #[error("a stored secret stands in it, or can't be looked for")]
    Secret,
    /// As many as may be are under way.
    #[error("{MAX_AT_ONCE} notifications are under way already")]
    Busy,
    /// There is no answer.
    #[error(transparent)]
    Egress(#[from] EgressError),
    /// It was not taken.
    #[error("the answer has status {0}")]
    Status(u16),
}

impl Webhook {
    /// Makes it ready: certificates are read now, since later there is no right to.
    ///
    /// # Errors
    /// There are no certificates to check the other side's against.
    pub fn new(settings: &WebhookSettings, secrets: Secrets) -> Result<Self, RootsError> {
        Ok(Self {
            client: reach(&settings.url, settings.ca_file.as_deref())?,
            secret: settings.secret.clone(),
            secrets,
            permits: Arc::new(Semaphore::new(MAX_AT_ONCE)),
            last_failure: Arc::default(),
        })
    }

    /// The secret that it needs.
    pub fn secret(&self) -> Option<&SecretName> {
        self.secret.as_ref()
    }

    /// Whether a body may leave: no stored secret stands in it, as far as all of them can be read.
    ///
    /// # Errors
    /// One does, or nobody can tell.
    pub fn admits(&self, body: &str) -> Result<(), WebhookError> {
        match self.secrets.search(&[body.as_bytes()]) {
            Search::Absent => Ok(()),
            Search::Present { .. } | Search::Unsure => Err(WebhookError::Secret),
        }
    }

    /// Keeps why the last notification was not delivered, or that it was.
    pub fn remember(&self, failure: Option<String>) {
        let held = self.last_failure.lock();
        *held.unwrap_or_else(PoisonError::into_inner) = failure;
    }

    /// Why the last notification was not delivered; none if it was, or none was sent yet.
    pub fn last_failure(&self) -> Option<String> {
        let held = self.last_failure.lock();
        held.unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// The right to send one.
    ///
    /// # Errors
    /// As many as may be are under way.
    pub fn permit(&self) -> Result<SemaphorePermit<'_>, WebhookError> {
        self.permits.try_acquire().map_err(|_| WebhookError::Busy)
    }

    /// Sends a body that is on record. One request at the most, and none again.
    ///
    /// # Errors
    /// It was not taken.
    pub async fn send(&self, body: Bytes) -> Result<(), WebhookError> {
        let secret = match &self.secret {
            Some(name) => Some(self.secrets.get(name).ok_or(WebhookError::NoSecret)?),
            None => None,
        };
        let bearer = secret.as_ref().map(crate::secrets::Secret::expose);
        let bounds = Bounds {
            timeout_ms: TIMEOUT_MS,
            max_bytes: MAX_ANSWER_BYTES,
        };
        let Reply { status, .. } = self.client.post_json(bearer, body, bounds).await?;
        if status.is_success() {
            return Ok(());
        }
        Err(WebhookError::Status(status.as_u16()))
    }
}

/// What is sent of a call that waits: whose it is and how long it waits, and nothing that it says.
pub fn notification(approval: &Approval) -> String {
    json!({
        "approval": approval.id,
        "session": approval.session,
        "lineage": approval.lineage,
        "tool": approval.tool,
        "label": approval.label,
        "expires": approval.expires,
    })
    .to_string()
}

/// Why brokerd can't start with its `[approvals.webhook]`.
pub fn unusable(error: &(dyn std::error::Error + 'static)) -> Problem {
    Problem::new(Code::ConfigInvalid, "`[approvals.webhook]` can't be used")
        .detail(bxkit::report::chain(error))
}
