//! Strict JSON: what a model or a stranger wrote is read without a second interpretation.
//!
//! `serde_json` keeps the last of two equal keys; two readers could then see two different calls.
//! Here a repeated key is an error, and so is depth past the limit.

use serde::de::{self, DeserializeSeed, MapAccess, SeqAccess, Visitor};
use serde_json::{Map, Number, Value};
use std::fmt;

/// How deep arrays and objects may nest.
pub const MAX_JSON_DEPTH: usize = 32;

/// A text that is not strict JSON.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("not valid JSON: {0}")]
pub struct JsonError(String);

/// Reads one JSON value, refusing repeated keys, depth over [`MAX_JSON_DEPTH`] and trailing text.
pub fn parse_strict(text: &str) -> Result<Value, JsonError> {
    let mut reader = serde_json::Deserializer::from_str(text);
    let value = Strict { depth: 0 }
        .deserialize(&mut reader)
        .and_then(|value| reader.end().map(|()| value));
    value.map_err(|error| JsonError(error.to_string()))
}

struct Strict {
    depth: usize,
}

impl Strict {
    fn deeper<E: de::Error>(&self) -> Result<Self, E> {
        if self.depth >= MAX_JSON_DEPTH {
            return Err(E::custom(format_args!(
                "nested deeper than {MAX_JSON_DEPTH}"
            )));
        }
        Ok(Self {
            depth: self.depth + 1,
        })
    }
}

impl<'de> DeserializeSeed<'de> for Strict {
    type Value = Value;
    fn deserialize<D: de::Deserializer<'de>>(self, deserializer: D) -> Result<Value, D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for Strict {
    type Value = Value;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a JSON value")
    }

    fn visit_unit<E>(self) -> Result<Value, E> {
        Ok(Value::Null)
    }

    fn visit_bool<E>(self, value: bool) -> Result<Value, E> {
        Ok(Value::Bool(value))
    }

    fn visit_i64<E>(self, value: i64) -> Result<Value, E> {
        Ok(Value::Number(value.into()))
    }

    fn visit_u64<E>(self, value: u64) -> Result<Value, E> {
        Ok(Value::Number(value.into()))
    }

    fn visit_f64<E: de::Error>(self, value: f64) -> Result<Value, E> {
        Number::from_f64(value)
            .map(Value::Number)
            .ok_or_else(|| E::custom("not a finite number"))
    }

    fn visit_str<E>(self, value: &str) -> Result<Value, E> {
        Ok(Value::String(value.to_owned()))
    }

    fn visit_string<E>(self, value: String) -> Result<Value, E> {
        Ok(Value::String(value))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<Value, A::Error> {
        let mut list = Vec::new();
        while let Some(item) = items.next_element_seed(self.deeper()?)? {
            list.push(item);
        }
        Ok(Value::Array(list))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut entries: A) -> Result<Value, A::Error> {
        let mut map = Map::new();
        while let Some(key) = entries.next_key::<String>()? {
            let value = entries.next_value_seed(self.deeper()?)?;
            if map.contains_key(&key) {
                return Err(de::Error::custom(format_args!(
                    "the key `{key}` stands twice"
                )));
            }
            map.insert(key, value);
        }
        Ok(Value::Object(map))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_second_reading_is_refused() {
        let deep = format!("{}1{}", "[".repeat(33), "]".repeat(33));
        let deeper = "[".repeat(10_000);
        for bad in [
            r#"{"a":1,"a":2}"#,
            r#"{"x":{"a":1,"a":1}}"#,
            r#"{"a":1} {"a":2}"#,
            "{\"a\":1}\u{0}",
            "{'a':1}",
            "NaN",
            "",
            &deep,
            &deeper,
        ] {
            assert!(parse_strict(bad).is_err(), "{}", &bad[..bad.len().min(40)]);
        }
    }

    #[test]
    fn what_is_valid_reads_as_everywhere_else() {
        for good in [
            r#"{"b":[1,2.5,null,true,"x"],"a":{"ü":""}}"#,
            "[]",
            "\"\\u0000\"",
            "-3",
        ] {
            let value: Value = serde_json::from_str(good).unwrap();
            assert_eq!(parse_strict(good).unwrap(), value);
        }
    }
}
