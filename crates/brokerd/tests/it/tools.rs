//! The tools: what they give, and that no path leads out.

use crate::support::{TestHome, session};
use brokerd::sandbox::Sandbox;
use brokerd::tools::{Output, Registry, Run, Workspaces};
use bxcore::code::Code;
use bxcore::label::Label;
use rustix::fs::{CWD, Mode, mkfifoat};
use std::os::unix::fs::symlink;
use std::os::unix::net::UnixListener;
use std::path::Path;
use std::time::{Duration, Instant};

const SECRET: &str = "the secret outside";

/// A session's workspace with traps in it, and an owner's folder.
struct Tree {
    test: TestHome,
    workspaces: Workspaces,
}

fn tree() -> Tree {
    let test = TestHome::new();
    let (own, notes) = (test.workspace("s"), test.beside("notes"));
    let outside = test.beside("outside");
    std::fs::write(outside.join("secret.txt"), SECRET).unwrap();
    std::fs::create_dir_all(own.join("sub/deep")).unwrap();
    std::fs::write(own.join("a.txt"), "alpha\nBeta\n").unwrap();
    std::fs::write(own.join("sub/b.txt"), "beta again\n").unwrap();
    std::fs::write(own.join("sub/deep/bin"), b"beta\0binary").unwrap();
    std::fs::write(notes.join("n.txt"), "a note on beta\n").unwrap();
    std::fs::create_dir(own.join("notes")).unwrap();
    std::fs::write(
        own.join("notes/hidden.txt"),
        "beta hidden by the owner's folder",
    )
    .unwrap();

    symlink("a.txt", own.join("inside-link")).unwrap();
    symlink("sub", own.join("inside-folder")).unwrap();
    symlink("../a.txt", own.join("sub/up-link")).unwrap();
    symlink(&outside, own.join("out-folder")).unwrap();
    symlink(outside.join("secret.txt"), own.join("out-file")).unwrap();
    symlink("../../../../outside/secret.txt", own.join("out-relative")).unwrap();
    symlink("/", own.join("root")).unwrap();
    symlink("/proc/self/root", own.join("proc-root")).unwrap();
    symlink("/proc/self/cwd", own.join("proc-cwd")).unwrap();
    symlink("/dev/zero", own.join("zero")).unwrap();
    symlink("loop-b", own.join("loop-a")).unwrap();
    symlink("loop-a", own.join("loop-b")).unwrap();
    symlink("nowhere", own.join("dangling")).unwrap();
    symlink("out-folder", own.join("chain")).unwrap();
    symlink("..", own.join("parent")).unwrap();
    symlink(&outside, notes.join("out")).unwrap();
    mkfifoat(CWD, own.join("fifo"), Mode::from_raw_mode(0o600)).unwrap();
    drop(UnixListener::bind(own.join("sock")).unwrap());

    test.configure(&format!(
        "[[workspace]]\npath = \"{}\"\nclass = \"secret\"",
        notes.display()
    ));
    let loaded = test.loaded();
    let folder = test.home.state_dir().join("workspaces");
    let workspaces = Workspaces::open(&folder, &loaded.config.workspaces).unwrap();
    Tree { test, workspaces }
}

impl Tree {
    fn run(&self, tool: &str, arguments: &serde_json::Value) -> Output {
        let registry = Registry::new().unwrap();
        let view = self.workspaces.of(&session("s")).unwrap();
        registry
            .get(&crate::support::tool(tool))
            .unwrap()
            .run(&Run {
                arguments,
                session: &session("s"),
                label: Label::TOP,
                view: &view,
                sandbox: &Sandbox::off("not in this test"),
                result_bytes: 16 * 1024,
                deadline: Instant::now() + Duration::from_secs(20),
            })
    }

    fn own(&self) -> std::path::PathBuf {
        self.test.workspace("s")
    }
}

