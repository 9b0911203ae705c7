//! How turns end: by an answer, a failure, a lost call, a stop, a budget.

use super::course::{Course, answered, kinds, ok};
use super::world;
use bxcore::chat::Finish;
use bxcore::code::Code;
use bxcore::label::Label;
use bxcore::problem::Problem;
use bxcore::transcript::{CallOutcome, Entry, ToolMode, TurnOutcome};
use bxcore::wire::loopd::{TurnEvent, WaitReason};
use loopd::prompt::Conversation;
use loopd::turn::{Command, Input, MIN_REPLY_TOKENS, Spent};

#[test]
fn each_way_to_end_has_its_outcome_and_code() {
    let native = |content: &str, finish| world::answer(content, &[], finish);
    for (answer, receipt, outcome, code) in [
        (
            native("Hi", Finish::Stop),
            (10, 5),
            TurnOutcome::Completed,
            None,
        ),
        (
            native("Hi", Finish::Length),
            (10, 512),
            TurnOutcome::Completed,
            None,
        ),
        (
            native("Hi", Finish::Length),
            (99_500, 500),
            TurnOutcome::ContextFull,
            Some(Code::ContextFull),
        ),
        (
            native("", Finish::Stop),
            (10, 0),
            TurnOutcome::Failed,
            Some(Code::EmptyAnswer),
        ),
        (
            native(" \n\t", Finish::Other),
            (10, 3),
            TurnOutcome::Failed,
            Some(Code::EmptyAnswer),
        ),
    ] {
        let mut course = Course::new(ToolMode::Native, 1_000_000);
        // As many bytes as tokens at least: no tokeniser makes more of them.
        let words = "Hello".repeat(usize::try_from(receipt.0).unwrap() / 5 + 1);
        let begun = course.begin(&words);
        let input = Input::Answered {
            answer,
            receipt: world::receipt(receipt.0, receipt.1),
        };
        let report = course.run(begun, &mut |_| input.clone(), &mut |_| ok(""));
        assert_eq!(report.outcome, outcome);
        assert_eq!(report.problem.as_ref().map(|problem| problem.code), code);
        assert_eq!(report.answer.is_empty(), outcome != TurnOutcome::Completed);
    }
    for (code, outcome) in [
        (Code::ContextFull, TurnOutcome::ContextFull),
        (Code::BackendCutOff, TurnOutcome::Failed),
        (Code::Stopped, TurnOutcome::Stopped),
    ] {
        let mut course = Course::new(ToolMode::Native, 1_000_000);
        let begun = course.begin("Hello");
        let input = Input::CallFailed {
            problem: Problem::new(code, "It ended"),
            spent: Spent::Unknown,
        };
        let report = course.run(begun, &mut |_| input.clone(), &mut |_| ok(""));
        assert_eq!(
            (report.outcome, report.problem.unwrap().code),
            (outcome, code)
        );
        assert_eq!(course.store.spent.tokens, report.usage.tokens());
        assert!(
            course
                .events
                .iter()
                .any(|event| matches!(event, TurnEvent::Retract))
        );
    }
}

#[test]
fn counts_that_cannot_be_are_charged_as_the_most_that_can() {
    const HUGE: u64 = i64::MAX as u64;
    for (prompt, completion, cached) in [
        (HUGE, HUGE, None),
        (HUGE, 1, None),
        (1, u64::MAX, None),
        (1, 1, Some(HUGE)),
    ] {
        let mut course = Course::new(ToolMode::Native, 1_000_000);
        let mut told = 0;
        for _ in 0..2 {
            let begun = course.begin("Hello");
            let mut receipt = world::receipt(prompt, completion);
            receipt.cache_n = cached;
            let input = Input::Answered {
                answer: world::answer("Hi", &[], Finish::Stop),
                receipt,
            };
            let report = course.run(begun, &mut |_| input.clone(), &mut |_| ok(""));
            assert_eq!(report.outcome, TurnOutcome::Completed);
            assert!(report.usage.tokens() < 100_000, "{:?}", report.usage);
            assert_eq!(report.usage.cache_n, 0);
            told += report.usage.tokens();
        }
        let lines = &course.store.lines;
        let Some(Entry::TurnEnd(end)) = lines.last().map(|line| &line.entry) else {
            panic!("{lines:?}")
        };
        let detail = end.detail.as_deref().unwrap();
        assert!(detail.contains("which can't be"), "{detail}");
        assert_eq!(course.store.spent.tokens, told);
    }
}

#[test]
fn a_lost_call_is_charged_and_made_again_once() {
    let lost = Input::CallLost {
        problem: Problem::new(Code::RoleUnreachable, "It went away"),
    };
    // Which of the calls are lost, and how the turn then ends.
    for (losses, outcome, model_calls) in [
        (vec![0], TurnOutcome::Completed, 3),
        (vec![1], TurnOutcome::Completed, 3),
        // One after the other, with an answer in between: each is made again.
        (vec![0, 2], TurnOutcome::Completed, 4),
        (vec![0, 1], TurnOutcome::Failed, 2),
        (vec![1, 2], TurnOutcome::Failed, 3),
    ] {
        let mut course = Course::new(ToolMode::Native, 1_000_000);
        let begun = course.begin("What time is it?");
        let clock = world::reply(ToolMode::Native, "", Some(("clock", "{}")));
        let mut answers = vec![world::reply(ToolMode::Native, "Noon.", None), clock];
        let mut asked = 0;
        let report = course.run(
            begun,
            &mut |_| {
                asked += 1;
                if losses.contains(&(asked - 1)) {
                    return lost.clone();
                }
                answered(answers.pop().unwrap())
            },
            &mut |_| ok("noon"),
        );
        assert_eq!(report.outcome, outcome, "{losses:?}");
        assert_eq!(report.usage.model_calls, model_calls, "{losses:?}");
        assert_eq!(course.store.spent.tokens, report.usage.tokens());
        assert_eq!(course.bodies[losses[0]], course.bodies[losses[0] + 1]);
        let numbers: Vec<u64> = course.calls.iter().map(|call| call.model_call.0).collect();
        assert_eq!(numbers, (1..=model_calls).collect::<Vec<_>>());
        let told = course.events.windows(2).filter(|events| {
            let again = TurnEvent::Waiting {
                reason: WaitReason::Again,
            };
            events[0] == TurnEvent::Retract && events[1] == again
        });
        let made_again = losses.len() - usize::from(outcome == TurnOutcome::Failed);
        assert_eq!(told.count(), made_again, "{losses:?}");
    }
}

