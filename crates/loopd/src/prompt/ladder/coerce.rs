//! Changes to a value that lose nothing and may make it fit: `"3"` for `3`, one thing for a list
//! of one, a name in other letters.
//!
//! Only what the validator complains of is touched, and each change is one that a person would
//! make without asking.

use jsonschema::Validator;
use jsonschema::error::{TypeKind, ValidationErrorKind};
use jsonschema::{JsonType, ValidationError};
use serde_json::{Number, Value};

/// How many rounds of changes a value gets; one change may bring the next complaint to light.
const MAX_ROUNDS: usize = 8;
/// How many complaints are looked at in a round.
const MAX_ERRORS: usize = 32;

/// The value with every safe change made that the validator's complaints call for.
pub(super) fn coerce(mut value: Value, validator: &Validator) -> Value {
    for _ in 0..MAX_ROUNDS {
        let changes: Vec<(String, Change)> = validator
            .iter_errors(&value)
            .take(MAX_ERRORS)
            .filter_map(|error| change(&error))
            .collect();
        let mut changed = false;
        for (place, change) in changes {
            changed |= apply(&mut value, &place, change);
        }
        if !changed {
            break;
        }
    }
    value
}

enum Change {
    /// Put this in its place.
    Replace(Value),
    /// Take these members out.
    Remove(Vec<String>),
    /// Take the member itself out of its object.
    Drop,
}

fn change(error: &ValidationError<'_>) -> Option<(String, Change)> {
    let place = error.instance_path().to_string();
    let value = error.instance();
    let change = match error.kind() {
        ValidationErrorKind::Type { kind } => retyped(value, kind)?,
        ValidationErrorKind::Enum { options } => {
            Change::Replace(same_name(value, options.as_array()?)?)
        }
        ValidationErrorKind::AdditionalProperties { unexpected } => {
            Change::Remove(unexpected.clone())
        }
        _ => return None,
    };
    Some((place, change))
}

fn retyped(value: &Value, kind: &TypeKind) -> Option<Change> {
    let wanted: Vec<JsonType> = match kind {
        TypeKind::Single(one) => vec![*one],
        TypeKind::Multiple(many) => many.iter().collect(),
    };
    let replaced = wanted.iter().find_map(|wanted| as_type(value, *wanted));
    match replaced {
        Some(value) => Some(Change::Replace(value)),
        None if value.is_null() => Some(Change::Drop),
        None => None,
    }
}

fn as_type(value: &Value, wanted: JsonType) -> Option<Value> {
    match (value, wanted) {
        (Value::String(text), JsonType::Integer) => {
            text.trim().parse::<i64>().ok().map(Value::from)
        }
        (Value::Number(number), JsonType::Integer) => whole(number),
        (Value::String(text), JsonType::Number) => {
            let number = text.trim().parse::<f64>().ok()?;
            Number::from_f64(number).map(Value::Number)
        }
        (Value::String(text), JsonType::Boolean) => match text.trim().to_lowercase().as_str() {
            "true" | "yes" => Some(Value::Bool(true)),
            "false" | "no" => Some(Value::Bool(false)),
            _ => None,
        },
        (Value::Number(number), JsonType::String) => Some(Value::String(number.to_string())),
        (Value::Bool(flag), JsonType::String) => Some(Value::String(flag.to_string())),
        (Value::String(text), JsonType::Object | JsonType::Array) => {
            let inner = bxcore::json::parse_strict(text).ok();
            let fits = |inner: &Value| match wanted {
                JsonType::Object => inner.is_object(),
                _ => inner.is_array(),
            };
            let list = || (wanted == JsonType::Array).then(|| Value::Array(vec![value.clone()]));
            inner.filter(fits).or_else(list)
        }
        (Value::Object(_) | Value::Number(_) | Value::Bool(_), JsonType::Array) => {
            Some(Value::Array(vec![value.clone()]))
        }
        _ => None,
    }
}

/// A number without a fraction as an integer.
fn whole(number: &Number) -> Option<Value> {
    let text = number.to_string();
    let digits = text.strip_suffix(".0").unwrap_or(&text);
    digits.parse::<i64>().ok().map(Value::from)
}

/// The one option that has the same letters.
fn same_name(value: &Value, options: &[Value]) -> Option<Value> {
    let plain = |text: &str| {
        let kept = text.chars().filter(|c| c.is_alphanumeric());
        kept.flat_map(char::to_lowercase).collect::<String>()
    };
    let written = plain(value.as_str()?);
    let mut same = options
        .iter()
        .filter(|option| option.as_str().is_some_and(|text| plain(text) == written));
    let first = same.next()?;
    same.next().is_none().then(|| first.clone())
}

fn apply(value: &mut Value, place: &str, change: Change) -> bool {
    match change {
        Change::Replace(new) => value.pointer_mut(place).is_some_and(|at| {
            let differs = *at != new || at.is_f64() != new.is_f64();
            *at = new;
            differs
        }),
        Change::Remove(keys) => {
            let members = value.pointer_mut(place).and_then(Value::as_object_mut);
            members.is_some_and(|members| {
                let before = members.len();
                members.retain(|key, _| !keys.contains(key));
                members.len() < before
            })
        }
        Change::Drop => {
            let Some((parent, key)) = place.rsplit_once('/') else {
                return false;
            };
            let key = key.replace("~1", "/").replace("~0", "~");
            let members = value.pointer_mut(parent).and_then(Value::as_object_mut);
            members.is_some_and(|members| members.shift_remove(&key).is_some())
        }
    }
}
