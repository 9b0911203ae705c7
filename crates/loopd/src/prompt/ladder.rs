//! Structured output: from whatever a model wrote to a value that fits a schema.
//!
//! Rung by rung: the reply as it is, JSON found in its text, changes that lose nothing, at most
//! two more questions that show what was wrong, and in the end the default that the caller gave.
//! So whoever asks always gets a value that fits.

mod coerce;
pub(super) mod extract;

use bxcore::json::parse_strict;
use bxcore::transcript::Rung;
use coerce::coerce;
use jsonschema::Validator;
use serde_json::Value;
use std::fmt::Write as _;

/// How many times a model is asked again.
pub const MAX_REPAIRS: u32 = 2;
/// How many of a validator's complaints a model is shown.
const MAX_COMPLAINTS: usize = 5;
/// The longest complaint, in bytes.
const MAX_COMPLAINT_BYTES: usize = 200;

/// How a reply was asked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Asked {
    /// The server was given the schema.
    Schema,
    /// The model was made to call a tool; the reply is the call's arguments.
    ForcedTool,
    /// In words only.
    Text,
}

/// A value that fits.
#[derive(Debug, Clone, PartialEq)]
pub struct Fitted {
    /// The value.
    pub value: Value,
    /// How it was got.
    pub rung: Rung,
}

/// A reply in which no fitting value was found.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Rejected {
    /// What is wrong with the nearest one, for the model to read.
    pub complaints: Vec<String>,
}

/// A schema that is none.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("not a JSON Schema: {0}")]
pub struct InvalidSchema(String);

/// Looks for a value that fits a schema in one reply, without asking again.
pub fn fit(reply: &str, asked: Asked, validator: &Validator) -> Result<Fitted, Rejected> {
    let whole = parse_strict(reply).ok();
    let whole_rung = match asked {
        Asked::Schema => Rung::Schema,
        Asked::ForcedTool => Rung::ForcedTool,
        Asked::Text => Rung::Extracted,
    };
    let found = whole
        .into_iter()
        .map(|value| (value, whole_rung))
        .chain(extract::values(reply).map(|value| (value, Rung::Extracted)));
    let mut nearest = None;
    for (value, rung) in found {
        if validator.is_valid(&value) {
            return Ok(Fitted { value, rung });
        }
        nearest.get_or_insert(value);
    }
    let Some(nearest) = nearest else {
        return Err(Rejected {
            complaints: vec!["There is no JSON in it.".to_owned()],
        });
    };
    let coerced = coerce(nearest.clone(), validator);
    if validator.is_valid(&coerced) {
        return Ok(Fitted {
            value: coerced,
            rung: Rung::Coerced,
        });
    }
    Err(Rejected {
        complaints: complaints(&nearest, validator),
    })
}

fn complaints(value: &Value, validator: &Validator) -> Vec<String> {
    validator
        .iter_errors(value)
        .take(MAX_COMPLAINTS)
        .map(|error| {
            let place = error.instance_path().to_string();
            let place = if place.is_empty() {
                "/".to_owned()
            } else {
                place
            };
            let text = format!("at {place}: {error}");
            bxcore::text::cap(&text, MAX_COMPLAINT_BYTES).to_owned()
        })
        .collect()
}

/// What to do after a reply.
#[derive(Debug, Clone, PartialEq)]
pub enum Step {
    /// This is the value.
    Done(Fitted),
    /// Ask again with this message.
    Repair(String),
}

/// One question whose answer must have a form. Pure: whoever drives it makes the model calls.
#[derive(Debug)]
pub struct Ladder {
    validator: Validator,
    default: Value,
    repairs: u32,
}

impl Ladder {
    /// A ladder to a value that fits `schema`, or to `default` in the end.
    pub fn new(schema: &Value, default: Value) -> Result<Self, InvalidSchema> {
        let validator =
            jsonschema::validator_for(schema).map_err(|error| InvalidSchema(error.to_string()))?;
        Ok(Self {
            validator,
            default,
            repairs: 0,
        })
    }

    /// Takes a reply; none where no model could be asked.
    pub fn reply(&mut self, reply: Option<&str>, asked: Asked) -> Step {
        let Some(reply) = reply else {
            return self.give_up();
        };
        match fit(reply, asked, &self.validator) {
            Ok(fitted) if self.repairs > 0 => Step::Done(Fitted {
                rung: Rung::Repaired,
                ..fitted
            }),
            Ok(fitted) => Step::Done(fitted),
            Err(_) if self.repairs >= MAX_REPAIRS => self.give_up(),
            Err(rejected) => {
                self.repairs += 1;
                Step::Repair(repair_message(&rejected))
            }
        }
    }

    fn give_up(&self) -> Step {
        Step::Done(Fitted {
            value: self.default.clone(),
            rung: Rung::Default,
        })
    }
}

