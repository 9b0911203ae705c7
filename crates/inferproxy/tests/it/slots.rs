//! Who gets which slot.

use crate::support::{Ask, Proxy, first_words, llama, openai, read};
use bxcore::code::Code;
use bxcore::wire::inferproxy::{SlotActivity, SlotStatus};
use bxtest::llama::{Gate, Kind, LlamaServer, Reply};
use serde_json::json;

#[tokio::test]
async fn a_slot_that_is_not_the_lanes_is_refused() {
    let server = LlamaServer::builder().start().await;
    let proxy = Proxy::start(&llama(&server)).await;
    let mut foreign = Ask::slot(0);
    foreign.lane = "background";
    let mut absent = Ask::slot(0);
    absent.slot = None;
    let mut missing = Ask::slot(99);
    missing.lane = "main";
    for ask in [foreign, absent, missing] {
        assert_eq!(
            proxy.call(&ask).await.code(),
            Some(Code::SlotNotOwned),
            "{ask:?}"
        );
    }
    let mut other = Ask::slot(0);
    other.slot = Some(1);
    let ended = proxy.call(&other).await;
    assert_eq!(ended.code(), Some(Code::FieldNotAllowed));
    assert!(ended.detail().contains("id_slot"));
    assert_eq!(server.counts().started, 0);
}

#[tokio::test]
async fn a_server_without_slots_is_asked_for_none() {
    let server = LlamaServer::builder().kind(Kind::OpenAi).start().await;
    let proxy = Proxy::start(&openai(&server)).await;
    let mut ask = Ask::slotless("chat-1");
    ask.slot = Some(0);
    assert_eq!(proxy.call(&ask).await.code(), Some(Code::SlotNotOwned));
    let ask = Ask::slotless("chat-1").with("id_slot", json!(0));
    assert_eq!(proxy.call(&ask).await.code(), Some(Code::FieldNotAllowed));
    assert_eq!(server.counts().started, 0);
}

#[tokio::test]
async fn a_busy_slot_is_refused_and_shown() {
    let gate = Gate::new();
    let replies = [
        Reply::text("one two").chunk_bytes(4).gated(&gate),
        Reply::text("next"),
    ];
    let server = LlamaServer::builder().replies(replies).start().await;
    let proxy = Proxy::start(&llama(&server)).await;
    gate.release(1);
    let mut stream = proxy.begin(&Ask::slot(0)).await.unwrap();
    first_words(&mut stream).await;

    let second = proxy.call(&Ask::slot(0).number(2)).await;
    assert_eq!(second.code(), Some(Code::SlotBusy));
    let slots: Vec<SlotStatus> = proxy.owner.get("/v1/slots").await.unwrap();
    let shown: Vec<_> = slots
        .iter()
        .map(|slot| (slot.slot, slot.activity))
        .collect();
    assert_eq!(
        shown,
        [
            (0, SlotActivity::Busy),
            (1, SlotActivity::Idle),
            (2, SlotActivity::Idle)
        ]
    );
    assert_eq!(slots[0].session.as_ref().unwrap().as_str(), "chat-0");

    gate.open();
    assert!(read(stream).await.receipt.is_some());
    // The slot is free as soon as the receipt has come.
    assert_eq!(proxy.call(&Ask::slot(0).number(2)).await.content(), "next");
}

#[tokio::test]
async fn a_call_is_made_once_at_a_time() {
    let gate = Gate::new();
    let server = LlamaServer::builder()
        .reply(Reply::text("x").hold(&gate))
        .start()
        .await;
    let proxy = Proxy::start(&llama(&server)).await;
    let stream = proxy.begin(&Ask::slot(0)).await.unwrap();
    let mut same = Ask::slot(1);
    same.session = "chat-0".to_owned();
    assert_eq!(proxy.call(&same).await.code(), Some(Code::BadRequest));
    gate.open();
    assert_eq!(read(stream).await.content(), "x");
}

#[tokio::test]
async fn slots_without_configuration_are_laid_out() {
    let server = LlamaServer::builder().slots(3).start().await;
    let config = format!(
        "[[backend]]\nname = \"local\"\nurl = \"{}\"\nkind = \"llama-server\"\n",
        server.url()
    );
    let proxy = Proxy::start(&config).await;
    let slots = proxy.backends().await[0].slots.clone().unwrap();
    assert_eq!((slots.main.as_slice(), slots.background), (&[0, 1][..], 2));
}
