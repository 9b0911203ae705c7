//! The tools that loopd answers itself. The time is passed in.
//!
//! Every result goes through the same capping and neutralising as a stranger's.

use super::catalog::Catalog;
use super::core::CALL_TOOL;
use bxcore::code::Code;
use bxcore::json::parse_strict;
use bxcore::label::Label;
use bxcore::text;
use bxcore::tool::ToolSpec;
use bxcore::transcript::{CallOutcome, ToolMode};
use bxcore::wire::brokerd::CallResult;
use jiff::Zoned;
use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::{Map, Value, json};

/// Where there are fewer tools than this, `find_tool` gives them all.
const ALL_TOOLS_BELOW: usize = 10;
/// The most tools that `find_tool` gives otherwise.
const MAX_HITS: usize = 8;

/// A tool of loopd's own.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum OwnTool {
    /// The time.
    Clock,
    /// Finds tools.
    FindTool,
}

/// What loopd's own tools may know.
#[derive(Debug, Clone, Copy)]
pub struct OwnEnv<'a> {
    /// Now, in the owner's zone.
    pub now: &'a Zoned,
    /// The tools that can be found.
    pub catalog: &'a Catalog,
    /// How the session calls tools: it shapes the line that `find_tool` ends with.
    pub mode: ToolMode,
    /// The cap on a result, in bytes.
    pub max_result_bytes: usize,
}

