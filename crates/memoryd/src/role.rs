//! The role: what memoryd keeps when it is confined, and how it serves and ends.

use crate::config::Config;
use crate::folder::{Folder, Stamp};
use crate::http::router;
use crate::index::{Index, Sources};
use crate::searcher::Searcher;
use crate::service::Service;
use bxcore::code::Code;
use bxcore::problem::Problem;
use bxcore::role::Role;
use bxkit::confine::Confinement;
use bxkit::daemon::{self, Context, Fatal, FatalSwitch, Prelude, Prepared};
use bxkit::home::Home;
use std::path::PathBuf;
use std::process::ExitCode;

/// The name of the index in memoryd's folder.
const INDEX_FILE: &str = "index.db";

/// What was made ready before the confinement.
struct Ready {
    config: Config,
    folders: Folders,
}

/// The folders that were there at the start. The right to write is to these, and not to whatever
/// later has their names.
#[derive(Debug, Clone)]
struct Folders(Vec<(PathBuf, Option<(u64, u64)>)>);

impl Folders {
    fn look(paths: [PathBuf; 2]) -> Self {
        Self(paths.map(|path| (path.clone(), identity(&path))).into())
    }

    /// One that was taken away or replaced since.
    fn lost(&self) -> Option<&PathBuf> {
        let lost = |(path, was): &&(PathBuf, Option<(u64, u64)>)| identity(path) != *was;
        self.0.iter().find(lost).map(|(path, _)| path)
    }

    /// Ends the role if a folder is lost, to be started again with the one that is there then.
    fn end_if_lost(&self, fatal: &FatalSwitch) {
        if let Some(path) = self.lost() {
            let problem = Problem::new(Code::Internal, "A folder of memory was taken away")
                .detail(path.display().to_string())
                .hint("memoryd is started again, and makes it if it is not there");
            fatal.end(problem);
        }
    }
}

fn identity(path: &PathBuf) -> Option<(u64, u64)> {
    std::fs::metadata(path)
        .ok()
        .map(|found| Stamp::of(&found).file)
}

/// Runs memoryd until it is told to end, and gives its exit code.
///
/// It writes memory files and its index, reads transcripts and its configuration, and nothing else;
/// it opens no IP socket and starts no program.
pub fn run() -> ExitCode {
    daemon::run(Role::Memoryd, prepare, serve)
}

fn prepare(prelude: &Prelude) -> Result<Prepared<Ready>, Fatal> {
    let home = &prelude.home;
    let config = Config::load(&home.config_file(Role::Memoryd)).map_err(|error| error.problem())?;
    let confinement = confinement(home);
    let folders = Folders::look([home.memory_dir(), home.memoryd_dir()]);
    Ok(Prepared::new(confinement, Ready { config, folders }))
}

/// What memoryd keeps: its two folders, and to read transcripts and its configuration.
pub fn confinement(home: &Home) -> Confinement {
    Confinement::strict()
        .read(home.config_file(Role::Memoryd))
        .read(home.sessions_dir())
        .write(home.memory_dir())
        .write(home.memoryd_dir())
}

async fn serve(context: Context, ready: Ready) -> Result<(), Fatal> {
    let home = &context.home;
    let folder = Folder::new(home.memory_dir());
    let sources = Sources {
        memory: folder.clone(),
        sessions: home.sessions_dir(),
    };
    let index = Index::new(home.memoryd_dir().join(INDEX_FILE), sources);
    let failed = || {
        let (folders, fatal) = (ready.folders.clone(), context.fatal.clone());
        move || folders.end_if_lost(&fatal)
    };
    let (searcher, thread) = Searcher::start(index, failed());
    let service = Service::new(folder, searcher, ready.config.baseline_bytes, failed());
    let served = context.serve(router(service)).await;
    // Every handle is gone with the routes, so the thread ends when its search has.
    if thread.await.is_err() {
        return Err(Fatal::new(Code::Internal, "The search broke off"));
    }
    served
}
