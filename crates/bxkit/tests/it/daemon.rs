//! The daemon shell, as a process of its own.

use crate::support::{PATIENCE, probe};
use bxcore::role::Role;
use bxkit::home::Home;
use bxkit::keys::{KeyRing, RoleKeys};
use bxkit::rpc::Client;
use rustix::process::{Pid, Signal, kill_process};
use std::io::{Read, Write};
use std::process::{Child, Stdio};
use std::time::Instant;

struct Started {
    root: tempfile::TempDir,
    home: Home,
    ring: KeyRing,
}

impl Started {
    fn new(config: &str) -> Self {
        let root = tempfile::tempdir().unwrap();
        let home = Home::at(root.path());
        home.create().unwrap();
        std::fs::write(home.config_file(Role::Brokerd), config).unwrap();
        let ring = KeyRing::generate().unwrap();
        std::fs::write(home.owner_token_file(), ring.owner().expose()).unwrap();
        Self { root, home, ring }
    }

    fn keys(&self) -> RoleKeys {
        self.ring.for_role(Role::Brokerd, None)
    }

    fn spawn(&self, keys: &RoleKeys) -> Child {
        let mut child = probe()
            .arg("role")
            .env("BOXMAKER_HOME", self.root.path())
            .stdin(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let mut line = serde_json::to_vec(keys).unwrap();
        line.push(b'\n');
        child.stdin.as_mut().unwrap().write_all(&line).unwrap();
        child
    }

    fn client(&self) -> Client {
        Client::new(self.home.socket(Role::Brokerd), self.ring.owner()).timeout(PATIENCE)
    }

    async fn ready(&self) -> Child {
        let child = self.spawn(&self.keys());
        self.client().wait_ready(PATIENCE).await.unwrap();
        child
    }
}

/// Waits for the end and gives exit code and standard error.
async fn ended(mut child: Child) -> (Option<i32>, String) {
    let deadline = Instant::now() + PATIENCE;
    let status = loop {
        if let Some(status) = child.try_wait().unwrap() {
            break status;
        }
        if Instant::now() > deadline {
            child.kill().unwrap();
            panic!("the role did not end");
        }
        tokio::time::sleep(std::time::Duration::from_millis(5)).await;
    };
    let mut text = String::new();
    child
        .stderr
        .take()
        .unwrap()
        .read_to_string(&mut text)
        .unwrap();
    (status.code(), text)
}

fn signal(child: &Child, signal: Signal) {
    kill_process(Pid::from_child(child), signal).unwrap();
}

#[tokio::test]
async fn a_role_serves_confined_and_ends_at_sigterm() {
    let started = Started::new("greeting = \"hello\"\n");
    let child = started.ready().await;
    let client = started.client();
    assert_eq!(
        client.get::<String>("/greeting").await.unwrap(),
        "hello owner"
    );
    assert!(client.get::<bool>("/write").await.unwrap(), "its own state");
    let answer = client.post_raw(
        "/v1/health",
        bytes::Bytes::new(),
        axum::http::HeaderMap::new(),
    );
    assert_eq!(answer.await.unwrap().status.as_u16(), 405);
    signal(&child, Signal::TERM);
    let (code, text) = ended(child).await;
    assert_eq!(code, Some(0), "{text}");
    if text.contains("landlock full") {
        assert!(text.contains("starting"), "{text}");
    }
}

#[tokio::test]
async fn a_role_cannot_read_the_owners_token() {
    let started = Started::new("");
    let child = started.ready().await;
    let readable: bool = started.client().get("/owner-token").await.unwrap();
    signal(&child, Signal::TERM);
    let (_, text) = ended(child).await;
    assert_eq!(readable, text.contains("landlock none"), "{text}");
}

#[tokio::test]
async fn a_role_ends_when_its_supervisor_is_gone() {
    let started = Started::new("");
    let mut child = started.ready().await;
    drop(child.stdin.take());
    let (code, text) = ended(child).await;
    assert_eq!(code, Some(0), "{text}");
    assert!(text.contains("the supervisor is gone"), "{text}");
}

#[tokio::test]
async fn sighup_is_passed_on() {
    let started = Started::new("");
    let child = started.ready().await;
    let client = started.client();
    let waiting = tokio::spawn(async move { client.get::<bool>("/reloaded").await });
    signal(&child, Signal::HUP);
    assert!(waiting.await.unwrap().unwrap());
    signal(&child, Signal::INT);
    assert_eq!(ended(child).await.0, Some(0));
}

#[tokio::test]
async fn a_wrong_configuration_ends_with_78_and_its_page() {
    let started = Started::new("greting = \"hello\"\n");
    let child = started.spawn(&started.keys());
    let (code, text) = ended(child).await;
    assert_eq!(code, Some(78));
    let shown = text.replace(&started.root.path().display().to_string(), "HOME");
    insta::assert_snapshot!(shown, @r#"
    error[config-invalid]: A configuration file is wrong
      HOME/config/brokerd.toml:1:1: unknown field `greting`
        |
      1 | greting = "hello"
        | ^^^^^^^
      try: did you mean `greeting`?
      see: docs/runbook/config-invalid.md
    "#);
}

#[tokio::test]
async fn a_fault_of_the_audit_log_ends_with_78() {
    let started = Started::new("");
    let child = started.ready().await;
    let _: bool = started.client().get("/fatal").await.unwrap();
    let (code, text) = ended(child).await;
    assert_eq!(code, Some(78), "{text}");
    assert!(
        text.contains("error[audit-unavailable]: The audit log can't be written\n"),
        "{text}"
    );
    assert!(text.contains("docs/runbook/audit-unavailable.md"), "{text}");
}

#[tokio::test]
async fn keys_of_another_role_are_refused() {
    let started = Started::new("");
    let child = started.spawn(&started.ring.for_role(Role::Loopd, None));
    let (code, text) = ended(child).await;
    assert_eq!(code, Some(78));
    assert!(text.contains("`brokerd` got the keys of `loopd`"), "{text}");
}

#[tokio::test]
async fn no_keys_are_refused() {
    let child = probe()
        .arg("role")
        .stdin(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let (code, text) = ended(child).await;
    assert_eq!(code, Some(78));
    assert!(text.contains("error[not-authorised]"), "{text}");
}

#[tokio::test]
async fn a_second_of_a_role_leaves_the_first_alone() {
    let started = Started::new("greeting = \"first\"\n");
    let child = started.ready().await;
    let (code, text) = ended(started.spawn(&started.keys())).await;
    assert_eq!(
        code,
        Some(1),
        "it may try again once the first is gone: {text}"
    );
    assert!(text.contains("error[home-held]"), "{text}");
    assert_eq!(
        started.client().get::<String>("/greeting").await.unwrap(),
        "first owner"
    );
    signal(&child, Signal::TERM);
    assert_eq!(ended(child).await.0, Some(0));
    let again = started.ready().await;
    signal(&again, Signal::TERM);
    assert_eq!(ended(again).await.0, Some(0));
}
