//! What the types can't say about `brokerd.toml`. Pure: the tools that exist are handed in.

use super::file::{Config, MAX_GRANTS, MAX_PROVIDERS, MAX_WORKSPACES};
use super::workspace::Workspace;
use crate::consult::Settings;
use crate::decision::needs_grant;
use crate::mcp::MAX_SERVERS;
use bxcore::grant::Grant;
use bxcore::label::Class;
use bxcore::tool::{BUILT_IN_TOOLS, MCP_PREFIX, RiskTag, ToolName, ToolSpec};
use bxkit::config::{InvalidValue, instead_of};
use std::collections::BTreeSet;
use std::path::{Component, Path, PathBuf};

/// Tools that reach out to hosts and come with a later version or by configuration; a grant for
/// one may name hosts already.
const FETCHERS: &[&str] = &["http_fetch"];

/// Where the kernel shows itself: what lies there are no files, and some tell of other processes.
const SYSTEM: [&str; 3] = ["/proc", "/sys", "/dev"];

/// Checks the whole table; `forbidden` are folders that no workspace may reach into.
pub(super) fn check(
    config: &Config,
    tools: &[&ToolSpec],
    forbidden: &[&Path],
) -> Result<(), InvalidValue> {
    bounded("grant", config.grants.len(), MAX_GRANTS)?;
    config.consult.as_ref().map_or(Ok(()), Settings::check)?;
    config.approvals.check()?;
    bounded("provider", config.providers.len(), MAX_PROVIDERS)?;
    for (name, settings) in &config.providers {
        settings.check(name.as_str())?;
    }
    check_servers(config, forbidden)?;
    bounded("workspace", config.workspaces.len(), MAX_WORKSPACES)?;
    for (index, grant) in config.grants.iter().enumerate() {
        let known = tools.iter().find(|tool| tool.name == grant.tool);
        check_name(index, &grant.tool)?;
        check_grant(index, grant, known.copied())?;
        check_provider(index, grant, config)?;
        check_server_of(index, grant, config)?;
    }
    let mut names = BTreeSet::new();
    for (index, workspace) in config.workspaces.iter().enumerate() {
        check_workspace(index, workspace, forbidden)?;
        check_apart(index, &config.workspaces)?;
        if !workspace
            .visible_name()
            .is_some_and(|name| names.insert(name))
        {
            let key = format!("workspace.{index}.{}", name_key(workspace));
            let error = InvalidValue::new(key, "the name is not usable, or another has it");
            return Err(error.hint("set `name` to 1 to 64 of a-z, A-Z, 0-9 and - _ ."));
        }
    }
    Ok(())
}

fn bounded(key: &str, count: usize, max: usize) -> Result<(), InvalidValue> {
    if count <= max {
        return Ok(());
    }
    Err(InvalidValue::new(
        key,
        format!("{count} are there, of at most {max}"),
    ))
}

fn name_key(workspace: &Workspace) -> &'static str {
    if workspace.name.is_some() {
        "name"
    } else {
        "path"
    }
}

/// A grant for a tool that can't be would be void, and a rule that asks would ask nobody.
fn check_name(index: usize, tool: &ToolName) -> Result<(), InvalidValue> {
    // What begins like a server's tool or a provider has a check that says more.
    let of_others = tool.is_provider() || tool.as_str().starts_with(MCP_PREFIX);
    if of_others || tool.is_known() {
        return Ok(());
    }
    let why = format!("there is no tool `{tool}`");
    let error = InvalidValue::new(format!("grant.{index}.tool"), why);
    Err(error.hint(instead_of(tool.as_str(), &BUILT_IN_TOOLS)))
}

fn check_grant(index: usize, grant: &Grant, known: Option<&ToolSpec>) -> Result<(), InvalidValue> {
    let key = |name: &str| format!("grant.{index}.{name}");
    let tool = &grant.tool;
    if known.is_some_and(|tool| !needs_grant(tool)) {
        let why = format!("`{tool}` needs no grant");
        let hint = "remove the grant; to forbid the tool, put it on the deny list in loopd.toml";
        return Err(InvalidValue::new(key("tool"), why).hint(hint));
    }
    if !grant.hosts.is_empty() && !takes_hosts(tool.as_str(), known) {
        let why = format!("`{tool}` does not take hosts, so they would limit nothing");
        return Err(InvalidValue::new(key("hosts"), why).hint("remove them"));
    }
    if let Some(host) = grant.hosts.iter().find(|host| !is_host(host)) {
        let why = format!("`{host}` is not a host");
        let hint = "write \"example.org\" or \"*.example.org\", without scheme, port and path";
        return Err(InvalidValue::new(key("hosts"), why).hint(hint));
    }
    if !grant.ports.is_empty() && !FETCHERS.contains(&tool.as_str()) {
        let why = format!("`{tool}` does not take ports, so they would limit nothing");
        return Err(InvalidValue::new(key("ports"), why).hint("remove them"));
    }
    if grant.ports.contains(&0) {
        return Err(InvalidValue::new(key("ports"), "0 is not a port").hint("remove it"));
    }
    Ok(())
}

