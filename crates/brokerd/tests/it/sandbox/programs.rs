//! Programs that are talked with: what they see, what they can't, and that nothing outlives them.

use super::ends::wait_gone;
use super::place::{Place, SECRET, launch};
use crate::support::{TestHome, session};
use brokerd::sandbox::{Ended, Launch, Program, Ran, Sandbox, SandboxError, Service, Serving};
use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, Write};
use std::net::Shutdown;
use std::os::unix::net::UnixStream;

const TIMEOUT_SECS: u64 = 60;

/// A home with one program, a script for the shell in a folder of its own.
struct Programmed {
    place: Place,
    sandbox: Sandbox,
}

impl Programmed {
    fn new(script: &str) -> Self {
        let place = Place::new();
        let folder = place.test.beside("tools");
        std::fs::write(folder.join("talk.sh"), script).unwrap();
        let program = Program {
            command: vec![
                "sh".to_owned(),
                folder.join("talk.sh").to_str().unwrap().to_owned(),
                "an argument".to_owned(),
            ],
            read_only: vec![folder],
            environment: BTreeMap::from([("GREETING".to_owned(), "good day".to_owned())]),
        };
        let launch = Launch {
            programs: BTreeMap::from([("talk".to_owned(), program)]),
            ..launch(&place.test)
        };
        let sandbox = Sandbox::start(&launch).unwrap();
        Self { place, sandbox }
    }

    fn serve(&self, workspace: Option<&str>) -> Serving {
        let service = Service {
            program: "talk".to_owned(),
            session: workspace.map(session),
            timeout_secs: TIMEOUT_SECS,
        };
        self.sandbox.serve(&service).unwrap()
    }

    /// Says a line, and gives all that comes back.
    fn say(&self, workspace: Option<&str>, line: &str) -> (Vec<String>, Ran) {
        let mut serving = self.serve(workspace);
        let wire = serving.take_wire().unwrap();
        writeln!(&wire, "{line}").unwrap();
        wire.shutdown(Shutdown::Write).unwrap();
        let lines = lines(&wire);
        (lines, serving.end().unwrap())
    }
}

fn lines(wire: &UnixStream) -> Vec<String> {
    BufReader::new(wire).lines().map(Result::unwrap).collect()
}

#[test]
fn a_program_is_talked_with_and_sees_its_folder_and_its_environment() {
    let programmed =
        Programmed::new("read -r line; echo \"$line|$1|$GREETING|$PWD\"; echo aside >&2; exit 3");
    let (lines, ran) = programmed.say(None, "hello");
    assert_eq!(lines, ["hello|an argument|good day|/work"]);
    assert_eq!((ran.ended, ran.head), (Ended::Exit(3), b"aside\n".to_vec()));
}

#[test]
fn what_it_writes_stays_in_a_workspace_and_nowhere_else() {
    let programmed = Programmed::new("read -r line; echo \"$line\" > a.txt; cat a.txt");
    assert_eq!(programmed.say(None, "one").0, ["one"]);
    assert!(!programmed.place.work.join("a.txt").exists());
    assert_eq!(programmed.say(Some("s"), "two").0, ["two"]);
    let left = std::fs::read_to_string(programmed.place.work.join("a.txt"));
    assert_eq!(left.unwrap(), "two\n");
}

/// Each act is tried by the program itself, and must fail.
#[test]
fn what_a_command_can_not_do_a_program_can_not_do_either() {
    let programmed = Programmed::new(
        "while read -r act; do if sh -c \"$act\" >/dev/null 2>&1; then echo \"did: $act\"; \
         else echo denied; fi; done",
    );
    let test = &programmed.place.test;
    std::fs::write(test.beside("private").join("key"), SECRET).unwrap();
    let root = test.root.path().display();
    let acts = [
        format!("cat {root}/private/key"),
        format!("ls {root}/home"),
        format!("cat {root}/notes/n.txt"),
        "cat /owner/notes/n.txt".to_owned(),
        format!("echo x > {root}/tools/new"),
        format!("echo x >> {root}/tools/talk.sh"),
        "ls /root".to_owned(),
        "cat /etc/passwd".to_owned(),
        "echo x > /usr/x".to_owned(),
        "exec 3<>/dev/tcp/127.0.0.1/53 || bash -c 'exec 3<>/dev/tcp/127.0.0.1/53'".to_owned(),
        "unshare -U true".to_owned(),
        "mount -t tmpfs x /tmp".to_owned(),
    ];
    let (lines, _) = programmed.say(None, &acts.join("\n"));
    assert_eq!(lines, vec!["denied"; acts.len()]);
}

#[test]
fn its_end_is_the_end_of_all_that_it_started() {
    let programmed = Programmed::new("setsid sleep 86361 & sleep 86361 & echo up; sleep 86361");
    let begun = |serving: &mut Serving| {
        let wire = serving.take_wire().unwrap();
        let mut line = String::new();
        BufReader::new(&wire).read_line(&mut line).unwrap();
        assert_eq!(line, "up\n");
    };
    let mut serving = programmed.serve(None);
    begun(&mut serving);
    serving.end().unwrap();
    wait_gone("sleep 86361");
    let mut dropped = programmed.serve(None);
    begun(&mut dropped);
    drop(dropped);
    wait_gone("sleep 86361");
}

#[test]
fn a_program_that_can_not_be_started_is_told() {
    let why = |sandbox: &Sandbox, program: &str| {
        let service = Service {
            program: program.to_owned(),
            session: None,
            timeout_secs: TIMEOUT_SECS,
        };
        let mut serving = sandbox.serve(&service).unwrap();
        assert!(lines(&serving.take_wire().unwrap()).is_empty());
        match serving.end() {
            Err(SandboxError::Unavailable(why)) => why,
            other => panic!("{other:?}"),
        }
    };
    let programmed = Programmed::new("");
    assert!(why(&programmed.sandbox, "other").contains("no such program"));
    std::fs::remove_dir_all(programmed.place.test.beside("tools")).unwrap();
    assert!(why(&programmed.sandbox, "talk").contains("no folder"));

    let test = TestHome::new();
    let program = Program {
        command: vec!["sh".to_owned()],
        read_only: Vec::new(),
        environment: BTreeMap::new(),
    };
    let launch = Launch {
        search_path: test.beside("empty").into_os_string(),
        programs: BTreeMap::from([("talk".to_owned(), program)]),
        ..launch(&test)
    };
    let without = Sandbox::start(&launch).unwrap();
    assert!(why(&without, "talk").contains("bwrap"));
}
