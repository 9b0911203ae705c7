//! What is said of backends.

use crate::support::{Ask, Proxy, llama, openai};
use bxcore::code::Code;
use bxcore::transcript::ToolMode;
use bxcore::wire::inferproxy::{BackendKind, BackendOrigin, BackendState};
use bxkit::keys::{StarterAddress, Token};
use bxtest::llama::{Kind, LlamaServer};
use std::net::TcpListener;
use std::time::Duration;

#[tokio::test]
async fn a_llama_server_says_what_it_is() {
    let server = LlamaServer::builder()
        .context_tokens(4096)
        .keeps_reasoning(true)
        .start()
        .await;
    let proxy = Proxy::start(&llama(&server)).await;
    let info = proxy.backends().await.remove(0);
    assert_eq!((info.state, info.problem), (BackendState::Ready, None));
    assert_eq!(
        (info.kind, info.origin),
        (BackendKind::LlamaServer, BackendOrigin::Configured)
    );
    assert_eq!(
        (info.model.as_str(), info.context_tokens),
        ("scripted", Some(4096))
    );
    assert_eq!((info.tools, info.keeps_reasoning), (ToolMode::Native, true));
}

#[tokio::test]
async fn a_template_without_tools_means_schema_mode() {
    let server = LlamaServer::builder().supports_tools(false).start().await;
    let proxy = Proxy::start(&llama(&server)).await;
    assert_eq!(proxy.backends().await[0].tools, ToolMode::Schema);
}

#[tokio::test]
async fn a_server_without_slots_names_its_model() {
    let server = LlamaServer::builder()
        .kind(Kind::OpenAi)
        .model("qwen")
        .start()
        .await;
    let proxy = Proxy::start(&openai(&server)).await;
    let info = proxy.backends().await.remove(0);
    assert_eq!(
        (info.model.as_str(), info.slots, info.max_concurrency),
        ("qwen", None, 4)
    );
}

#[tokio::test]
async fn another_model_has_another_fingerprint() {
    let mut server = LlamaServer::builder().start().await;
    let proxy = Proxy::start(&llama(&server)).await;
    let before = proxy.backends().await.remove(0).fingerprint;
    server.kill();
    server.set_model("other");
    // A call that fails makes the next look a new one.
    assert!(proxy.call(&Ask::slot(0)).await.problem.is_some());
    server.restart();
    for _ in 0..500 {
        let info = proxy.backends().await.remove(0);
        if info.state == BackendState::Ready {
            assert_ne!(info.fingerprint, before);
            return;
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    panic!("the server is never seen again");
}

#[tokio::test]
async fn a_missing_slot_is_said_before_anything_is_sent() {
    let server = LlamaServer::builder().slots(1).start().await;
    let proxy = Proxy::start(&llama(&server)).await;
    let info = proxy.backends().await.remove(0);
    assert_eq!(info.state, BackendState::Misconfigured);
    assert_eq!(info.problem.unwrap().code, Code::BackendSlotMissing);
    assert_eq!(
        proxy.call(&Ask::slot(0)).await.code(),
        Some(Code::BackendSlotMissing)
    );
    assert_eq!(server.counts().started, 0);
}

#[tokio::test]
async fn a_server_that_wants_a_key_is_misconfigured_unless_it_is_the_starter() {
    let key = Token::generate().unwrap();
    let server = LlamaServer::builder().api_key(key.expose()).start().await;
    let proxy = Proxy::start(&llama(&server)).await;
    assert_eq!(proxy.backends().await[0].state, BackendState::Misconfigured);

    let starter = StarterAddress {
        url: server.url(),
        api_key: key,
    };
    let proxy = Proxy::with("", crate::support::quick(), Some(starter)).await;
    let found = proxy.backends().await;
    let starter = found.last().unwrap();
    assert_eq!(
        (starter.origin, starter.state),
        (BackendOrigin::Starter, BackendState::Ready)
    );
    assert_eq!(starter.name.as_str(), "starter");
}

#[tokio::test]
async fn a_server_that_is_not_there_is_shown_with_a_hint() {
    let free = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = free.local_addr().unwrap().port();
    drop(free);
    let config = format!(
        "[[backend]]\nname = \"local\"\nurl = \"http://127.0.0.1:{port}\"\nkind = \"llama-server\"\n"
    );
    let proxy = Proxy::start(&config).await;
    let info = proxy.backends().await.remove(0);
    assert_eq!(info.state, BackendState::Unreachable);
    assert!(
        info.problem
            .unwrap()
            .hint
            .unwrap()
            .contains("inferproxy.toml")
    );
    assert_eq!(
        proxy.call(&Ask::slot(0)).await.code(),
        Some(Code::BackendUnreachable)
    );
}

#[tokio::test]
async fn an_unknown_backend_is_told_with_those_there_are() {
    let server = LlamaServer::builder().start().await;
    let config = llama(&server).replace("name = \"local\"", "name = \"other\"");
    let proxy = Proxy::start(&config).await;
    let ended = proxy.call(&Ask::slot(0)).await;
    assert_eq!(ended.code(), Some(Code::BackendUnknown));
    assert_eq!(ended.detail(), "there are: other");
}
