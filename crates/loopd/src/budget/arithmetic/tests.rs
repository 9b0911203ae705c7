//! Tables for chains of accounts.
