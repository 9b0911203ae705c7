//! Servers that fail in every way: one result that names the class, in bounded time, and no process
//! is left.

use super::{GRANT, Scripted, look, tool, trust_all};
use crate::sandbox::wait_gone;
use crate::support::owner;
use bxcore::code::Code;
use bxcore::transcript::CallOutcome;
use serde_json::json;

const QUICK: &str = "start_ms = 2000\ncall_ms = 2000";

fn class_of(title: &str) -> &str {
    let (_, rest) = title.rsplit_once('(').unwrap();
    rest.split(')').next().unwrap()
}

#[tokio::test]
async fn each_failure_of_a_look_has_its_class() {
    let scripted = Scripted::configured(&[tool("echo", "")], QUICK, GRANT);
    let started = scripted.test.start_with_mcp();
    let good = json!({"tools": [tool("echo", "")]}).to_string();
    let check = async |expect: &str| {
        let problem = look(&started).await.unwrap_err();
        assert_eq!(
            (problem.code, class_of(&problem.title)),
            (Code::McpFailed, expect),
            "{problem}"
        );
        wait_gone(&scripted.plan_file());
        problem
    };
    for (method, fault, expect) in [
        ("initialize", "silent", "timeout"),
        ("initialize", "garbage", "not-protocol"),
        ("initialize", "endless", "too-long"),
        ("initialize", "flood", "too-much"),
        ("initialize", "half", "ended"),
        ("initialize", "exit", "ended"),
        ("initialize", "other-id", "unexpected"),
        ("initialize", "error", "refused"),
        ("tools/list", "silent", "timeout"),
        ("tools/list", "garbage", "not-protocol"),
        ("tools/list", "endless", "too-long"),
        ("tools/list", "flood", "too-much"),
        ("tools/list", "half", "ended"),
        ("tools/list", "exit", "ended"),
        ("tools/list", "error", "refused"),
    ] {
        scripted.plan(&json!({method: fault}), &good);
        let problem = check(expect).await;
        let told = problem.detail.unwrap();
        assert_eq!(told.contains("no such module"), fault == "exit", "{told}");
    }
    for version in ["2023-01-01", "2026-07-28", "1", ""] {
        scripted.plan_version(&json!({}), &good, version);
        check("version").await;
    }
    let many: Vec<_> = (0..200).map(|n| tool(&format!("t{n}"), "")).collect();
    for (list, expect) in [
        (json!({"tools": many}), "too-many-tools"),
        (
            json!({"tools": [tool("a", ""), tool("a", "")]}),
            "duplicate-tool",
        ),
        (json!({"tools": [tool("a\u{7}b", "")]}), "bad-name"),
        (
            json!({"tools": [tool("a", &"x".repeat(20_000))]}),
            "description",
        ),
        (
            json!({"tools": [{"name": "a", "inputSchema": {"type": "object", "$ref": "https://evil.test/"}}]}),
            "schema",
        ),
        (json!({"tools": [], "nextCursor": "more"}), "pages"),
        (json!({"tools": 7}), "unexpected"),
    ] {
        scripted.plan(&json!({}), &list.to_string());
        check(expect).await;
    }
    started.stop().await;
    scripted.test.verify();
}

#[tokio::test]
async fn each_failure_of_a_call_is_one_result_and_leaves_nothing() {
    let scripted = Scripted::configured(&[tool("echo", "")], QUICK, GRANT);
    let started = scripted.test.start_with_mcp();
    started.register("s", owner()).await;
    trust_all(&started).await;
    let good = json!({"tools": [tool("echo", "")]}).to_string();
    for (call, (fault, code, expect)) in (1..).zip([
        ("silent", Code::McpFailed, "(timeout)"),
        ("garbage", Code::McpFailed, "(not-protocol)"),
        ("endless", Code::McpFailed, "(too-long)"),
        ("flood", Code::McpFailed, "(too-much)"),
        ("half", Code::McpFailed, "(ended)"),
        ("exit", Code::McpFailed, "(ended)"),
        ("error", Code::ToolFailed, "(-32603)"),
    ]) {
        scripted.plan(&json!({"tools/call": fault}), &good);
        let result = started.call("s", call, "mcp:s/echo", "{}").await;
        assert_eq!(
            (result.outcome, result.code),
            (CallOutcome::Failed, Some(code)),
            "{fault}"
        );
        assert!(
            result.content.contains(expect),
            "{fault}: {}",
            result.content
        );
        assert!(
            !result.content.contains("no such module"),
            "{}",
            result.content
        );
        assert!(!result.content.contains("<|im_end|>"), "{}", result.content);
        wait_gone(&scripted.plan_file());
    }
    // What is left of a well-behaved one's children ends with the call, and what a server asks us
    // is refused without harm.
    for (call, fault) in [(20, "children"), (21, "asks")] {
        scripted.plan(&json!({"tools/call": fault}), &good);
        let ran = started.call("s", call, "mcp:s/echo", "{}").await;
        assert_eq!((ran.code, ran.content.as_str()), (None, "{}"), "{fault}");
        wait_gone("sleep 86352");
    }
    started.stop().await;
    scripted.test.verify();
}

#[tokio::test]
async fn without_its_program_or_a_sandbox_nothing_runs() {
    let scripted = Scripted::new(&[tool("echo", "")]);
    let started = scripted.test.start_with_mcp();
    started.register("s", owner()).await;
    trust_all(&started).await;
    std::fs::remove_dir_all(scripted.test.beside("plan")).unwrap();
    let result = started.call("s", 1, "mcp:s/echo", "{}").await;
    assert_eq!(result.code, Some(Code::SandboxUnavailable));
    assert!(result.content.contains("no folder"), "{}", result.content);
    started.stop().await;
}
