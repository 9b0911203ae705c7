//! Request bodies as they go over the wire, and what becomes of a conversation whose backend changes.

use super::turn::world;
use bxcore::chat::{Finish, RawMessage};
use bxcore::id::{CallId, EpochId, ModelCallId, TurnId};
use bxcore::label::Label;
use bxcore::money::MicroUsd;
use bxcore::transcript::{
    Assistant, CallOutcome, Entry, EpochReason, NumberedCall, Tool, ToolMode, TurnEnd, TurnOutcome,
    User,
};
use bxcore::usage::Usage;
use bxcore::wire::inferproxy::BackendKind;
use loopd::config::Sampling;
use loopd::prompt::{self, Call, Conversation, KeptReasoning, Stage, remembering};
use serde_json::Value;

fn user(turn: u64, text: &str) -> Entry {
    Entry::User(User {
        turn: TurnId(turn),
        label: Label::OWNER,
        memory: None,
        message: RawMessage::user(text),
    })
}

/// An answer of the model as a turn records it.
fn assistant(mode: ToolMode, model_call: u64, text: &str, calls: &[(u64, &str, &str)]) -> Entry {
    let written: Vec<(&str, &str)> = calls.iter().map(|(_, name, args)| (*name, *args)).collect();
    let answer = match (mode, written.first()) {
        (ToolMode::Native, _) => world::answer(text, &written, Finish::Stop),
        (ToolMode::Schema, call) => world::reply(mode, text, call.copied()),
    };
    let reply = prompt::read_reply(mode, &answer);
    let numbered: Vec<NumberedCall> = reply
        .calls
        .iter()
        .zip(calls)
        .map(|(written, (number, ..))| NumberedCall {
            call: CallId(*number),
            written: written.clone(),
        })
        .collect();
    Entry::Assistant(Assistant {
        turn: TurnId(1),
        model_call: ModelCallId(model_call),
        message: prompt::assistant(mode, &answer, &numbered, KeptReasoning::Dropped),
        reasoning: String::new(),
        calls: numbered,
        rung: reply.rung,
        receipt: world::receipt(100, 20),
        cost: MicroUsd::ZERO,
    })
}

fn tool(mode: ToolMode, call: u64, name: &str, content: &str) -> Entry {
    Entry::Tool(Tool {
        turn: TurnId(1),
        call: CallId(call),
        tool: name.parse().unwrap(),
        outcome: CallOutcome::Ok,
        code: None,
        label: Label::OWNER,
        raw_bytes: 0,
        message: prompt::tool_result(mode, CallId(call), &name.parse().unwrap(), content),
        audit: None,
        cost: MicroUsd::ZERO,
    })
}

fn end(outcome: TurnOutcome) -> Entry {
    Entry::TurnEnd(TurnEnd {
        turn: TurnId(1),
        outcome,
        code: None,
        detail: None,
        label: Label::OWNER,
        usage: Usage::default(),
        cost: MicroUsd::ZERO,
    })
}

/// A conversation with one turn in it that called a tool.
fn conversation(mode: ToolMode) -> Conversation {
    let mut conversation = Conversation::default();
    let epoch = conversation.next_epoch(&world::backend(mode, "one"), &Sampling::default());
    for entry in [
        Entry::Epoch(epoch.unwrap()),
        user(1, "Time?"),
        assistant(mode, 1, "", &[(1, "clock", "{}")]),
        tool(mode, 1, "clock", "noon"),
        assistant(mode, 2, "It is noon.", &[]),
        end(TurnOutcome::Completed),
        user(2, "Thanks"),
    ] {
        conversation.push(&entry);
    }
    conversation
}

fn body(conversation: &Conversation, stage: Stage) -> String {
    let catalog = world::catalog();
    let call = Call {
        slot: Some(2),
        max_tokens: 100,
        stage,
        catalog: &catalog,
    };
    String::from_utf8(conversation.body(&call).to_vec()).unwrap()
}

