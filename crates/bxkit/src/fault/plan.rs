//! Which points kill at which hit. Pure.

use std::collections::HashMap;

/// The points that kill, and how often each point was passed.
#[derive(Debug, Default)]
pub(super) struct Plan {
    kills: Vec<(String, u64)>,
    hits: HashMap<&'static str, u64>,
}

/// What follows from passing a point.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Hit {
    pub(super) count: u64,
    pub(super) kills: bool,
}

impl Plan {
    /// Reads `name[:nth],…`; an nth that is no number counts as 1.
    pub(super) fn parse(text: &str) -> Self {
        let kills = text
            .split(',')
            .map(str::trim)
            .filter(|part| !part.is_empty())
            .map(|part| match part.rsplit_once(':') {
                Some((name, nth)) => (name.to_owned(), nth.parse().unwrap_or(1)),
                None => (part.to_owned(), 1),
            })
            .collect();
        Self {
            kills,
            hits: HashMap::new(),
        }
    }

    /// The plan less the kills that happened before, as `name:nth` lines.
    pub(super) fn without(mut self, fired: &str) -> Self {
        let done = Self::parse(&fired.replace('\n', ","));
        self.kills.retain(|kill| !done.kills.contains(kill));
        self
    }

    /// Counts a hit.
    pub(super) fn hit(&mut self, name: &'static str) -> Hit {
        let count = self.hits.entry(name).or_default();
        *count += 1;
        let count = *count;
        Hit {
            count,
            kills: self
                .kills
                .iter()
                .any(|(point, nth)| point == name && *nth == count),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(plan: &str, passed: &[&'static str], expect: &[bool]) {
        let mut plan = Plan::parse(plan);
        let kills: Vec<bool> = passed.iter().map(|name| plan.hit(name).kills).collect();
        assert_eq!(kills, expect);
    }

    #[test]
    fn a_point_kills_at_its_hit_and_no_other() {
        check("", &["a"], &[false]);
        check("a", &["b", "a", "a"], &[false, true, false]);
        check("a:2, b:1", &["a", "b", "a"], &[false, true, true]);
        check("a:x", &["a"], &[true]);
    }

    #[test]
    fn a_kill_happens_once() {
        let mut plan = Plan::parse("a, b:2").without("a:1\n");
        assert!(!plan.hit("a").kills);
        assert!(!plan.hit("b").kills && plan.hit("b").kills);
    }

    #[test]
    fn hits_are_counted_by_name() {
        let mut plan = Plan::parse("");
        plan.hit("a");
        plan.hit("b");
        assert_eq!(
            plan.hit("a"),
            Hit {
                count: 2,
                kills: false
            }
        );
    }
}
