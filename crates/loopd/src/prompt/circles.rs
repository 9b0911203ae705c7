//! Whether a model goes in circles: the same calls again and again in one turn.
//!
//! Small models ask for the time, or find and fail, until their rounds are used up.

use bxcore::chat::ToolCall;
use std::collections::BTreeMap;

/// How often in a row a model may make the very same calls before it has to answer.
const MAX_IN_A_ROW: u32 = 2;
/// How often in one turn it may, with others in between: enough to look again at what may change.
const MAX_IN_A_TURN: u32 = 4;

/// The calls of one answer: names and arguments as they were written.
type Round = Vec<(String, String)>;

/// What the model called in the turn under way.
#[derive(Debug, Clone, Default)]
pub(super) struct Circles {
    last: Round,
    in_a_row: u32,
    in_the_turn: BTreeMap<Round, u32>,
}

impl Circles {
    /// Takes the calls of an answer.
    pub(super) fn note<'a>(&mut self, calls: impl Iterator<Item = &'a ToolCall>) {
        let round: Round = calls
            .map(|call| (call.name.clone(), call.arguments.clone()))
            .collect();
        if round != self.last {
            self.in_a_row = 0;
        }
        self.last.clone_from(&round);
        if !round.is_empty() {
            self.in_a_row += 1;
            *self.in_the_turn.entry(round).or_default() += 1;
        }
    }

    /// Whether the last calls closed a circle.
    pub(super) fn is_round(&self) -> bool {
        let in_the_turn = self.in_the_turn.get(&self.last).copied();
        self.in_a_row >= MAX_IN_A_ROW || in_the_turn.is_some_and(|times| times >= MAX_IN_A_TURN)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(rounds: &str, expect: bool) {
        let mut circles = Circles::default();
        for name in rounds.chars() {
            let call = ToolCall {
                id: String::new(),
                name: name.to_string(),
                arguments: "{}".to_owned(),
            };
            circles.note(Some(&call).filter(|_| name != '-').into_iter());
        }
        assert_eq!(circles.is_round(), expect, "{rounds}");
    }

    #[test]
    fn the_same_again_is_a_circle_and_something_else_is_not() {
        check("", false);
        check("a", false);
        check("aa", true);
        check("ab", false);
        check("aba", false);
        check("a-a", false);
        check("ababab", false);
        check("abababa", true);
        check("aab", false);
    }
}
