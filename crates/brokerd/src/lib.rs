//! Decides every tool call, keeps the label ledger and the audit log, runs tools.
//!
//! The only role that decides: loopd asks, and what loopd stores changes no answer. The one
//! role that it calls is memoryd.

pub mod approval;
pub mod audit;
pub mod broker;
pub mod check;
pub mod config;
pub mod consult;
pub mod decision;
pub mod egress;
pub mod fetch;
pub mod http;
pub mod ledger;
pub mod mcp;
pub mod memory;
pub mod provider;
mod role;
pub mod sandbox;
pub mod secrets;
pub mod tools;

pub use role::run;
