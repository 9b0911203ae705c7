//! `session compact`: a session's conversation summed up by hand.

use crate::commands::ask::told;
use crate::connection::Connection;
use crate::context::Context;
use crate::failure::Outcome;
use crate::turn::{View, follow_compaction};
use bxcore::id::SessionId;

pub(super) async fn run(
    context: &Context<'_>,
    connection: &Connection,
    session: &SessionId,
) -> Outcome {
    let view = (!context.output.json).then(|| View::new(context.looks()));
    let ended = follow_compaction(context, connection, session, view).await?;
    told(context, &ended.report)
}
