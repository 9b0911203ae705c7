//! The role as a process of its own, confined: it serves, it ends, and it may be killed anywhere.

use crate::support::{TestHome, owner, request, session};
use bxcore::code::Code;
use bxcore::label::{Class, Label};
use bxcore::role::Role;
use bxcore::transcript::CallOutcome;
use bxcore::wire::brokerd::{Authority, CallAnswer, CallRequest, CallResult};
use bxkit::keys::{KeyRing, RoleKeys};
use bxkit::rpc::Client;
use std::io::Write;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

/// Says that this process is to be the role.
const ROLE_VARIABLE: &str = "BROKERD_TEST_ROLE";
const READY_SECS: u64 = 60;

/// Not a test by itself: what the tests below run in a process of its own.
#[test]
fn as_a_role() {
    if std::env::var_os(ROLE_VARIABLE).is_some() {
        eprintln!(
            "EXIT {:?}",
            brokerd::run(env!("CARGO_BIN_EXE_brokerd-probe").into())
        );
    }
}

/// The role, running.
struct Process {
    child: Child,
    engine: Client,
}

impl Process {
    fn spawn(test: &TestHome, fault: Option<&str>) -> Self {
        let ring = KeyRing::generate().unwrap();
        let keys: RoleKeys = ring.for_role(Role::Brokerd, None);
        let mut command = Command::new(std::env::current_exe().unwrap());
        command
            .args(["--exact", "role::as_a_role", "--nocapture"])
            .env(ROLE_VARIABLE, "1")
            .env("BOXMAKER_HOME", test.root.path().join("home"))
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .stderr(Stdio::piped());
        if let Some(point) = fault {
            command.env("BOXMAKER_FAULT", point);
        }
        let mut child = command.spawn().unwrap();
        let line = format!("{}\n", serde_json::to_string(&keys).unwrap());
        child
            .stdin
            .as_mut()
            .unwrap()
            .write_all(line.as_bytes())
            .unwrap();
        let token = ring
            .for_role(Role::Loopd, None)
            .token_for(Role::Brokerd)
            .unwrap()
            .clone();
        let engine = Client::new(test.home.socket(Role::Brokerd), &token);
        Self { child, engine }
    }

    async fn ready(test: &TestHome, fault: Option<&str>) -> Self {
        let process = Self::spawn(test, fault);
        process
            .engine
            .wait_ready(Duration::from_secs(READY_SECS))
            .await
            .unwrap();
        process
    }

    async fn call(&self, request: &CallRequest) -> CallResult {
        let answer: CallAnswer = self.engine.post("/v1/calls", request).await.unwrap();
        answer.result().unwrap()
    }

    async fn register(&self) -> Authority {
        self.engine.put("/v1/sessions/s", &owner()).await.unwrap()
    }

    /// Ends it as a supervisor that goes away does; gives what it said.
    fn end(mut self) -> String {
        drop(self.child.stdin.take());
        let output = self.child.wait_with_output().unwrap();
        String::from_utf8_lossy(&output.stderr).into_owned()
    }
}

/// A home whose owner lets a stranger's mail be read.
fn home_with_mail() -> TestHome {
    let test = TestHome::new();
    let mail = test.beside("mail");
    std::fs::write(mail.join("1.txt"), "hello").unwrap();
    test.configure(&format!(
        "[[workspace]]\npath = \"{}\"\nuntrusted = true",
        mail.display()
    ));
    test
}

