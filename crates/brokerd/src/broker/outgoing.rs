//! What a call would send, and what the decision has to know of it.

use super::core::{Core, Policy};
use super::mcp::Served;
use crate::consult::{self, CONSULT};
use crate::decision::{Approval, Arguments, Facts, Reservation, SecretsFound, Unroutable, sends};
use crate::fetch::{self, HTTP_FETCH, Target};
use crate::ledger::{Key, LedgerError};
use crate::memory::{MemoryCall, MemoryTool};
use crate::secrets::Search;
use bxcore::code::Code;
use bxcore::day::utc_day;
use bxcore::label::Label;
use bxcore::money::MicroUsd;
use bxcore::tool::{RiskTag, ToolName, ToolSpec};
use jiff::civil::Date;
use serde_json::Value;
use std::sync::Arc;

/// The exact bytes of a request that leaves the box: those on record are those that are sent.
#[derive(Debug, Clone)]
pub(super) struct Body(pub(super) Arc<str>);

/// What a call has done that is no work of this box.
#[derive(Debug)]
pub(super) enum Errand {
    /// A question, whose body is on record.
    Ask(Body),
    /// A tool of an MCP server.
    Serve(Box<Served>),
    /// A page.
    Fetch {
        url: String,
        /// The grant that it is fetched under, counted from 1.
        grant: Option<usize>,
    },
    /// Work for memoryd.
    Remember(MemoryCall),
}

impl AsRef<[u8]> for Body {
    fn as_ref(&self) -> &[u8] {
        self.0.as_bytes()
    }
}

impl Policy {
    /// What a tool lacks here that it can't work without.
    pub(super) fn lacks(&self, tool: &ToolName) -> Option<Code> {
        match tool.as_str() {
            _ if self.mcp.lacks(tool) => Some(Code::McpNotTrusted),
            CONSULT if self.consult.is_none() => Some(Code::ConsultNotConfigured),
            name if MemoryTool::named(name).is_some() && self.memory.is_none() => {
                Some(Code::NotConfigured)
            }
            _ => None,
        }
    }

    /// The body that a call would send, if it is one that sends a body of ours.
    pub(super) fn body(&self, tool: &ToolName, arguments: &Arguments) -> Option<Body> {
        let Arguments::Valid(arguments) = arguments else {
            return None;
        };
        if let Some(body) = self.mcp.body(tool, arguments) {
            return Some(Body(body.into()));
        }
        let consult = self.consult.as_ref().filter(|_| tool.as_str() == CONSULT)?;
        let settings = consult.settings();
        let body = consult::body(&settings.model, settings.temperature, arguments)?;
        Some(Body(body.into()))
    }

    /// The host that a call would reach, where it can be told. One whose address can't be read is
    /// refused when it is fetched.
    fn destination(&self, tool: &ToolName, arguments: &Arguments) -> Option<String> {
        if let (HTTP_FETCH, Arguments::Valid(arguments)) = (tool.as_str(), arguments) {
            let target = Target::parse(fetch::url_of(arguments)?).ok()?;
            return Some(target.host());
        }
        if let Some(host) = self.mcp.host(tool) {
            return Some(host);
        }
        let consult = self.consult.as_ref().filter(|_| tool.as_str() == CONSULT)?;
        Some(consult.settings().url.host().to_owned())
    }
}

impl Core {
    /// What the decision has to know beyond the call itself.
    pub(super) fn facts(
        &self,
        name: &ToolName,
        tool: Option<&ToolSpec>,
        arguments: &Arguments,
        body: Option<&Body>,
        reserved: Option<MicroUsd>,
    ) -> Result<Facts, LedgerError> {
        let Some(tool) = tool else {
            return Ok(Facts {
                lacks: self.policy.lacks(name),
                ..Facts::default()
            });
        };
        Ok(Facts {
            lacks: self.policy.lacks(name),
            destination: self.policy.destination(name, arguments),
            secrets: self.secrets_in(tool, arguments, body),
            reservation: self.reservation(tool, reserved)?,
            approval: if self.policy.approvals.ask {
                Approval::Askable
            } else {
                Approval::Unroutable(Unroutable::Nobody)
            },
        })
    }

    pub(super) fn secrets_in(
        &self,
        tool: &ToolSpec,
        arguments: &Arguments,
        body: Option<&Body>,
    ) -> SecretsFound {
        let Arguments::Valid(arguments) = arguments else {
            return SecretsFound::Absent;
        };
        if !sends(tool) {
            return SecretsFound::Absent;
        }
        // As it goes out, and as whoever reads it there gets it.
        let mut texts: Vec<&[u8]> = body.iter().map(AsRef::as_ref).collect();
        strings(arguments, &mut texts);
        match self.policy.secrets.search(&texts) {
            Search::Present { name } => SecretsFound::Present { name },
            Search::Unsure => SecretsFound::Unsure,
            Search::Absent => SecretsFound::Absent,
        }
    }

    fn reservation(
        &self,
        tool: &ToolSpec,
        reserved: Option<MicroUsd>,
    ) -> Result<Reservation, LedgerError> {
        let (Some(needed), Some(consult)) = (tool.reserve, &self.policy.consult) else {
            return Ok(Reservation::Missing);
        };
        if !tool.tags.contains(&RiskTag::Spend) || reserved.is_none_or(|held| held < needed) {
            return Ok(Reservation::Missing);
        }
        let spent = self.ledger.spent(tool.name.as_str(), self.today())?;
        let fits = spent.saturating_add(needed) <= consult.settings().daily_usd.0;
        Ok(if fits {
            Reservation::Held
        } else {
            Reservation::DayLimit
        })
    }

    /// The day (UTC) that money is counted for.
    pub(super) fn today(&self) -> Date {
        utc_day((self.now)())
    }
}

/// What of an allowed call is done elsewhere, if it is.
pub(super) fn errand(
    tool: &ToolName,
    key: &Key,
    label: Label,
    arguments: &Value,
    body: Option<Body>,
    grant: Option<usize>,
) -> Option<Errand> {
    if let Some(body) = body {
        return Some(Errand::Ask(body));
    }
    if let Some(tool) = MemoryTool::named(tool.as_str()) {
        return Some(Errand::Remember(MemoryCall {
            tool,
            session: key.session.clone(),
            call: key.call,
            label,
            arguments: arguments.clone(),
        }));
    }
    let url = fetch::url_of(arguments).filter(|_| tool.as_str() == HTTP_FETCH)?;
    let url = url.to_owned();
    Some(Errand::Fetch { url, grant })
}

/// Every text within arguments: names and values, whatever holds them.
fn strings<'a>(value: &'a Value, found: &mut Vec<&'a [u8]>) {
    match value {
        Value::String(text) => found.push(text.as_bytes()),
        Value::Array(items) => items.iter().for_each(|item| strings(item, found)),
        Value::Object(members) => {
            for (name, value) in members {
                found.push(name.as_bytes());
                strings(value, found);
            }
        }
        Value::Null | Value::Bool(_) | Value::Number(_) => {}
    }
}
