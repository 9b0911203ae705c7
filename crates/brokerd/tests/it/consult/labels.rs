//! Every label under every shape of grant: what reaches the service is what the rules say.

use super::{Elsewhere, asking};
use crate::support::{raise, session};
use bxcore::code::Code;
use bxcore::label::{Class, Label};
use bxcore::transcript::CallOutcome;
use bxcore::wire::brokerd::CallRequest;
use bxtest::provider::Answer;

const CLASSES: [Class; 3] = [Class::Public, Class::Private, Class::Secret];

/// What the rules say, in the words of the design and not in those of the code.
fn expected(label: Label, max_taint: Class, accept_untrusted: bool) -> Option<Code> {
    if label.class > max_taint {
        return Some(Code::TaintTooHigh);
    }
    let risky = label.untrusted && label.class != Class::Public;
    (risky && !accept_untrusted).then_some(Code::UntrustedSession)
}

#[tokio::test]
async fn what_reaches_the_service_is_what_the_rules_allow() {
    let mut cases = 0;
    for max_taint in CLASSES {
        for accept_untrusted in [false, true] {
            let grant = format!(
                "[[grant]]\ntool = \"consult\"\nmax_taint = \"{max_taint}\"\n\
                 accept_untrusted = {accept_untrusted}\nresult_class = \"public\"\nuntrusted = false\n"
            );
            let elsewhere = Elsewhere::granted(&grant, |_| Answer::says("Yes.", 1, 1));
            let started = elsewhere.test.start_with_outside();
            let mut allowed = 0;
            for class in CLASSES {
                for untrusted in [false, true] {
                    cases += 1;
                    let label = Label::new(class, untrusted);
                    let id = format!("{class}-{untrusted}");
                    started.register(&id, raise(label)).await;
                    let request = CallRequest {
                        session: session(&id),
                        ..asking(1, &id)
                    };
                    let result = started
                        .broker
                        .call(request)
                        .await
                        .unwrap()
                        .result()
                        .unwrap();
                    let expect = expected(label, max_taint, accept_untrusted);
                    assert_eq!(result.code, expect, "{id} {max_taint} {accept_untrusted}");
                    allowed += usize::from(expect.is_none());
                    assert_eq!(result.outcome == CallOutcome::Ok, expect.is_none());
                    // What comes back is at least what the question was made from.
                    assert!(label.is_within(result.session_label));
                }
            }
            let seen = elsewhere.provider.seen();
            assert_eq!(seen.len(), allowed, "{max_taint} {accept_untrusted}");
            started.stop().await;
        }
    }
    assert_eq!(cases, 36);
}
