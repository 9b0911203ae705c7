//! The store: commits, crashes, damage, a full disk, listing, removing, copying.

mod backup;
mod commit;
mod crash;
mod damage;
mod delete;
mod disk;
mod listing;
