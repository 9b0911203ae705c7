//! What the product is built from: licences, sources and bans as `deny.toml` has them.
//!
//! cargo-deny reads the same file and knows more, but is not on every machine; this is.

use serde_json::Value;
use std::process::Command;

/// What `deny.toml` asks for, as far as it is checked here.
struct Policy {
    licences: Vec<spdx::Licensee>,
    banned: Vec<String>,
}

fn strings<'a>(list: &'a toml::Value, key: Option<&'a str>) -> impl Iterator<Item = &'a str> {
    let entries = list.as_array().unwrap().iter();
    entries.map(move |entry| key.map_or(entry, |key| &entry[key]).as_str().unwrap())
}

fn policy() -> Policy {
    let text = std::fs::read_to_string(super::house::root().join("deny.toml")).unwrap();
    let file: toml::Value = toml::from_str(&text).unwrap();
    let policy = Policy {
        licences: strings(&file["licenses"]["allow"], None)
            .map(|name| spdx::Licensee::parse(name).unwrap())
            .collect(),
        banned: strings(&file["bans"]["deny"], Some("crate"))
            .map(str::to_owned)
            .collect(),
    };
    assert!(!policy.licences.is_empty() && !policy.banned.is_empty());
    policy
}

/// What is wrong with a package, if anything is.
fn complaint(package: &Value, policy: &Policy) -> Option<String> {
    let name = package["name"].as_str().unwrap();
    if policy.banned.iter().any(|banned| banned == name) {
        return Some(format!("{name} is banned"));
    }
    match package["source"].as_str() {
        None => {}
        Some(source) if source.starts_with("registry+") => {}
        Some(source) => return Some(format!("{name} is from {source}")),
    }
    let Some(licence) = package["license"].as_str() else {
        return Some(format!("{name} has no licence"));
    };
    let expression = spdx::Expression::parse_mode(licence, spdx::ParseMode::LAX).unwrap();
    let allowed = expression.evaluate(|requirement| {
        let mut licences = policy.licences.iter();
        licences.any(|licence| licence.satisfies(requirement))
    });
    (!allowed).then(|| format!("{name} is under {licence}"))
}

#[test]
fn every_dependency_is_from_the_registry_and_under_a_licence_that_is_allowed() {
    let host = Command::new(env!("CARGO")).args(["-vV"]).output().unwrap();
    let host = String::from_utf8(host.stdout).unwrap();
    let host = host.lines().find_map(|line| line.strip_prefix("host: "));
    // Only what this platform links has been downloaded, and needs to be.
    let packages = super::house::metadata(&["--filter-platform", host.unwrap()]);
    let policy = policy();
    let complaints: Vec<_> = packages
        .iter()
        .filter_map(|package| complaint(package, &policy))
        .collect();
    assert!(packages.len() > 100, "{} packages", packages.len());
    assert!(complaints.is_empty(), "{complaints:#?}");
}

#[test]
fn what_is_not_allowed_is_found() {
    let policy = policy();
    let package = |name: &str, licence: Option<&str>, source: Option<&str>| {
        let package = serde_json::json!({"name": name, "license": licence, "source": source});
        complaint(&package, &policy)
    };
    let registry = Some("registry+https://example.org/index");
    assert_eq!(package("fine", Some("MIT/Apache-2.0"), registry), None);
    assert_eq!(package("ours", Some("MIT OR GPL-3.0-only"), None), None);
    for (name, licence, source, expect) in [
        ("strict", Some("GPL-3.0-only"), registry, "GPL-3.0-only"),
        ("both", Some("MIT AND GPL-3.0-only"), registry, "GPL"),
        ("none", None, registry, "no licence"),
        ("git", Some("MIT"), Some("git+https://example.org"), "git+"),
        ("openssl-sys", Some("MIT"), registry, "banned"),
    ] {
        let said = package(name, licence, source).unwrap_or_default();
        assert!(said.contains(expect), "{name}: {said}");
    }
}
