//! A turn as a person follows it: events in, text out, stopped on request.

mod aftermath;
mod asking;
mod follow;
mod view;

pub(crate) use aftermath::words_of;
pub(crate) use follow::{follow, follow_compaction};
pub(crate) use view::{Looks, View, cost, summary, used};
