//! Every input in every state: what is taken, and what is refused without a change.

use super::world::{self, Store};
use bxcore::chat::Finish;
use bxcore::code::Code;
use bxcore::id::CallId;
use bxcore::label::Label;
use bxcore::problem::Problem;
use bxcore::transcript::{CallOutcome, ToolMode};
use loopd::prompt::Conversation;
use loopd::turn::{Axis, Command, Input, Refusal, Spent, Turn};

/// A turn that was led into a state by ordinary inputs.
fn turn_in(state: &str) -> Turn {
    let mut store = Store::new(1_000_000);
    let conversation = Conversation::default();
    let backend = world::backend(ToolMode::Native, "one");
    let opening = world::opening(&conversation, &backend, "Hello");
    let context = store.context(&world::session());
    let (mut turn, mut commands) = Turn::begin(context, conversation, opening).unwrap();
    let call = || Input::Answered {
        answer: world::reply(ToolMode::Native, "", Some(("clock", "{}"))),
        receipt: world::receipt(10, 5),
    };
    let talk = || Input::Answered {
        answer: world::reply(ToolMode::Native, "Hi", None),
        receipt: world::receipt(10, 5),
    };
    let steps: Vec<Input> = match state {
        "committing the message" => vec![],
        "calling" => vec![],
        "committing calls" | "running" => vec![call()],
        "committing the end" | "ended" => vec![talk()],
        other => panic!("no such state: {other}"),
    };
    let mut settle = |turn: &mut Turn, commands: &mut Vec<Command>| {
        let reserved = commands.iter().find_map(|command| match command {
            Command::Commit(commit) => Some(store.commit(commit)),
            _ => None,
        });
        *commands = turn
            .on(Input::Committed {
                reserved: reserved.unwrap(),
            })
            .unwrap();
    };
    if state != "committing the message" {
        settle(&mut turn, &mut commands);
    }
    for input in steps {
        commands = turn.on(input).unwrap();
    }
    if matches!(state, "running" | "ended") {
        settle(&mut turn, &mut commands);
    }
    turn
}

fn input(name: &str) -> Input {
    let refusal = Refusal {
        account: "day:2026-11-30".to_owned(),
        axis: Axis::Tokens,
        limit: 100,
        left: 1,
    };
    let problem = Problem::new(Code::BackendCutOff, "The answer stopped");
    let result = world::result(CallOutcome::Ok, "42", Label::OWNER);
    match name {
        "stored" => Input::Committed { reserved: None },
        "stored, reserved" => Input::Committed {
            reserved: Some(Ok(())),
        },
        "stored, refused" => Input::Committed {
            reserved: Some(Err(refusal)),
        },
        "not stored" => Input::CommitFailed {
            problem: Problem::new(Code::DiskFull, "Full"),
        },
        "answer" => Input::Answered {
            answer: world::reply(ToolMode::Native, "Hi", None),
            receipt: world::receipt(10, 5),
        },
        "call" => Input::Answered {
            answer: world::reply(ToolMode::Native, "", Some(("clock", "{}"))),
            receipt: world::receipt(10, 5),
        },
        "nothing" => Input::Answered {
            answer: world::answer("", &[], Finish::Stop),
            receipt: world::receipt(10, 5),
        },
        "failure" => Input::CallFailed {
            problem,
            spent: Spent::Unknown,
        },
        "loss" => Input::CallLost { problem },
        "result" => Input::ToolEnded {
            call: CallId(1),
            result,
        },
        "result of another" => Input::ToolEnded {
            call: CallId(2),
            result,
        },
        "stop" => Input::Stop,
        other => panic!("no such input: {other}"),
    }
}

/// What a turn does with an input: where it leads and the commands, or that it is refused.
fn taken(state: &str, name: &str) -> String {
    let mut turn = turn_in(state);
    let before = turn.doing();
    match turn.on(input(name)) {
        Err(error) => {
            assert_eq!(turn.doing(), before);
            assert!(error.to_string().starts_with("a turn that is "));
            "-".to_owned()
        }
        Ok(commands) => {
            let names: Vec<&str> = commands.iter().map(command).collect();
            let leads = format!("{}: {}", turn.doing(), names.join(", "));
            leads.trim_end_matches(": ").to_owned()
        }
    }
}

fn command(command: &Command) -> &'static str {
    match command {
        Command::Commit(commit) if commit.closes_turn => "commit the end",
        Command::Commit(_) => "commit",
        Command::CallModel(_) => "call",
        Command::StopModel { .. } => "stop the call",
        Command::RunTool(_) => "run",
        Command::StopTool { .. } => "stop the tool",
        Command::Announce(_) => "say",
        Command::End(_) => "end",
    }
}

const STATES: [&str; 6] = [
    "committing the message",
    "calling",
    "committing calls",
    "running",
    "committing the end",
    "ended",
];
const INPUTS: [&str; 12] = [
    "stored",
    "stored, reserved",
    "stored, refused",
    "not stored",
    "answer",
    "call",
    "nothing",
    "failure",
    "loss",
    "result",
    "result of another",
    "stop",
];

#[test]
fn each_state_takes_what_it_should() {
    let mut table = String::new();
    for state in STATES {
        table.push_str(state);
        table.push('\n');
        for name in INPUTS {
            let taken = taken(state, name);
            if taken != "-" {
                table.push_str(&format!("    {name} -> {taken}\n"));
            }
        }
    }
    insta::assert_snapshot!(table, @r"
    committing the message
        stored, reserved -> calling: call
        stored, refused -> committing: commit the end
        not stored -> ended: end
        stop -> committing
    calling
        answer -> committing: commit the end
        call -> committing: commit
        nothing -> committing: commit the end
        failure -> committing: say, commit the end
        loss -> committing: say, say, commit
        stop -> calling: stop the call
    committing calls
        stored -> running: say, run
        not stored -> ended: end
        stop -> committing
    running
        result -> committing: say, commit
        stop -> running: stop the tool
    committing the end
        stored -> ended: end
        not stored -> ended: end
        stop -> committing
    ended
        stop -> ended
    ");
}
