//! What a valid `inferproxy.toml` must hold beyond its types. Pure.

use super::address::{AddressError, BackendUrl};
use super::table::{BackendTable, Settings, SlotsTable};
use bxcore::wire::inferproxy::BackendKind;
use bxkit::config::InvalidValue;
use std::collections::BTreeSet;
use std::ops::RangeInclusive;

/// How many backends may be configured.
pub const MAX_BACKENDS: usize = 16;
/// The highest number of a slot.
pub const MAX_SLOT: u32 = 255;
/// How many slots one backend may name.
pub const MAX_SLOTS: usize = 64;
/// The most requests that a backend without slots is sent at once.
pub const MAX_CONCURRENCY: u32 = 1024;
/// The longest silence that can be allowed, in seconds.
pub const MAX_LIVENESS_SECS: u64 = 24 * 60 * 60;
/// The name under which the starter engine is known.
const RESERVED_NAME: &str = "starter";
/// The longest name of a model, in bytes.
const MAX_MODEL_BYTES: usize = 256;

/// Checks what the types can't say; the error names the key.
pub fn check(settings: &Settings) -> Result<(), InvalidValue> {
    if !(1..=MAX_LIVENESS_SECS).contains(&settings.liveness_s) {
        return Err(range("liveness_s", 1..=MAX_LIVENESS_SECS));
    }
    if settings.backend.len() > MAX_BACKENDS {
        let why = format!("at most {MAX_BACKENDS} backends can be configured");
        return Err(InvalidValue::new(format!("backend.{MAX_BACKENDS}"), why));
    }
    let mut names = BTreeSet::new();
    for (index, backend) in settings.backend.iter().enumerate() {
        let at = |key: &str| format!("backend.{index}.{key}");
        if !names.insert(&backend.name) {
            return Err(InvalidValue::new(
                at("name"),
                "another backend has this name",
            ));
        }
        if backend.name.as_str() == RESERVED_NAME {
            let why = "this name is the starter engine's";
            return Err(InvalidValue::new(at("name"), why).hint("take another name"));
        }
        check_url(&backend.url, at("url"))?;
        match backend.kind {
            BackendKind::LlamaServer => check_slots(backend, &at)?,
            BackendKind::Openai => check_slotless(backend, &at)?,
        }
        if let Some(model) = &backend.model
            && !(1..=MAX_MODEL_BYTES).contains(&model.len())
        {
            let why = format!("a model's name has 1 to {MAX_MODEL_BYTES} bytes");
            return Err(InvalidValue::new(at("model"), why));
        }
    }
    Ok(())
}

fn check_url(url: &str, key: String) -> Result<(), InvalidValue> {
    let Err(error) = BackendUrl::parse(url) else {
        return Ok(());
    };
    let hint = match error {
        AddressError::Malformed | AddressError::Extras => "for example http://127.0.0.1:8080",
        AddressError::Tls => {
            "write http:// for a server on this box or in your network; a model elsewhere is a \
             [provider.NAME] of brokerd.toml"
        }
        AddressError::Unusable => {
            "for a server on this box write http://127.0.0.1:8080, for another in your network its \
             address there"
        }
        AddressError::Public => {
            "a backend is on this box or in your own network; a model elsewhere is a \
             [provider.NAME] of brokerd.toml"
        }
    };
    Err(InvalidValue::new(key, error.to_string()).hint(hint))
}

fn check_slots(backend: &BackendTable, at: &impl Fn(&str) -> String) -> Result<(), InvalidValue> {
    if backend.max_concurrency.is_some() {
        let why =
            "a llama-server takes one request a slot; `max_concurrency` is for kind \"openai\"";
        return Err(InvalidValue::new(at("max_concurrency"), why));
    }
    let Some(slots) = &backend.slots else {
        if backend.seats.is_empty() {
            return Ok(());
        }
        let why = "slots for seats need `slots` beside them";
        return Err(
            InvalidValue::new(at("seats"), why).hint("slots = { main = [0], background = 2 }")
        );
    };
    if slots.main.is_empty() {
        return Err(InvalidValue::new(
            at("slots.main"),
            "at least one slot must be for live turns",
        ));
    }
    if slots.main.len() + backend.seats.len() > MAX_SLOTS {
        let why = format!("a backend has at most {MAX_SLOTS} slots");
        return Err(InvalidValue::new(at("slots.main"), why));
    }
    let mut taken = BTreeSet::new();
    for (key, slot) in named_slots(slots, &backend.seats) {
        if slot > MAX_SLOT {
            return Err(range(&at(key), 0..=u64::from(MAX_SLOT)));
        }
        if !taken.insert(slot) {
            let why = format!("slot {slot} is used twice");
            return Err(InvalidValue::new(at(key), why).hint(
                "each slot has one use; only on a server with a single slot all are slot 0",
            ));
        }
    }
    Ok(())
}

