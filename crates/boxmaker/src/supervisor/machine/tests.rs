//! The machine, driven by scripts.

use super::*;

const LOOPD: Part = Part::Role(Role::Loopd);
const BROKERD: Part = Part::Role(Role::Brokerd);
const MEMORYD: Part = Part::Role(Role::Memoryd);
const INFERPROXY: Part = Part::Role(Role::Inferproxy);

/// A machine whose roles all run and answer, with process ids by role.
fn ready() -> Machine {
    let mut machine = Machine::new();
    assert_eq!(
        machine.on(Event::Begin, 0),
        [INFERPROXY, MEMORYD, BROKERD, LOOPD].map(Command::Start),
        "all are started at once"
    );
    for (pid, part) in [(1, INFERPROXY), (4, MEMORYD), (2, BROKERD), (3, LOOPD)] {
        assert_eq!(machine.on(Event::Started { part, pid }, 0), []);
        let expect: &[Command] = if part == LOOPD {
            &[Command::AllReady]
        } else {
            &[]
        };
        assert_eq!(machine.on(Event::Ready { part, pid }, 0), expect);
    }
    machine
}

fn ended(part: Part, exit: Exit) -> Event {
    Event::Ended { part, exit }
}

/// The only wait among the commands.
fn wait(commands: &[Command]) -> (u64, Timer) {
    match commands
        .iter()
        .find(|command| matches!(command, Command::Wait { .. }))
    {
        Some(Command::Wait { ms, timer }) => (*ms, *timer),
        _ => panic!("no wait in {commands:?}"),
    }
}

fn state(machine: &Machine, role: Role) -> RoleStatus {
    machine
        .roles()
        .into_iter()
        .find(|status| status.role == role)
        .unwrap()
}

#[test]
fn a_killed_role_is_started_again_with_growing_pauses() {
    let mut machine = ready();
    let mut pauses = Vec::new();
    for _ in 0..3 {
        let (ms, timer) = wait(&machine.on(ended(LOOPD, Exit::Signal(9)), 10));
        pauses.push(ms);
        assert_eq!(state(&machine, Role::Loopd).state, ProcessState::BackingOff);
        assert_eq!(machine.on(Event::Time(timer), 10), [Command::Start(LOOPD)]);
        assert_eq!(
            machine.on(Event::Time(timer), 10),
            [],
            "a timer counts once"
        );
        machine.on(
            Event::Started {
                part: LOOPD,
                pid: 9,
            },
            10,
        );
    }
    assert_eq!(pauses, [100, 200, 400]);
    let status = state(&machine, Role::Loopd);
    assert_eq!(
        (status.restarts, status.last_exit.as_deref()),
        (3, Some("signal 9"))
    );
    // Ready once is not the first time for the house; ready for long makes the next failure a first.
    assert_eq!(
        machine.on(
            Event::Ready {
                part: LOOPD,
                pid: 9
            },
            100
        ),
        []
    );
    let later = 100 + RECOVERED_AFTER_MS;
    assert_eq!(wait(&machine.on(ended(LOOPD, Exit::Code(1)), later)).0, 100);
}

#[test]
fn exit_78_stops_everything_in_order() {
    let mut machine = ready();
    let commands = machine.on(ended(BROKERD, Exit::Code(78)), 5);
    assert_eq!(commands[0], Command::Terminate(LOOPD));
    assert_eq!(
        machine.on(ended(LOOPD, Exit::Code(0)), 6)[0],
        Command::Terminate(MEMORYD)
    );
    assert_eq!(
        machine.on(ended(MEMORYD, Exit::Code(0)), 6)[0],
        Command::Terminate(INFERPROXY)
    );
    let end = machine.on(ended(INFERPROXY, Exit::Code(0)), 7);
    assert_eq!(end, [Command::Finish(End::Unusable(Role::Brokerd))]);
    assert_eq!(
        state(&machine, Role::Brokerd).last_exit.as_deref(),
        Some("exit code 78")
    );
}

