//! The one constructor of children, and the tool that asks for one.

use super::standing::Standing;
use super::tree::{Alive, Trees};
use bxcore::code::Code;
use bxcore::delegation::{SUBAGENT, subagent_parameters};
use bxcore::guardrails::{RuleBroken, ToolRules};
use bxcore::id::{CallId, MAX_SESSION_ID_BYTES, SessionId, TurnId};
use bxcore::json::parse_strict;
use bxcore::tool::{Repeat, ToolName, ToolSpec};
use bxcore::transcript::Lineage;
use serde::Deserialize;
use std::collections::BTreeSet;

const DESCRIPTION: &str = "Has a helper work on a task of its own and returns its answer. The \
    helper begins with an empty conversation: put everything it needs into the task. It has the \
    same tools as you.";

/// The tool as a model finds it.
pub fn subagent() -> Option<ToolSpec> {
    Some(ToolSpec {
        name: ToolName::new(SUBAGENT).ok()?,
        description: DESCRIPTION.to_owned(),
        parameters: subagent_parameters(),
        tags: BTreeSet::new(),
        // A child has an id of its own, so that the same call again finds it.
        repeat: Repeat::Safe,
        reserve: None,
    })
}

/// Why no child is made. No model call was made for it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Refused {
    /// The code that the call ends with.
    pub code: Code,
    /// What the model is told.
    pub text: String,
}

/// A child that may begin.
#[derive(Debug)]
pub struct Delegation {
    /// The child's session.
    pub child: SessionId,
    /// The session that asks for it.
    pub parent: SessionId,
    /// Where it stands.
    pub lineage: Lineage,
    /// What it is to do: the child's user message.
    pub task: String,
    /// Its place among those of its tree that are alive.
    pub alive: Alive,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Arguments {
    task: String,
}

impl Delegation {
    /// Makes a child of a turn, for its call of this number.
    ///
    /// `known` says whether the child is there already, as after a crash: then it has been counted.
    ///
    /// # Errors
    /// The arguments are no task, a rule of the parent's or a cap of the tree is against it, or the
    /// child could have no name. The text names what it is.
    pub fn open(
        parent: &Standing,
        call: CallId,
        arguments: &str,
        trees: &Trees,
        known: bool,
    ) -> Result<Self, Refused> {
        let Arguments { task } = read(arguments)?;
        allowed(&parent.rules)?;
        let Some(depth_left) = parent.depth_left().checked_sub(1) else {
            let text = "No helper may have one at this depth. Do the work yourself.";
            return Err(refused(Code::DeniedByGuardrail, text));
        };
        let child = child_of(&parent.session, call)?;
        let (root, root_turn) = parent.root();
        let entered = trees.enter((root.clone(), root_turn), &child, &parent.session, known);
        let alive = entered.map_err(|full| {
            let text = format!("No more helpers may be made: {full}. Go on with what there is.");
            refused(Code::DeniedByGuardrail, &text)
        })?;
        Ok(Self {
            child,
            parent: parent.session.clone(),
            lineage: Lineage {
                root,
                root_turn,
                parent_turn: parent.turn,
                call,
                depth_left,
            },
            task,
            alive,
        })
    }

