//! All backends: the configured ones, else those found on the usual ports and the starter engine.

use super::place::Place;
use super::server::{Backend, Known};
use super::spec::Spec;
use crate::config::{BackendUrl, Settings};
use bxcore::code::Code;
use bxcore::id::BackendName;
use bxcore::problem::Problem;
use bxcore::wire::inferproxy::{BackendInfo, BackendKind, BackendOrigin, BackendState};
use bxkit::keys::StarterAddress;
use futures_util::future::join_all;
use std::sync::Arc;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

/// Where model servers listen unless told otherwise, in order of preference.
pub const USUAL_PORTS: [(&str, u16); 4] = [
    // llama-server
    ("local", 8080),
    ("ollama", 11434),
    ("lm-studio", 1234),
    ("vllm", 8000),
];

/// All backends. Their set never changes while the process lives; what is known of them does.
#[derive(Debug)]
pub struct Registry {
    backends: Vec<Arc<Backend>>,
}

impl Registry {
    /// The backends of a valid configuration; without any, the usual ports and the starter engine.
    ///
    /// Resolves names, and so blocks.
    ///
    /// # Errors
    /// An address can't be read; a checked configuration has none of these.
    pub fn new(settings: &Settings, starter: Option<&StarterAddress>) -> Result<Self, Problem> {
        let backends = if settings.backend.is_empty() {
            let starter = starter.map(starter_backend).transpose()?;
            usual_backends()?.into_iter().chain(starter).collect()
        } else {
            configured_backends(settings)?
        };
        Ok(Self { backends })
    }

    /// A registry of these backends alone.
    pub fn of(backends: Vec<Arc<Backend>>) -> Self {
        Self { backends }
    }

    /// The TCP ports that are connected to.
    pub fn ports(&self) -> Vec<u16> {
        self.backends
            .iter()
            .map(|backend| backend.spec().url.port())
            .collect()
    }

    /// Starts the task of each backend.
    pub fn start(&self, tasks: &TaskTracker, shutdown: &CancellationToken) {
        for backend in &self.backends {
            tasks.spawn(Arc::clone(backend).keep_looking(shutdown.clone()));
        }
    }

    /// Every backend there is, looked at just now or a moment ago.
    pub async fn list(&self) -> Vec<BackendInfo> {
        let known = join_all(self.backends.iter().map(|backend| backend.fresh())).await;
        known
            .iter()
            .filter(|known| is_there(known))
            .map(|known| known.info.clone())
            .collect()
    }

    /// Every backend, whether something is there or not.
    pub fn all(&self) -> &[Arc<Backend>] {
        &self.backends
    }

    /// The backend of a name.
    ///
    /// # Errors
    /// There is none of this name, or none at all.
    pub async fn get(&self, name: &BackendName) -> Result<&Arc<Backend>, Problem> {
        let found = self
            .backends
            .iter()
            .find(|backend| backend.spec().name == *name);
        match found {
            Some(backend) if is_there(&backend.usable().await.clone()) => Ok(backend),
            _ => Err(self.unknown(name).await),
        }
    }

    async fn unknown(&self, name: &BackendName) -> Problem {
        let there = self.list().await;
        if there.is_empty() {
            let looked: Vec<_> = self
                .backends
                .iter()
                .map(|b| b.spec().url.authority())
                .collect();
            return Problem::new(Code::NoBackend, "No model server is configured or found")
                .detail(format!("looked at {}", looked.join(", ")))
                .hint("start one, or name it: boxmaker backend add NAME URL");
        }
        let names: Vec<_> = there.iter().map(|info| info.name.as_str()).collect();
        Problem::new(
            Code::BackendUnknown,
            format!("There is no backend `{name}`"),
        )
        .detail(format!("there are: {}", names.join(", ")))
        .hint("`boxmaker backend list` shows them")
    }
}

/// A port that was only looked at counts as a backend once a model server answers there.
fn is_there(known: &Known) -> bool {
    known.info.origin != BackendOrigin::Found || known.info.state != BackendState::Unreachable
}

fn configured_backends(settings: &Settings) -> Result<Vec<Arc<Backend>>, Problem> {
    let build = |table: &crate::config::BackendTable| {
        let url = read_url(&table.url)?;
        let spec = Spec::configured(table, url.clone());
        Ok(Arc::new(Backend::new(spec, Place::resolve(url), None)))
    };
    settings.backend.iter().map(build).collect()
}

fn usual_backends() -> Result<Vec<Arc<Backend>>, Problem> {
    let build = |(name, port): (&str, u16)| {
        let url = BackendUrl::loopback(port);
        let spec = Spec::unconfigured(read_name(name)?, BackendOrigin::Found, url.clone(), None);
        Ok(Arc::new(Backend::new(spec, Place::resolve(url), None)))
    };
    USUAL_PORTS.into_iter().map(build).collect()
}

fn starter_backend(starter: &StarterAddress) -> Result<Arc<Backend>, Problem> {
    let url = read_url(&starter.url)?;
    let kind = Some(BackendKind::LlamaServer);
    let spec = Spec::unconfigured(
        read_name("starter")?,
        BackendOrigin::Starter,
        url.clone(),
        kind,
    );
    let key = starter.api_key.expose();
    Ok(Arc::new(Backend::new(spec, Place::resolve(url), Some(key))))
}

fn read_url(text: &str) -> Result<BackendUrl, Problem> {
    BackendUrl::parse(text).map_err(|error| {
        Problem::new(
            Code::ConfigInvalid,
            "The address of a model server can't be used",
        )
        .detail(format!("{text}: {error}"))
    })
}

fn read_name(text: &str) -> Result<BackendName, Problem> {
    BackendName::new(text).map_err(|error| {
        Problem::new(Code::Internal, "A name of a backend breaks its rule")
            .detail(error.to_string())
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use bxkit::keys::Token;

    #[test]
    fn without_configuration_the_usual_ports_and_the_starter_are_used() {
        let starter = StarterAddress {
            url: "http://127.0.0.1:4711".into(),
            api_key: Token::generate().unwrap(),
        };
        let registry = Registry::new(&Settings::default(), Some(&starter)).unwrap();
        assert_eq!(registry.ports(), [8080, 11434, 1234, 8000, 4711]);
        let last = registry.all().last().unwrap().current();
        assert_eq!(last.info.origin, BackendOrigin::Starter);
        assert_eq!(last.info.kind, BackendKind::LlamaServer);
    }

    #[test]
    fn with_configuration_nothing_else_is_used() {
        let text = "[[backend]]\nname = \"a\"\nurl = \"http://127.0.0.1:9\"\nkind = \"openai\"";
        let settings: Settings = toml::from_str(text).unwrap();
        let starter = StarterAddress {
            url: "http://127.0.0.1:4711".into(),
            api_key: Token::generate().unwrap(),
        };
        assert_eq!(
            Registry::new(&settings, Some(&starter)).unwrap().ports(),
            [9]
        );
    }
}
