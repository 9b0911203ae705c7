//! Scripts in a file: one JSON object a line, each a reply.

use serde::Deserialize;
use serde_json::Value;
use std::time::Duration;

use super::builder::Builder;
use super::reply::{Call, Finish, Reply};

/// How the lines of a script are used.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Order {
    /// Each turn starts at the first line; its last line stays.
    Turn,
    /// One line a request, in order of arrival; then from the start again.
    Arrival,
}

/// A script read from text.
#[derive(Debug, Clone)]
pub struct Script {
    replies: Vec<Reply>,
    order: Order,
}

/// One line of a script.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Line {
    #[serde(default)]
    text: String,
    #[serde(default)]
    reasoning: String,
    json: Option<Value>,
    #[serde(default)]
    tool_calls: Vec<CallLine>,
    #[serde(default)]
    length: bool,
    status: Option<u16>,
    #[serde(default)]
    body: Value,
    #[serde(default)]
    stall: bool,
    cut_after_chunks: Option<usize>,
    chunk_bytes: Option<usize>,
    delay_ms: Option<u64>,
    pace_ms: Option<u64>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct CallLine {
    name: String,
    #[serde(default)]
    arguments: Value,
}

impl Script {
    /// Reads a script; blank lines don't count.
    ///
    /// # Errors
    /// With the number of the first line that is no reply, or when there is none.
    pub fn parse(text: &str, order: Order) -> anyhow::Result<Self> {
        let mut replies = Vec::new();
        for (number, line) in text
            .lines()
            .enumerate()
            .filter(|(_, line)| !line.trim().is_empty())
        {
            let line: Line = serde_json::from_str(line)
                .map_err(|error| anyhow::anyhow!("line {}: {error}", number + 1))?;
            replies.push(line.reply());
        }
        anyhow::ensure!(!replies.is_empty(), "the script has no reply");
        Ok(Self { replies, order })
    }

    pub(super) fn install(self, builder: Builder) -> Builder {
        match self.order {
            Order::Turn => builder.respond_per_turn(self.replies),
            Order::Arrival => builder
                .respond(move |request| self.replies[request.seq() % self.replies.len()].clone()),
        }
    }
}

impl Line {
    fn reply(self) -> Reply {
        let mut reply = if self.stall {
            Reply::stall()
        } else if let Some(status) = self.status {
            Reply::http(
                status,
                "application/json; charset=utf-8",
                self.body.to_string(),
            )
        } else if !self.tool_calls.is_empty() {
            let call = |call: CallLine| Call {
                id: String::new(),
                name: call.name,
                arguments: match call.arguments {
                    Value::String(text) => text,
                    Value::Null => "{}".to_owned(),
                    other => other.to_string(),
                },
            };
            Reply::raw_calls(self.tool_calls.into_iter().map(call)).content(self.text)
        } else {
            self.json
                .map_or_else(|| Reply::text(self.text), |json| Reply::json(&json))
        };
        if !self.reasoning.is_empty() {
            reply = reply.reasoning(self.reasoning);
        }
        if self.length {
            reply = reply.finish(Finish::Length);
        }
        if let Some(chunks) = self.cut_after_chunks {
            reply = reply.cut_after_chunks(chunks);
        }
        if let Some(bytes) = self.chunk_bytes {
            reply = reply.chunk_bytes(bytes);
        }
        if let Some(ms) = self.delay_ms {
            reply = reply.after(Duration::from_millis(ms));
        }
        if let Some(ms) = self.pace_ms {
            reply = reply.pace(Duration::from_millis(ms));
        }
        reply
    }
}
