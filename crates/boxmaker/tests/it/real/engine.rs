//! The real llama-server from the starter engine's packages, with flags as a test wants them.

use boxmaker::starter::{Installation, Installer, Layout};
use serde_json::json;
use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Child, Command, Stdio};

const PROGRAM: &str = include_str!("engine.py");
const TOOLS_TEMPLATE: &str = include_str!("tools.jinja");

/// How the server is started.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Flags {
    /// As it should be.
    Good,
    /// As without `-np`: one cache for all slots, cleared where they are idle.
    SharedCache,
    /// Good, with a template that has tools and writes a call otherwise than the model does.
    NativeTools,
}

/// A server that ends with this value.
#[derive(Debug)]
pub(super) struct Engine {
    process: Child,
    pub(super) url: String,
}

impl Engine {
    /// Installs the packages where that was not done yet, and starts a server on a free port.
    pub(super) fn start(flags: Flags) -> Self {
        let installed = installed();
        let mut process = Command::new(&installed.python)
            .args(["-c", PROGRAM])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let template = match flags {
            Flags::NativeTools => TOOLS_TEMPLATE,
            Flags::Good | Flags::SharedCache => "",
        };
        let config = json!({
            "packages": installed.packages,
            "model": installed.model,
            "shared_cache": flags == Flags::SharedCache,
            "template": template,
        });
        // The server ends when this end of the pipe does, so it stays in the process.
        writeln!(process.stdin.as_mut().unwrap(), "{config}").unwrap();
        let mut url = String::new();
        let mut output = BufReader::new(process.stdout.take().unwrap());
        output.read_line(&mut url).unwrap();
        assert!(!url.is_empty(), "the server ended before it listened");
        let url = url.trim().to_owned();
        Self { process, url }
    }
}

impl Drop for Engine {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

/// The packages, installed once for all tests of this build.
fn installed() -> Installation {
    let layout = Layout::at(Path::new(env!("CARGO_TARGET_TMPDIR")).join("engine"));
    let installer = Installer::new(layout, std::env::var_os("PATH").unwrap());
    installer.install(&mut |_| {}).unwrap()
}
