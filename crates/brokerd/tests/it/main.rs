//! brokerd from the outside: decisions, ledger, log, tools, calls, routes.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::print_stderr,
    reason = "tests report by panicking"
)]

mod approvals;
mod audit_log;
mod calls;
mod checkpoints;
mod consult;
mod decision;
mod disk_faults;
mod fetch;
mod histories;
mod ledger;
mod mcp;
mod provider;
mod recovery;
mod role;
mod routes;
mod sandbox;
mod shell;
mod support;
mod tools;
mod writing;