#[test]
fn exit_78_of_the_starter_engine_is_a_failure_like_any_other() {
    let mut machine = ready();
    assert_eq!(
        machine.on(Event::Restart(Part::Starter), 1),
        [Command::Start(Part::Starter)]
    );
    machine.on(ended(Part::Starter, Exit::Code(78)), 1);
    assert!(!machine.is_stopping());
    for _ in 1..MAX_STARTER_FAILURES - 1 {
        machine.on(ended(Part::Starter, Exit::Code(1)), 1);
    }
    assert_eq!(
        machine.on(ended(Part::Starter, Exit::Code(1)), 1),
        [],
        "it is given up"
    );
    assert_eq!(machine.starter(), Some(ProcessState::Stopped));
    assert_eq!(
        machine.on(Event::Restart(Part::Starter), 1),
        [Command::Start(Part::Starter)]
    );
}

#[test]
fn a_new_starter_engine_makes_inferproxy_start_anew() {
    let mut machine = ready();
    assert_eq!(machine.starter(), None);
    machine.on(Event::Restart(Part::Starter), 1);
    let commands = machine.on(
        Event::Started {
            part: Part::Starter,
            pid: 7,
        },
        1,
    );
    assert_eq!(commands[0], Command::Terminate(INFERPROXY));
    assert_eq!(
        machine.on(ended(INFERPROXY, Exit::Code(0)), 2),
        [Command::Start(INFERPROXY)]
    );
    let status = state(&machine, Role::Inferproxy);
    assert_eq!(
        (status.restarts, status.last_exit),
        (0, None),
        "a wish is no failure"
    );
    assert_eq!(
        machine.on(Event::Restart(Part::Starter), 3),
        [],
        "it is there already"
    );
}

#[test]
fn a_stop_is_in_order_and_kills_what_does_not_end() {
    let mut machine = ready();
    let commands = machine.on(Event::Stop(End::Asked), 1);
    assert_eq!(commands[0], Command::Terminate(LOOPD));
    let (ms, timer) = wait(&commands);
    assert_eq!(ms, STOP_WITHIN_MS);
    assert_eq!(machine.on(Event::Stop(End::Idle), 1), [], "once is enough");
    assert_eq!(machine.on(Event::Time(timer), 2), [Command::Kill(LOOPD)]);
    assert_eq!(
        machine.on(ended(LOOPD, Exit::Signal(9)), 3)[0],
        Command::Terminate(BROKERD)
    );
    assert_eq!(
        machine.on(Event::Restart(LOOPD), 3),
        [],
        "nothing is started any more"
    );
    // One that dies out of turn is no reason to go on sooner.
    assert_eq!(machine.on(ended(INFERPROXY, Exit::Code(78)), 3), []);
    assert_eq!(
        machine.on(ended(BROKERD, Exit::Code(0)), 4)[0],
        Command::Terminate(MEMORYD)
    );
    assert_eq!(
        machine.on(ended(MEMORYD, Exit::Code(0)), 5),
        [Command::Finish(End::Asked)]
    );
}

#[test]
fn a_stop_while_starting_and_backing_off_ends_too() {
    let mut machine = Machine::new();
    machine.on(Event::Begin, 0);
    let (_, timer) = wait(&machine.on(ended(LOOPD, Exit::NotStarted), 0));
    machine.on(Event::Stop(End::Asked), 0);
    assert_eq!(machine.on(Event::Time(timer), 1), []);
    machine.on(ended(BROKERD, Exit::Signal(15)), 1);
    machine.on(ended(MEMORYD, Exit::Signal(15)), 1);
    assert_eq!(
        machine.on(ended(INFERPROXY, Exit::Signal(15)), 1),
        [Command::Finish(End::Asked)]
    );
}

