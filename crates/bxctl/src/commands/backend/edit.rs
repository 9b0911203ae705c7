//! Adding an entry to the text of inferproxy.toml and removing one. Pure; everything else in the file
//! stays.

use super::{AddArgs, Kind, Tools};
use bxcore::code::Code;
use bxcore::id::BackendName;
use bxcore::problem::Problem;
use toml_edit::{
    Array, ArrayOfTables, DocumentMut, InlineTable, Item, RawString, Table, Value, value,
};

/// The file with the new entry.
///
/// # Errors
/// The text is no TOML, `backend` is something else in it, or the name is taken.
pub(super) fn added(text: &str, args: &AddArgs) -> Result<String, Problem> {
    let mut document = parsed(text)?;
    let before = end_of(&mut document);
    let backends = document
        .entry("backend")
        .or_insert(Item::ArrayOfTables(ArrayOfTables::new()));
    let Some(backends) = backends.as_array_of_tables_mut() else {
        return Err(
            wrong("`backend` in inferproxy.toml is not a list of tables")
                .hint("write each backend as a [[backend]] table"),
        );
    };
    let name = args.name.as_str();
    let taken = |table: &Table| table.get("name").and_then(Item::as_str) == Some(name);
    if backends.iter().any(taken) {
        return Err(wrong(&format!("There is a backend `{name}` already"))
            .hint("take another name, or change the entry in inferproxy.toml"));
    }
    let mut entry = entry(args);
    if let Some(before) = before {
        entry.decor_mut().set_prefix(before);
    }
    backends.push(entry);
    Ok(document.to_string())
}

/// The file without an entry.
///
/// # Errors
/// The text is no TOML, or has no such entry.
pub(super) fn removed(text: &str, name: &BackendName) -> Result<String, Problem> {
    let mut document = parsed(text)?;
    let backends = document.get_mut("backend");
    let backends = backends.and_then(Item::as_array_of_tables_mut);
    let named = |table: &Table| table.get("name").and_then(Item::as_str) == Some(name.as_str());
    let Some((backends, at)) = backends.and_then(|backends| {
        let at = backends.iter().position(named)?;
        Some((backends, at))
    }) else {
        let title = format!("There is no backend `{name}` in inferproxy.toml");
        return Err(Problem::new(Code::BackendUnknown, title).hint(
            "`boxmaker backend list` shows all; one that was found by itself goes when its server does",
        ));
    };
    let before = backends.get(at).map(set_off).unwrap_or_default();
    backends.remove(at);
    let prefix = |table: &Table| {
        table
            .decor()
            .prefix()
            .and_then(RawString::as_str)
            .map(str::to_owned)
    };
    let after = match backends.get_mut(at) {
        Some(next) if !before.is_empty() => {
            let own = prefix(next).unwrap_or_default();
            next.decor_mut()
                .set_prefix(format!("{before}{}", own.trim_start()));
            String::new()
        }
        Some(_) => String::new(),
        None => before,
    };
    if backends.is_empty() {
        document.remove("backend");
    }
    if !after.is_empty() {
        let end = document.trailing().as_str().unwrap_or_default().to_owned();
        document.set_trailing(format!("{}{}", after, end.trim_start()));
    }
    Ok(document.to_string())
}

/// What stands above a table and is set off from it by an empty line: none of the table's own.
fn set_off(table: &Table) -> String {
    let prefix = table.decor().prefix().and_then(RawString::as_str);
    let above = prefix.and_then(|prefix| prefix.rfind("\n\n").map(|end| &prefix[..end + 2]));
    let above = above.unwrap_or_default();
    if above.trim().is_empty() {
        return String::new();
    }
    above.to_owned()
}

fn parsed(text: &str) -> Result<DocumentMut, Problem> {
    text.parse().map_err(|error: toml_edit::TomlError| {
        wrong("inferproxy.toml is not valid TOML").detail(error.to_string())
    })
}

/// Takes the comments at the end of a file, to put them in front of a table that goes there.
///
/// A key that is a comment now must still be outside of every table when it becomes a setting.
fn end_of(document: &mut DocumentMut) -> Option<String> {
    let end = document.trailing().as_str()?.to_owned();
    if end.trim().is_empty() {
        return None;
    }
    document.set_trailing("");
    Some(format!("{}\n\n", end.trim_end()))
}

fn entry(args: &AddArgs) -> Table {
    let mut table = Table::new();
    table.insert("name", value(args.name.as_str()));
    table.insert("url", value(&args.url));
    match args.kind {
        Kind::Auto => {}
        Kind::LlamaServer => drop(table.insert("kind", value("llama-server"))),
        Kind::Openai => drop(table.insert("kind", value("openai"))),
    }
    if let Some(slots) = slots(args) {
        table.insert("slots", value(slots));
    }
    if !args.seat.is_empty() {
        table.insert("seats", value(numbers(&args.seat)));
    }
    if let Some(tools) = args.tools {
        let tools = match tools {
            Tools::Auto => "auto",
            Tools::Native => "native",
            Tools::Schema => "schema",
        };
        table.insert("tools", value(tools));
    }
    if let Some(model) = &args.model {
        table.insert("model", value(model));
    }
    if let Some(count) = args.max_concurrency {
        table.insert("max_concurrency", value(i64::from(count)));
    }
    table
}

