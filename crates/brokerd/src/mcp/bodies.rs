//! What is sent to a service, byte for byte, known before anything is sent. Pure.

use rmcp::model::ProtocolVersion;
use serde_json::{Value, json};

/// The number that the call has among the requests of a connection.
const CALL_ID: u64 = 2;

/// What every connection begins with: a greeting, its confirmation, and the question for the
/// tools. Nothing of a session is in it.
pub fn opening() -> [String; 3] {
    let greeting = json!({
        "jsonrpc": "2.0",
        "id": 0,
        "method": "initialize",
        "params": {
            "protocolVersion": ProtocolVersion::LATEST_WITH_INITIALIZE,
            "capabilities": {},
            "clientInfo": {"name": "boxmaker", "version": env!("CARGO_PKG_VERSION")},
        },
    });
    let confirmation = json!({"jsonrpc": "2.0", "method": "notifications/initialized"});
    let question = json!({"jsonrpc": "2.0", "id": 1, "method": "tools/list"});
    [greeting, confirmation, question].map(|message| message.to_string())
}

/// The call of a tool.
pub fn call_body(tool: &str, arguments: &Value) -> String {
    json!({
        "jsonrpc": "2.0",
        "id": CALL_ID,
        "method": "tools/call",
        "params": {"name": tool, "arguments": arguments},
    })
    .to_string()
}

/// What a message means; the rest of it may differ.
const PARTS: [&str; 8] = [
    "/id",
    "/method",
    "/params/name",
    "/params/arguments",
    "/params/cursor",
    "/params/protocolVersion",
    "/params/capabilities",
    "/params/clientInfo",
];

/// Whether two messages mean the same.
pub(super) fn mean_the_same(one: &Value, other: &Value) -> bool {
    PARTS
        .iter()
        .all(|part| one.pointer(part) == other.pointer(part))
}
