//! Model calls to providers: what may leave, that it is on record before, and how each end of the
//! other side is told.

mod money;
mod otherside;
mod rules;
mod tap;

use crate::support::{Started, TestHome, raise, session};
use bxcore::chat::{AnswerBuilder, Chunk};
use bxcore::code::Code;
use bxcore::id::{BackendName, ModelCallId};
use bxcore::label::Label;
use bxcore::money::MicroUsd;
use bxcore::problem::Problem;
use bxcore::usage::Receipt;
use bxcore::wire::inferproxy::{EVENT_PROBLEM, EVENT_RECEIPT};
use bxcore::wire::provider::{EVENT_LABEL, ProviderCall, ProviderInfo};
use bxkit::rpc::event_channel;
use bxkit::sse::Decoder;
use bxtest::provider::{Answer, Provider, Seen};
use bytes::Bytes;
use http_body_util::BodyExt;
use serde_json::{Value, json};
use std::fmt::Write as _;

const SECRET: &str = "sk-canary-4711-provider";
const GRANT: &str = "[[grant]]\ntool = \"provider:big\"\n";
/// A home with a scripted provider, a broker beside it, and a public session.
struct World {
    home: TestHome,
    provider: Provider,
    broker: Started,
}

/// What came of a call that was allowed.
#[derive(Debug)]
struct Streamed {
    text: String,
    label: Label,
    end: Result<Receipt, Problem>,
}

impl World {
    async fn new(
        more: &str,
        grants: &str,
        script: impl Fn(usize, &Seen) -> Answer + Send + Sync + 'static,
    ) -> Self {
        let provider = Provider::start(script);
        let url = provider.url("127.0.0.1", "/v1/chat");
        Self::over(provider, &url, more, grants).await
    }

    /// The same over a provider that is there, by this address.
    async fn over(provider: Provider, url: &str, more: &str, grants: &str) -> Self {
        let home = TestHome::new();
        configure(&home, url, more, grants);
        home.put_secret("big", SECRET);
        let broker = home.start_with_outside();
        broker.register("s", raise(Label::BOTTOM)).await;
        Self {
            home,
            provider,
            broker,
        }
    }

    /// One call with this number.
    async fn lead(&self, call: u64, body: &str) -> Result<Streamed, Problem> {
        self.lead_as("s", call, Label::BOTTOM, reserved(), body)
            .await
    }

    async fn lead_as(
        &self,
        id: &str,
        call: u64,
        label: Label,
        reserved: MicroUsd,
        body: &str,
    ) -> Result<Streamed, Problem> {
        let call = ProviderCall {
            session: session(id),
            call: ModelCallId(call),
            label,
            reserved,
        };
        let (out, response) = event_channel();
        let body = Bytes::copy_from_slice(body.as_bytes());
        self.broker.broker.lead(big(), call, body, out).await?;
        let whole = response.into_body().collect().await.unwrap().to_bytes();
        Ok(read(&whole))
    }

    async fn info(&self) -> ProviderInfo {
        self.broker.broker.providers().await.unwrap().remove(0)
    }

    /// Ends it, checks the log, and gives the records of calls to the provider.
    async fn records(self) -> Vec<Value> {
        self.finish().await.1
    }

    /// The same, with the home that they are in.
    async fn finish(self) -> (TestHome, Vec<Value>) {
        self.broker.stop().await;
        self.home.verify();
        let mut records = self.home.records();
        records.retain(|record| record["tool"] == "provider:big");
        (self.home, records)
    }
}

/// More than any call of these tests may cost.
fn reserved() -> MicroUsd {
    MicroUsd::from_micros(500_000).unwrap()
}

fn big() -> BackendName {
    BackendName::new("big").unwrap()
}

fn configure(home: &TestHome, url: &str, more: &str, grants: &str) {
    let mut text =
        format!("[provider.big]\nurl = \"{url}\"\nmodel = \"big-1\"\nsecret = \"big\"\n");
    for (key, value) in [
        (
            "price",
            "{ prompt = \"3\", completion = \"15\", cached_prompt = \"0.30\" }",
        ),
        ("daily_usd", "\"5\""),
        ("context_tokens", "100000"),
        ("first_byte_ms", "60000"),
        ("between_ms", "60000"),
    ] {
        if !more.contains(key) {
            writeln!(text, "{key} = {value}").unwrap();
        }
    }
    home.configure(&format!("{text}{more}\n{grants}"));
}

/// A body as loopd writes it.
fn body(text: &str) -> String {
    json!({
        "model": "big-1",
        "messages": [{"role": "user", "content": text}],
        "temperature": 0.7,
        "stream": true,
        "stream_options": {"include_usage": true},
        "max_tokens": 1000
    })
    .to_string()
}

