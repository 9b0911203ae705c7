//! `/v1/slots`: what each slot does, by our own table and by what the server says.

use crate::backend::Backend;
use crate::chat::Engine;
use crate::slots::{Row, RowState, SlotsPage};
use axum::Json;
use axum::extract::State;
use bxcore::wire::inferproxy::{SlotActivity, SlotStatus};
use futures_util::future::join_all;
use std::time::Duration;

/// How long the server may take to show its slots here; afterwards they are `unknown`.
const SLOTS_WAIT_MS: u64 = 1_000;

pub(super) async fn list(State(engine): State<Engine>) -> Json<Vec<SlotStatus>> {
    let backends = engine.registry().all().iter();
    let all = join_all(backends.map(|backend| of_backend(backend))).await;
    Json(all.into_iter().flatten().collect())
}

async fn of_backend(backend: &Backend) -> Vec<SlotStatus> {
    // Slots are known once the server was looked at.
    backend.fresh().await;
    let rows = backend.slots().rows();
    if rows.is_empty() {
        return Vec::new();
    }
    let looking = tokio::time::timeout(
        Duration::from_millis(SLOTS_WAIT_MS),
        backend.look_at_slots(),
    );
    let page = looking.await.ok().and_then(Result::ok);
    rows.into_iter()
        .map(|row| status(backend, row, page.as_ref()))
        .collect()
}

fn status(backend: &Backend, row: Row, page: Option<&SlotsPage>) -> SlotStatus {
    let (activity, session) = match row.state {
        RowState::Busy(holder) => (SlotActivity::Busy, Some(holder.session)),
        RowState::Draining(holder) => (SlotActivity::Draining, Some(holder.session)),
        RowState::Idle => (activity_of_idle(row.slot, page), None),
    };
    SlotStatus {
        backend: backend.spec().name.clone(),
        slot: row.slot,
        activity,
        session,
        since_ms: row.for_ms,
    }
}

fn activity_of_idle(slot: u32, page: Option<&SlotsPage>) -> SlotActivity {
    match page.and_then(|page| page.slot(slot)) {
        None => SlotActivity::Unknown,
        Some(look) if look.is_processing => SlotActivity::Foreign,
        Some(_) => SlotActivity::Idle,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_slot_that_works_without_us_is_foreign() {
        let page =
            SlotsPage::parse(br#"[{"id":0,"is_processing":true},{"id":1,"is_processing":false}]"#);
        let page = page.unwrap();
        assert_eq!(activity_of_idle(0, Some(&page)), SlotActivity::Foreign);
        assert_eq!(activity_of_idle(1, Some(&page)), SlotActivity::Idle);
        assert_eq!(activity_of_idle(2, Some(&page)), SlotActivity::Unknown);
        assert_eq!(activity_of_idle(0, None), SlotActivity::Unknown);
    }
}
