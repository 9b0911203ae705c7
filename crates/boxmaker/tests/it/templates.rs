//! What `init` writes is what the roles read.

use boxmaker::Executable;
use bxcore::role::Role;
use bxctl::Launcher;
use bxkit::home::Home;

/// The template with every setting and example taken out of its comment.
fn with_settings(role: Role) -> String {
    let is_setting = |line: &&str| line.starts_with(|c: char| c == '[' || c.is_ascii_lowercase());
    let lines = bxctl::template(role)
        .lines()
        .filter_map(|line| line.strip_prefix('#'))
        .filter(is_setting);
    lines.flat_map(|line| [line, "\n"]).collect()
}

#[test]
fn templates_are_read_as_they_are_and_with_all_their_settings() {
    let root = tempfile::tempdir().unwrap();
    let home = Home::at(root.path());
    home.create().unwrap();
    for role in Role::ALL {
        let file = home.config_file(role);
        for text in [bxctl::template(role).to_owned(), with_settings(role)] {
            std::fs::write(&file, &text).unwrap();
            if let Err(problem) = Executable.check_config(&home, role, &file) {
                panic!("{role}: {problem}\n{text}");
            }
        }
    }
}

#[test]
fn a_wrong_key_is_named_with_its_place() {
    let root = tempfile::tempdir().unwrap();
    let home = Home::at(root.path());
    home.create().unwrap();
    for (role, text, place) in [
        (Role::Loopd, "\ntool_iteration = 3\n", "loopd.toml:2:1"),
        (
            Role::Brokerd,
            "[[grant]]\ntol = \"x\"\n",
            "brokerd.toml:2:1",
        ),
        (Role::Memoryd, "baseline = 1\n", "memoryd.toml:1:1"),
        (Role::Inferproxy, "wire_dum = true\n", "inferproxy.toml:1:1"),
    ] {
        let file = home.config_file(role);
        std::fs::write(&file, text).unwrap();
        let problem = Executable.check_config(&home, role, &file).unwrap_err();
        let detail = problem.detail.unwrap_or_default();
        assert!(detail.contains(place), "{role}: {detail}");
    }
}
