//! What a person sees when a configuration file is wrong.

use bxkit::config::{ConfigError, InvalidValue, load, load_checked};
use bxkit::report::render_problem;
use serde::Deserialize;
use std::path::Path;

#[derive(Debug, Default, PartialEq, Deserialize)]
#[serde(default, deny_unknown_fields)]
struct Table {
    tool_iterations: u32,
    tool_result_bytes: u64,
    backend: Vec<Backend>,
}

#[derive(Debug, Default, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
struct Backend {
    name: String,
    kind: Kind,
}

#[derive(Debug, Default, PartialEq, Deserialize)]
#[serde(rename_all = "kebab-case")]
enum Kind {
    #[default]
    LlamaServer,
    OpenAi,
}

/// The rendered error of a file with this text, with its folder cut away.
fn shown(text: impl AsRef<[u8]>) -> String {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("loopd.toml");
    std::fs::write(&path, text).unwrap();
    let error = load_checked(&path, no_empty_name).unwrap_err();
    render_problem(&error.problem(), false).replace(&format!("{}/", folder.path().display()), "")
}

fn no_empty_name(table: &Table) -> Result<(), InvalidValue> {
    match table
        .backend
        .iter()
        .position(|backend| backend.name.is_empty())
    {
        Some(index) => Err(
            InvalidValue::new(format!("backend.{index}.name"), "it is empty")
                .hint("give each backend a name of its own"),
        ),
        None => Ok(()),
    }
}

#[test]
fn a_missing_file_gives_the_defaults() {
    assert_eq!(
        load::<Table>(Path::new("/does/not/exist.toml")).unwrap(),
        Table::default()
    );
}

#[test]
fn a_right_file_is_read() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a.toml");
    std::fs::write(
        &path,
        "tool_iterations = 5\n[[backend]]\nname = \"a\"\nkind = \"open-ai\"\n",
    )
    .unwrap();
    let table: Table = load_checked(&path, no_empty_name).unwrap();
    assert_eq!(
        (table.tool_iterations, &table.backend[0].kind),
        (5, &Kind::OpenAi)
    );
}

/// What of the system's can stand at a configuration's place, and whether it counts as a file.
#[test]
fn only_a_file_that_nobody_else_writes_is_trusted() {
    use std::os::unix::fs::{PermissionsExt, symlink};
    let folder = tempfile::tempdir().unwrap();
    let at = |name: &str| folder.path().join(name);
    let check = |name: &str, expect: Result<u32, &str>| {
        let path = at(name);
        match (load::<Table>(&path), expect) {
            (Ok(table), Ok(iterations)) => assert_eq!(table.tool_iterations, iterations, "{name}"),
            (Err(error), Err(says)) => {
                let shown = render_problem(&error.problem(), false);
                assert!(shown.contains("error[config-invalid]"), "{shown}");
                assert!(shown.contains(says), "{name}: {shown}");
            }
            (got, expect) => panic!("{name}: {got:?}, not {expect:?}"),
        }
    };
    for (name, mode) in [
        ("good", 0o600),
        ("read", 0o644),
        ("group", 0o620),
        ("all", 0o602),
    ] {
        std::fs::write(at(name), "tool_iterations = 5\n").unwrap();
        let mode = std::fs::Permissions::from_mode(mode);
        std::fs::set_permissions(at(name), mode).unwrap();
    }
    symlink(at("good"), at("link")).unwrap();
    symlink(at("nowhere"), at("dangling")).unwrap();
    symlink(at("circle"), at("circle")).unwrap();
    std::fs::create_dir(at("folder")).unwrap();
    let mode = rustix::fs::Mode::from_raw_mode(0o600);
    rustix::fs::mkfifoat(rustix::fs::CWD, at("pipe"), mode).unwrap();

    check("good", Ok(5));
    check("read", Ok(5));
    check("link", Ok(5));
    check("missing", Ok(0));
    check("group", Err("chmod 600"));
    check("all", Err("group or others may write it"));
    check("dangling", Err("can't be read"));
    check("circle", Err("can't be read"));
    check("folder", Err("not a regular file"));
    check("pipe", Err("not a regular file"));
}

