//! The role: what loopd opens before it is confined, and what it runs after.

use crate::config::Config;
use crate::drive::{Broker, Engine, Inference, Memory, Parts};
use crate::http::router;
use crate::schedule::Schedule;
use crate::store::{Store, StoreOptions};
use bxcore::code::Code;
use bxcore::problem::Problem;
use bxcore::role::Role;
use bxkit::confine::Confinement;
use bxkit::daemon::{self, Context, Fatal, Prelude, Prepared};
use std::process::ExitCode;

/// Runs loopd until it is told to end.
///
/// It may open no IP socket and start no program; it reads its own configuration and writes its
/// own database, transcripts and backups.
pub fn run() -> ExitCode {
    daemon::run(Role::Loopd, prepare, serve)
}

fn prepare(prelude: &Prelude) -> Result<Prepared<(Config, Schedule)>, Fatal> {
    let home = &prelude.home;
    let config = Config::load(&home.config_file(Role::Loopd)).map_err(|error| error.problem())?;
    let options = StoreOptions::in_folder(home.state_dir());
    let files = options.make_files().map_err(Problem::from)?;
    let confinement = files
        .into_iter()
        .fold(Confinement::strict(), Confinement::write)
        .read(home.config_file(Role::Loopd));
    // Time zones are read before there is no right to.
    let schedule = config
        .schedule()
        .map_err(|error| Problem::new(Code::ConfigInvalid, error.why))?;
    Ok(Prepared::new(confinement, (config, schedule)))
}

async fn serve(context: Context, prepared: (Config, Schedule)) -> Result<(), Fatal> {
    let (config, schedule) = prepared;
    let options = StoreOptions::in_folder(context.home.state_dir());
    let opened = tokio::task::spawn_blocking(move || Store::open(options)).await;
    let opened = opened.map_err(|error| Problem::new(Code::Internal, error.to_string()))?;
    let (store, recovery) = opened.map_err(Problem::from)?;
    for repair in &recovery.repaired {
        tracing::warn!(session = %repair.session, "transcript repaired: {}", repair.what);
    }
    let engine = Engine::new(Parts {
        config,
        schedule,
        store: store.clone(),
        inference: Inference::new(context.client(Role::Inferproxy)?),
        broker: Broker::new(context.client(Role::Brokerd)?),
        memory: Memory::new(context.client(Role::Memoryd)?),
        tasks: context.tasks.clone(),
        shutdown: context.shutdown.clone(),
    });
    engine.resume(recovery);
    engine.keep_schedule();
    let ended = context.serve(router(engine)).await;
    store.close().await;
    ended
}