#[test]
fn whoever_is_in_a_hurry_kills() {
    let mut machine = ready();
    let commands = machine.on(Event::Hurry, 1);
    for part in [LOOPD, BROKERD, MEMORYD, INFERPROXY] {
        assert!(commands.contains(&Command::Kill(part)), "{part}");
    }
    machine.on(ended(LOOPD, Exit::Signal(9)), 2);
    machine.on(ended(BROKERD, Exit::Signal(9)), 2);
    machine.on(ended(MEMORYD, Exit::Signal(9)), 2);
    assert_eq!(
        machine.on(ended(INFERPROXY, Exit::Signal(9)), 2),
        [Command::Finish(End::Asked)]
    );
}

#[test]
fn an_answer_of_a_replaced_process_does_not_count() {
    let mut machine = ready();
    let (_, timer) = wait(&machine.on(ended(LOOPD, Exit::Signal(9)), 0));
    machine.on(Event::Time(timer), 0);
    machine.on(
        Event::Started {
            part: LOOPD,
            pid: 30,
        },
        0,
    );
    machine.on(
        Event::Ready {
            part: LOOPD,
            pid: 3,
        },
        0,
    );
    assert_eq!(state(&machine, Role::Loopd).state, ProcessState::Starting);
    machine.on(
        Event::Ready {
            part: LOOPD,
            pid: 30,
        },
        0,
    );
    assert_eq!(state(&machine, Role::Loopd).state, ProcessState::Ready);
}

#[test]
fn a_role_that_backs_off_is_started_at_once_when_asked_for() {
    let mut machine = ready();
    let (_, timer) = wait(&machine.on(ended(LOOPD, Exit::Signal(9)), 0));
    assert_eq!(
        machine.on(Event::Restart(LOOPD), 0),
        [Command::Start(LOOPD)]
    );
    assert_eq!(
        machine.on(Event::Time(timer), 0),
        [],
        "the old pause means nothing now"
    );
}

#[test]
fn a_role_that_lives_but_answers_nothing_is_killed_when_that_lasts() {
    let mut machine = ready();
    let silent = Event::Silent {
        part: LOOPD,
        pid: 3,
    };
    let answers = Event::Ready {
        part: LOOPD,
        pid: 3,
    };
    assert_eq!(machine.on(silent, 10), []);
    assert_eq!(state(&machine, Role::Loopd).state, ProcessState::Silent);
    assert_eq!(machine.on(silent, 10 + KILL_SILENT_AFTER_MS - 1), []);
    assert_eq!(machine.on(answers, 10 + KILL_SILENT_AFTER_MS), []);
    assert_eq!(state(&machine, Role::Loopd).state, ProcessState::Ready);

    let again = 20 + KILL_SILENT_AFTER_MS;
    assert_eq!(machine.on(silent, again), [], "it is counted anew");
    let late = again + KILL_SILENT_AFTER_MS;
    let other = Event::Silent {
        part: LOOPD,
        pid: 33,
    };
    assert_eq!(machine.on(other, late), [], "another process's silence");
    assert_eq!(machine.on(silent, late), [Command::Kill(LOOPD)]);
    let (_, timer) = wait(&machine.on(ended(LOOPD, Exit::Signal(9)), late));
    assert_eq!(
        machine.on(Event::Time(timer), late),
        [Command::Start(LOOPD)]
    );
}

#[test]
fn a_silent_role_can_be_started_anew_by_hand_and_is_waited_for_no_longer_than_any() {
    let mut machine = ready();
    machine.on(
        Event::Silent {
            part: LOOPD,
            pid: 3,
        },
        10,
    );
    let commands = machine.on(Event::Restart(LOOPD), 11);
    assert_eq!(commands[0], Command::Terminate(LOOPD));
    let (ms, timer) = wait(&commands);
    assert_eq!(ms, STOP_WITHIN_MS);
    assert_eq!(machine.on(Event::Time(timer), 11), [Command::Kill(LOOPD)]);
}
