//! Adding an entry to the text of inferproxy.toml and removing one. Pure; everything else in the file
//! stays.

use super::{AddArgs, Kind, Tools};
use bxcore::code::Code;
use bxcore::id::BackendName;
use bxcore::problem::Problem;
use toml_edit::{Array, ArrayOfTables, DocumentMut, InlineTable, Item, Table, Value, value};

/// The file with the new entry.
///
/// # Errors
/// The text is no TOML, `backend` is something else in it, or the name is taken.
pub(super) fn added(text: &str, args: &AddArgs) -> Result<String, Problem> {
    let mut document = parsed(text)?;
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
    backends.push(entry(args));
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
    backends.remove(at);
    if backends.is_empty() {
        document.remove("backend");
    }
    Ok(document.to_string())
}

fn parsed(text: &str) -> Result<DocumentMut, Problem> {
    text.parse().map_err(|error: toml_edit::TomlError| {
        wrong("inferproxy.toml is not valid TOML").detail(error.to_string())
    })
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
