//! `ask_memory` in the whole house: found by brokerd, answered on the background slot, with references.

use super::{
    PRIVATE, STRANGE, UNTRUSTED, add, home_with_mail, label, last_result, model, read_mail,
};
use crate::support::{asked, audit_records, kept, sum, up_with_fault, verify_audit};
use bxtest::fault::FaultPoint;
use bxtest::home::{BackendConfig, TestHome};
use bxtest::llama::{Builder, LlamaServer, Reply, Request};
use serde_json::json;

/// Whether a request has a question answered from passages.
fn is_question(request: &Request) -> bool {
    let system = request.messages()[0]["content"].as_str().unwrap();
    system.starts_with("You answer a question from numbered passages")
}

fn server() -> Builder {
    LlamaServer::builder().respond(|request: &Request| {
        if is_question(request) {
            Reply::text("The kettle is blue [1], as the moon is not [77].")
        } else {
            model(request)
        }
    })
}

fn question(words: &str) -> String {
    format!("do ask_memory {}", json!({"question": words}))
}

fn questions(server: &LlamaServer) -> Vec<Request> {
    let requests = server
        .requests()
        .into_iter()
        .map(|recorded| recorded.request);
    requests.filter(is_question).collect()
}

#[test]
fn a_question_is_answered_from_memory_with_references() {
    let server = server().start_blocking();
    let home = TestHome::with_server(&server);
    let up = home.up();
    asked(&home, "chat-a", &add("notes.md", "The kettle is blue."));
    let report = asked(
        &home,
        "chat-b",
        &("My own words. ".to_owned() + &question("Which colour has the kettle?")),
    );
    assert_eq!(report["outcome"], "completed", "{report}");
    assert_eq!(report["usage"]["model_calls"], 3);
    let result = last_result(&home, "chat-b");
    assert_eq!(
        (&result["tool"], &result["outcome"]),
        (&json!("ask_memory"), &json!("ok"))
    );
    let text = result["message"]["content"].as_str().unwrap();
    assert!(
        text.contains("The kettle is blue [1], as the moon is not ."),
        "{text}"
    );
    assert!(text.contains("From:\n[1] notes.md, entry "), "{text}");
    let asked_for = questions(&server);
    assert_eq!(asked_for.len(), 1);
    assert_eq!(asked_for[0].slot(), Some(2), "the session keeps its own");
    let body = std::str::from_utf8(asked_for[0].raw()).unwrap();
    assert!(
        body.contains("Which colour has the kettle?") && !body.contains("My own words"),
        "{body}"
    );
    let intents = audit_records(&home);
    let intents = intents.iter().filter(|record| record["kind"] == "intent");
    let tools: Vec<&str> = intents
        .filter_map(|record| record["tool"].as_str())
        .collect();
    assert_eq!(tools, ["memory", "ask_memory"]);

    // Where nothing fits, no model is asked.
    asked(&home, "chat-c", &question("xylophone zzz"));
    assert!(
        last_result(&home, "chat-c")
            .to_string()
            .contains("Nothing in memory fits")
    );
    assert_eq!(questions(&server).len(), 1);
    assert_eq!(up.terminate().code(), Some(0));
    let money = kept(&home, "chat-b");
    assert_eq!(
        (money.ledger.len(), money.account.spent),
        (3, sum(&money.ledger))
    );
    verify_audit(&home);
    server.assert_clean();
}

#[test]
fn who_asks_about_what_a_stranger_wrote_has_read_it() {
    let server = server().start_blocking();
    let home = home_with_mail(&[BackendConfig::of_server(&server)], "");
    let up = home.up();
    asked(
        &home,
        "chat-mail",
        &(read_mail() + &add("notes.md", STRANGE)),
    );
    assert_eq!(asked(&home, "chat-a", "hello")["label"], label(PRIVATE));
    let report = asked(&home, "chat-a", &question("How is the zebra called?"));
    assert_eq!(report["label"], label(UNTRUSTED), "{report}");
    assert_eq!(last_result(&home, "chat-a")["label"], label(UNTRUSTED));
    let body = questions(&server).pop().unwrap();
    let body = std::str::from_utf8(body.raw()).unwrap().to_owned();
    assert!(body.contains("trust=\\\"untrusted\\\""), "{body}");
    assert_eq!(up.terminate().code(), Some(0));
    verify_audit(&home);
}

#[test]
fn a_question_that_is_forbidden_finds_nothing_and_asks_nobody() {
    let server = server().start_blocking();
    let home = TestHome::with_server(&server);
    home.write_config("loopd.toml", "[guardrails]\ndeny = [\"ask_memory\"]\n");
    let up = home.up();
    asked(&home, "chat-a", &add("notes.md", "The kettle is blue."));
    asked(&home, "chat-b", &question("Which colour has the kettle?"));
    let result = last_result(&home, "chat-b");
    assert_eq!(result["code"], "denied-by-guardrail", "{result}");
    assert!(questions(&server).is_empty());
    assert_eq!(up.terminate().code(), Some(0));
}

#[test]
fn a_question_survives_the_death_of_loopd_at_any_point() {
    for (point, nth) in [
        ("loopd.after-tool", 1),
        ("loopd.before-model-call", 2),
        ("loopd.after-answer", 2),
        ("loopd.before-commit", 4),
        ("loopd.after-commit", 4),
    ] {
        let server = server().start_blocking();
        let home = TestHome::with_server(&server);
        let folder = home.state_dir().join("memory");
        std::fs::create_dir_all(&folder).unwrap();
        std::fs::write(folder.join("notes.md"), "The kettle is blue.\n").unwrap();
        let fault = FaultPoint {
            name: point.to_owned(),
            nth,
        };
        let up = up_with_fault(&home, &fault);
        let report = asked(&home, "chat-k", &question("Which colour has the kettle?"));
        assert_eq!(report["outcome"], "completed", "{fault}: {report}");
        let text = last_result(&home, "chat-k").to_string();
        assert!(text.contains("From:"), "{fault}: {text}");
        assert!(questions(&server).len() <= 2, "{fault}");
        assert_eq!(up.terminate().code(), Some(0), "{fault}");
        let fired = std::fs::read_to_string(home.path().join("faults.fired"));
        assert!(
            fired.is_ok_and(|text| !text.is_empty()),
            "{fault} never came"
        );
        let money = kept(&home, "chat-k");
        assert_eq!(money.account.spent, sum(&money.ledger), "{fault}");
        assert!(money.lost() <= 1, "{fault}");
        let told = |key: &str| report["usage"][key].as_u64().unwrap();
        assert_eq!(
            told("prompt_tokens") + told("completion_tokens"),
            money.account.spent.tokens,
            "{fault}: the report and the ledger are of one mind"
        );
        verify_audit(&home);
    }
}
