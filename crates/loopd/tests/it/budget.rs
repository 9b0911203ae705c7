//! The budget tree in the store: bounds hold whatever happens at once, crashes included.

mod property;
mod race;
mod schedules;