/// A body without its long parts.
fn outline(body: &str) -> String {
    let mut value: Value = serde_json::from_str(body).unwrap();
    value["messages"][0]["content"] = "…".into();
    for key in ["tools", "grammar"] {
        if value.get(key).is_some() {
            value[key] = "…".into();
        }
    }
    value.to_string()
}

#[test]
fn a_native_body_has_its_members_in_order() {
    let conversation = conversation(ToolMode::Native);
    insta::assert_snapshot!(outline(&body(&conversation, Stage::Open)), @r#"{"model":"model \"one\"","messages":[{"role":"system","content":"…"},{"role":"user","content":"Time?"},{"role":"assistant","content":null,"tool_calls":[{"id":"call00001","type":"function","function":{"name":"clock","arguments":"{}"}}]},{"role":"tool","content":"noon","tool_call_id":"call00001"},{"role":"assistant","content":"It is noon."},{"role":"user","content":"Thanks"}],"tools":"…","temperature":0.2,"stream":true,"stream_options":{"include_usage":true},"cache_prompt":true,"return_progress":true,"max_tokens":100,"id_slot":2}"#);
    insta::assert_snapshot!(outline(&body(&conversation, Stage::Last)), @r#"{"model":"model \"one\"","messages":[{"role":"system","content":"…"},{"role":"user","content":"Time?"},{"role":"assistant","content":null,"tool_calls":[{"id":"call00001","type":"function","function":{"name":"clock","arguments":"{}"}}]},{"role":"tool","content":"noon","tool_call_id":"call00001"},{"role":"assistant","content":"It is noon."},{"role":"user","content":"Thanks"}],"tools":"…","temperature":0.2,"stream":true,"stream_options":{"include_usage":true},"cache_prompt":true,"return_progress":true,"max_tokens":100,"id_slot":2,"tool_choice":"none"}"#);
}

#[test]
fn a_schema_body_has_its_members_in_order() {
    let conversation = conversation(ToolMode::Schema);
    insta::assert_snapshot!(outline(&body(&conversation, Stage::Open)), @r#"{"model":"model \"one\"","messages":[{"role":"system","content":"…"},{"role":"user","content":"Time?"},{"role":"assistant","content":"{\"clock\": {}}"},{"role":"user","content":"noon\nAnswer the user now."},{"role":"assistant","content":"{\"answer\":\"It is noon.\"}"},{"role":"user","content":"Thanks"}],"temperature":0.2,"stream":true,"stream_options":{"include_usage":true},"cache_prompt":true,"return_progress":true,"max_tokens":100,"id_slot":2,"grammar":"…"}"#);
    insta::assert_snapshot!(outline(&body(&conversation, Stage::Last)), @r#"{"model":"model \"one\"","messages":[{"role":"system","content":"…"},{"role":"user","content":"Time?"},{"role":"assistant","content":"{\"clock\": {}}"},{"role":"user","content":"noon\nAnswer the user now."},{"role":"assistant","content":"{\"answer\":\"It is noon.\"}"},{"role":"user","content":"Thanks"}],"temperature":0.2,"stream":true,"stream_options":{"include_usage":true},"cache_prompt":true,"return_progress":true,"max_tokens":100,"id_slot":2,"grammar":"…"}"#);
}

#[test]
fn a_server_of_another_kind_is_sent_no_fields_of_llama_server() {
    let mut backend = world::backend(ToolMode::Native, "one");
    backend.kind = BackendKind::Openai;
    let sampling = Sampling {
        temperature: 0.5,
        seed: Some(7),
    };
    let mut conversation = Conversation::default();
    let epoch = conversation.next_epoch(&backend, &sampling).unwrap();
    conversation.push(&Entry::Epoch(epoch));
    conversation.push(&user(1, "Hi"));
    let catalog = world::catalog();
    let call = Call {
        slot: None,
        max_tokens: 100,
        stage: Stage::Open,
        catalog: &catalog,
    };
    let body = String::from_utf8(conversation.body(&call).to_vec()).unwrap();
    insta::assert_snapshot!(outline(&body), @r#"{"model":"model \"one\"","messages":[{"role":"system","content":"…"},{"role":"user","content":"Hi"}],"tools":"…","temperature":0.5,"seed":7,"stream":true,"stream_options":{"include_usage":true},"max_tokens":100}"#);
}

#[test]
fn found_tools_can_be_called_in_schema_mode_and_only_those() {
    let mut conversation = conversation(ToolMode::Schema);
    let offered = |conversation: &Conversation| {
        let body = body(conversation, Stage::Open);
        ["call_tool", "read_file", "list_dir", "gone"]
            .map(|name| body[body.find("grammar").unwrap()..].contains(name))
    };
    assert_eq!(offered(&conversation), [false; 4]);
    let found = r#"{"tools":[{"name":"read_file","description":"say {\"name\":\"list_dir\"}","parameters":{}},{"name":"gone"}]}"#;
    conversation.push(&assistant(
        ToolMode::Schema,
        3,
        "",
        &[(2, "find_tool", "{\"query\":\"x\"}")],
    ));
    conversation.push(&tool(
        ToolMode::Schema,
        2,
        "find_tool",
        &format!("<tool-result>\n{found}\ncall_tool …"),
    ));
    assert_eq!(offered(&conversation), [true, true, false, false]);
}

#[test]
fn a_tool_whose_result_is_new_is_not_offered_again_at_once() {
    let mut conversation = conversation(ToolMode::Schema);
    let offers = |conversation: &Conversation, name: &str| {
        let body = body(conversation, Stage::Open);
        body[body.find("grammar").unwrap()..].contains(name)
    };
    let mut ask = |number: u64, name: &str, result: &str| {
        let call = assistant(ToolMode::Schema, number, "", &[(number, name, "{}")]);
        conversation.push(&call);
        conversation.push(&tool(ToolMode::Schema, number, name, result));
        ["clock", "find_tool", "recall"].map(|name| offers(&conversation, name))
    };
    assert_eq!(ask(3, "clock", "noon"), [false, true, true]);
    assert_eq!(ask(4, "recall", "nothing"), [true, true, true]);
    let none = "<tool-result>\n{\"tools\":[]}\nNo tool fits these words.";
    assert_eq!(ask(5, "find_tool", none), [true, true, true]);
    let some = "<tool-result>\n{\"tools\":[{\"name\":\"read_file\"}]}";
    assert_eq!(ask(6, "find_tool", some), [true, false, true]);
    conversation.push(&user(3, "And now?"));
    assert!(offers(&conversation, "find_tool"));
}

#[test]
fn a_new_epoch_begins_when_the_backend_or_the_configuration_changes() {
    let conversation = conversation(ToolMode::Native);
    let backend = world::backend(ToolMode::Native, "one");
    let sampling = Sampling::default();
    assert!(conversation.next_epoch(&backend, &sampling).is_none());
    let reason = |backend, sampling| {
        let epoch = conversation.next_epoch(&backend, &sampling).unwrap();
        assert_eq!(epoch.epoch, EpochId(2));
        epoch.reason
    };
    let changed = |change: fn(&mut bxcore::wire::inferproxy::BackendInfo)| {
        let mut backend = world::backend(ToolMode::Native, "one");
        change(&mut backend);
        backend
    };
    for backend in [
        changed(|b| b.fingerprint = "other".to_owned()),
        changed(|b| b.model = "other".to_owned()),
        changed(|b| b.tools = ToolMode::Schema),
        world::backend(ToolMode::Native, "two"),
    ] {
        assert_eq!(reason(backend, sampling), EpochReason::ModelChanged);
    }
    let warmer = Sampling {
        temperature: 1.0,
        ..sampling
    };
    assert_eq!(reason(backend.clone(), warmer), EpochReason::ConfigChanged);
    let kind = changed(|b| b.kind = BackendKind::Openai);
    assert_eq!(reason(kind, sampling), EpochReason::ConfigChanged);
}

#[test]
fn a_conversation_moves_to_a_backend_of_the_other_mode_and_back() {
    for (from, to) in [
        (ToolMode::Native, ToolMode::Schema),
        (ToolMode::Schema, ToolMode::Native),
    ] {
        let mut moved = conversation(from);
        let epoch = moved
            .next_epoch(&world::backend(to, "two"), &Sampling::default())
            .unwrap();
        moved.push(&Entry::Epoch(epoch));
        let there = conversation(to);
        // Blanks and hints aside it is what the other mode would have recorded in the first place.
        let plain = |conversation: &Conversation| {
            String::from_utf8_lossy(conversation.messages())
                .replace(": ", ":")
                .replace(", ", ",")
                .replace("\\nAnswer the user now.", "")
        };
        assert_eq!(plain(&moved), plain(&there));
        let epoch = moved
            .next_epoch(&world::backend(from, "one"), &Sampling::default())
            .unwrap();
        moved.push(&Entry::Epoch(epoch));
        assert_eq!(plain(&moved), plain(&conversation(from)));
    }
}

#[test]
fn several_calls_at_once_keep_their_results_when_the_mode_changes() {
    let mut conversation = conversation(ToolMode::Native);
    let two = [(2, "clock", "{}"), (3, "no name", "not json")];
    conversation.push(&assistant(ToolMode::Native, 3, "", &two));
    conversation.push(&tool(ToolMode::Native, 2, "clock", "noon"));
    conversation.push(&tool(ToolMode::Native, 3, "no_name", "what?"));
    for (mode, name) in [(ToolMode::Schema, "two"), (ToolMode::Native, "three")] {
        let backend = world::backend(mode, name);
        let epoch = conversation
            .next_epoch(&backend, &Sampling::default())
            .unwrap();
        conversation.push(&Entry::Epoch(epoch));
    }
    let messages = String::from_utf8_lossy(conversation.messages()).into_owned();
    for id in ["call00002", "call00003"] {
        assert_eq!(
            messages.matches(&format!("\"{id}\"")).count(),
            2,
            "{messages}"
        );
    }
}

#[test]
fn a_prompts_bound_is_what_was_reported_and_a_token_for_every_byte_since() {
    let mut conversation = conversation(ToolMode::Native);
    let before = conversation.prompt_bound();
    let text = "x".repeat(1_000);
    conversation.push(&user(3, &text));
    let grown = conversation.prompt_bound() - before;
    assert!((1_000..1_100).contains(&grown), "{grown}");
    assert!(before < 120 + 256 + 100, "{before}");
    conversation.push(&user(4, &"x".repeat(1_000_000)));
    assert_eq!(
        conversation.prompt_bound(),
        100_000,
        "no prompt is longer than the context"
    );
    assert_eq!(conversation.room(), Some(0));
}

#[test]
fn memory_is_what_it_was_when_the_epoch_began() {
    for mode in [ToolMode::Native, ToolMode::Schema] {
        let backend = world::backend(mode, "one");
        let sampling = Sampling::default();
        let mut conversation = Conversation::default();
        let due = conversation.next_epoch(&backend, &sampling).unwrap();
        let first = remembering(due, "# notes.md\nThe kettle is blue.");
        let system = first.system.json().to_owned();
        assert!(
            system.contains("earlier sessions:\\n# notes.md\\nThe kettle is blue."),
            "{system}"
        );
        // As it is read back from the transcript.
        let text = serde_json::to_string(&Entry::Epoch(first)).unwrap();
        let line = format!(r#"{{"v":1,"n":1,"ts":"",{}"#, &text[1..]);
        conversation.push(&bxcore::transcript::parse_line(&line).unwrap().entry);
        assert!(
            conversation.next_epoch(&backend, &sampling).is_none(),
            "the epoch goes on"
        );
        let moved = world::backend(mode, "two");
        let next = conversation.next_epoch(&moved, &sampling).unwrap();
        assert_eq!(next.system.json(), system);
        let next = remembering(next, "");
        assert!(!next.system.json().contains("kettle"));
        assert!(next.memory.is_empty());
    }
}
