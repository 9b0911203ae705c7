//! The disposable home: commands end in time, and nothing outlives it.

use bxtest::home::{BackendConfig, TestHome, bin};
use bxtest::llama::LlamaServer;
use insta::assert_snapshot;
use std::path::Path;
use std::time::Duration;

fn sh(script: &str) -> [&str; 2] {
    ["-c", script]
}

const SHELL: &str = "/bin/sh";

fn runs(pid: u32) -> bool {
    std::fs::read_to_string(format!("/proc/{pid}/stat")).is_ok_and(|stat| {
        !stat
            .rsplit_once(')')
            .unwrap()
            .1
            .trim_start()
            .starts_with('Z')
    })
}

#[test]
fn a_command_sees_its_home_only() {
    let home = TestHome::new();
    assert!(
        home.path().as_os_str().len() < 40,
        "sockets need short paths"
    );
    let output = home
        .program(Path::new(SHELL))
        .args(sh("echo $BOXMAKER_HOME; cat; echo oops >&2; exit 3"));
    let output = output.input("typed").run().exited(3);
    assert_eq!(output.stdout, format!("{}\ntyped", home.path().display()));
    assert_eq!(output.stderr, "oops\n");
    let output = home
        .program(Path::new(SHELL))
        .args(sh("env"))
        .run()
        .success();
    assert!(!output.stdout.contains("CARGO"), "{}", output.stdout);
}

#[test]
fn a_command_that_hangs_is_killed() {
    let home = TestHome::new();
    let hang = home
        .program(Path::new(SHELL))
        .args(sh("echo begun; sleep 1000"));
    let hung = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
        hang.timeout(Duration::from_secs(2)).run();
    }));
    let message = *hung.unwrap_err().downcast::<String>().unwrap();
    assert!(
        message.contains("ran longer") && message.contains("begun"),
        "{message}"
    );
    assert!(home.processes().is_empty());
}

#[test]
fn a_detached_process_ends_with_the_home() {
    let home = TestHome::new();
    let output = home
        .program(Path::new(SHELL))
        .args(sh("setsid sleep 1000 >/dev/null 2>&1 </dev/null & echo $!"))
        .run()
        .success();
    let pid: u32 = output.stdout.trim().parse().unwrap();
    assert!(home.processes().contains(&pid));
    let root = home.path().to_owned();
    drop(home);
    assert!(!runs(pid) && !root.exists());
}

#[test]
fn a_child_is_signalled_and_reaped() {
    let home = TestHome::new();
    let child = home
        .program(Path::new(SHELL))
        .args(sh(
            "trap 'echo bye; exit 7' TERM; echo up; while :; do sleep 0.01; done",
        ))
        .spawn();
    child.until("it is up", || child.stdout().contains("up"));
    assert_eq!(child.terminate().code(), Some(7));
    assert_eq!(child.stdout(), "up\nbye\n");
    let child = home
        .program(Path::new(SHELL))
        .args(sh("exec sleep 1000"))
        .spawn();
    assert_eq!(child.kill9().code(), None);
    let child = home
        .program(Path::new(SHELL))
        .args(sh("sleep 1000 & wait"))
        .spawn();
    child.until("both sleep", || home.processes().len() == 2);
    drop(child);
    assert!(home.processes().is_empty());
}

#[test]
fn whoever_listens_in_the_home_belongs_to_it() {
    let home = TestHome::new();
    std::fs::create_dir(home.run_dir()).unwrap();
    let _listener = std::os::unix::net::UnixListener::bind(home.socket("loopd")).unwrap();
    assert_eq!(home.role_pid("loopd"), Some(std::process::id()));
    assert_eq!(home.role_pid("brokerd"), None);
    assert!(
        home.processes().is_empty(),
        "the test itself is not to be ended"
    );
}

#[test]
fn the_configuration_points_at_the_server() {
    let server = LlamaServer::builder().start_blocking();
    let home = TestHome::with_server(&server);
    let text = std::fs::read_to_string(home.config_dir().join("inferproxy.toml")).unwrap();
    assert_snapshot!(text.replace(&server.url(), "URL"), @r#"
    wire_dump = true

    [[backend]]
    name = "local"
    url = "URL"
    kind = "llama-server"
    slots = { main = [0], background = 2 }
    "#);
    let backends = [
        BackendConfig::llama_server("URL")
            .main_slots(&[0, 1], 3)
            .seats(&[4, 5])
            .tools("schema"),
        BackendConfig::openai("URL", 8)
            .name("other")
            .line("model = \"m\""),
    ];
    home.write_backends(&backends);
    let text = std::fs::read_to_string(home.config_dir().join("inferproxy.toml")).unwrap();
    assert_snapshot!(text, @r#"
    wire_dump = true

    [[backend]]
    name = "local"
    url = "URL"
    kind = "llama-server"
    slots = { main = [0, 1], background = 3 }
    seats = [4, 5]
    tools = "schema"

    [[backend]]
    name = "other"
    url = "URL"
    kind = "openai"
    max_concurrency = 8
    model = "m"
    "#);
}

#[test]
fn the_scripted_server_is_a_program_too() {
    let home = TestHome::new();
    let child = home
        .cmd("bxtest-llama")
        .args(["--reply", "hi", "--slots", "2"])
        .spawn();
    child.until("it says where it listens", || {
        child.stdout().starts_with("http://127.0.0.1:")
    });
    assert!(child.terminate().success(), "{}", child.stdout());
    assert!(child.stdout().contains("started: 0"));
}

#[test]
fn a_missing_executable_says_what_to_type() {
    let missing = std::panic::catch_unwind(|| bin("nothing-like-it"));
    let message = *missing.unwrap_err().downcast::<String>().unwrap();
    assert!(message.contains("cargo build -p"), "{message}");
}