#[test]
fn an_unknown_key_is_shown_with_the_nearest_known_one() {
    insta::assert_snapshot!(shown("# limits\ntool_iteration = 5\n"), @r"
    error[config-invalid]: A configuration file is wrong
      loopd.toml:2:1: unknown field `tool_iteration`
        |
      2 | tool_iteration = 5
        | ^^^^^^^^^^^^^^
      try: did you mean `tool_iterations`?
      see: docs/runbook/config-invalid.md
    ");
}

#[test]
fn an_unknown_key_like_no_other_lists_those_known() {
    insta::assert_snapshot!(shown("zzz = 5\n"), @r"
    error[config-invalid]: A configuration file is wrong
      loopd.toml:1:1: unknown field `zzz`
        |
      1 | zzz = 5
        | ^^^
      try: known here: `tool_iterations`, `tool_result_bytes`, `backend`
      see: docs/runbook/config-invalid.md
    ");
}

#[test]
fn an_unknown_variant_is_shown_with_the_nearest_known_one() {
    insta::assert_snapshot!(shown("[[backend]]\nname = \"a\"\nkind = \"llama_server\"\n"), @r#"
    error[config-invalid]: A configuration file is wrong
      loopd.toml:3:8: unknown variant `llama_server`
        |
      3 | kind = "llama_server"
        |        ^^^^^^^^^^^^^^
      try: did you mean `llama-server`?
      see: docs/runbook/config-invalid.md
    "#);
}

#[test]
fn a_wrong_type_is_shown_at_its_place() {
    insta::assert_snapshot!(shown("tool_result_bytes = \"many\"\n"), @r#"
    error[config-invalid]: A configuration file is wrong
      loopd.toml:1:21: invalid type: string "many", expected u64
        |
      1 | tool_result_bytes = "many"
        |                     ^^^^^^
      see: docs/runbook/config-invalid.md
    "#);
}

#[test]
fn a_missing_key_is_shown_at_its_table() {
    insta::assert_snapshot!(shown("[[backend]]\nname = \"a\"\n"), @r"
    error[config-invalid]: A configuration file is wrong
      loopd.toml:1:1: missing field `kind`
        |
      1 | [[backend]]
        | ^^^^^^^^^^^
      see: docs/runbook/config-invalid.md
    ");
}

#[test]
fn broken_syntax_is_shown_at_its_place() {
    insta::assert_snapshot!(shown("tool_iterations = = 5\n"), @r"
    error[config-invalid]: A configuration file is wrong
      loopd.toml:1:19: extra `=`, expected nothing
        |
      1 | tool_iterations = = 5
        |                   ^
      see: docs/runbook/config-invalid.md
    ");
}

#[test]
fn a_key_given_twice_is_shown_at_its_place() {
    insta::assert_snapshot!(shown("tool_iterations = 5\ntool_iterations = 6\n"), @r"
    error[config-invalid]: A configuration file is wrong
      loopd.toml:2:1: duplicate key
        |
      2 | tool_iterations = 6
        | ^^^^^^^^^^^^^^^
      see: docs/runbook/config-invalid.md
    ");
}

#[test]
fn a_value_that_the_role_refuses_is_shown_at_its_place() {
    insta::assert_snapshot!(
        shown("[[backend]]\nname = \"a\"\nkind = \"open-ai\"\n[[backend]]\nname = \"\"\nkind = \"open-ai\"\n"),
        @r#"
    error[config-invalid]: A configuration file is wrong
      loopd.toml:5:8: backend 2: `name`: it is empty
        |
      5 | name = ""
        |        ^^
      try: give each backend a name of its own
      see: docs/runbook/config-invalid.md
    "#
    );
}

#[test]
fn a_file_that_is_no_text_is_refused() {
    insta::assert_snapshot!(shown(b"a = \"\xff\"\n"), @r"
    error[config-invalid]: A configuration file can't be read
      loopd.toml: stream did not contain valid UTF-8
      try: it must be a readable UTF-8 text of at most 1 MiB
      see: docs/runbook/config-invalid.md
    ");
}

#[test]
fn a_file_that_is_too_large_is_refused() {
    insta::assert_snapshot!(shown("#".repeat(1024 * 1024 + 1)), @r"
    error[config-invalid]: A configuration file can't be read
      loopd.toml: file too large
      try: it must be a readable UTF-8 text of at most 1 MiB
      see: docs/runbook/config-invalid.md
    ");
}

#[test]
fn a_folder_in_place_of_a_file_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let error = load::<Table>(folder.path()).unwrap_err();
    assert!(matches!(error, ConfigError::Unsafe { .. }), "{error}");
}
