//! The core tools, which are all that the tools array has, in every epoch.
//!
//! Everything else is found through `find_tool` and called through `call_tool`, so that a new tool
//! never changes a baseline.

use super::own::OwnTool;
use bxcore::memory::{
    ASK_MEMORY, MEMORY, RECALL, ask_memory_parameters, memory_parameters, recall_parameters,
};
use serde_json::value::RawValue;
use serde_json::{Value, json};
use std::sync::{Arc, LazyLock};

/// The core tool that finds others.
pub const FIND_TOOL: &str = "find_tool";
/// The core tool that calls a found one.
pub const CALL_TOOL: &str = "call_tool";

/// One tool of the array.
#[derive(Debug, Clone, PartialEq)]
pub struct CoreTool {
    /// Its name.
    pub name: &'static str,
    /// What the model reads of it.
    pub description: &'static str,
    /// JSON Schema of its arguments.
    pub parameters: Value,
    /// What answers it here; none for what brokerd decides, and for `call_tool`, which stands for
    /// another tool.
    pub own: Option<OwnTool>,
}

/// The core tools in the order of the array.
pub static CORE_TOOLS: LazyLock<[CoreTool; 6]> = LazyLock::new(|| {
    [
        CoreTool {
            name: "clock",
            description: "Tells the time, the date and the weekday.",
            parameters: object(&json!({}), &[]),
            own: Some(OwnTool::Clock),
        },
        CoreTool {
            name: RECALL,
            description: "Searches notes and earlier conversations.",
            parameters: recall_parameters(),
            own: None,
        },
        CoreTool {
            name: MEMORY,
            description: "Adds, replaces, removes or lists notes in memory.",
            parameters: memory_parameters(),
            own: None,
        },
        CoreTool {
            name: ASK_MEMORY,
            description: "Answers a question from memory.",
            parameters: ask_memory_parameters(),
            own: None,
        },
        CoreTool {
            name: FIND_TOOL,
            description: "Finds more tools, such as tools for files. Say in a few words what the tool should do.",
            parameters: object(
                &json!({"query": {"type": "string", "maxLength": 200}}),
                &["query"],
            ),
            own: Some(OwnTool::FindTool),
        },
        CoreTool {
            name: CALL_TOOL,
            description: "Calls a tool that find_tool found, by its name.",
            parameters: object(
                &json!({
                    "name": {"type": "string", "maxLength": 96},
                    "arguments": {"type": "object"},
                }),
                &["name", "arguments"],
            ),
            own: None,
        },
    ]
});

/// The core tool of a name.
pub fn core_tool(name: &str) -> Option<&'static CoreTool> {
    CORE_TOOLS.iter().find(|tool| tool.name == name)
}

static CORE_ARRAY: LazyLock<Arc<RawValue>> = LazyLock::new(|| {
    let functions: Vec<Value> = CORE_TOOLS
        .iter()
        .map(|tool| {
            json!({
                "type": "function",
                "function": {
                    "name": tool.name,
                    "description": tool.description,
                    "parameters": tool.parameters,
                },
            })
        })
        .collect();
    // Values of plain data always serialise; the fallback keeps this free of panics.
    let raw =
        serde_json::value::to_raw_value(&functions).unwrap_or_else(|_| RawValue::NULL.to_owned());
    Arc::from(raw)
});

/// The tools array as it goes over the wire, the same bytes every time.
pub fn core_array() -> Arc<RawValue> {
    Arc::clone(&CORE_ARRAY)
}

fn object(properties: &Value, required: &[&str]) -> Value {
    json!({
        "type": "object",
        "properties": properties,
        "required": required,
        "additionalProperties": false,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_array_is_the_documented_one() {
        let array: Value = serde_json::from_str(core_array().get()).unwrap();
        let names: Vec<&str> = array
            .as_array()
            .unwrap()
            .iter()
            .map(|tool| tool["function"]["name"].as_str().unwrap())
            .collect();
        assert_eq!(names, bxcore::tool::CORE_TOOLS);
        for tool in array.as_array().unwrap() {
            assert_eq!(
                tool["function"]["parameters"]["additionalProperties"],
                false
            );
        }
    }

    #[test]
    fn the_order_of_keys_is_kept() {
        let text = core_array();
        let at = |needle: &str| text.get().find(needle).unwrap();
        assert!(at("\"query\"") < at("\"limit\""));
    }
}
