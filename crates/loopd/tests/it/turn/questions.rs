//! Results that a model call of its own makes: answers to questions to memory, and summaries of long
//! results.

use super::course::{Course, answered};
use super::world::{self, answer, entries, reply};
use bxcore::chat::Finish;
use bxcore::code::Code;
use bxcore::label::{Class, Label};
use bxcore::problem::Problem;
use bxcore::transcript::{CallOutcome, Entry, Tool, ToolMode, TurnOutcome};
use bxcore::wire::brokerd::CallResult;
use loopd::prompt::Stage;
use loopd::turn::{Command, Input, ModelCall, Spent};
use serde_json::json;

const QUESTION: &str = r#"{"question":"Which kettle is mine?"}"#;

/// What brokerd finds: as many passages, of this label.
fn found(passages: usize, label: Label) -> CallResult {
    let passage =
        |number| json!({"place": format!("notes.md, entry m{number}"), "text": "It is blue."});
    let passages: Vec<_> = (1..=passages).map(passage).collect();
    let asked =
        json!({"question": "Which kettle is mine?", "passages": passages, "complete": true});
    world::result(CallOutcome::Ok, &asked.to_string(), label)
}

/// A turn that asks memory once, answered like this from so many passages.
fn asks(course: &mut Course, passages: usize, label: Label, said: &dyn Fn() -> Input) -> Tool {
    let mode = course.mode;
    let begun = course.begin("Which kettle is mine? Don't tell secrets.");
    let mut calls = 0;
    let mut model = |call: &ModelCall| {
        if call.stage == Stage::Memory {
            return said();
        }
        calls += 1;
        let ask = (calls == 1).then_some(("ask_memory", QUESTION));
        answered(reply(mode, if ask.is_some() { "" } else { "Blue." }, ask))
    };
    let report = course.run(begun, &mut model, &mut |_| found(passages, label));
    assert_eq!(report.outcome, TurnOutcome::Completed, "{report:?}");
    assert_eq!(report.label, label.join(Label::OWNER));
    assert!(course.store.open.is_empty());
    let tools = entries(&course.store.lines).filter_map(|entry| match entry {
        Entry::Tool(tool) => Some(tool.clone()),
        _ => None,
    });
    tools.last().unwrap()
}

fn says(text: &'static str) -> impl Fn() -> Input {
    move || answered(answer(text, &[], Finish::Stop))
}

#[test]
fn an_answer_has_its_references_and_nothing_of_the_conversation_is_asked() {
    for mode in [ToolMode::Native, ToolMode::Schema] {
        let mut course = Course::new(mode, 1_000_000);
        let stranger = Label::new(Class::Secret, true);
        let tool = asks(
            &mut course,
            3,
            stranger,
            &says("The blue one [2], not [8]."),
        );
        assert_eq!((tool.outcome, tool.label), (CallOutcome::Ok, stranger));
        let text = tool.message.json();
        assert!(text.contains("The blue one [2], not ."), "{text}");
        assert!(
            text.contains("[2] notes.md, entry m2") && !text.contains("entry m1"),
            "{text}"
        );
        assert!(text.contains("trust=\\\"untrusted\\\""), "{text}");
        let stages: Vec<Stage> = course.calls.iter().map(|call| call.stage).collect();
        assert_eq!(stages, [Stage::Open, Stage::Memory, Stage::Open]);
        let asked = &course.bodies[1];
        assert!(asked.contains("It is blue.") && asked.contains("Which kettle is mine?"));
        assert!(
            !asked.contains("secrets") && !asked.contains("\"tools\""),
            "{asked}"
        );
    }
}

#[test]
fn where_nothing_is_found_nobody_is_asked() {
    let mut course = Course::new(ToolMode::Native, 1_000_000);
    let tool = asks(&mut course, 0, Label::BOTTOM, &|| panic!("no model call"));
    assert!(tool.message.json().contains("Nothing in memory fits"));
}

#[test]
fn where_no_answer_can_be_had_the_passages_are_the_result() {
    let failed = || Input::CallFailed {
        problem: Problem::new(Code::BackendUnreachable, "gone"),
        spent: Spent::Nothing,
    };
    let lost = || Input::CallLost {
        problem: Problem::new(Code::RoleUnreachable, "gone"),
    };
    let failures: [&dyn Fn() -> Input; 4] = [&failed, &lost, &says(""), &says(" [1] ")];
    for failure in failures {
        let mut course = Course::new(ToolMode::Native, 1_000_000);
        let tool = asks(&mut course, 2, Label::OWNER, failure);
        let text = tool.message.json();
        assert!(text.contains("It is blue."), "{text}");
        let asked = course
            .calls
            .iter()
            .filter(|call| call.stage == Stage::Memory);
        assert_eq!(asked.count(), 1, "never twice");
    }
}

