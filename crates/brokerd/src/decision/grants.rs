//! Which grant a call falls under.

use super::facts::Facts;
use super::question::Question;
use bxcore::grant::Grant;
use bxcore::label::Label;
use bxcore::tool::{RiskTag, ToolSpec};

/// A grant and its place in the file, counted from 1.
#[derive(Debug, Clone, Copy)]
pub(super) struct Chosen<'a> {
    pub(super) number: usize,
    pub(super) grant: &'a Grant,
}

/// Whether a tool runs only under a grant.
///
/// One without any risk reads what the session may read anyway; whatever reaches out, writes,
/// runs code or costs money carries a tag and needs the owner's word.
pub fn needs_grant(tool: &ToolSpec) -> bool {
    !tool.tags.is_empty()
}

/// Whether a tool sends the session's data off the box.
pub fn sends(tool: &ToolSpec) -> bool {
    tool.tags.contains(&RiskTag::Network) || tool.tags.contains(&RiskTag::Egress)
}

/// Whether a tool changes files or runs programs.
pub(super) fn acts(tool: &ToolSpec) -> bool {
    tool.tags.contains(&RiskTag::Write) || tool.tags.contains(&RiskTag::Exec)
}

/// The grant that a call is judged by: the first that names the tool and the destination and
/// admits the session's label, else the first that names both.
///
/// So an owner can write one grant for public sessions and a stricter one behind it.
pub(super) fn choose<'a>(question: &Question<'a>, tool: &ToolSpec) -> Option<Chosen<'a>> {
    let numbered = question.grants.iter().enumerate();
    let matching = numbered
        .filter(|(_, grant)| grant.tool == *question.name && reaches(grant, question.facts))
        .map(|(index, grant)| Chosen {
            number: index + 1,
            grant,
        });
    let admits = |chosen: &Chosen<'_>| {
        admits_class(chosen.grant, question.label)
            && admits_integrity(Some(chosen.grant), tool, question.label)
    };
    let mut candidates = matching.clone();
    candidates.find(admits).or_else(|| matching.clone().next())
}

/// A grant that no call is judged by.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Unreached {
    /// Its number in the file, from 1.
    pub number: usize,
    /// The number of the grant before it that every call falls under that it is for.
    pub by: usize,
}

/// The grants that no call is ever judged by, since one before them admits all that they admit.
///
/// They are void without looking so: one that asks the owner each time would ask nobody.
pub fn unreached(grants: &[Grant]) -> Vec<Unreached> {
    let numbered = || grants.iter().enumerate();
    numbered()
        .filter_map(|(index, grant)| {
            let before = numbered().take(index);
            let (by, _) = before
                .into_iter()
                .find(|(_, earlier)| covers(earlier, grant))?;
            Some(Unreached {
                number: index + 1,
                by: by + 1,
            })
        })
        .collect()
}

/// Whether a grant is for all calls that another is for, and admits them wherever the other does.
fn covers(grant: &Grant, other: &Grant) -> bool {
    let every_host = || {
        let mut hosts = other.hosts.iter();
        !other.hosts.is_empty() && hosts.all(|host| admits_pattern(grant, host))
    };
    grant.tool == other.tool
        && grant.max_taint >= other.max_taint
        && (grant.accept_untrusted || !other.accept_untrusted)
        && (grant.hosts.is_empty() || every_host())
}

/// Whether a grant's hosts admit every host that a pattern admits.
fn admits_pattern(grant: &Grant, pattern: &str) -> bool {
    let Some(parent) = pattern.strip_prefix("*.") else {
        return admits_host(grant, pattern);
    };
    let mut hosts = grant.hosts.iter();
    hosts.any(|host| match host.strip_prefix("*.") {
        Some(theirs) => theirs.eq_ignore_ascii_case(parent) || host_matches(host, parent),
        None => false,
    })
}

pub(super) fn admits_class(grant: &Grant, label: Label) -> bool {
    label.class <= grant.max_taint
}

