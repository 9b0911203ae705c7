//! What can be said of everything that leaves the box without starting anything: for `doctor`.

use crate::config;
use crate::consult::{CONSULT, ConsultError};
use crate::provider::ProviderError;
use crate::secrets::{self, SecretError, SecretName, Secrets};
use crate::tools::Registry;
use bxcore::code::Code;
use bxcore::grant::Grant;
use bxcore::problem::Problem;
use bxcore::role::Role;
use bxcore::tool::ToolName;
use bxkit::home::Home;
use std::path::PathBuf;

/// One thing that was looked at.
#[derive(Debug)]
pub struct Checked {
    /// What.
    pub what: String,
    /// What was found, or what is wrong.
    pub found: Result<String, Problem>,
}

/// Looks at the secrets, at `[consult]` and at each provider: whether the key can be read, and a
/// grant is there. Nothing is sent. A configuration that is wrong has nothing to look at.
pub fn check(home: &Home) -> Vec<Checked> {
    let file = home.config_file(Role::Brokerd);
    let Ok(tools) = Registry::new() else {
        return Vec::new();
    };
    let Ok(loaded) = config::load(home, &file, &tools.specs()) else {
        return Vec::new();
    };
    let config = loaded.config;
    let folders = secrets::folders(home);
    let mut checked = vec![checked_secrets(&folders)];
    if let Some(consult) = &config.consult {
        let secret = opened(&folders, &consult.secret).map_err(ConsultError::Secret);
        let granted = secret.map_err(Problem::from).and_then(|()| {
            let grant = granted(&config.grants, CONSULT)?;
            let (model, host) = (&consult.model, consult.url.host());
            let class = grant.max_taint;
            Ok(format!("{model} at {host}; sessions up to {class} may ask"))
        });
        checked.push(Checked {
            what: CONSULT.to_owned(),
            found: granted,
        });
    }
    for (name, provider) in &config.providers {
        let tool = ToolName::of_provider(name);
        let secret = opened(&folders, &provider.secret).map_err(ProviderError::Secret);
        let granted = secret
            .map_err(Problem::from)
            .and_then(|()| granted(&config.grants, tool.as_str()).map(drop));
        checked.push(Checked {
            what: tool.as_str().to_owned(),
            found: granted.map(|()| "its key can be read, and a grant is for it".to_owned()),
        });
    }
    checked
}

fn checked_secrets(folders: &[PathBuf]) -> Checked {
    let found = Secrets::open(folders.to_vec(), &[]).map_err(|error| vec![error.to_string()]);
    let unread = match &found {
        Ok(secrets) => secrets.unread(),
        Err(why) => why.clone(),
    };
    let shown: Vec<String> = folders
        .iter()
        .map(|folder| folder.display().to_string())
        .collect();
    let count = found.as_ref().map_or(0, Secrets::count);
    Checked {
        what: "secrets".to_owned(),
        found: if unread.is_empty() {
            Ok(format!("{count} in {}", shown.join(" and ")))
        } else {
            let title = "Something among the secrets can't be read, so nothing is sent";
            Err(Problem::new(Code::SecretUnreadable, title)
                .detail(unread.join("; "))
                .hint("mend it or move it away; then `boxmaker down`, and they are read anew"))
        },
    }
}

fn opened(folders: &[PathBuf], secret: &SecretName) -> Result<(), SecretError> {
    Secrets::open(folders.to_vec(), &[secret]).map(drop)
}

fn granted<'a>(grants: &'a [Grant], tool: &str) -> Result<&'a Grant, Problem> {
    let grant = grants.iter().find(|grant| grant.tool.as_str() == tool);
    grant.ok_or_else(|| {
        Problem::new(Code::NoGrant, format!("No grant is for `{tool}`")).hint(format!(
            "write a [[grant]] with tool = \"{tool}\" into brokerd.toml"
        ))
    })
}