    /// The standing of the child's turn.
    pub fn turn(&self) -> TurnId {
        TurnId::FIRST
    }
}

fn read(arguments: &str) -> Result<Arguments, Refused> {
    let bad = |why: &dyn std::fmt::Display| {
        refused(
            Code::InvalidArguments,
            &format!("The arguments are wrong: {why}."),
        )
    };
    let value = parse_strict(arguments).map_err(|error| bad(&error))?;
    if !value.is_object() {
        return Err(bad(&"not an object"));
    }
    let read: Arguments =
        Deserialize::deserialize(value).map_err(|error: serde_json::Error| bad(&error))?;
    if read.task.trim().is_empty() {
        return Err(bad(&"the task is empty"));
    }
    Ok(read)
}

/// Whether rules let a session delegate, so that the tool is worth being offered.
pub fn is_allowed(rules: &ToolRules) -> bool {
    allowed(rules).is_ok()
}

/// Whether the owner is to be asked before a session delegates. brokerd does that.
pub fn needs_approval(rules: &ToolRules) -> bool {
    subagent().is_none_or(|spec| rules.needs_approval(&spec.name, &spec.tags))
}

/// Whether rules let a session delegate.
fn allowed(rules: &ToolRules) -> Result<(), Refused> {
    let Some(spec) = subagent() else {
        return Err(refused(Code::Internal, "The tool has no name."));
    };
    let why = match rules.check(&spec.name, &spec.tags) {
        Err(RuleBroken::Denied(entry)) => format!("`{entry}` is on the deny list"),
        Err(RuleBroken::NotAllowed) => "it is not on the allow list".to_owned(),
        Ok(()) => return Ok(()),
    };
    let text = format!("`subagent` may not be used here: {why}. Nothing was run.");
    Err(refused(Code::DeniedByGuardrail, &text))
}

/// The child's name, from its parent's and the number of the call: the same call has the same child.
pub(crate) fn child_of(parent: &SessionId, call: CallId) -> Result<SessionId, Refused> {
    let name = format!("sub-{parent}-{call}");
    SessionId::new(name.clone()).map_err(|_| {
        let text = format!(
            "The helper would be named `{name}`, which is longer than {MAX_SESSION_ID_BYTES} \
             characters ({}). Do the work yourself.",
            Code::SubagentId
        );
        refused(Code::InvalidArguments, &text)
    })
}

fn refused(code: Code, text: &str) -> Refused {
    Refused {
        code,
        text: text.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::super::{MAX_ALIVE, MAX_CREATED, MAX_SUBAGENT_DEPTH};
    use super::*;

    fn root(id: &str) -> Standing {
        Standing {
            session: SessionId::new(id).unwrap(),
            turn: TurnId(2),
            made_by: None,
            rules: ToolRules::default(),
        }
    }

    fn open(parent: &Standing, call: u64, trees: &Trees) -> Result<Delegation, Refused> {
        Delegation::open(parent, CallId(call), r#"{"task":"look"}"#, trees, false)
    }

    fn standing_of(child: &Delegation) -> Standing {
        Standing {
            session: child.child.clone(),
            turn: TurnId::FIRST,
            made_by: Some((child.parent.clone(), child.lineage.clone())),
            rules: ToolRules::default(),
        }
    }

    #[test]
    fn spawn_sub_mm_3_then_4_with_stored_lineage() {
        let trees = Trees::default();
        let parent = root("mm-abcdefghijklmnopqrstuvwxyz");
        let first = open(&parent, 3, &trees).unwrap();
        let second = open(&parent, 4, &trees).unwrap();
        assert_eq!(first.child.as_str(), "sub-mm-abcdefghijklmnopqrstuvwxyz-3");
        assert_eq!(second.child.as_str(), "sub-mm-abcdefghijklmnopqrstuvwxyz-4");
        assert_eq!(first.lineage.root, parent.session);
        assert_eq!(first.lineage.root_turn, TurnId(2));
        assert_eq!(first.lineage.depth_left, MAX_SUBAGENT_DEPTH - 1);
        let nested = open(&standing_of(&first), 1, &trees).unwrap();
        assert_eq!(nested.lineage.root, parent.session);
        assert_eq!(nested.lineage.depth_left, MAX_SUBAGENT_DEPTH - 2);
    }

    #[test]
    fn overflow_of_the_id_is_invalid_arguments_naming_it() {
        let refused = open(&root(&"a".repeat(64)), 1, &Trees::default()).unwrap_err();
        assert_eq!(refused.code, Code::InvalidArguments);
        let named = format!("sub-{}-1", "a".repeat(64));
        assert!(refused.text.contains(&named) && refused.text.contains("subagent-id"));
    }

    #[test]
    fn depth_ends_where_it_must() {
        let trees = Trees::default();
        let mut standing = root("a");
        let mut kept = Vec::new();
        for _ in 0..MAX_SUBAGENT_DEPTH {
            let child = open(&standing, 1, &trees).unwrap();
            standing = standing_of(&child);
            kept.push(child);
        }
        let refused = open(&standing, 1, &trees).unwrap_err();
        assert_eq!(refused.code, Code::DeniedByGuardrail);
        assert!(refused.text.contains("depth"), "{}", refused.text);
    }

    #[test]
    fn the_tree_is_capped_at_its_root_by_count_and_by_those_alive() {
        let trees = Trees::default();
        let parent = root("a");
        let alive: Vec<_> = (1..=u64::from(MAX_ALIVE))
            .map(|call| open(&parent, call, &trees).unwrap())
            .collect();
        let refused = open(&parent, 99, &trees).unwrap_err();
        assert!(refused.text.contains("16 are at work"), "{}", refused.text);
        drop(alive);
        for call in u64::from(MAX_ALIVE) + 1..=u64::from(MAX_CREATED) {
            open(&parent, call, &trees).unwrap();
        }
        let refused = open(&parent, 99, &trees).unwrap_err();
        assert_eq!(refused.code, Code::DeniedByGuardrail);
        assert!(refused.text.contains("64 were made"), "{}", refused.text);
        // The next turn begins anew.
        let next = Standing {
            turn: TurnId(3),
            ..parent
        };
        assert!(open(&next, 100, &trees).is_ok());
    }

    #[test]
    fn rules_of_the_parent_hold_and_say_so() {
        let set = |name: &str| BTreeSet::from([name.to_owned()]);
        let deny = ToolRules {
            deny: set("subagent"),
            ..ToolRules::default()
        };
        let allow = ToolRules {
            allow: Some(set("read_file")),
            ..ToolRules::default()
        };
        for (rules, code, said) in [
            (deny, Code::DeniedByGuardrail, "deny list"),
            (allow, Code::DeniedByGuardrail, "allow list"),
        ] {
            let parent = Standing { rules, ..root("a") };
            let refused = open(&parent, 1, &Trees::default()).unwrap_err();
            assert_eq!(refused.code, code);
            assert!(refused.text.contains(said), "{}", refused.text);
        }
        let ask = ToolRules {
            approval_required: set("subagent"),
            ..ToolRules::default()
        };
        assert!(needs_approval(&ask) && !needs_approval(&ToolRules::default()));
        let parent = Standing {
            rules: ask,
            ..root("a")
        };
        assert!(open(&parent, 1, &Trees::default()).is_ok());
    }

    #[test]
    fn unknown_fields_and_what_is_no_task_are_invalid_arguments() {
        for arguments in [
            "{}",
            "null",
            "[]",
            "",
            r#"{"task":""}"#,
            r#"{"task":7}"#,
            r#"{"task":"a","task":"b"}"#,
            r#"{"task":"a","tools":["shell"]}"#,
            r#"{"Task":"a"}"#,
        ] {
            let trees = Trees::default();
            let opened = Delegation::open(&root("a"), CallId(1), arguments, &trees, false);
            assert_eq!(
                opened.unwrap_err().code,
                Code::InvalidArguments,
                "{arguments}"
            );
        }
    }
}
