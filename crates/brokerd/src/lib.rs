//! Decides every tool call, keeps the label ledger and the audit log, runs tools.