/// The slot layout, if any of it was given; slot 0 for live turns if only the other one was.
fn slots(args: &AddArgs) -> Option<InlineTable> {
    if args.main.is_empty() && args.background.is_none() {
        return None;
    }
    let main = if args.main.is_empty() {
        numbers(&[0])
    } else {
        numbers(&args.main)
    };
    // With a single slot everything shares it.
    let background = args.background.or(args.main.first().copied()).unwrap_or(0);
    let mut layout = InlineTable::new();
    layout.insert("main", Value::Array(main));
    layout.insert("background", Value::from(i64::from(background)));
    Some(layout)
}

fn numbers(slots: &[u32]) -> Array {
    slots.iter().map(|slot| i64::from(*slot)).collect()
}

fn wrong(title: &str) -> Problem {
    Problem::new(Code::ConfigInvalid, title)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn args(name: &str) -> AddArgs {
        AddArgs {
            name: BackendName::new(name).unwrap(),
            url: "http://127.0.0.1:8080".into(),
            kind: Kind::Auto,
            main: Vec::new(),
            background: None,
            seat: Vec::new(),
            tools: None,
            model: None,
            max_concurrency: None,
        }
    }

    #[test]
    fn comments_and_other_entries_stay() {
        let text = "# mine\nliveness_s = 60 # long\n\n[[backend]] # first\nname = \"a\"\nurl = \"http://127.0.0.1:1\"\n";
        let full = AddArgs {
            kind: Kind::LlamaServer,
            main: vec![0, 1],
            background: Some(2),
            seat: vec![3],
            tools: Some(Tools::Schema),
            ..args("b")
        };
        insta::assert_snapshot!(added(text, &full).unwrap(), @r#"
        # mine
        liveness_s = 60 # long

        [[backend]] # first
        name = "a"
        url = "http://127.0.0.1:1"

        [[backend]]
        name = "b"
        url = "http://127.0.0.1:8080"
        kind = "llama-server"
        slots = { main = [0, 1], background = 2 }
        seats = [3]
        tools = "schema"
        "#);
    }

    #[test]
    fn comments_at_the_end_stay_where_they_were() {
        insta::assert_snapshot!(added("# one\n\n# Two.\n#liveness_s = 120\n", &args("b")).unwrap(), @r#"
        # one

        # Two.
        #liveness_s = 120

        [[backend]]
        name = "b"
        url = "http://127.0.0.1:8080"
        "#);
        let text = "x = 1\n\n[[backend]]\nname = \"a\" # first\n# the end";
        insta::assert_snapshot!(added(text, &args("b")).unwrap(), @r#"
        x = 1

        [[backend]]
        name = "a" # first
        # the end

        [[backend]]
        name = "b"
        url = "http://127.0.0.1:8080"
        "#);
    }

    #[test]
    fn a_setting_of_the_template_is_outside_of_every_entry_that_was_added() {
        let template = crate::init::template(bxcore::role::Role::Inferproxy);
        let text = added(&added(template, &args("a")).unwrap(), &args("b")).unwrap();
        let text = text
            .replace("#liveness_s", "liveness_s")
            .replace("#wire_dump", "wire_dump");
        let document: DocumentMut = text.parse().unwrap();
        assert!(document.get("liveness_s").is_some_and(Item::is_integer));
        assert!(document.get("wire_dump").is_some_and(Item::is_bool));
        let backends = document["backend"].as_array_of_tables().unwrap();
        assert_eq!(backends.len(), 2);
        assert!(backends.iter().all(|table| table.len() == 2), "{text}");
        // In whatever order the entries go again, the comments stay.
        for names in [["a", "b"], ["b", "a"]] {
            let left = names.into_iter().fold(text.clone(), |text, name| {
                removed(&text, &BackendName::new(name).unwrap()).unwrap()
            });
            let left: DocumentMut = left.parse().unwrap();
            assert!(left.get("liveness_s").is_some() && left.get("backend").is_none());
            assert!(left.to_string().contains("#model ="), "{left}");
        }
    }

    #[test]
    fn an_empty_file_gets_its_first_entry() {
        let openai = AddArgs {
            kind: Kind::Openai,
            model: Some("m".into()),
            max_concurrency: Some(8),
            ..args("o")
        };
        insta::assert_snapshot!(added("", &openai).unwrap(), @r#"
        [[backend]]
        name = "o"
        url = "http://127.0.0.1:8080"
        kind = "openai"
        model = "m"
        max_concurrency = 8
        "#);
        insta::assert_snapshot!(added("", &AddArgs { main: vec![1], ..args("x") }).unwrap(), @r#"
        [[backend]]
        name = "x"
        url = "http://127.0.0.1:8080"
        slots = { main = [1], background = 1 }
        "#);
    }

    #[test]
    fn one_entry_goes_and_all_else_stays() {
        let text = "# mine\nliveness_s = 60\n\n[[backend]]\nname = \"a\" # old\nurl = \"u\"\n";
        let two = added(text, &args("b")).unwrap();
        let name = |name| BackendName::new(name).unwrap();
        assert_eq!(removed(&two, &name("b")).unwrap(), text);
        let none = removed(text, &name("a")).unwrap();
        assert_eq!(none, "# mine\nliveness_s = 60\n");
        let unknown = removed(text, &name("c")).unwrap_err();
        assert_eq!(unknown.code, Code::BackendUnknown);
        removed("backend = 3", &name("a")).unwrap_err();
    }

    #[test]
    fn what_is_there_is_not_replaced() {
        let text = added("", &args("a")).unwrap();
        assert_eq!(
            added(&text, &args("a")).unwrap_err().code,
            Code::ConfigInvalid
        );
        assert!(added("backend = 3", &args("a")).is_err());
        assert!(added("[[backend", &args("a")).is_err());
    }
}