#[test]
fn no_path_leads_out_of_the_workspace() {
    let tree = tree();
    let absolute = tree.test.root.path().join("outside/secret.txt");
    let refused = [
        "..",
        "../outside/secret.txt",
        "../../../outside/secret.txt",
        "sub/../../x",
        "a.txt/..",
        "./..",
        absolute.to_str().unwrap(),
        "/etc/passwd",
        "/proc/self/environ",
        "//etc/passwd",
        "out-file",
        "out-relative",
        "out-folder",
        "out-folder/secret.txt",
        "./out-folder/./secret.txt",
        "chain/secret.txt",
        "root/etc/passwd",
        "root",
        "proc-root/etc/passwd",
        "proc-cwd/Cargo.toml",
        "zero",
        "parent",
        "parent/t/x",
        "notes/out/secret.txt",
        "notes/../a.txt",
        "notes/../../etc/passwd",
        "loop-a",
        "inside-folder/../../out",
        "a\0.txt",
    ];
    for path in refused {
        for tool in ["read_file", "list_dir"] {
            let output = tree.run(tool, &serde_json::json!({ "path": path }));
            assert_eq!(
                output.failure,
                Some(Code::PathOutsideWorkspace),
                "{tool} {path:?}: {}",
                output.text
            );
            assert!(!output.text.contains(SECRET));
        }
        let output = tree.run(
            "search_files",
            &serde_json::json!({"pattern": "secret", "path": path}),
        );
        assert_eq!(
            output.failure,
            Some(Code::PathOutsideWorkspace),
            "search {path:?}: {}",
            output.text
        );
    }
}

#[test]
fn what_is_no_file_is_not_read() {
    let tree = tree();
    for path in [
        "fifo", "sock", "dangling", "sub", "no/such", "a.txt/x", "~", "...",
    ] {
        let output = tree.run("read_file", &serde_json::json!({ "path": path }));
        assert_eq!(
            output.failure,
            Some(Code::ToolFailed),
            "{path}: {}",
            output.text
        );
    }
    let output = tree.run("list_dir", &serde_json::json!({"path": "a.txt"}));
    assert_eq!(output.failure, Some(Code::ToolFailed));
}

#[test]
fn links_within_the_workspace_are_followed() {
    let tree = tree();
    for path in [
        "a.txt",
        "./a.txt",
        "inside-link",
        "sub/up-link",
        "inside-folder/up-link",
        "sub//up-link/",
    ] {
        let output = tree.run("read_file", &serde_json::json!({ "path": path }));
        // A slash behind a file's name means nothing here.
        assert_eq!(
            (output.failure, output.text.as_str()),
            (None, "alpha\nBeta\n"),
            "{path}"
        );
    }
}

