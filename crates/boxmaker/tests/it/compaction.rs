//! What changes in the middle of a long session: memory, and a conversation that no longer fits.

use crate::support::asked;
use bxtest::home::TestHome;
use bxtest::llama::{LlamaServer, Reply, Request};
use serde_json::Value;

fn entries(home: &TestHome, session: &str) -> Vec<Value> {
    let text = std::fs::read_to_string(home.transcript(session)).unwrap();
    let lines = text.lines().map(|line| serde_json::from_str(line).unwrap());
    lines.collect()
}

/// The messages of a request as they went over the wire, without the closing bracket.
fn messages(request: &Request) -> String {
    let raw = std::str::from_utf8(request.raw()).unwrap();
    let from = raw.find("\"messages\":[").unwrap();
    let (messages, _) = raw[from..].split_once("],\"tools\"").unwrap();
    messages.to_owned()
}

#[test]
fn memory_that_changes_is_told_with_the_next_message_and_the_prefix_stays() {
    let server = LlamaServer::builder()
        .respond(|_: &Request| Reply::text("Yes."))
        .start_blocking();
    let home = TestHome::with_server(&server);
    let notes = home.state_dir().join("memory/notes.md");
    std::fs::create_dir_all(notes.parent().unwrap()).unwrap();
    std::fs::write(&notes, "The kettle is blue.\n").unwrap();
    let up = home.up();
    asked(&home, "chat-a", "first words");
    asked(&home, "chat-a", "second words");
    std::fs::write(&notes, "The teapot is green.\n").unwrap();
    asked(&home, "chat-a", "third words");
    asked(&home, "chat-a", "fourth words");

    let requests: Vec<Request> = server
        .requests()
        .into_iter()
        .map(|recorded| recorded.request)
        .collect();
    let said: Vec<String> = requests.iter().map(Request::last_text).collect();
    assert_eq!(
        (said[0].as_str(), said[1].as_str()),
        ("first words", "second words")
    );
    let (told, words) = said[2].split_once("\n\n").unwrap();
    assert_eq!(words, "third words");
    assert!(
        told.starts_with("<tool-result tool=\"memory\" class=\"private\" trust=\"trusted\">"),
        "{told}"
    );
    let (new, gone) = told.split_once("No longer in it:").unwrap();
    assert!(new.contains("The teapot is green.") && gone.contains("The kettle is blue."));
    assert_eq!(said[3], "fourth words", "what was told is not told again");
    for pair in requests.windows(2) {
        let (before, after) = (messages(&pair[0]), messages(&pair[1]));
        assert!(
            after.starts_with(&before),
            "{after} does not extend {before}"
        );
    }

    // What the person said is the person's words; they alone are found and shown.
    let log = home
        .cmd("boxmaker")
        .args(["session", "log", "chat-a"])
        .run();
    let shown = log.success().stdout;
    assert!(
        shown.contains("third words") && !shown.contains("teapot"),
        "{shown}"
    );
    let epochs = entries(&home, "chat-a");
    let epochs = epochs.iter().filter(|entry| entry["kind"] == "epoch");
    assert_eq!(epochs.count(), 1);

    // A memoryd that is away is no reason to refuse a turn: the next one tells.
    let unreadable = home.state_dir().join("memory");
    let aside = home.state_dir().join("memory-aside");
    std::fs::rename(&unreadable, &aside).unwrap();
    std::fs::write(&unreadable, "no folder").unwrap();
    let report = asked(&home, "chat-a", "fifth words");
    assert_eq!(report["outcome"], "completed", "{report}");
    assert_eq!(up.terminate().code(), Some(0));
    server.assert_clean();
}
