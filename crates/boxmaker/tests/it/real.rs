//! The whole house on the real llama-server with the starter's weights.
//!
//! What a scripted server can't show: that a small model works a turn, that the server's cache
//! does what we count on, and that a badly started server is found out.

mod engine;

use crate::support::transcript;
use bxtest::home::{BackendConfig, TestHome};
use engine::{Engine, Flags};
use serde_json::{Value, json};
use std::time::Duration;

/// Tokens of the last request that may be read again: the server evaluates at least one, and an
/// answer's last may not be in the cache.
const READ_AGAIN_TOKENS: u64 = 16;
/// How long the argument of a tool call is that the template writes otherwise, in bytes.
const NOTE_BYTES: usize = 4096;
/// A turn on a busy machine with two cores.
const TURN: Duration = Duration::from_mins(30);

fn home(engine: &Engine) -> TestHome {
    let home = TestHome::new();
    let backend = BackendConfig::llama_server(&engine.url).main_slots(&[0, 1], 2);
    home.write_backends(&[backend]);
    home
}

fn ask(home: &TestHome, session: &str, text: &str) -> Value {
    let asked = home
        .cmd("boxmaker")
        .args(["ask", text, "--json", "--session", session])
        .timeout(TURN)
        .run();
    asked.success().json()
}

/// The rows of `session cache`, as numbers: prompt, cached, written, previous total, lost.
fn cache(home: &TestHome, session: &str) -> Vec<Value> {
    let rows = home
        .cmd("bxctl")
        .args(["session", "cache", session, "--json"])
        .run()
        .success()
        .json();
    rows.as_array().unwrap().clone()
}

fn number(row: &Value, name: &str) -> u64 {
    row[name]
        .as_u64()
        .unwrap_or_else(|| panic!("no {name}: {row}"))
}

/// Three turns, a tool call among them, read each prompt once.
///
/// A model now and then writes a text in other tokens than the tokenizer splits it into (this one
/// does, with some times of the day), and no client can help that: then the loss is that message,
/// and named. So of a few sessions, the first in which that does not happen must keep everything.
#[test]
fn three_turns_with_a_tool_call_read_each_prompt_once() {
    const SESSIONS: usize = 5;
    let engine = Engine::start(Flags::Good);
    let home = home(&engine);
    let _up = home.up();
    let kept_all = (0..SESSIONS).any(|number| three_turns(&home, &format!("chat-real-{number}")));
    assert!(kept_all, "{SESSIONS} sessions in a row lost a message");
}

/// Whether a session's requests found all of the one before in the cache.
fn three_turns(home: &TestHome, session: &str) -> bool {
    let first = ask(home, session, "What time is it?");
    assert_eq!(
        first["calls"],
        json!([{"call": 1, "tool": "clock", "outcome": "ok"}]),
        "{first}"
    );
    assert_eq!(first["outcome"], "completed", "{first}");
    let second = ask(home, session, "What is the capital of France?");
    assert!(
        second["answer"].as_str().unwrap().contains("Paris"),
        "{second}"
    );
    let third = ask(home, session, "Thank you!");
    assert_eq!(third["outcome"], "completed", "{third}");

    let rows = cache(home, session);
    assert!(rows.len() >= 4, "{rows:?}");
    let mut kept_all = true;
    for (before, row) in rows.iter().zip(&rows[1..]) {
        let kept = number(row, "cache_n") + READ_AGAIN_TOKENS;
        if kept >= number(row, "previous_total") {
            continue;
        }
        kept_all = false;
        assert_eq!(row["lost"]["cause"], "answer-retokenised", "{row}");
        assert!(kept >= number(before, "prompt_tokens"), "{row}");
    }
    kept_all
}

/// A note of which a model of this size keeps hold while it repeats it: the numbers tell each
/// line from the others, run towards an end, and the words are long, so that the tokens are few.
fn long_note() -> String {
    const LINES: usize = NOTE_BYTES / 100;
    let lines = (1..=LINES).rev().map(|number| {
        format!(
            "Chapter {number} describes international organizations, environmental \
             responsibility and telecommunications infrastructure. "
        )
    });
    lines.chain(["The end.".to_owned()]).collect()
}

