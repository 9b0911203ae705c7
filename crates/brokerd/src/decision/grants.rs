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
    use super::host_matches;

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
