//! The role: what inferproxy opens before it is confined, and how it serves and ends.

use crate::backend::Registry;
use crate::chat::Engine;
use crate::config::{Settings, check};
use crate::dump::Dump;
use crate::http::router;
use crate::limits::Limits;
use axum::Router;
use axum::http::header;
use axum::routing::get;
use bxcore::code::Code;
use bxcore::problem::Problem;
use bxcore::role::Role;
use bxkit::config::load_checked;
use bxkit::confine::{Confinement, ConnectPorts};
use bxkit::daemon::{self, Context, Fatal, Prelude, Prepared};
use bxkit::fsx;
use bxkit::metrics::Metrics;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Duration;

/// The role's folder below the state folder.
const STATE_FOLDER: &str = "inferproxy";

/// What was made ready before the confinement.
struct Ready {
    settings: Settings,
    registry: Registry,
    dump: Option<Dump>,
}

/// Runs inferproxy until it is told to end, and gives its exit code.
///
/// Reads its keys from standard input; configuration is read once, at the start.
pub fn run() -> ExitCode {
    daemon::run(Role::Inferproxy, prepare, serve)
}

fn prepare(prelude: &Prelude) -> Result<Prepared<Ready>, Fatal> {
    let config = prelude.home.config_file(Role::Inferproxy);
    let settings: Settings = load_checked(&config, check)?;
    // Names are resolved here: afterwards only the ports of these addresses can be reached.
    let registry = Registry::new(&settings, prelude.keys.starter.as_ref())?;
    let folder = prelude.home.state_dir().join(STATE_FOLDER);
    make_folder(&folder)?;
    let dump = settings.wire_dump.then(|| Dump::open(&folder)).transpose();
    let dump = dump.map_err(|error| unusable(&folder, &error))?;
    let confinement = confinement(&registry, folder);
    let ready = Ready {
        settings,
        registry,
        dump,
    };
    Ok(Prepared::new(confinement, ready))
}

/// What stays: the role's own folder and its backends' ports. The configuration was read already.
fn confinement(registry: &Registry, folder: PathBuf) -> Confinement {
    Confinement::strict()
        .write(folder)
        .connect(ConnectPorts::Only(registry.ports()))
}

fn make_folder(folder: &Path) -> Result<(), Fatal> {
    let made = std::fs::DirBuilder::new()
        .recursive(true)
        .mode(0o700)
        .create(folder);
    made.map_err(|error| unusable(folder, &error))
}

fn unusable(folder: &Path, error: &std::io::Error) -> Fatal {
    Problem::new(
        fsx::code_for(error, Code::HomeUnusable),
        "The state folder can't be used",
    )
    .detail(format!("{}: {error}", folder.display()))
    .into()
}

async fn serve(context: Context, ready: Ready) -> Result<(), Fatal> {
    let limits = Limits::with_liveness(Duration::from_secs(ready.settings.liveness_s));
    let engine = Engine::start(ready.registry, limits, ready.dump, context.shutdown.clone());
    let routes = router(engine.clone()).merge(metrics_route(context.metrics.clone()));
    let served = context.serve(routes).await;
    engine.ended().await;
    served
}

/// `GET /metrics`, where collectors look first.
fn metrics_route(metrics: Metrics) -> Router {
    const TEXT: &str = "text/plain; version=0.0.4; charset=utf-8";
    let show = async move || ([(header::CONTENT_TYPE, TEXT)], metrics.render());
    Router::new().route("/metrics", get(show))
}
