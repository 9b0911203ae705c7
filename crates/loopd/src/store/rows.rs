//! Rows of the database, written and read: one file a table or two that go together.
//!
//! Every statement of the store is below here or in `schema`.

mod accounts;
mod calls;
mod heads;
mod journal;
mod schedule;
mod values;

pub(super) use accounts::{account, put_account};
pub(super) use calls::{ledger, put_charge, put_reservation, remove_reservation, reservations};
pub(super) use heads::{
    head, last_session_row, put_broken, put_head, remove_copied_session, remove_session, retired,
    session_lengths, session_names, session_row, session_rows, unfinished,
};
pub(super) use journal::{
    Piece, last_seq, piece, pieces, pieces_by_session, prune, put_piece, remove_pieces,
};
pub(super) use schedule::{put_stamp, stamps};