fn repair_message(rejected: &Rejected) -> String {
    let mut text = String::from("Your reply does not have the form that was asked for.\n");
    for complaint in &rejected.complaints {
        let _ = writeln!(text, "- {}", bxcore::text::neutralise(complaint));
    }
    text.push_str("Reply again with the corrected JSON only.");
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use serde_json::json;

    fn schema() -> Value {
        json!({
            "type": "object",
            "properties": {
                "vote": {"enum": ["Yes", "No"]},
                "score": {"type": "integer", "minimum": 0},
                "sure": {"type": "boolean"},
                "why": {"type": "array", "items": {"type": "string"}},
            },
            "required": ["vote"],
            "additionalProperties": false,
        })
    }

    fn fitted(reply: &str, asked: Asked) -> Result<(String, Rung), Vec<String>> {
        let validator = jsonschema::validator_for(&schema()).unwrap();
        fit(reply, asked, &validator)
            .map(|fitted| (fitted.value.to_string(), fitted.rung))
            .map_err(|rejected| rejected.complaints)
    }

    #[test]
    fn each_rung_holds_what_it_should() {
        for (reply, value, rung) in [
            (r#"{"vote":"Yes"}"#, r#"{"vote":"Yes"}"#, Rung::Schema),
            (
                "I say:\n```json\n{\"vote\":\"No\"}\n```",
                r#"{"vote":"No"}"#,
                Rung::Extracted,
            ),
            (
                r#"Not {"a":1} but {"vote":"No"}."#,
                r#"{"vote":"No"}"#,
                Rung::Extracted,
            ),
            (
                r#"{"vote":"yes","score":"3","sure":"true","why":"so","more":1}"#,
                r#"{"vote":"Yes","score":3,"sure":true,"why":["so"]}"#,
                Rung::Coerced,
            ),
            (
                // JSON Schema counts 2.0 among the integers.
                r#"{"vote":"No","score":2.0}"#,
                r#"{"vote":"No","score":2.0}"#,
                Rung::Schema,
            ),
            (
                r#"{"vote":"No","score":null}"#,
                r#"{"vote":"No"}"#,
                Rung::Coerced,
            ),
            (r#"[{"vote":"No"}]"#, r#"{"vote":"No"}"#, Rung::Extracted),
            (r#""{\"vote\":\"No\"}""#, r#"{"vote":"No"}"#, Rung::Coerced),
        ] {
            let got = fitted(reply, Asked::Schema).unwrap();
            assert_eq!(got, (value.to_owned(), rung), "{reply}");
        }
        assert_eq!(
            fitted(r#"{"vote":"Yes"}"#, Asked::ForcedTool).unwrap().1,
            Rung::ForcedTool
        );
        assert_eq!(
            fitted(r#"{"vote":"Yes"}"#, Asked::Text).unwrap().1,
            Rung::Extracted
        );
    }

    #[test]
    fn what_would_lose_something_is_rejected_with_a_reason() {
        for reply in [
            "",
            "no idea",
            r#"{"vote":"Maybe"}"#,
            r#"{"vote":"Yes","score":2.5}"#,
            r#"{"vote":"Yes","score":-1}"#,
            r#"{"vote":"Yes","vote":"No"}"#,
            r#"{"vote":"Yes","sure":"perhaps"}"#,
        ] {
            assert!(
                !fitted(reply, Asked::Schema).unwrap_err().is_empty(),
                "{reply}"
            );
        }
    }

    #[test]
    fn a_ladder_asks_twice_and_then_takes_the_default() {
        let mut ladder = Ladder::new(&schema(), json!({"vote": "No"})).unwrap();
        for _ in 0..MAX_REPAIRS {
            let step = ladder.reply(Some(r#"{"vote":"Maybe"}"#), Asked::Schema);
            assert!(
                matches!(&step, Step::Repair(text) if text.contains("Maybe")),
                "{step:?}"
            );
        }
        let Step::Done(done) = ladder.reply(Some("?"), Asked::Schema) else {
            panic!("it asks on");
        };
        assert_eq!(
            done,
            Fitted {
                value: json!({"vote": "No"}),
                rung: Rung::Default
            }
        );

        let mut ladder = Ladder::new(&schema(), json!({})).unwrap();
        ladder.reply(Some("?"), Asked::Schema);
        let step = ladder.reply(Some(r#"{"vote":"Yes"}"#), Asked::Schema);
        assert!(
            matches!(
                step,
                Step::Done(Fitted {
                    rung: Rung::Repaired,
                    ..
                })
            ),
            "{step:?}"
        );

        let mut ladder = Ladder::new(&schema(), json!({})).unwrap();
        let step = ladder.reply(None, Asked::Schema);
        assert!(
            matches!(
                step,
                Step::Done(Fitted {
                    rung: Rung::Default,
                    ..
                })
            ),
            "{step:?}"
        );
        assert!(Ladder::new(&json!({"type": 7}), json!({})).is_err());
    }

    #[test]
    fn a_wall_of_brackets_is_read_in_bounded_time() {
        for text in [
            "{".repeat(200_000),
            "{\"a\":".repeat(50_000),
            "[{]}".repeat(50_000),
        ] {
            assert!(fitted(&text, Asked::Schema).is_err());
        }
    }

    proptest! {
        #[test]
        fn no_text_breaks_the_ladder(text in "([{}\\[\\]\",:\\\\ 0-9a-z]|vote|Yes|score|\"vote\":|```|\\PC){0,60}") {
            if let Ok((value, _)) = fitted(&text, Asked::Schema) {
                let validator = jsonschema::validator_for(&schema()).unwrap();
                prop_assert!(validator.is_valid(&serde_json::from_str(&value).unwrap()));
            }
        }
    }
}
