//! `[[mcp]]` of `brokerd.toml`.

use super::limits::{CALL_MS, MAX_ENVIRONMENT, MAX_FOLDERS, MAX_WORD_BYTES, MAX_WORDS, START_MS};
use crate::egress::Endpoint;
use crate::sandbox::{Program, is_apart_from_sandbox};
use crate::secrets::SecretName;
use bxcore::id::McpServerName;
use bxcore::tool::RiskTag;
use bxkit::config::InvalidValue;
use serde::Deserialize;
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Component, Path, PathBuf};

/// A server: a program in the sandbox, or a service elsewhere.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Settings {
    /// The name that its tools have before theirs.
    pub name: McpServerName,
    /// The program and its arguments, for one in the sandbox.
    #[serde(default)]
    pub command: Vec<String>,
    /// Folders that the program sees, at the paths that they have; it can't change them.
    #[serde(default)]
    pub read_only: Vec<PathBuf>,
    /// Whether the program works in the session's workspace; else in an empty folder.
    #[serde(default)]
    pub workspace: bool,
    /// What the program's environment has besides. Not for secrets.
    #[serde(default)]
    pub environment: BTreeMap<String, String>,
    /// The address of a service that speaks streamable HTTP: `https`, or this box.
    #[serde(default)]
    pub url: Option<Endpoint>,
    /// Certificates to check the service's against, in place of the system's.
    #[serde(default)]
    pub ca_file: Option<PathBuf>,
    /// The name of the secret that the service gets as bearer token; none if left out.
    #[serde(default)]
    pub secret: Option<SecretName>,
    /// How long it may take to start and to say what tools it has, in milliseconds.
    #[serde(default = "default_start_ms")]
    pub start_ms: u64,
    /// How long a call may take from then on, in milliseconds.
    #[serde(default = "default_call_ms")]
    pub call_ms: u64,
}

const fn default_start_ms() -> u64 {
    30_000
}

const fn default_call_ms() -> u64 {
    60_000
}

/// Where a server is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Place<'a> {
    /// In the sandbox.
    Sandbox,
    /// At an address.
    Network(&'a Endpoint),
}

impl Settings {
    /// Where it is.
    pub fn place(&self) -> Place<'_> {
        self.url.as_ref().map_or(Place::Sandbox, Place::Network)
    }

    /// What its tools risk, whatever it says of them itself.
    pub fn tags(&self) -> BTreeSet<RiskTag> {
        match self.place() {
            Place::Network(_) => [RiskTag::Network, RiskTag::Egress].into(),
            Place::Sandbox if self.workspace => [RiskTag::Exec, RiskTag::Write].into(),
            Place::Sandbox => [RiskTag::Exec].into(),
        }
    }

    /// The program for the launcher; none for a service.
    pub fn program(&self) -> Option<Program> {
        (self.place() == Place::Sandbox).then(|| Program {
            command: self.command.clone(),
            read_only: self.read_only.clone(),
            environment: self.environment.clone(),
        })
    }

    /// What the types can't say; `forbidden` are folders that no program may see.
    ///
    /// # Errors
    /// The key whose value can't be used.
    pub fn check(&self, index: usize, forbidden: &[&Path]) -> Result<(), InvalidValue> {
        let wrong = |key: &str, why: String| InvalidValue::new(format!("mcp.{index}.{key}"), why);
        for (key, ms, range) in [
            ("start_ms", self.start_ms, START_MS),
            ("call_ms", self.call_ms, CALL_MS),
        ] {
            if !range.contains(&ms) {
                let why = format!("{ms} is not between {} and {}", range.start(), range.end());
                return Err(wrong(key, why));
            }
        }
        let checked = match &self.url {
            Some(url) => self.check_service(url),
            None => self.check_program(forbidden),
        };
        checked.map_err(|(key, why)| wrong(key, why))
    }

    fn check_service(&self, url: &Endpoint) -> Result<(), (&'static str, String)> {
        let void = "it is for a program in the sandbox, and this server has a `url`";
        for (key, is_there) in [
            ("command", !self.command.is_empty()),
            ("read_only", !self.read_only.is_empty()),
            ("workspace", self.workspace),
            ("environment", !self.environment.is_empty()),
        ] {
            if is_there {
                return Err((key, void.to_owned()));
            }
        }
        match self.ca_file.as_deref() {
            Some(file) if !file.is_absolute() => {
                Err(("ca_file", "it is not an absolute path".to_owned()))
            }
            Some(_) if !url.is_tls() => {
                let why = "without https there is no certificate to check";
                Err(("ca_file", why.to_owned()))
            }
            _ => Ok(()),
        }
    }

    fn check_program(&self, forbidden: &[&Path]) -> Result<(), (&'static str, String)> {
        let fail = |key, why: &str| Err((key, why.to_owned()));
        let is_word = |word: &String| word.len() <= MAX_WORD_BYTES && !word.contains('\0');
        if self.ca_file.is_some() {
            return fail("ca_file", "it is for a server with a `url`");
        }
        if self.secret.is_some() {
            return fail(
                "secret",
                "it is for a server with a `url`: a program in the sandbox gets no secret",
            );
        }
        let Some(program) = self.command.first() else {
            return fail("command", "a server has either a `command` or a `url`");
        };
        let is_path = program.contains('/');
        if program.is_empty() || (is_path && !program.starts_with('/')) {
            let why = "the program is neither an absolute path nor the name of one in /usr";
            return fail("command", why);
        }
        if self.command.len() > MAX_WORDS || !self.command.iter().all(is_word) {
            return fail("command", "it is too long, or has a NUL in it");
        }
        let is_name = |name: &String| {
            let allowed = |b: u8| b.is_ascii_alphanumeric() || b == b'_';
            let begins_well = name.bytes().next().is_some_and(|b| !b.is_ascii_digit());
            begins_well && name.bytes().all(allowed) && is_word(name)
        };
        let environment = &self.environment;
        if environment.len() > MAX_ENVIRONMENT
            || !environment.keys().all(is_name)
            || !environment.values().all(is_word)
        {
            return fail("environment", "a name or a value in it can't be used");
        }
        if self.read_only.len() > MAX_FOLDERS {
            return fail("read_only", "there are too many folders");
        }
        let mut folders = self.read_only.iter();
        folders.try_for_each(|folder| {
            check_folder(folder, forbidden).map_err(|why| ("read_only", why))
        })
    }
}

fn check_folder(path: &Path, forbidden: &[&Path]) -> Result<(), String> {
    let shown = path.display();
    let is_plain = |part: Component<'_>| matches!(part, Component::RootDir | Component::Normal(_));
    if !path.is_absolute() || !path.components().all(is_plain) {
        return Err(format!("`{shown}` is not an absolute path"));
    }
    if !is_apart_from_sandbox(path) {
        return Err(format!(
            "`{shown}` is where a sandbox has something of its own"
        ));
    }
    // Secrets, databases and the audit log must stay out of every program's reach.
    let overlaps = |folder: &&&Path| path.starts_with(folder) || folder.starts_with(path);
    match forbidden.iter().find(overlaps) {
        Some(folder) => Err(format!(
            "`{shown}` and Boxmaker's own `{}` lie within each other",
            folder.display()
        )),
        None => Ok(()),
    }
}
