//! The tools of MCP servers: as the servers had them last, and as the owner trusts them.

use super::error::LedgerError;
use super::open::Ledger;
use crate::mcp::ToolText;
use bxcore::id::McpServerName;
use rusqlite::{Row, params};
use std::collections::BTreeMap;

/// The tools of servers, by the server's name and their own.
pub type ToolTexts = BTreeMap<McpServerName, BTreeMap<String, ToolText>>;

impl Ledger {
    /// What every server had when it was asked last.
    pub fn mcp_seen(&self) -> Result<ToolTexts, LedgerError> {
        self.mcp_texts("SELECT server, tool, description, schema FROM mcp_seen")
    }

    /// What the owner trusts of every server.
    pub fn mcp_pins(&self) -> Result<ToolTexts, LedgerError> {
        self.mcp_texts("SELECT server, tool, description, schema FROM mcp_pins")
    }

    fn mcp_texts(&self, sql: &str) -> Result<ToolTexts, LedgerError> {
        let read = |row: &Row<'_>| {
            let text = ToolText {
                name: row.get(1)?,
                description: row.get(2)?,
                schema: row.get(3)?,
            };
            Ok((row.get::<_, String>(0)?, text))
        };
        let mut select = self.db.prepare_cached(sql)?;
        let mut texts = ToolTexts::new();
        for row in select.query_map([], read)? {
            let (server, text) = row?;
            // Only names that hold their rule are ever put here.
            if let Ok(server) = McpServerName::new(server) {
                let tools = texts.entry(server).or_default();
                tools.insert(text.name.clone(), text);
            }
        }
        Ok(texts)
    }

    /// Keeps what a server has, in place of what it had; belongs into a transaction.
    pub fn put_mcp_seen(
        &mut self,
        server: &McpServerName,
        tools: &[ToolText],
    ) -> Result<(), LedgerError> {
        let mut delete = self
            .db
            .prepare_cached("DELETE FROM mcp_seen WHERE server = ?1")?;
        delete.execute([server.as_str()])?;
        let sql =
            "INSERT INTO mcp_seen (server, tool, description, schema) VALUES (?1, ?2, ?3, ?4)";
        let mut insert = self.db.prepare_cached(sql)?;
        for text in tools {
            insert.execute(params![
                server.as_str(),
                text.name,
                text.description,
                text.schema
            ])?;
        }
        Ok(())
    }

    /// Keeps what the owner trusts, with the number of the record that says so; belongs into a
    /// transaction.
    pub fn put_mcp_pin(
        &mut self,
        server: &McpServerName,
        text: &ToolText,
        audit: u64,
    ) -> Result<(), LedgerError> {
        let sql = "INSERT OR REPLACE INTO mcp_pins (server, tool, description, schema, audit)
                   VALUES (?1, ?2, ?3, ?4, ?5)";
        let audit = i64::try_from(audit).unwrap_or(i64::MAX);
        let mut insert = self.db.prepare_cached(sql)?;
        insert.execute(params![
            server.as_str(),
            text.name,
            text.description,
            text.schema,
            audit
        ])?;
        Ok(())
    }

    /// Forgets what the owner trusts no more; belongs into a transaction.
    pub fn drop_mcp_pin(&mut self, server: &McpServerName, tool: &str) -> Result<(), LedgerError> {
        let sql = "DELETE FROM mcp_pins WHERE server = ?1 AND tool = ?2";
        let mut delete = self.db.prepare_cached(sql)?;
        delete.execute(params![server.as_str(), tool])?;
        Ok(())
    }
}