/// A grant for a provider. What leads a session sees all that is in it, so it leads public ones
/// only; and what it answers goes into the session, which must stay public for the next call.
fn check_provider(index: usize, grant: &Grant, config: &Config) -> Result<(), InvalidValue> {
    let key = |name: &str| format!("grant.{index}.{name}");
    let tool = &grant.tool;
    if !tool.is_provider() {
        return Ok(());
    }
    if grant.max_taint != Class::Public {
        let why = "a provider's model may lead public sessions only";
        return Err(InvalidValue::new(key("max_taint"), why).hint("set it to \"public\""));
    }
    if grant.result_class() != Class::Public {
        let why = "the first answer would end the session, which must stay public";
        return Err(InvalidValue::new(key("result_class"), why).hint("remove it"));
    }
    let mut names = config.providers.keys().map(ToolName::of_provider);
    if !names.any(|name| name == *tool) {
        let why = format!("there is no `[provider.NAME]` for `{tool}`");
        return Err(InvalidValue::new(key("tool"), why)
            .hint("write the provider's table, or remove the grant"));
    }
    Ok(())
}

fn check_servers(config: &Config, forbidden: &[&Path]) -> Result<(), InvalidValue> {
    bounded("mcp", config.mcp.len(), MAX_SERVERS)?;
    let mut names = BTreeSet::new();
    for (index, server) in config.mcp.iter().enumerate() {
        server.check(index, forbidden)?;
        check_reach(index, &server.read_only, &config.workspaces)?;
        if !names.insert(&server.name) {
            let key = format!("mcp.{index}.name");
            return Err(InvalidValue::new(key, "another server has this name"));
        }
    }
    Ok(())
}

/// What a program sees has no label, so it may be nothing that has one in a workspace.
fn check_reach(
    index: usize,
    read_only: &[PathBuf],
    workspaces: &[Workspace],
) -> Result<(), InvalidValue> {
    let mut pairs = read_only
        .iter()
        .flat_map(|folder| workspaces.iter().map(move |workspace| (folder, workspace)));
    let Some((folder, workspace)) =
        pairs.find(|(folder, workspace)| overlap(folder, &workspace.path))
    else {
        return Ok(());
    };
    let why = format!(
        "`{}` and the workspace `{}` lie within each other",
        folder.display(),
        workspace.path.display()
    );
    let error = InvalidValue::new(format!("mcp.{index}.read_only"), why);
    Err(error.hint(
        "a server gets files of a workspace as arguments of its tools, by the session's label",
    ))
}

/// A grant for a tool of an MCP server, which must be there. What tools it has nobody knows yet.
fn check_server_of(index: usize, grant: &Grant, config: &Config) -> Result<(), InvalidValue> {
    let tool = &grant.tool;
    if !tool.as_str().starts_with(MCP_PREFIX) {
        return Ok(());
    }
    let key = format!("grant.{index}.tool");
    let Some((server, _)) = tool.mcp() else {
        let why = format!("`{tool}` names no tool of a server");
        return Err(InvalidValue::new(key, why).hint("write it as \"mcp:SERVER/TOOL\""));
    };
    if !config.mcp.iter().any(|known| known.name == server) {
        let why = format!("there is no `[[mcp]]` with the name `{server}`");
        let hint = "write the server's table, or remove the grant";
        return Err(InvalidValue::new(key, why).hint(hint));
    }
    Ok(())
}

fn takes_hosts(name: &str, known: Option<&ToolSpec>) -> bool {
    match known {
        Some(tool) => tool.tags.contains(&RiskTag::Network),
        None => FETCHERS.contains(&name),
    }
}

fn is_host(text: &str) -> bool {
    let host = text.strip_prefix("*.").unwrap_or(text);
    let is_label = |label: &str| {
        let allowed = |b: u8| b.is_ascii_alphanumeric() || b == b'-';
        (1..=63).contains(&label.len()) && label.bytes().all(allowed)
    };
    host.len() <= 253 && host.split('.').all(is_label)
}

/// Whether one of two folders is the other, or lies within it.
fn overlap(one: &Path, other: &Path) -> bool {
    one.starts_with(other) || other.starts_with(one)
}

/// A file has its label under the path of its workspace. If another one led to the same file, it
/// would have a second label there, and the lower of both would count.
fn check_apart(index: usize, workspaces: &[Workspace]) -> Result<(), InvalidValue> {
    let Some(workspace) = workspaces.get(index) else {
        return Ok(());
    };
    let mut earlier = workspaces.iter().take(index);
    let Some(other) = earlier.find(|other| overlap(&other.path, &workspace.path)) else {
        return Ok(());
    };
    let why = format!(
        "`{}` and the workspace `{}` lie within each other",
        workspace.path.display(),
        other.path.display()
    );
    let error = InvalidValue::new(format!("workspace.{index}.path"), why);
    Err(error.hint("name folders apart from each other: a file has one label"))
}

fn check_workspace(
    index: usize,
    workspace: &Workspace,
    forbidden: &[&Path],
) -> Result<(), InvalidValue> {
    let path = &workspace.path;
    let wrong = |why: String| InvalidValue::new(format!("workspace.{index}.path"), why);
    let is_plain = |part: Component<'_>| matches!(part, Component::RootDir | Component::Normal(_));
    if !path.is_absolute() || !path.components().all(is_plain) {
        let error = wrong(format!("`{}` is not an absolute path", path.display()));
        return Err(error.hint("write it from `/` on, without `~` and `..`"));
    }
    if SYSTEM.iter().any(|folder| overlap(Path::new(folder), path)) && path != Path::new("/") {
        let error = wrong(format!("`{}` is the system's own", path.display()));
        return Err(error.hint("name a folder with files of yours"));
    }
    // Secrets, databases and the audit log must stay out of every tool's reach.
    if let Some(folder) = forbidden.iter().find(|folder| overlap(folder, path)) {
        let why = format!(
            "`{}` and Boxmaker's own `{}` lie within each other",
            path.display(),
            folder.display()
        );
        return Err(wrong(why).hint("name a folder apart from it"));
    }
    Ok(())
}
