//! The commented configuration files that `init` writes.

use bxcore::role::Role;

/// The configuration file of a role with every key explained and nothing set.
pub const fn template(role: Role) -> &'static str {
    match role {
        Role::Loopd => include_str!("init/loopd.toml"),
        Role::Brokerd => include_str!("init/brokerd.toml"),
        Role::Memoryd => include_str!("init/memoryd.toml"),
        Role::Inferproxy => include_str!("init/inferproxy.toml"),
    }
}