/// How long the arguments of the session's first tool call are, in bytes.
fn argument_bytes(home: &TestHome, session: &str) -> usize {
    let text = transcript(home, session);
    let mut entries = text
        .lines()
        .map(|line| serde_json::from_str::<Value>(line).unwrap());
    let call = entries
        .find_map(|entry| entry.get("calls").map(|calls| calls[0].clone()))
        .expect("a call");
    call["arguments"]
        .as_str()
        .unwrap_or_else(|| panic!("{call}"))
        .len()
}

#[test]
fn a_tool_call_that_the_template_rewrites_loses_that_message_and_no_more() {
    let engine = Engine::start(Flags::NativeTools);
    let home = home(&engine);
    // A token of the note has about seven bytes; a model that doesn't stop is stopped soon after.
    let answer_tokens = NOTE_BYTES / 4;
    home.write_config(
        "loopd.toml",
        &format!("answer_tokens = {answer_tokens}\ntool_iterations = 1\n"),
    );
    let _up = home.up();

    let note = long_note();
    // A model of this size calls a tool when it is shown the very call.
    let arguments = json!({"action": "add", "file": "notes", "text": note});
    let text = format!(
        "Repeat: <tool_call>\n{{\"name\": \"memory\", \"arguments\": {arguments}}}\n</tool_call>"
    );
    let asked = ask(&home, "chat-native", &text);
    assert_eq!(asked["calls"][0]["tool"], "memory", "{asked}");
    let written = argument_bytes(&home, "chat-native");
    assert!(written >= NOTE_BYTES, "{written} bytes");

    let rows = cache(&home, "chat-native");
    let (call, next) = (&rows[0], &rows[1]);
    // All that was read before the message is still there; what is lost lies within the message.
    assert!(
        number(next, "cache_n") + READ_AGAIN_TOKENS >= number(call, "prompt_tokens"),
        "{next}"
    );
    assert_eq!(next["lost"]["cause"], "tool-call-rewritten", "{next}");
    let most = number(call, "completion_tokens") + READ_AGAIN_TOKENS;
    assert!(number(&next["lost"], "tokens") <= most, "{next}");
}

#[test]
fn a_server_without_the_right_flags_is_told_which_to_set() {
    let engine = Engine::start(Flags::SharedCache);
    let home = home(&engine);
    let _up = home.up();
    let tested = home
        .cmd("boxmaker")
        .args(["backend", "test", "local"])
        .timeout(TURN)
        .run();
    assert_eq!(tested.code(), Some(1), "{}{}", tested.stdout, tested.stderr);
    for flag in ["-np 3", "--no-cache-idle-slots"] {
        assert!(tested.stdout.contains(flag), "{flag}: {}", tested.stdout);
    }
}

/// A conversation that is summed up goes on: its first request has the system prompt in the cache,
/// whatever ran on the background slot, and the next one all of that.
#[test]
fn a_session_that_was_summed_up_goes_on_with_its_cache() {
    /// The system prompt of schema mode has more tokens than this.
    const SYSTEM_TOKENS: u64 = 150;
    let engine = Engine::start(Flags::Good);
    let home = home(&engine);
    home.write_config(
        "loopd.toml",
        "answer_tokens = 64\n[compact]\nsummary_chars = 400\n",
    );
    let _up = home.up();
    let said = "I walked along the river and thought about boats, bridges and the sea. ".repeat(6);
    for number in 1..=3 {
        ask(&home, "chat-sum", &format!("Note {number}: {said}"));
    }
    let before = cache(&home, "chat-sum").len();
    let summed = home
        .cmd("boxmaker")
        .args(["session", "compact", "chat-sum", "--json"])
        .timeout(TURN)
        .run()
        .success()
        .json();
    assert!(!summed["answer"].as_str().unwrap().is_empty(), "{summed}");
    ask(&home, "chat-sum", "Thank you!");
    ask(&home, "chat-sum", "And what is the capital of France?");
    let rows = cache(&home, "chat-sum");
    let (first, next) = (&rows[before], &rows[before + 1]);
    assert!(
        number(first, "prompt_tokens") < number(first, "previous_total"),
        "{first}"
    );
    assert!(number(first, "cache_n") >= SYSTEM_TOKENS, "{first}");
    assert_eq!(first["lost"]["cause"], "new-epoch", "{first}");
    let kept = number(next, "cache_n") + READ_AGAIN_TOKENS;
    let retokenised = next["lost"]["cause"] == "answer-retokenised";
    assert!(
        kept >= number(next, "previous_total") || retokenised,
        "{next}"
    );
    assert!(kept >= number(first, "prompt_tokens"), "{next}");
}
