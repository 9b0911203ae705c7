//! What the shell gives a role, before and after it is confined.

use super::fatal::{Fatal, FatalSwitch};
use super::tasks::Tasks;
use crate::confine::Confinement;
use crate::home::Home;
use crate::keys::{RoleKeys, Token};
use crate::metrics::Metrics;
use crate::rpc::{Client, ServerAuth, SocketListener, health, serve};
use axum::Router;
use bxcore::code::Code;
use bxcore::problem::Problem;
use bxcore::role::Role;
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

/// What a role has before it is confined: nothing runs yet, everything may still be opened.
#[derive(Debug)]
pub struct Prelude {
    /// The role.
    pub role: Role,
    /// Where everything is.
    pub home: Home,
    /// Its keys.
    pub keys: RoleKeys,
}

/// What a role has made ready before it is confined.
#[derive(Debug)]
pub struct Prepared<S> {
    /// What it keeps the right to.
    pub confinement: Confinement,
    /// How many threads run its async code, from 1 to the machine's cores; none for a good default.
    pub worker_threads: Option<usize>,
    /// What its main function gets: configuration, open files.
    pub state: S,
}

impl<S> Prepared<S> {
    /// A confinement and a state, with the default number of threads.
    pub fn new(confinement: Confinement, state: S) -> Self {
        Self {
            confinement,
            worker_threads: None,
            state,
        }
    }
}

/// Tells that the owner wants files to be read again (SIGHUP).
#[derive(Debug, Clone)]
pub struct Reload(pub(super) watch::Receiver<u64>);

impl Reload {
    /// Waits for the next wish; wishes made while nobody waits are one. Never ends at shutdown.
    pub async fn wanted(&mut self) {
        if self.0.changed().await.is_err() {
            // The sender is gone with the runtime: there will be no further wish.
            std::future::pending::<()>().await;
        }
    }
}

/// What a role's main function works with.
#[derive(Debug)]
pub struct Context {
    /// The role.
    pub role: Role,
    /// Where everything is.
    pub home: Home,
    /// Its keys.
    pub keys: RoleKeys,
    /// Its socket, bound and not yet served.
    pub listener: SocketListener,
    /// Cancelled when the role is to end.
    pub shutdown: CancellationToken,
    /// Ends the role because of a fault, from anywhere in it.
    pub fatal: FatalSwitch,
    /// Tells when files are to be read again.
    pub reload: Reload,
    /// Its background tasks.
    pub tasks: Tasks,
    /// What it has counted.
    pub metrics: Metrics,
}

impl Context {
    /// A client for another role, if this one has a token for it.
    ///
    /// # Errors
    /// The keys hold no token for that role.
    pub fn client(&self, role: Role) -> Result<Client, Fatal> {
        let token: Option<&Token> = self.keys.token_for(role);
        let token = token.ok_or_else(|| {
            let title = format!("`{}` got no token to call `{role}` with", self.role);
            Problem::new(Code::NotAuthorised, title)
                .hint("all parts must be of one version; start them again")
        })?;
        Ok(Client::new(self.home.socket(role), token))
    }

    /// Serves the role's routes until the shutdown, `/v1/health` and `/v1/metrics` among them.
    pub async fn serve(self, routes: Router) -> Result<(), Fatal> {
        let router = routes.merge(health(self.role)).merge(self.metrics.routes());
        let auth = ServerAuth::from_keys(&self.keys);
        serve(self.listener, router, auth, self.shutdown)
            .await
            .map_err(|error| {
                Fatal::from(
                    Problem::new(Code::HomeUnusable, "A socket can't be served")
                        .detail(error.to_string()),
                )
            })
    }
}
