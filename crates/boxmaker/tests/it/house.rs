//! The house rules that a test can read off the tree: who links whom, and which code has a page.

use bxcore::code::Code;
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::process::Command;

const ROLES: [&str; 4] = ["loopd", "brokerd", "memoryd", "inferproxy"];

pub(super) fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .ancestors()
        .nth(2)
        .unwrap()
        .to_owned()
}

/// The packages that the build knows.
pub(super) fn metadata(arguments: &[&str]) -> Vec<Value> {
    let output = Command::new(env!("CARGO"))
        .args(["metadata", "--format-version=1", "--offline", "--locked"])
        .args(arguments)
        .current_dir(root())
        .output()
        .unwrap();
    assert!(
        output.status.success(),
        "{}",
        String::from_utf8_lossy(&output.stderr)
    );
    let mut metadata: Value = serde_json::from_slice(&output.stdout).unwrap();
    serde_json::from_value(metadata["packages"].take()).unwrap()
}

/// The workspace's crates and which of each other they link, tests aside.
fn links() -> BTreeMap<String, BTreeSet<String>> {
    let packages = metadata(&["--no-deps"]);
    let names: BTreeSet<_> = packages
        .iter()
        .map(|package| package["name"].as_str().unwrap())
        .collect();
    let linked = |package: &Value| {
        let dependencies = package["dependencies"].as_array().unwrap().iter();
        dependencies
            .filter(|dependency| dependency["kind"].is_null())
            .map(|dependency| dependency["name"].as_str().unwrap().to_owned())
            .filter(|name| names.contains(name.as_str()))
            .collect()
    };
    packages
        .iter()
        .map(|package| {
            (
                package["name"].as_str().unwrap().to_owned(),
                linked(package),
            )
        })
        .collect()
}

#[test]
fn a_role_links_the_shared_crates_alone() {
    let links = links();
    let shared: BTreeSet<String> = ["bxcore", "bxkit"].map(str::to_owned).into();
    for role in ROLES {
        assert!(
            links[role].is_subset(&shared),
            "{role} links {:?}",
            links[role]
        );
    }
    assert!(links["bxcore"].is_empty());
    assert_eq!(links["bxkit"], BTreeSet::from(["bxcore".to_owned()]));
    for (name, linked) in &links {
        let links_role = ROLES.iter().any(|role| linked.contains(*role));
        assert!(!links_role || name == "boxmaker", "{name} links a role");
        assert!(!linked.contains("bxtest"), "{name} links the test support");
    }
}

#[test]
fn every_code_has_a_page_and_every_page_a_code() {
    let pages: BTreeSet<String> = std::fs::read_dir(root().join("docs/runbook"))
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect();
    let codes: BTreeSet<String> = Code::ALL.iter().map(|code| format!("{code}.md")).collect();
    assert_eq!(pages, codes);
    for code in Code::ALL {
        let page = std::fs::read_to_string(root().join(format!("docs/runbook/{code}.md"))).unwrap();
        assert!(page.starts_with(&format!("# `{code}`:")), "{code}");
        assert!(page.contains("## What to do"), "{code}");
    }
}
