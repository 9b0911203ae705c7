//! What can be said of everything that leaves the box without starting anything: for `doctor`.

use crate::config;
use crate::consult::{CONSULT, ConsultError};
use crate::decision::{Unreached, unreached};
use crate::egress::Endpoint;
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
    checked.extend(unreached(&config.grants).iter().map(|grant| Checked {
        what: format!("grant {}", grant.number),
        found: Err(never_reached(grant, &config.grants)),
    }));
    if let Some(consult) = &config.consult {
        let secret = opened(&folders, &consult.secret).map_err(ConsultError::Secret);
        let granted = secret.map_err(Problem::from).and_then(|()| {
            let grant = granted(&config.grants, CONSULT)?;
            let (model, host) = (&consult.model, consult.url.host());
            let class = grant.max_taint;
            let remark = remark_on(&consult.url);
            Ok(format!(
                "{model} at {host}; sessions up to {class} may ask{remark}"
            ))
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
            found: granted.map(|()| {
                let remark = remark_on(&provider.url);
                format!("its key can be read, and a grant is for it{remark}")
            }),
        });
    }
    checked
}

/// What may be wrong with an address. Only a question would tell for sure, and would cost.
fn remark_on(url: &Endpoint) -> &'static str {
    if url.path().ends_with("/chat/completions") {
        return "";
    }
    "; its url does not end in /chat/completions, as those of such services do"
}

/// What is wrong with a grant that no call is judged by.
fn never_reached(unreached: &Unreached, grants: &[Grant]) -> Problem {
    let Unreached { number, by } = unreached;
    let named = grants.get(number - 1).map(|grant| grant.tool.as_str());
    let title = format!(
        "Grant {number} ({}) is never reached: grant {by} stands before it and admits all that it admits",
        named.unwrap_or_default()
    );
    Problem::new(Code::NoGrant, title).hint(format!(
        "write both as one [[grant]], or move the stricter one in front of grant {by}"
    ))
}

fn checked_secrets(folders: &[PathBuf]) -> Checked {
    let found = Secrets::open(folders.to_vec(), &[]).map_err(|error| vec![error.to_string()]);
    let unread = match &found {
        Ok(secrets) => secrets.unread(),
        Err(why) => why.clone(),
    };
    let short = found.as_ref().map_or_else(|_| Vec::new(), Secrets::short);
    let shown: Vec<String> = folders
        .iter()
        .map(|folder| folder.display().to_string())
        .collect();
    let count = found.as_ref().map_or(0, Secrets::count);
    Checked {
        what: "secrets".to_owned(),
        found: if let (true, Some(name)) = (unread.is_empty(), short.first()) {
            let title =
                format!("The secret `{name}` is so short that it stands in nearly every text");
            Err(Problem::new(Code::SecretInPayload, title)
                .detail("what it stands in is not sent")
                .hint("put the whole key there, or remove the file; then `boxmaker down`"))
        } else if unread.is_empty() {
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

#[cfg(test)]
mod tests {
    use super::*;
    use bxkit::home::Home;
    use std::os::unix::fs::PermissionsExt;

    /// What is said of each thing: the code of what is wrong, or nothing.
    fn found(brokerd_toml: &str, secret: &str) -> Vec<(String, Option<Code>)> {
        let root = tempfile::tempdir().unwrap();
        let home = Home::at(root.path());
        home.create().unwrap();
        std::fs::write(home.config_file(Role::Brokerd), brokerd_toml).unwrap();
        let file = home.secrets_dir().join("key");
        std::fs::write(&file, secret).unwrap();
        std::fs::set_permissions(&file, std::fs::Permissions::from_mode(0o600)).unwrap();
        let checked = check(&home).into_iter();
        let code = |one: Checked| (one.what, one.found.err().map(|problem| problem.code));
        checked.map(code).collect()
    }

    #[test]
    fn what_would_be_void_or_in_the_way_is_told() {
        let is = |what: &str, code| (what.to_owned(), code);
        let key = "sk-0123456789abcdef";
        assert_eq!(found("", key), [is("secrets", None)]);
        let short = found("", "abc");
        assert_eq!(short, [is("secrets", Some(Code::SecretInPayload))]);
        let torn = found("", "two\nlines");
        assert_eq!(torn, [is("secrets", Some(Code::SecretUnreadable))]);
        let grants =
            "[[grant]]\ntool = \"shell\"\n[[grant]]\ntool = \"shell\"\napproval = \"always\"";
        assert_eq!(
            found(grants, key),
            [is("secrets", None), is("grant 2", Some(Code::NoGrant))]
        );
    }
}