/// A tool that acts refuses an untrusted session; one that sends refuses a session that is
/// untrusted and has more than public data to lose.
pub(super) fn admits_integrity(grant: Option<&Grant>, tool: &ToolSpec, label: Label) -> bool {
    let accepts = grant.is_some_and(|grant| grant.accept_untrusted);
    let has_to_lose = label.class > bxcore::label::Class::Public;
    let in_danger = acts(tool) || (sends(tool) && has_to_lose);
    !label.untrusted || accepts || !in_danger
}

/// Whether a grant's hosts admit the call's destination.
fn reaches(grant: &Grant, facts: &Facts) -> bool {
    match &facts.destination {
        _ if grant.hosts.is_empty() => true,
        // Without arguments the destination is not known; the host is looked at when it runs.
        None => true,
        Some(host) => admits_host(grant, host),
    }
}

/// Whether a grant admits a host. One that names none admits all.
pub fn admits_host(grant: &Grant, host: &str) -> bool {
    let mut hosts = grant.hosts.iter();
    grant.hosts.is_empty() || hosts.any(|pattern| host_matches(pattern, host))
}

/// Whether a host is the one named, or below the one named with `*.` in front.
fn host_matches(pattern: &str, host: &str) -> bool {
    let Some(parent) = pattern.strip_prefix("*.") else {
        return pattern.eq_ignore_ascii_case(host);
    };
    let Some(split) = host.len().checked_sub(parent.len() + 1) else {
        return false;
    };
    let Some((below, rest)) = host.split_at_checked(split) else {
        return false;
    };
    let fits = rest
        .strip_prefix('.')
        .is_some_and(|rest| rest.eq_ignore_ascii_case(parent));
    fits && !below.is_empty()
}

#[cfg(test)]
mod tests {
    use super::{Unreached, host_matches, unreached};
    use bxcore::grant::Grant;

    fn grants(lines: &[&str]) -> Vec<Grant> {
        let path = std::path::Path::new("grants");
        let grant = |line: &&str| bxkit::config::parse(path, line, |_: &Grant| Ok(())).unwrap();
        lines.iter().map(grant).collect()
    }

    #[test]
    fn a_grant_behind_one_that_admits_all_of_it_is_never_reached() {
        let check = |first: &str, second: &str, expect: bool| {
            let found = unreached(&grants(&[first, second]));
            let told = [Unreached { number: 2, by: 1 }];
            assert_eq!(found, &told[..usize::from(expect)], "{first}\n{second}");
        };
        let shell = "tool = \"shell\"";
        let asking = "tool = \"shell\"\napproval = \"always\"";
        let private = "tool = \"shell\"\nmax_taint = \"private\"";
        let accepting = "tool = \"shell\"\naccept_untrusted = true";
        check(shell, asking, true);
        check(shell, private, false);
        check(private, asking, true);
        check(shell, accepting, false);
        check(accepting, asking, true);
        check(shell, "tool = \"consult\"", false);
        let fetch = |hosts: &str| format!("tool = \"http_fetch\"\nhosts = [{hosts}]");
        let check =
            |first: &str, second: &str, expect| check(&fetch(first), &fetch(second), expect);
        check("\"a.org\"", "\"b.org\"", false);
        check("\"*.a.org\"", "\"x.A.org\"", true);
        check("\"*.a.org\"", "\"*.x.a.org\"", true);
        check("\"*.x.a.org\"", "\"*.a.org\"", false);
        check("\"x.a.org\"", "\"*.x.a.org\"", false);
        check("\"*.a.org\"", "\"a.org\"", false);
        check("\"a.org\"", "", false);
        check("", "\"a.org\"", true);
    }

    #[test]
    fn a_star_stands_for_whole_labels_in_front() {
        for (pattern, host, expect) in [
            ("example.org", "example.org", true),
            ("example.org", "EXAMPLE.org", true),
            ("example.org", "www.example.org", false),
            ("*.example.org", "www.example.org", true),
            ("*.example.org", "a.b.example.org", true),
            ("*.example.org", "example.org", false),
            ("*.example.org", ".example.org", false),
            ("*.example.org", "evilexample.org", false),
            ("*.example.org", "example.org.evil.test", false),
            ("*.example.org", "ü.example.org", true),
            ("*.example.org", "org", false),
        ] {
            assert_eq!(host_matches(pattern, host), expect, "{pattern} {host}");
        }
    }
}
