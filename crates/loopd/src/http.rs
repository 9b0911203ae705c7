//! loopd's routes: they translate between HTTP and the engine, and decide nothing.

mod activity;
mod backup;
mod jobs;
mod sessions;
mod slots;
mod turns;

use crate::drive::Engine;
use axum::Router;
use std::sync::Arc;

/// All routes of loopd.
pub fn router(engine: Arc<Engine>) -> Router {
    Router::new()
        .merge(turns::routes())
        .merge(sessions::routes())
        .merge(slots::routes())
        .merge(backup::routes())
        .merge(jobs::routes())
        .merge(activity::routes())
        .with_state(engine)
}
