//! Reading `brokerd.toml`, once at start.

use super::check::check;
use super::file::Config;
use crate::config::Workspace;
use bxcore::tool::ToolSpec;
use bxkit::config::{ConfigError, InvalidValue};
use bxkit::home::Home;
use std::collections::BTreeMap;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

/// The configuration, and the text that it was read from.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Loaded {
    /// What it says.
    pub config: Config,
    /// The exact text, for the record; empty without a file.
    pub text: String,
}

/// Reads the file of a home; a missing one grants nothing.
///
/// Paths of workspaces are resolved, so that a link can't lead one into Boxmaker's own folders.
///
/// # Errors
/// The file can't be read, or is wrong.
pub fn load(home: &Home, path: &Path, tools: &[&ToolSpec]) -> Result<Loaded, ConfigError> {
    let Some(text) = bxkit::config::read(path)? else {
        return Ok(Loaded::default());
    };
    // Secrets may be somewhere else than in the state folder.
    let secrets = crate::secrets::folders(home);
    let own: Vec<PathBuf> = [home.config_dir(), home.state_dir(), home.run_dir()]
        .into_iter()
        .chain(secrets.iter().map(PathBuf::as_path))
        .flat_map(|folder| [folder.to_owned(), resolved(folder)])
        .collect();
    let own: Vec<&Path> = own.iter().map(PathBuf::as_path).collect();
    let config = parse(path, &text, tools, &own)?;
    Ok(Loaded { config, text })
}

/// Reads and checks the table from text; `path` is only for the error.
pub fn parse(
    path: &Path,
    text: &str,
    tools: &[&ToolSpec],
    forbidden: &[&Path],
) -> Result<Config, ConfigError> {
    bxkit::config::parse(path, text, |config: &Config| {
        check(config, tools, forbidden)?;
        let mut followed = config.clone();
        for workspace in &mut followed.workspaces {
            // The name stays the one that was written.
            workspace.name = workspace.visible_name().map(str::to_owned);
            workspace.path = resolved(&workspace.path);
        }
        for folder in followed.mcp.iter_mut().flat_map(|mcp| &mut mcp.read_only) {
            *folder = resolved(folder);
        }
        check(&followed, tools, forbidden)?;
        check_mounts(&followed.workspaces)
    })
}

/// No two workspaces may be one folder, seen at two places of the file system.
fn check_mounts(workspaces: &[Workspace]) -> Result<(), InvalidValue> {
    let mut seen = BTreeMap::new();
    for (index, workspace) in workspaces.iter().enumerate() {
        // One that is not there can't be read, which is told elsewhere.
        let Ok(found) = std::fs::metadata(&workspace.path) else {
            continue;
        };
        if let Some(other) = seen.insert((found.dev(), found.ino()), &workspace.path) {
            let why = format!(
                "`{}` is the same folder as the workspace `{}`",
                workspace.path.display(),
                other.display()
            );
            let error = InvalidValue::new(format!("workspace.{index}.path"), why);
            return Err(error.hint("name it once: a file has one label"));
        }
    }
    Ok(())
}