/// Each slot with the key that names it; of a single-slot server only the one there is.
fn named_slots<'a>(
    slots: &'a SlotsTable,
    seats: &'a [u32],
) -> impl Iterator<Item = (&'static str, u32)> + use<'a> {
    let single = slots.main == [0] && slots.background == 0;
    let main = slots.main.iter().map(|slot| ("slots.main", *slot));
    let background = (!single).then_some(("slots.background", slots.background));
    main.chain(background)
        .chain(seats.iter().map(|slot| ("seats", *slot)))
}

fn check_slotless(
    backend: &BackendTable,
    at: &impl Fn(&str) -> String,
) -> Result<(), InvalidValue> {
    let why = "a backend of kind \"openai\" has no slots";
    let hint = "set `max_concurrency` in place of slots, or kind = \"llama-server\"";
    if backend.slots.is_some() {
        return Err(InvalidValue::new(at("slots"), why).hint(hint));
    }
    if !backend.seats.is_empty() {
        return Err(InvalidValue::new(at("seats"), why).hint(hint));
    }
    match backend.max_concurrency {
        Some(most) if !(1..=MAX_CONCURRENCY).contains(&most) => Err(range(
            &at("max_concurrency"),
            1..=u64::from(MAX_CONCURRENCY),
        )),
        _ => Ok(()),
    }
}

fn range(key: &str, allowed: RangeInclusive<u64>) -> InvalidValue {
    let why = format!("must be {} to {}", allowed.start(), allowed.end());
    InvalidValue::new(key, why)
}

#[cfg(test)]
mod tests {
    use super::*;
    use insta::assert_snapshot;
    use std::path::Path;

    fn refusal(text: &str) -> String {
        let error = bxkit::config::parse::<Settings>(Path::new("inferproxy.toml"), text, check);
        let problem = error.unwrap_err().problem();
        format!(
            "{}\n{}",
            problem.detail.unwrap_or_default(),
            problem.hint.unwrap_or_default()
        )
    }

    fn backend(rest: &str) -> String {
        format!("[[backend]]\nname = \"a\"\nurl = \"http://127.0.0.1:1\"\n{rest}\n")
    }

    #[test]
    fn the_documented_file_is_valid_and_so_is_none() {
        let text = r#"
            liveness_s = 60
            wire_dump = true
            [[backend]]
            name = "local"
            url = "http://127.0.0.1:8080"
            kind = "llama-server"
            slots = { main = [0, 1], background = 2 }
            seats = [3, 4, 5]
            tools = "auto"
            [[backend]]
            name = "other"
            url = "http://192.168.0.7:11434/v1"
            kind = "openai"
            max_concurrency = 8
            model = "qwen3:8b"
        "#;
        let settings: Settings = bxkit::config::parse(Path::new("x"), text, check).unwrap();
        assert_eq!(settings.backend[0].seats, [3, 4, 5]);
        assert_eq!(settings.backend[1].max_concurrency, Some(8));
        assert_eq!(check(&Settings::default()), Ok(()));
        assert_eq!(toml::from_str::<Settings>("").unwrap(), Settings::default());
    }

    #[test]
    fn a_single_slot_may_be_named_for_both() {
        let text = backend("kind = \"llama-server\"\nslots = { main = [0], background = 0 }");
        assert_eq!(check(&toml::from_str(&text).unwrap()), Ok(()));
    }

    #[test]
    fn each_mistake_is_named() {
        let llama = |rest: &str| refusal(&backend(&format!("kind = \"llama-server\"\n{rest}")));
        let openai = |rest: &str| refusal(&backend(&format!("kind = \"openai\"\n{rest}")));
        for (shown, expect) in [
            (
                llama("slots = { main = [], background = 1 }"),
                "at least one slot",
            ),
            (
                llama("slots = { main = [0, 0], background = 1 }"),
                "slot 0 is used twice",
            ),
            (
                llama("slots = { main = [0, 1], background = 1 }"),
                "slot 1 is used twice",
            ),
            (
                llama("slots = { main = [1], background = 1 }"),
                "slot 1 is used twice",
            ),
            (
                llama("slots = { main = [0], background = 2 }\nseats = [2]"),
                "slot 2 is used twice",
            ),
            (
                llama("slots = { main = [0], background = 256 }"),
                "must be 0 to 255",
            ),
            (llama("seats = [3]"), "need `slots`"),
            (llama("max_concurrency = 3"), "one request a slot"),
            (llama("api_key = \"x\""), "unknown field `api_key`"),
            (
                openai("slots = { main = [0], background = 1 }"),
                "has no slots",
            ),
            (openai("seats = [1]"), "has no slots"),
            (openai("max_concurrency = 0"), "must be 1 to 1024"),
            (openai("model = \"\""), "1 to 256 bytes"),
            (refusal("liveness_s = 0"), "must be 1 to 86400"),
            (
                refusal(&backend("kind = \"openai\"").replace("\"a\"", "\"starter\"")),
                "the starter engine's",
            ),
            (
                refusal(&backend("kind = \"openai\"").repeat(2)),
                "another backend has this name",
            ),
        ] {
            assert!(shown.contains(expect), "{shown}\n-- lacks: {expect}");
        }
    }

    #[test]
    fn a_public_address_is_told_to_be_of_no_use_here() {
        let text = "[[backend]]\nname = \"cloud\"\nurl = \"http://1.2.3.4\"\nkind = \"openai\"\n";
        assert_snapshot!(refusal(text), @r#"
        inferproxy.toml:3:7: backend 1: `url`: it is a public address, not on this box or in a private network
          |
        3 | url = "http://1.2.3.4"
          |       ^^^^^^^^^^^^^^^^
        a backend is on this box or in your own network; a model elsewhere is a [provider.NAME] of brokerd.toml
        "#);
    }
}