fn read(stream: &[u8]) -> Streamed {
    let mut answer = AnswerBuilder::default();
    let (mut label, mut end) = (None, None);
    for event in Decoder::new().feed(stream).unwrap() {
        match event.event.as_str() {
            EVENT_LABEL => label = Some(serde_json::from_str(&event.data).unwrap()),
            EVENT_RECEIPT => end = Some(Ok(serde_json::from_str(&event.data).unwrap())),
            EVENT_PROBLEM => end = Some(Err(serde_json::from_str(&event.data).unwrap())),
            _ if event.data == "[DONE]" => {}
            _ => {
                let chunk: Chunk = serde_json::from_str(&event.data).unwrap();
                for choice in chunk.choices {
                    answer.push(choice).unwrap();
                }
            }
        }
    }
    Streamed {
        text: answer.content().to_owned(),
        label: label.expect("a label before the end"),
        end: end.expect("an end"),
    }
}

#[tokio::test]
async fn an_allowed_call_streams_is_charged_and_on_record() {
    let world = World::new("", GRANT, |_, _| {
        Answer::streams("It is the light.", 100, 20)
    })
    .await;
    let sent = body("Why is the sky blue?");
    let answered = world.lead(1, &sent).await.unwrap();
    assert_eq!(answered.text, "It is the light.");
    let receipt = answered.end.unwrap();
    assert_eq!(
        (receipt.prompt_tokens, receipt.completion_tokens),
        (100, 20)
    );
    // What a model elsewhere writes is untrusted, and stays public.
    let expect = Label::new(bxcore::label::Class::Public, true);
    assert_eq!(answered.label, expect);
    let held = world.broker.broker.authority(session("s")).await.unwrap();
    assert_eq!(held.label, expect);
    // 100 tokens at 3 dollars a million and 20 at 15.
    assert_eq!(world.info().await.spent_today.micros(), 600);
    // It can go on.
    world.lead(2, &sent).await.unwrap().end.unwrap();
    assert_eq!(world.provider.connections(), 2);

    let (home, records) = world.finish().await;
    let payloads = home.home.audit_dir().join("payloads");
    let kinds: Vec<_> = records
        .iter()
        .map(|record| record["kind"].clone())
        .collect();
    assert_eq!(kinds, ["intent", "outcome", "intent", "outcome"]);
    let (intent, outcome) = (&records[0], &records[1]);
    assert_eq!(
        (&intent["model_call"], &intent["call"]),
        (&json!(1), &Value::Null)
    );
    // Whole conversations are files of their own, however short.
    assert_eq!(intent["body"], Value::Null);
    let kept = std::fs::read(payloads.join(intent["body_sha256"].as_str().unwrap())).unwrap();
    assert_eq!(String::from_utf8(kept).unwrap(), sent);
    assert_eq!(outcome["intent"], intent["seq"]);
    assert_eq!(outcome["outcome"], "ok");
    assert_eq!(outcome["body"], "It is the light.");
    assert_eq!(outcome["charge"]["usd"], 600);
    assert!(outcome["raw_len"].as_u64().unwrap() > 100, "{outcome}");
}

#[tokio::test]
async fn a_number_is_used_once_also_after_a_restart() {
    let world = World::new("", GRANT, |_, _| Answer::streams("Yes.", 10, 2)).await;
    world.lead(3, &body("a")).await.unwrap();
    for again in [3, 2] {
        let problem = world.lead(again, &body("a")).await.unwrap_err();
        assert_eq!(problem.code, Code::BadRequest, "{problem}");
    }
    let World {
        home,
        provider,
        broker,
    } = world;
    broker.stop().await;
    let world = World {
        broker: home.start_with_outside(),
        home,
        provider,
    };
    world.lead(3, &body("a")).await.unwrap_err();
    world.lead(4, &body("a")).await.unwrap();
    assert_eq!(world.provider.connections(), 2);
    world.records().await;
}

#[tokio::test]
async fn without_a_grant_or_a_provider_nothing_leaves() {
    let world = World::new("", "", |_, _| Answer::streams("Yes.", 10, 2)).await;
    let problem = world.lead(1, &body("a")).await.unwrap_err();
    assert_eq!(problem.code, Code::NoGrant, "{problem}");
    assert!(problem.hint.unwrap().contains("provider:big"));
    assert_eq!(world.info().await.max_class, None);
    let call = ProviderCall {
        session: session("s"),
        call: ModelCallId(1),
        label: Label::BOTTOM,
        reserved: reserved(),
    };
    let other = BackendName::new("other").unwrap();
    let (out, _response) = event_channel();
    let led = world
        .broker
        .broker
        .lead(other, call, Bytes::new(), out)
        .await;
    assert_eq!(led.unwrap_err().code, Code::BackendUnknown);
    assert_eq!(world.provider.connections(), 0);
    let records = world.records().await;
    assert_eq!(records.len(), 1);
    assert_eq!(
        (&records[0]["kind"], &records[0]["reason"]),
        (&json!("deny"), &json!("no-grant"))
    );
}