/// A path without links, as far as it exists.
fn resolved(path: &Path) -> PathBuf {
    std::fs::canonicalize(path).unwrap_or_else(|_| path.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;
    use bxcore::label::Class;

    const OWN: &str = "/home/o/.local/share/boxmaker";

    fn read(text: &str) -> Result<Config, String> {
        let tools = crate::tools::Registry::new().unwrap();
        let path = Path::new("brokerd.toml");
        parse(path, text, &tools.specs(), &[Path::new(OWN)]).map_err(|error| {
            let problem = error.problem();
            format!(
                "{} | {}",
                problem.detail.unwrap_or_default(),
                problem.hint.unwrap_or_default()
            )
        })
    }

    #[test]
    fn a_full_file_is_read() {
        let config = read(
            r#"
            [[grant]]
            tool = "http_fetch"
            max_taint = "private"
            hosts = ["*.example.org"]
            ports = [8080]
            approval = "always"

            [[workspace]]
            path = "/srv/notes"

            [[workspace]]
            path = "/srv/mail"
            name = "inbox"
            class = "secret"
            untrusted = true
            "#,
        )
        .unwrap();
        assert_eq!(config.grants[0].max_taint, Class::Private);
        assert!(config.grants[0].ports.contains(&8080));
        assert_eq!(config.workspaces[0].visible_name(), Some("notes"));
        assert_eq!(config.workspaces[1].label(), bxcore::label::Label::TOP);
        assert_eq!(read("").unwrap(), Config::default());
    }

    #[test]
    fn what_would_be_void_or_dangerous_is_an_error() {
        let check = |text: &str, expect: &str| {
            let error = read(text).unwrap_err();
            assert!(error.contains(expect), "{text}\n{error}");
        };
        check(
            "[[grant]]\ntool = \"shell\"\nmax_tain = \"public\"",
            "max_taint",
        );
        check(
            "[[grant]]\ntool = \"shell\"\napproval = true",
            "\"never\" or \"always\"",
        );
        check("[[grants]]\ntool = \"shell\"", "grant");
        check("[[grant]]\ntool = \"sh ell\"", "can't be the name");
        check("[[grant]]\ntool = \"shel\"", "did you mean `shell`?");
        check("[[grant]]\ntool = \"zz\"", "known here: ");
        check(
            "[[grant]]\ntool = \"shell\"\n[[grant]]\ntool = \"shell\"\nports = [1]",
            "grant 2: `ports`",
        );
        check(
            "[[grant]]\ntool = \"shell\"\nmax_taint = \"privat\"",
            "private",
        );
        check("[[grant]]\ntool = \"read_file\"", "needs no grant");
        check(
            "[[grant]]\ntool = \"shell\"\nhosts = [\"a.org\"]",
            "does not take hosts",
        );
        check(
            "[[grant]]\ntool = \"http_fetch\"\nhosts = [\"https://a.org\"]",
            "not a host",
        );
        check(
            "[[grant]]\ntool = \"shell\"\nports = [8080]",
            "does not take ports",
        );
        check(
            "[[grant]]\ntool = \"http_fetch\"\nports = [0]",
            "not a port",
        );
        check("[[grant]]\ntool = \"http_fetch\"\nports = [70000]", "ports");
        check(
            "[[grant]]\ntool = \"provider:x\"\nmax_taint = \"private\"",
            "public sessions only",
        );
        check(
            "[[grant]]\ntool = \"provider:x\"\nmax_taint = \"secret\"",
            "public sessions only",
        );
        check(
            "[[grant]]\ntool = \"provider:x\"\nresult_class = \"private\"",
            "must stay public",
        );
        check("[[grant]]\ntool = \"provider:x\"", "no `[provider.NAME]`");
        check("[[workspace]]\npath = \"notes\"", "not an absolute path");
        check(
            "[[workspace]]\npath = \"/srv/../etc\"",
            "not an absolute path",
        );
        check("[[workspace]]\npath = \"/\"", "lie within each other");
        for folder in ["/proc", "/proc/self", "/sys/x", "/dev"] {
            let text = format!("[[workspace]]\npath = \"{folder}\"");
            check(&text, "the system's own");
        }
        check("[[workspace]]\npath = \"/home/o\"", "lie within each other");
        check(
            &format!("[[workspace]]\npath = \"{OWN}/audit\""),
            "lie within each other",
        );
        check(
            "[[workspace]]\npath = \"/a/x\"\n[[workspace]]\npath = \"/b/x\"",
            "another has it",
        );
        check(
            "[[workspace]]\npath = \"/a/x\"\nname = \"..\"",
            "not usable",
        );
        check("[[workspace]]\npath = \"/a/x y\"", "set `name`");
        for (one, other) in [("/a", "/a/x"), ("/a/x", "/a"), ("/a/x", "/a/x")] {
            let text = format!(
                "[[workspace]]\npath = \"{one}\"\nname = \"one\"\n[[workspace]]\npath = \"{other}\"\nname = \"other\""
            );
            check(&text, "workspace 2: `path`");
            check(&text, "lie within each other");
        }
    }

    #[test]
    fn a_server_is_a_program_or_a_service_and_keeps_out_of_our_folders() {
        let config = read(
            r#"
            [[mcp]]
            name = "time"
            command = ["/opt/time/bin/python", "-m", "time"]
            read_only = ["/opt/time"]
            environment = { TZ = "UTC" }
            workspace = true

            [[mcp]]
            name = "wiki"
            url = "https://mcp.example.org/mcp"
            secret = "wiki"

            [[grant]]
            tool = "mcp:time/now"
            "#,
        )
        .unwrap();
        assert_eq!(config.mcp[0].program().unwrap().command.len(), 3);
        assert_eq!(
            (config.mcp[0].start_ms, config.mcp[0].call_ms),
            (30_000, 60_000)
        );
        assert!(config.mcp[1].program().is_none());
        let check = |rest: &str, expect: &str| {
            let error = read(&format!("[[mcp]]\nname = \"a\"\n{rest}")).unwrap_err();
            assert!(error.contains(expect), "{rest}\n{error}");
        };
        let program = "command = [\"x\"]\n";
        check("", "either a `command` or a `url`");
        check("command = [\"./x\"]", "neither an absolute path");
        check("command = [\"x\", \"a\\u0000\"]", "NUL");
        check(&format!("{program}secret = \"k\""), "gets no secret");
        check(&format!("{program}ca_file = \"/x\""), "with a `url`");
        check(
            &format!("{program}environment = {{ \"A B\" = \"x\" }}"),
            "can't be used",
        );
        check(&format!("{program}start_ms = 1"), "not between");
        check(&format!("{program}call_ms = 9999999"), "not between");
        check(&format!("{program}read-only = []"), "read_only");
        for (folder, expect) in [
            ("x", "not an absolute path"),
            ("/a/../b", "not an absolute path"),
            ("/", "of its own"),
            ("/proc", "of its own"),
            ("/tmp", "of its own"),
            ("/usr", "of its own"),
            ("/work/x", "of its own"),
            ("/home/o", "lie within each other"),
            (
                "/home/o/.local/share/boxmaker/secrets",
                "lie within each other",
            ),
        ] {
            check(&format!("{program}read_only = [\"{folder}\"]"), expect);
        }
        for (folder, shared) in [
            ("/srv/a", "/srv/a/b"),
            ("/srv/a/b", "/srv/a"),
            ("/srv/a", "/srv/a"),
        ] {
            let shared = format!("[[workspace]]\npath = \"{shared}\"");
            check(
                &format!("{program}read_only = [\"{folder}\"]\n{shared}"),
                "and the workspace",
            );
        }
        let service = "url = \"https://mcp.example.org/\"\n";
        check("url = \"http://mcp.example.org/\"", "https://");
        check(&format!("{service}command = [\"x\"]"), "has a `url`");
        check(&format!("{service}workspace = true"), "has a `url`");
        check(&format!("{service}ca_file = \"x\""), "not an absolute path");
        check(
            &format!("{program}[[mcp]]\nname = \"a\"\n{program}"),
            "another server",
        );
        check(
            &format!("{program}[[grant]]\ntool = \"mcp:b/x\""),
            "no `[[mcp]]`",
        );
        check(
            &format!("{program}[[grant]]\ntool = \"mcp:a\""),
            "no tool of a server",
        );
        assert!(read("[[mcp]]\nname = \"A b\"\ncommand = [\"x\"]").is_err());
        let table = |n: u32| format!("[[mcp]]\nname = \"a{n}\"\n{program}");
        let many = (0..17).map(table).collect::<Vec<_>>().concat();
        assert!(read(&many).unwrap_err().contains("at most 16"));
    }

    const PROVIDER: &str = r#"
        [provider.big]
        url = "https://api.example.org/v1/chat/completions"
        model = "big-1"
        secret = "big"
        price = { prompt = "3", completion = "15", cached_prompt = "0.30" }
        daily_usd = "5"
        context_tokens = 128000
    "#;

    #[test]
    fn a_provider_has_what_it_costs_and_sensible_limits() {
        let granted = format!("{PROVIDER}\n[[grant]]\ntool = \"provider:big\"");
        let config = read(&granted).unwrap();
        let (name, big) = config.providers.first_key_value().unwrap();
        assert_eq!(name.as_str(), "big");
        assert_eq!(big.price().prompt.micros(), 3_000_000);
        assert_eq!(big.price().cached_prompt.unwrap().micros(), 300_000);
        assert_eq!((big.answer_tokens, big.max_concurrency), (4096, 4));
        assert_eq!(config.grants[0].result_class(), Class::Public);
        let check = |from: &str, to: &str, expect: &str| {
            assert!(PROVIDER.contains(from), "{from}");
            let error = read(&PROVIDER.replace(from, to)).unwrap_err();
            assert!(error.contains(expect), "{to}\n{error}");
        };
        check(
            "https://api.example.org",
            "http://api.example.org",
            "this box alone",
        );
        check("\"big-1\"", "\"\"", "name of a model");
        check("prompt = \"3\"", "prompt = 3", "dollars in quotes");
        check("completion = \"15\", ", "", "completion");
        check("daily_usd = \"5\"", "", "daily_usd");
        check("daily_usd = \"5\"", "daily_usd = \"0\"", "ever be asked");
        check("context_tokens = 128000", "", "context_tokens");
        check("128000", "12", "not between");
        check("128000", "128000\nanswer_tokens = 1", "not between 64");
        check("128000", "2048\nanswer_tokens = 4096", "and 2048");
        check("128000", "128000\nfirst_byte_ms = 1", "first_byte_ms");
        check("128000", "128000\nbetween_ms = 9999999", "between_ms");
        check("128000", "128000\nmax_concurrency = 0", "max_concurrency");
        check("128000", "128000\nmode = \"both\"", "mode");
        check("128000", "128000\ntemperature = 2", "temperature");
        check("128000", "128000\nca_file = \"ca.pem\"", "absolute path");
        check("provider.big", "provider.\"b i g\"", "backend name");
    }

    #[test]
    fn grants_that_others_could_have_written_are_not_read() {
        use std::os::unix::fs::{PermissionsExt, symlink};
        let root = tempfile::tempdir().unwrap();
        let home = Home::at(root.path());
        let path = root.path().join("brokerd.toml");
        assert_eq!(load(&home, &path, &[]).unwrap(), Loaded::default());
        symlink("/nonexistent/brokerd.toml", &path).unwrap();
        load(&home, &path, &[]).unwrap_err();
        std::fs::remove_file(&path).unwrap();
        std::fs::write(&path, "[[grant]]\ntool = \"shell\"").unwrap();
        for (mode, expect) in [(0o600, true), (0o644, true), (0o620, false), (0o602, false)] {
            std::fs::set_permissions(&path, std::fs::Permissions::from_mode(mode)).unwrap();
            assert_eq!(load(&home, &path, &[]).is_ok(), expect, "{mode:o}");
        }
        std::fs::remove_file(&path).unwrap();
        rustix::fs::mkfifoat(
            rustix::fs::CWD,
            &path,
            rustix::fs::Mode::from_raw_mode(0o600),
        )
        .unwrap();
        load(&home, &path, &[]).unwrap_err();
    }

    #[test]
    fn a_link_into_our_own_folders_is_found() {
        let root = tempfile::tempdir().unwrap();
        let own = root.path().join("state");
        std::fs::create_dir(&own).unwrap();
        std::os::unix::fs::symlink(&own, root.path().join("harmless")).unwrap();
        let text = format!(
            "[[workspace]]\npath = \"{}/harmless\"",
            root.path().display()
        );
        let own = std::fs::canonicalize(&own).unwrap();
        parse(Path::new("f"), &text, &[], &[&own]).unwrap_err();
        // Nor may two names lead to one folder.
        let text = format!("{text}\n[[workspace]]\npath = \"{}\"", own.display());
        let error = parse(Path::new("f"), &text, &[], &[]).unwrap_err();
        let told = error.problem().detail.unwrap_or_default();
        assert!(told.contains("lie within each other"), "{told}");
    }
}