#[test]
fn a_listing_shows_what_is_there() {
    let tree = tree();
    std::fs::write(tree.own().join("two\nlines\u{1b}"), "").unwrap();
    let output = tree.run("list_dir", &serde_json::json!({}));
    assert_eq!(output.label, Label::OWNER);
    insta::assert_snapshot!(output.text, @r"
    a.txt  11 bytes
    chain  link
    dangling  link
    fifo  neither file nor folder
    inside-folder  link
    inside-link  link
    loop-a  link
    loop-b  link
    notes/
    out-file  link
    out-folder  link
    out-relative  link
    parent  link
    proc-cwd  link
    proc-root  link
    root  link
    sock  neither file nor folder
    sub/
    two\nlines\u{1b}  0 bytes
    zero  link
    ");
    let output = tree.run("list_dir", &serde_json::json!({"path": "notes"}));
    assert_eq!(
        output.label,
        Label::new(bxcore::label::Class::Secret, false)
    );
    insta::assert_snapshot!(output.text, @r"
    n.txt  15 bytes
    out  link
    ");
}

#[test]
fn a_long_listing_is_cut_and_says_so() {
    let tree = tree();
    let many = tree.own().join("many");
    std::fs::create_dir(&many).unwrap();
    for number in 0..1_234 {
        std::fs::write(many.join(format!("{number:04}")), "").unwrap();
    }
    let output = tree.run("list_dir", &serde_json::json!({"path": "many"}));
    assert!(output.text.starts_with("0000  0 bytes\n"));
    assert!(
        output
            .text
            .ends_with("0999  0 bytes\n[1000 of 1234 entries shown]\n")
    );
}

#[test]
fn a_search_finds_lines_and_keeps_inside() {
    let tree = tree();
    let output = tree.run("search_files", &serde_json::json!({"pattern": "beta"}));
    insta::assert_snapshot!(output.text, @r"
    a.txt:2: Beta
    sub/b.txt:1: beta again
    notes/n.txt:1: a note on beta
    ");
    let output = tree.run(
        "search_files",
        &serde_json::json!({"pattern": "Beta", "case_sensitive": true}),
    );
    assert_eq!(output.text, "a.txt:2: Beta");
    let output = tree.run("search_files", &serde_json::json!({"pattern": SECRET}));
    assert!(output.text.starts_with("[no hits in "), "{}", output.text);
    let output = tree.run(
        "search_files",
        &serde_json::json!({"pattern": "again", "path": "sub/b.txt"}),
    );
    assert_eq!(output.text, "sub/b.txt:1: beta again");
}

#[test]
fn a_search_ends_whatever_it_is_given() {
    let tree = tree();
    let mut deep = tree.own();
    for _ in 0..60 {
        deep = deep.join("d");
    }
    std::fs::create_dir_all(&deep).unwrap();
    std::fs::write(deep.join("x.txt"), "needle").unwrap();
    std::fs::write(tree.own().join("long.txt"), "needle ".repeat(1_000_000)).unwrap();
    std::fs::write(tree.own().join("many.txt"), "needle\n".repeat(1_000)).unwrap();
    let output = tree.run(
        "search_files",
        &serde_json::json!({"pattern": "needle", "max_hits": 10}),
    );
    let hits = output
        .text
        .lines()
        .filter(|line| line.contains(".txt:"))
        .count();
    assert_eq!(hits, 10, "{}", output.text);
    assert!(output.text.contains("[not everything was searched: there"));
    assert!(output.text.len() < 8_000);
    let output = tree.run(
        "search_files",
        &serde_json::json!({"pattern": "needle", "path": "d"}),
    );
    assert!(
        output.text.contains("some folders lie too deep"),
        "{}",
        output.text
    );

    let registry = Registry::new().unwrap();
    let view = tree.workspaces.of(&session("s")).unwrap();
    let output = registry
        .get(&crate::support::tool("search_files"))
        .unwrap()
        .run(&Run {
            arguments: &serde_json::json!({"pattern": "needle"}),
            session: &session("s"),
            label: Label::TOP,
            view: &view,
            sandbox: &Sandbox::off("not in this test"),
            result_bytes: 1024,
            deadline: Instant::now(),
        });
    assert!(output.text.contains("it took too long"), "{}", output.text);
}

#[test]
fn a_huge_sparse_file_is_read_in_parts() {
    let tree = tree();
    let file = std::fs::File::create(tree.own().join("huge")).unwrap();
    file.set_len(1 << 40).unwrap();
    let output = tree.run(
        "read_file",
        &serde_json::json!({"path": "huge", "max_bytes": 100}),
    );
    assert_eq!(output.failure, None);
    assert!(
        output
            .text
            .ends_with("[bytes 0 to 100 of 1099511627776; go on with \"offset\": 100]")
    );
    let output = tree.run(
        "read_file",
        &serde_json::json!({"path": "huge", "offset": u64::MAX}),
    );
    assert!(output.text.contains("nothing at byte"), "{}", output.text);
    let output = tree.run(
        "search_files",
        &serde_json::json!({"pattern": "x", "path": "huge"}),
    );
    assert!(
        output.text.contains("of files over 8 MiB, only the start"),
        "{}",
        output.text
    );
}

#[test]
fn a_session_sees_its_own_folder_only() {
    let tree = tree();
    std::fs::write(
        tree.test.workspace("t").join("mine.txt"),
        "of another session",
    )
    .unwrap();
    let view = tree.workspaces.of(&session("new")).unwrap();
    let registry = Registry::new().unwrap();
    let output = registry
        .get(&crate::support::tool("search_files"))
        .unwrap()
        .run(&Run {
            arguments: &serde_json::json!({"pattern": "of another"}),
            session: &session("s"),
            label: Label::TOP,
            view: &view,
            sandbox: &Sandbox::off("not in this test"),
            result_bytes: 1024,
            deadline: Instant::now() + Duration::from_secs(20),
        });
    assert!(output.text.starts_with("[no hits"), "{}", output.text);
    assert!(
        Path::new(&tree.test.home.state_dir().join("workspaces/new")).is_dir(),
        "made on first use"
    );
}

#[test]
fn a_planted_link_in_place_of_a_workspace_is_refused() {
    let tree = tree();
    let folder = tree.test.home.state_dir().join("workspaces");
    symlink(tree.test.root.path().join("outside"), folder.join("evil")).unwrap();
    tree.workspaces.of(&session("evil")).unwrap_err();
}
