//! Random histories with restarts and deaths in them: what holds of a label always holds.

use crate::support::{TestHome, raise, request, session};
use bxcore::guardrails::ToolRules;
use bxcore::id::CallId;
use bxcore::label::Label;
use proptest::prelude::*;
use std::collections::BTreeSet;

const IDS: [&str; 3] = ["chat-1", "heartbeat", "job-7"];

/// One thing that happens.
#[derive(Debug, Clone)]
enum Event {
    Raise {
        session: usize,
        label: usize,
        deny: bool,
    },
    Call {
        session: usize,
        call: u64,
        claims: usize,
        tool: usize,
    },
    Forget {
        session: usize,
    },
    Restart,
}

fn any_event() -> impl Strategy<Value = Event> {
    prop_oneof![
        3 => (0..3_usize, 0..6_usize, any::<bool>())
            .prop_map(|(session, label, deny)| Event::Raise { session, label, deny }),
        5 => (0..3_usize, 1..6_u64, 0..6_usize, 0..3_usize).prop_map(
            |(session, call, claims, tool)| Event::Call { session, call, claims, tool }
        ),
        1 => (0..3_usize).prop_map(|session| Event::Forget { session }),
        2 => Just(Event::Restart),
    ]
}

/// What must be true of a session at any time.
#[derive(Debug, Clone, Default)]
struct Known {
    label: Option<Label>,
    denied: bool,
}

async fn play(events: Vec<Event>) {
    let test = TestHome::new();
    let mail = test.beside("mail");
    std::fs::write(mail.join("1.txt"), "x").unwrap();
    test.configure(&format!(
        "[[workspace]]\npath = \"{}\"\nuntrusted = true",
        mail.display()
    ));
    let mut started = test.start();
    let mut known = vec![Known::default(); IDS.len()];
    for event in events {
        match event {
            Event::Restart => {
                started.stop().await;
                started = test.start();
            }
            Event::Forget { session: at } => started.broker.forget(session(IDS[at])).await.unwrap(),
            Event::Raise {
                session: at,
                label,
                deny,
            } => {
                let mut register = raise(Label::ALL[label]);
                if deny {
                    register.rules.deny = BTreeSet::from(["list_dir".to_owned()]);
                }
                let authority = started
                    .broker
                    .register(session(IDS[at]), register)
                    .await
                    .unwrap();
                let before = known[at].label.unwrap_or(Label::BOTTOM);
                assert_eq!(authority.label, before.join(Label::ALL[label]));
                known[at].label = Some(authority.label);
                // These are roots: what the owner's configuration says last, holds.
                known[at].denied = deny;
            }
            Event::Call {
                session: at,
                call,
                claims,
                tool,
            } => {
                let (tool, arguments) = [
                    ("list_dir", "{}"),
                    ("read_file", r#"{"path":"mail/1.txt"}"#),
                    ("read_file", r#"{"path":"../out"}"#),
                ][tool];
                let mut request = request(IDS[at], call, tool, arguments);
                request.label = Label::ALL[claims];
                request.call = CallId(call);
                let Ok(Some(result)) = started
                    .broker
                    .call(request)
                    .await
                    .map(bxcore::wire::brokerd::CallAnswer::result)
                else {
                    // A number that another call has, or a session that nobody registered.
                    continue;
                };
                let before = known[at].label.expect("only a known session gets results");
                assert!(before.is_within(result.session_label), "{before} fell");
                assert!(result.label.is_within(result.session_label));
                known[at].label = Some(result.session_label);
            }
        }
        for (at, known) in known.iter().enumerate() {
            let authority = started.broker.authority(session(IDS[at])).await;
            let Some(label) = known.label else {
                assert!(authority.is_err());
                continue;
            };
            let authority = authority.unwrap();
            assert_eq!(authority.label, label);
            assert_eq!(authority.rules != ToolRules::default(), known.denied);
        }
    }
    started.stop().await;
    test.verify();
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 16, ..ProptestConfig::default() })]
    #[test]
    fn no_label_ever_falls(events in prop::collection::vec(any_event(), 1..30)) {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(play(events));
    }
}