/// Runs one of loopd's own tools. Arguments that don't fit are a result, never an error.
pub fn run(tool: OwnTool, arguments: &str, env: &OwnEnv<'_>) -> CallResult {
    let answer = match tool {
        OwnTool::Clock => read::<NoArguments>(arguments).map(|_| clock(env.now)),
        OwnTool::FindTool => read::<Query>(arguments).map(|query| find(&query.query, env)),
    };
    let (outcome, code, content) = match answer {
        Ok(content) => (CallOutcome::Ok, None, content),
        Err((code, text)) => (CallOutcome::Denied, Some(code), text),
    };
    let shown = text::present(&content, env.max_result_bytes);
    CallResult {
        outcome,
        code,
        content: shown.text,
        raw_bytes: u64::try_from(shown.raw_bytes).unwrap_or(u64::MAX),
        label: Label::BOTTOM,
        session_label: Label::BOTTOM,
        audit: None,
        charge: None,
        replayed: false,
    }
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct NoArguments {}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Query {
    query: String,
}

fn read<T: DeserializeOwned>(arguments: &str) -> Result<T, (Code, String)> {
    let bad = |why: String| {
        (
            Code::InvalidArguments,
            format!("The arguments are wrong: {why}."),
        )
    };
    let value = parse_strict(arguments).map_err(|error| bad(error.to_string()))?;
    if !value.is_object() {
        return Err(bad("not an object".to_owned()));
    }
    T::deserialize(value).map_err(|error| bad(error.to_string()))
}

/// The line that a message begins with which no person wrote: the clock stays out of the baseline.
pub fn time_line(now: &Zoned) -> String {
    format!("It is {}.", now.strftime("%H:%M on %A, %-d %B %Y"))
}

fn clock(now: &Zoned) -> String {
    // The timestamp is exact. The sentence is for small models: they read a timestamp badly, and
    // take up what stands last.
    let zone = now.time_zone().iana_name().unwrap_or("local time");
    format!(
        "{} ({zone})\n{}",
        now.strftime("%Y-%m-%dT%H:%M:%S%:z"),
        time_line(now),
    )
}

fn find(query: &str, env: &OwnEnv<'_>) -> String {
    let ranked = env.catalog.ranked(query);
    let everything = ranked.len() < ALL_TOOLS_BELOW;
    let mut hits: Vec<&ToolSpec> = ranked
        .iter()
        .filter(|(_, score)| everything || *score > 0.0)
        .take(if everything {
            ALL_TOOLS_BELOW
        } else {
            MAX_HITS
        })
        .map(|(tool, _)| *tool)
        .collect();
    // A list that is cut in the middle is no JSON any more, so what doesn't fit is left out whole.
    loop {
        let found = listed(&hits, env.mode);
        if found.len() <= env.max_result_bytes || hits.pop().is_none() {
            return found;
        }
    }
}

fn listed(hits: &[&ToolSpec], mode: ToolMode) -> String {
    let tools: Vec<Value> = hits
        .iter()
        .map(|tool| {
            json!({
                "name": tool.name,
                "description": tool.description,
                "parameters": tool.parameters,
            })
        })
        .collect();
    let found = json!({ "tools": tools });
    match hits.first() {
        Some(best) => format!("{found}\n{}", ready_made(best, mode)),
        None => format!("{found}\nNo tool fits these words."),
    }
}

/// The call of a tool, ready to be copied: small models find it hard to put one together.
fn ready_made(tool: &ToolSpec, mode: ToolMode) -> String {
    let call = json!({"name": tool.name, "arguments": example(&tool.parameters)});
    match mode {
        ToolMode::Native => format!("{CALL_TOOL} {call}"),
        ToolMode::Schema => json!({ CALL_TOOL: call }).to_string(),
    }
}

/// An object with the required arguments of a schema, filled with samples.
fn example(parameters: &Value) -> Value {
    let properties = &parameters["properties"];
    let required = parameters["required"].as_array();
    let members: Map<String, Value> = required
        .into_iter()
        .flatten()
        .filter_map(Value::as_str)
        .map(|name| (name.to_owned(), sample(name, &properties[name])))
        .collect();
    Value::Object(members)
}

fn sample(name: &str, schema: &Value) -> Value {
    if let Some(first) = schema["enum"].get(0) {
        return first.clone();
    }
    match schema["type"].as_str() {
        Some("integer" | "number") => json!(1),
        Some("boolean") => json!(true),
        Some("array") => json!([]),
        Some("object") => json!({}),
        _ => json!(name.to_uppercase()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use bxcore::tool::{Repeat, ToolName};
    use std::collections::BTreeSet;

    fn spec(name: &str) -> ToolSpec {
        ToolSpec {
            name: ToolName::new(name).unwrap(),
            description: format!("Does {name} things."),
            parameters: json!({
                "type": "object",
                "properties": {
                    "path": {"type": "string"},
                    "how": {"enum": ["fast", "slow"]},
                    "lines": {"type": "integer"},
                    "more": {"type": "string"},
                },
                "required": ["path", "how", "lines"],
            }),
            tags: BTreeSet::new(),
            repeat: Repeat::Safe,
            reserve: None,
        }
    }

    fn ran(tool: OwnTool, arguments: &str, tools: Vec<ToolSpec>, mode: ToolMode) -> CallResult {
        let now: Zoned = "2026-11-30T18:31:09+01:00[Europe/Berlin]".parse().unwrap();
        let catalog = Catalog::new(tools);
        run(
            tool,
            arguments,
            &OwnEnv {
                now: &now,
                catalog: &catalog,
                mode,
                max_result_bytes: 4096,
            },
        )
    }

    #[test]
    fn the_clock_tells_time_date_weekday_and_zone() {
        let result = ran(OwnTool::Clock, "{}", vec![], ToolMode::Native);
        assert_eq!(result.outcome, CallOutcome::Ok);
        insta::assert_snapshot!(result.content, @r"
        2026-11-30T18:31:09+01:00 (Europe/Berlin)
        It is 18:31 on Monday, 30 November 2026.
        ");
    }

    #[test]
    fn wrong_arguments_are_a_result() {
        for (tool, arguments) in [
            (OwnTool::Clock, r#"{"zone":"UTC"}"#),
            (OwnTool::Clock, "now"),
            (OwnTool::Clock, "[]"),
            (OwnTool::FindTool, "{}"),
            (OwnTool::FindTool, r#"{"query":1}"#),
            (OwnTool::FindTool, r#"{"query":"a","query":"b"}"#),
            (OwnTool::FindTool, "null"),
        ] {
            let result = ran(tool, arguments, vec![], ToolMode::Native);
            assert_eq!(result.code, Some(Code::InvalidArguments), "{arguments}");
            assert_eq!(result.outcome, CallOutcome::Denied);
        }
    }

    #[test]
    fn what_is_found_ends_with_a_call_to_copy() {
        let tools = || vec![spec("read_file"), spec("other")];
        let query = r#"{"query":"read file"}"#;
        let native = ran(OwnTool::FindTool, query, tools(), ToolMode::Native);
        let schema = ran(OwnTool::FindTool, query, tools(), ToolMode::Schema);
        let last = |result: &CallResult| result.content.lines().last().unwrap().to_owned();
        insta::assert_snapshot!(last(&native), @r#"call_tool {"name":"read_file","arguments":{"path":"PATH","how":"fast","lines":1}}"#);
        insta::assert_snapshot!(last(&schema), @r#"{"call_tool":{"name":"read_file","arguments":{"path":"PATH","how":"fast","lines":1}}}"#);
        let first: Value = serde_json::from_str(native.content.lines().next().unwrap()).unwrap();
        assert_eq!(first["tools"][0]["name"], "read_file");
        assert_eq!(first["tools"][1]["name"], "other");
    }

    #[test]
    fn many_tools_are_narrowed_and_never_cut_in_the_middle() {
        let tools: Vec<ToolSpec> = (0..40).map(|n| spec(&format!("read_file_{n}"))).collect();
        let result = ran(
            OwnTool::FindTool,
            r#"{"query":"read"}"#,
            tools,
            ToolMode::Native,
        );
        let first: Value = serde_json::from_str(result.content.lines().next().unwrap()).unwrap();
        assert_eq!(first["tools"].as_array().unwrap().len(), MAX_HITS);
        let none = ran(
            OwnTool::FindTool,
            r#"{"query":"zzz"}"#,
            vec![],
            ToolMode::Native,
        );
        assert_eq!(none.content, "{\"tools\":[]}\nNo tool fits these words.");
    }
}