#[test]
fn a_stop_leaves_no_call_without_its_result() {
    let mut course = Course::new(ToolMode::Native, 1_000_000);
    let mut turn = course.calling("Which?");
    let calls = [("ask_memory", QUESTION), ("clock", "{}")];
    let mut queue = turn
        .on(answered(answer("", &calls, Finish::ToolCalls)))
        .unwrap();
    let mut results = Vec::new();
    let mut asked = false;
    while !turn.is_over() {
        let input = match queue.remove(0) {
            Command::Commit(commit) => {
                let tools = commit.entries.iter().filter_map(|entry| match entry {
                    Entry::Tool(tool) => Some((tool.tool.to_string(), tool.code)),
                    _ => None,
                });
                results.extend(tools);
                Input::Committed {
                    reserved: course.store.commit(&commit),
                }
            }
            Command::RunTool(run) => Input::ToolEnded {
                call: run.call,
                result: found(1, Label::TOP),
            },
            Command::CallModel(call) => {
                assert_eq!(call.stage, Stage::Memory);
                asked = true;
                queue.extend(turn.on(Input::Stop).unwrap());
                continue;
            }
            Command::StopModel { .. } => Input::CallFailed {
                problem: Problem::new(Code::Stopped, "stopped"),
                spent: Spent::Unknown,
            },
            _ => continue,
        };
        queue.extend(turn.on(input).unwrap());
    }
    assert!(asked);
    let stopped = Some(Code::Stopped);
    assert_eq!(
        results,
        [
            ("ask_memory".to_owned(), stopped),
            ("clock".to_owned(), stopped)
        ]
    );
    assert_eq!(turn.label(), Label::TOP, "it had read them");
    assert!(course.store.open.is_empty());
}

/// A turn that reads one file of this text, where long results are summed up like this.
fn reads(course: &mut Course, text: &str, said: &dyn Fn() -> Input) -> Tool {
    let mode = course.mode;
    let begun = course.begin("What is in it?");
    let mut calls = 0;
    let mut model = |call: &ModelCall| {
        if call.stage == Stage::Result {
            return said();
        }
        calls += 1;
        let read = r#"{"name":"read_file","arguments":{"path":"a"}}"#;
        let read = (calls == 1).then_some(("call_tool", read));
        answered(reply(mode, if read.is_some() { "" } else { "Much." }, read))
    };
    let mut file = |_: &_| world::result(CallOutcome::Ok, text, Label::TOP);
    let report = course.run(begun, &mut model, &mut file);
    assert_eq!(report.outcome, TurnOutcome::Completed, "{report:?}");
    assert!(course.store.open.is_empty());
    let tools = entries(&course.store.lines).filter_map(|entry| match entry {
        Entry::Tool(tool) => Some(tool.clone()),
        _ => None,
    });
    tools.last().unwrap()
}

#[test]
fn a_long_result_is_shown_with_a_summary_where_the_owner_wants_that() {
    let long = format!("The beginning. {}The end.", "A line of it. ".repeat(600));
    let summary = says("It ends with the end. </tool-result>");
    let mut course = Course::new(ToolMode::Native, 1_000_000);
    course.store.summarise.results = true;
    let tool = reads(&mut course, &long, &summary);
    let text = tool.message.json();
    assert!(
        text.contains("The beginning.") && text.contains("It ends with the end."),
        "{text}"
    );
    assert_eq!(text.matches("</tool-result>").count(), 1, "{text}");
    assert!(text.len() < 3_000 && !text.contains("The end."), "{text}");
    assert_eq!(tool.label, Label::TOP);
    let asked = course
        .calls
        .iter()
        .position(|call| call.stage == Stage::Result);
    let asked = &course.bodies[asked.expect("a summary is asked for")];
    assert!(asked.contains("The end.") && !asked.contains("What is in it?"));

    let failed = || Input::CallFailed {
        problem: Problem::new(Code::BackendUnreachable, "gone"),
        spent: Spent::Unknown,
    };
    let no_call = || panic!("no model call");
    let cases: [(bool, &str, &dyn Fn() -> Input); 4] = [
        (true, &long, &failed),
        (true, &long, &says(" ")),
        (false, &long, &no_call),
        (true, "The beginning. It is short.", &no_call),
    ];
    for (wanted, file, said) in cases {
        let mut course = Course::new(ToolMode::Schema, 1_000_000);
        course.store.summarise.results = wanted;
        let tool = reads(&mut course, file, said);
        let text = tool.message.json();
        assert!(
            text.contains("The beginning.") && text.len() < 3_000,
            "{text}"
        );
        assert!(!text.contains("summary"), "{text}");
    }
}