fn read_mail() -> CallRequest {
    request("s", 1, "read_file", r#"{"path":"mail/1.txt"}"#)
}

const MAIL: Label = Label::new(Class::Private, true);

#[tokio::test]
async fn it_serves_confined_and_ends_with_its_supervisor() {
    let test = home_with_mail();
    for round in 0..2 {
        let process = Process::ready(&test, None).await;
        process.register().await;
        let result = process.call(&read_mail()).await;
        assert_eq!((result.content.as_str(), result.label), ("hello", MAIL));
        let list = request("s", 2 + round, "list_dir", "{}");
        let result = process.call(&list).await;
        assert_eq!(result.outcome, CallOutcome::Ok, "{}", result.content);
        let said = process.end();
        assert!(
            said.contains("EXIT ExitCode(unix_exit_status(0))"),
            "{said}"
        );
        test.verify();
    }
}

#[test]
fn what_a_restart_cannot_cure_ends_it_with_78() {
    let check = |spoil: &dyn Fn(&TestHome), code: Code| {
        let test = home_with_mail();
        test.start_and_stop();
        spoil(&test);
        let said = Process::spawn(&test, None).end();
        assert!(
            said.contains("EXIT ExitCode(unix_exit_status(78))"),
            "{code}: {said}"
        );
        assert!(said.contains(&format!("error[{code}]")), "{code}: {said}");
    };
    check(
        &|test| test.configure("[[grant]]\ntol = \"x\""),
        Code::ConfigInvalid,
    );
    check(
        &|test| std::fs::write(test.home.broker_db(), "rubbish").unwrap(),
        Code::StateBroken,
    );
    let spoil_log = |test: &TestHome| {
        let segment = test.segments().remove(0);
        let text = std::fs::read_to_string(&segment).unwrap();
        std::fs::write(&segment, text.replacen("config", "intent", 1)).unwrap();
    };
    check(&spoil_log, Code::AuditChainBroken);
}

/// Killed at a point, started anew, asked again: what was stored is answered, the rest is done
/// again with an intent of its own, the label is never behind what was given out.
async fn killed_at(point: &str, intents: usize, unknown: usize, stored: bool) {
    let test = home_with_mail();
    let process = Process::ready(&test, Some(point)).await;
    process.register().await;
    let error = process
        .engine
        .post::<_, CallAnswer>("/v1/calls", &read_mail())
        .await
        .unwrap_err();
    assert_eq!(error.code(), Code::RoleUnreachable, "{point}");
    let said = process.end();
    assert!(!said.contains("EXIT"), "{point}: it was killed: {said}");

    let process = Process::ready(&test, None).await;
    let authority: Authority = process.engine.get("/v1/sessions/s").await.unwrap();
    assert_eq!(
        authority.label,
        if stored { MAIL } else { Label::OWNER },
        "{point}"
    );
    let again = CallRequest {
        resumed: true,
        ..read_mail()
    };
    let result = process.call(&again).await;
    assert_eq!(
        (result.content.as_str(), result.session_label),
        ("hello", MAIL),
        "{point}"
    );
    process.end();
    test.verify();
    let records = test.records();
    let count = |key: &str, value: &str| records.iter().filter(|r| r[key] == value).count();
    assert_eq!(count("kind", "intent"), intents, "{point}");
    assert_eq!(count("outcome", "unknown"), unknown, "{point}");
    assert_eq!(
        count("kind", "outcome"),
        intents,
        "{point}: every intent has its outcome"
    );
}

#[tokio::test]
async fn it_may_be_killed_anywhere_in_a_call() {
    killed_at("brokerd.before-intent", 1, 0, false).await;
    killed_at("brokerd.after-intent", 2, 1, false).await;
    killed_at("brokerd.after-run", 2, 1, false).await;
    killed_at("brokerd.after-label", 1, 1, true).await;
    killed_at("brokerd.after-outcome", 1, 0, true).await;
}

#[tokio::test]
async fn a_session_survives_its_brokerd() {
    let test = home_with_mail();
    let process = Process::ready(&test, None).await;
    process.register().await;
    process.call(&read_mail()).await;
    process.end();
    let started = test.start();
    let authority = started.broker.authority(session("s")).await.unwrap();
    assert_eq!(authority.label, MAIL);
    started.stop().await;
}

/// A command that runs when brokerd is killed is killed with it, and is not run again.
#[tokio::test]
async fn a_command_dies_with_its_brokerd() {
    let test = TestHome::new();
    test.configure("[[grant]]\ntool = \"shell\"\nmax_taint = \"private\"\n");
    let began = test.workspace("s").join("began");
    let mut process = Process::ready(&test, None).await;
    process.register().await;
    let command = r#"{"command":"echo x >> began; setsid sleep 86371 & sleep 86371"}"#;
    let call = request("s", 1, "shell", command);
    let engine = process.engine.clone();
    let asked = call.clone();
    let asking =
        tokio::spawn(async move { engine.post::<_, CallAnswer>("/v1/calls", &asked).await });
    while !began.exists() {
        assert!(!asking.is_finished(), "{:?}", asking.await);
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    process.child.kill().unwrap();
    process.child.wait().unwrap();
    asking.await.unwrap().unwrap_err();
    crate::sandbox::wait_gone("sleep 86371");

    let process = Process::ready(&test, None).await;
    let again = CallRequest {
        resumed: true,
        ..call
    };
    let result = process.call(&again).await;
    assert_eq!(
        result.outcome,
        CallOutcome::Interrupted,
        "{}",
        result.content
    );
    process.end();
    assert_eq!(std::fs::read_to_string(began).unwrap(), "x\n", "once");
    test.verify();
}
