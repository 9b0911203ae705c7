//! A served router with its clients, and the probe process.

use axum::Router;
use bxcore::role::Role;
use bxkit::keys::{KeyRing, Token};
use bxkit::rpc::{Client, ServerAuth, SocketListener, serve};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

/// Long enough on any machine; reached only by a fault.
pub(crate) const PATIENCE: Duration = Duration::from_secs(30);

/// A server for brokerd's socket in a folder of its own.
pub(crate) struct Served {
    pub(crate) folder: tempfile::TempDir,
    pub(crate) ring: KeyRing,
    pub(crate) shutdown: CancellationToken,
    pub(crate) task: JoinHandle<std::io::Result<()>>,
}

impl Served {
    pub(crate) fn new(router: Router) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let ring = KeyRing::generate().unwrap();
        let shutdown = CancellationToken::new();
        let task = start(&socket_in(folder.path()), router, &ring, &shutdown);
        Self {
            folder,
            ring,
            shutdown,
            task,
        }
    }

    pub(crate) fn socket(&self) -> PathBuf {
        socket_in(self.folder.path())
    }

    pub(crate) fn client_with(&self, token: &Token) -> Client {
        Client::new(self.socket(), token).timeout(PATIENCE)
    }

    /// A client that calls as the owner.
    pub(crate) fn client(&self) -> Client {
        self.client_with(self.ring.owner())
    }

    /// Stops serving and waits until it has.
    pub(crate) async fn stop(&mut self) {
        self.shutdown.cancel();
        (&mut self.task).await.unwrap().unwrap();
    }

    /// Serves the same socket, with the same keys, once more.
    pub(crate) fn restart(&mut self, router: Router) {
        self.shutdown = CancellationToken::new();
        self.task = start(&self.socket(), router, &self.ring, &self.shutdown);
    }
}

pub(crate) fn start(
    socket: &Path,
    router: Router,
    ring: &KeyRing,
    shutdown: &CancellationToken,
) -> JoinHandle<std::io::Result<()>> {
    let listener = SocketListener::bind(socket).unwrap();
    let auth = ServerAuth::from_keys(&ring.for_role(Role::Brokerd, None));
    tokio::spawn(serve(listener, router, auth, shutdown.clone()))
}

pub(crate) fn socket_in(folder: &Path) -> PathBuf {
    folder.join("brokerd.sock")
}

/// The probe, with nothing of this process' environment that could steer it.
pub(crate) fn probe() -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_bxkit-probe"));
    command
        .env_remove("BOXMAKER_HOME")
        .env_remove("BOXMAKER_LOG");
    command
}