#[test]
fn a_lost_call_is_not_made_again_for_a_turn_that_stops_or_can_not_pay() {
    let lost = Input::CallLost {
        problem: Problem::new(Code::RoleUnreachable, "It went away"),
    };
    let mut course = Course::new(ToolMode::Native, 1_000_000);
    let mut turn = course.calling("Hello");
    turn.on(Input::Stop).unwrap();
    let commands = turn.on(lost.clone()).unwrap();
    let report = course.run((turn, commands), &mut |_| panic!(), &mut |_| panic!());
    assert_eq!(report.outcome, TurnOutcome::Stopped);
    assert_eq!(report.usage.model_calls, 1);

    // Room for one call: the lost one has used it.
    let held = course.store.spent.tokens;
    let mut course = Course::new(ToolMode::Native, held);
    let begun = course.begin("Hello");
    let report = course.run(begun, &mut |_| lost.clone(), &mut |_| panic!());
    assert_eq!(report.outcome, TurnOutcome::Halted);
    assert_eq!(report.problem.unwrap().code, Code::BudgetExhausted);
    assert_eq!(course.store.spent.tokens, held);
}

#[test]
fn a_stop_ends_the_turn_wherever_it_is() {
    // While the model answers: the answer that comes all the same is paid for and not recorded.
    let mut course = Course::new(ToolMode::Native, 1_000_000);
    let mut turn = course.calling("Hello");
    let commands = turn.on(Input::Stop).unwrap();
    assert!(matches!(commands[..], [Command::StopModel { .. }]));
    assert!(turn.on(Input::Stop).unwrap().is_empty());
    let commands = turn
        .on(answered(world::reply(ToolMode::Native, "Hi", None)))
        .unwrap();
    let report = course.run((turn, commands), &mut |_| panic!(), &mut |_| panic!());
    assert_eq!(report.outcome, TurnOutcome::Stopped);
    assert_eq!(report.usage.tokens(), 110);
    assert_eq!(kinds(&course), ["open", "epoch", "user", "end"]);

    // While the first of two tools runs: the second one never does.
    let (mut turn, commands) = course.begin("Again");
    let Command::Commit(commit) = &commands[1] else {
        panic!()
    };
    let reserved = course.store.commit(commit);
    turn.on(Input::Committed { reserved }).unwrap();
    let two = world::answer(
        "",
        &[("clock", "{}"), ("read_file", "{}")],
        Finish::ToolCalls,
    );
    let commands = turn.on(answered(two)).unwrap();
    let Command::Commit(commit) = &commands[0] else {
        panic!()
    };
    course.store.commit(commit);
    turn.on(Input::Committed { reserved: None }).unwrap();
    let commands = turn.on(Input::Stop).unwrap();
    let [Command::StopTool { call }] = commands[..] else {
        panic!("{commands:?}")
    };
    let interrupted = world::result(CallOutcome::Interrupted, "stopped", Label::BOTTOM);
    let commands = turn
        .on(Input::ToolEnded {
            call,
            result: interrupted,
        })
        .unwrap();
    let report = course.run((turn, commands), &mut |_| panic!(), &mut |_| panic!());
    let outcomes: Vec<CallOutcome> = report.calls.iter().map(|call| call.outcome).collect();
    assert_eq!(outcomes, [CallOutcome::Interrupted, CallOutcome::Denied]);
    assert_eq!(report.outcome, TurnOutcome::Stopped);
}

#[test]
fn a_nearly_used_budget_shrinks_the_reply_down_to_the_least() {
    let prompt = {
        let course = Course::new(ToolMode::Native, u64::MAX);
        let mut conversation = Conversation::default();
        let opening = world::opening(&conversation, &world::backend(course.mode, "one"), "Hello");
        conversation.push(&Entry::Epoch(opening.epoch.unwrap()));
        conversation.push(&Entry::User(opening.user));
        conversation.prompt_bound()
    };
    let least = u64::from(MIN_REPLY_TOKENS);
    for (left, expected) in [
        (600, Some(512)),
        (100, Some(100)),
        (least, Some(64)),
        (least - 1, None),
    ] {
        let mut course = Course::new(ToolMode::Native, prompt + left);
        let begun = course.begin("Hello");
        let hi = answered(world::reply(ToolMode::Native, "Hi", None));
        let report = course.run(begun, &mut |_| hi.clone(), &mut |_| ok(""));
        match expected {
            Some(max_tokens) => {
                assert_eq!(report.outcome, TurnOutcome::Completed);
                assert_eq!(course.calls[0].max_tokens, max_tokens);
            }
            None => {
                assert_eq!(report.outcome, TurnOutcome::Halted);
                assert_eq!(report.problem.unwrap().code, Code::BudgetExhausted);
                assert_eq!(kinds(&course), ["open", "epoch", "user", "end"]);
            }
        }
    }
}
