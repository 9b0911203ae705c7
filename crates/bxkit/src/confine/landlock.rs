//! The part that Landlock enforces: files, TCP ports, signals.

use super::plan::{Confinement, ConnectPorts, Programs};
use landlock::{
    ABI, Access, AccessFs, AccessNet, BitFlags, NetPort, Ruleset, RulesetAttr, RulesetCreatedAttr,
    RulesetError, RulesetStatus, Scope, path_beneath_rules,
};
use std::fmt;
use std::path::PathBuf;

/// The version whose rights are asked for; a kernel with an older one enforces what it knows.
const WANTED: ABI = ABI::V6;

/// How much of what was asked for the kernel enforces.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Enforcement {
    /// All of it.
    Full,
    /// What this kernel's version knows; ports need 6.7, signals 6.12.
    Partial,
    /// Nothing: the kernel has no Landlock, or it is switched off.
    None,
}

impl fmt::Display for Enforcement {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Full => "full",
            Self::Partial => "partial",
            Self::None => "none",
        })
    }
}

/// Restricts this thread, and those it starts from now on.
pub(super) fn restrict(plan: &Confinement) -> Result<Enforcement, RulesetError> {
    let mut ruleset = Ruleset::default()
        .handle_access(AccessFs::from_all(WANTED))?
        // No role listens on TCP: nothing may be bound.
        .handle_access(AccessNet::BindTcp)?
        .scope(Scope::AbstractUnixSocket | Scope::Signal)?;
    if plan.connect_ports != ConnectPorts::Any {
        ruleset = ruleset.handle_access(AccessNet::ConnectTcp)?;
    }
    let mut created = ruleset
        .create()?
        .add_rules(path_beneath_rules(&plan.read_only, reading()))?
        .add_rules(path_beneath_rules(&plan.read_write, writing()))?;
    if let Programs::Within(programs) = &plan.programs {
        let access = reading() | AccessFs::Execute;
        created = created.add_rules(path_beneath_rules(programs, access))?;
    }
    if let ConnectPorts::Only(ports) = &plan.connect_ports {
        let ports = ports
            .iter()
            .map(|port| NetPort::new(*port, AccessNet::ConnectTcp));
        created = created.add_rules(ports.map(Ok::<_, RulesetError>))?;
    }
    Ok(enforcement(created.restrict_self()?.ruleset))
}

/// Restricts a command: everything may be read and run, only these folders changed, no TCP port
/// used, nobody outside signalled or called by an abstract socket.
pub(super) fn restrict_command(writable: &[PathBuf]) -> Result<Enforcement, RulesetError> {
    let everything = AccessFs::from_all(WANTED);
    let created = Ruleset::default()
        .handle_access(everything)?
        .handle_access(AccessNet::BindTcp)?
        .handle_access(AccessNet::ConnectTcp)?
        .scope(Scope::AbstractUnixSocket | Scope::Signal)?
        .create()?
        .add_rules(path_beneath_rules(["/"], reading() | AccessFs::Execute))?
        .add_rules(path_beneath_rules(writable, everything))?;
    Ok(enforcement(created.restrict_self()?.ruleset))
}

const fn enforcement(status: RulesetStatus) -> Enforcement {
    match status {
        RulesetStatus::FullyEnforced => Enforcement::Full,
        RulesetStatus::PartiallyEnforced => Enforcement::Partial,
        RulesetStatus::NotEnforced => Enforcement::None,
    }
}

/// The paths that are not there, for which no right can be kept.
pub(super) fn missing(plan: &Confinement) -> Vec<PathBuf> {
    plan.read_write
        .iter()
        .filter(|path| !path.exists())
        .cloned()
        .collect()
}

fn reading() -> BitFlags<AccessFs> {
    AccessFs::ReadFile | AccessFs::ReadDir
}

/// Reading, and what plain files and folders need; no devices, sockets, links.
fn writing() -> BitFlags<AccessFs> {
    reading()
        | AccessFs::WriteFile
        | AccessFs::Truncate
        | AccessFs::RemoveFile
        | AccessFs::RemoveDir
        | AccessFs::MakeReg
        | AccessFs::MakeDir
        | AccessFs::Refer
}
