//! Providers: models elsewhere that lead whole sessions, where a grant admits them.

mod body;
mod call;
mod failure;
mod passing;
mod settings;

pub use body::arguments;
pub(crate) use body::least_reserve;
pub use call::{Called, MAX_CALL_SECS};
pub use failure::ProviderFailure;
pub use passing::Passing;
pub use settings::Settings;

use crate::egress::{Client, RootsError, reach};
use crate::secrets::{SecretError, SecretName, Secrets};
use bxcore::audit::sha256_hex;
use bxcore::code::Code;
use bxcore::id::BackendName;
use bxcore::problem::Problem;
use bxcore::tool::{Repeat, RiskTag, ToolName, ToolSpec};
use bxcore::wire::inferproxy::{BackendInfo, BackendKind, BackendOrigin, BackendState};
use serde_json::json;
use std::collections::BTreeMap;
use std::sync::Arc;
use tokio::sync::Semaphore;

/// The providers that are configured, by name. Cheap to clone.
pub type Providers = Arc<BTreeMap<BackendName, Provider>>;

/// Everything that calls to one provider need. Cheap to clone.
#[derive(Debug, Clone)]
pub struct Provider {
    settings: Arc<Settings>,
    spec: Arc<ToolSpec>,
    client: Client,
    secrets: Secrets,
    permits: Arc<Semaphore>,
}

/// Why brokerd can't start with its `[provider.NAME]`.
#[derive(Debug, thiserror::Error)]
pub enum ProviderError {
    /// A secret can't be used.
    #[error("the secret of a provider can't be used")]
    Secret(#[source] SecretError),
    /// There are no certificates to check the other side's against.
    #[error("`[provider.{name}]` can't be reached")]
    Roots {
        /// Which.
        name: BackendName,
        /// What is wrong.
        source: RootsError,
    },
}

impl From<ProviderError> for Problem {
    fn from(error: ProviderError) -> Self {
        let detail = bxkit::report::chain(&error);
        match error {
            ProviderError::Secret(source) => Self::new(
                Code::ProviderSecretUnreadable,
                "The secret that a provider names can't be used",
            )
            .detail(detail)
            .hint(source.hint()),
            ProviderError::Roots { .. } => Self::new(
                Code::ConfigInvalid,
                "No certificate of a provider could be checked",
            )
            .detail(detail)
            .hint("name a `ca_file`, or install the system's certificates"),
        }
    }
}

impl Provider {
    /// Makes all of them ready: certificates are read now, since later there is no right to.
    ///
    /// # Errors
    /// There are no certificates to check one's against.
    pub fn all(
        settings: &BTreeMap<BackendName, Settings>,
        secrets: &Secrets,
    ) -> Result<Providers, ProviderError> {
        let ready = settings.iter().map(|(name, settings)| {
            let provider = Self::new(name, settings.clone(), secrets.clone());
            let failed = |source| ProviderError::Roots {
                name: name.clone(),
                source,
            };
            Ok((name.clone(), provider.map_err(failed)?))
        });
        ready.collect::<Result<_, _>>().map(Arc::new)
    }

    fn new(name: &BackendName, settings: Settings, secrets: Secrets) -> Result<Self, RootsError> {
        let permits = usize::try_from(settings.max_concurrency).unwrap_or(1);
        Ok(Self {
            spec: Arc::new(spec(name, &settings)),
            client: reach(&settings.url, settings.ca_file.as_deref())?,
            permits: Arc::new(Semaphore::new(permits)),
            settings: Arc::new(settings),
            secrets,
        })
    }

    /// What the owner configured.
    pub fn settings(&self) -> &Settings {
        &self.settings
    }

    /// The secret that it needs.
    pub fn secret(&self) -> &SecretName {
        &self.settings.secret
    }

    /// The model calls to it as decisions see them.
    pub fn spec(&self) -> &ToolSpec {
        &self.spec
    }

    /// The provider as a backend of sessions.
    pub fn as_backend(&self, name: &BackendName) -> BackendInfo {
        let settings = &self.settings;
        let url = settings.url.to_string();
        let identity = format!("{url}\n{}\n{}", settings.model, settings.context_tokens);
        BackendInfo {
            name: name.clone(),
            origin: BackendOrigin::Provider,
            url,
            kind: BackendKind::Openai,
            model: settings.model.clone(),
            slots: None,
            max_concurrency: settings.max_concurrency,
            context_tokens: Some(settings.context_tokens),
            tools: settings.mode,
            keeps_reasoning: false,
            // By its beginning a session knows again that it was led from elsewhere.
            fingerprint: format!(
                "{}{}",
                bxcore::tool::PROVIDER_PREFIX,
                sha256_hex(identity.as_bytes())
            ),
            state: BackendState::Ready,
            problem: None,
        }
    }
}

fn spec(name: &BackendName, settings: &Settings) -> ToolSpec {
    ToolSpec {
        name: ToolName::of_provider(name),
        description: format!(
            "Leads whole sessions with `{}` at {}.",
            settings.model,
            settings.url.host()
        ),
        parameters: json!({"type": "object"}),
        tags: [RiskTag::Network, RiskTag::Egress, RiskTag::Spend].into(),
        repeat: Repeat::Never,
        reserve: None,
    }
}
