//! What is to be known of a backend before it was ever asked.

use crate::config::{BackendTable, BackendUrl, SlotsTable, ToolsSetting};
use bxcore::id::BackendName;
use bxcore::wire::inferproxy::{BackendKind, BackendOrigin};

/// How many requests a server without slots takes at once, unless configured.
pub const DEFAULT_CONCURRENCY: u32 = 4;

/// A backend as it was configured, or as it is looked for.
#[derive(Debug, Clone)]
pub struct Spec {
    /// Its name.
    pub name: BackendName,
    /// Where it comes from.
    pub origin: BackendOrigin,
    /// Where it listens.
    pub url: BackendUrl,
    /// What kind of server it is; none for one that is looked for.
    pub kind: Option<BackendKind>,
    /// What its slots are for, if configured.
    pub slots: Option<SlotsTable>,
    /// Slots for council seats.
    pub seats: Vec<u32>,
    /// How its model is made to call tools.
    pub tools: ToolsSetting,
    /// How many requests it takes at once, without slots.
    pub max_concurrency: u32,
    /// The model to name, if configured.
    pub model: Option<String>,
}

impl Spec {
    /// A backend of the owner's configuration.
    pub fn configured(table: &BackendTable, url: BackendUrl) -> Self {
        Self {
            name: table.name.clone(),
            origin: BackendOrigin::Configured,
            url,
            kind: Some(table.kind),
            slots: table.slots.clone(),
            seats: table.seats.clone(),
            tools: table.tools,
            max_concurrency: table.max_concurrency.unwrap_or(DEFAULT_CONCURRENCY),
            model: table.model.clone(),
        }
    }

    /// A backend that is looked for, or the starter engine.
    pub fn unconfigured(
        name: BackendName,
        origin: BackendOrigin,
        url: BackendUrl,
        kind: Option<BackendKind>,
    ) -> Self {
        Self {
            name,
            origin,
            url,
            kind,
            slots: None,
            seats: Vec::new(),
            tools: ToolsSetting::Auto,
            max_concurrency: DEFAULT_CONCURRENCY,
            model: None,
        }
    }
}
