//! Sessions, turns, slots and budgets: the only role that starts inference.
