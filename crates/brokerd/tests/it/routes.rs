//! The routes over a real socket: who may ask what.

use crate::support::{TestHome, owner, request, session};
use brokerd::http::router;
use bxcore::audit::sha256_hex;
use bxcore::code::Code;
use bxcore::role::Role;
use bxcore::wire::brokerd::{AuditStatus, Authority, CallAnswer, ExplainRequest, Walk};
use bxkit::keys::{Caller, RoleKeys, Token};
use bxkit::rpc::{CallError, Client, ServerAuth, SocketListener, serve};
use serde_json::Value;
use tokio_util::sync::CancellationToken;

struct Served {
    engine: Client,
    owner: Client,
}

/// A served broker on the test's home, until the token is cancelled.
fn served(test: &TestHome, shutdown: &CancellationToken) -> (Served, tokio::task::JoinHandle<()>) {
    let (engine, owner) = (Token::generate().unwrap(), Token::generate().unwrap());
    let keys = RoleKeys {
        me: Role::Brokerd,
        serve: vec![
            (Caller::Role(Role::Loopd), engine.hash()),
            (Caller::Owner, owner.hash()),
        ],
        call: Vec::new(),
        starter: None,
    };
    let socket = test.home.socket(Role::Brokerd);
    let listener = SocketListener::bind(&socket).unwrap();
    let started = test.start();
    let routes = router(started.broker.clone());
    let shutdown = shutdown.clone();
    let serving = tokio::spawn(async move {
        serve(listener, routes, ServerAuth::from_keys(&keys), shutdown)
            .await
            .unwrap();
        started.stop().await;
    });
    let served = Served {
        engine: Client::new(socket.clone(), &engine),
        owner: Client::new(socket, &owner),
    };
    (served, serving)
}

fn code<T: std::fmt::Debug>(answer: Result<T, CallError>) -> Code {
    answer.unwrap_err().code()
}

#[tokio::test]
async fn each_route_is_for_its_callers() {
    let test = TestHome::new();
    let shutdown = CancellationToken::new();
    let (
        Served {
            engine,
            owner: person,
        },
        serving,
    ) = served(&test, &shutdown);

    let authority: Authority = engine.put("/v1/sessions/chat-1", &owner()).await.unwrap();
    assert_eq!(authority.label, bxcore::label::Label::OWNER);
    assert_eq!(
        code(
            person
                .put::<_, Authority>("/v1/sessions/chat-1", &owner())
                .await
        ),
        Code::NotAuthorised
    );
    // A model call belongs to a session, so that the owner makes none; and it says whose it is.
    let lead = "/v1/providers/big/chat";
    for (client, expect) in [(&person, Code::NotAuthorised), (&engine, Code::BadRequest)] {
        let led = client.stream(lead, &serde_json::json!({})).await;
        assert_eq!(code(led.map(drop)), expect);
    }
    assert_eq!(
        person.get::<Vec<Value>>("/v1/providers").await.unwrap(),
        engine.get::<Vec<Value>>("/v1/providers").await.unwrap()
    );
    let seen: Authority = person.get("/v1/sessions/chat-1").await.unwrap();
    assert_eq!(seen, authority);
    assert_eq!(
        code(engine.get::<Authority>("/v1/sessions/nobody").await),
        Code::SessionUnknown
    );
    assert_eq!(
        code(engine.get::<Authority>("/v1/sessions/No!").await),
        Code::SessionIdInvalid
    );

    let tools: Vec<bxcore::tool::ToolSpec> = engine.get("/v1/sessions/chat-1/tools").await.unwrap();
    let names: Vec<_> = tools.iter().map(|tool| tool.name.as_str()).collect();
    assert_eq!(names, ["list_dir", "read_file", "search_files"]);

    let call = request("chat-1", 1, "list_dir", "{}");
    let answer: CallAnswer = engine.post("/v1/calls", &call).await.unwrap();
    let result = answer.result().unwrap();
    assert_eq!(result.content, "[`.` is empty]");
    assert_eq!(
        code(person.post::<_, CallAnswer>("/v1/calls", &call).await),
        Code::NotAuthorised
    );

    let explain = ExplainRequest {
        tool: crate::support::tool("no_such_tool"),
        session: Some(session("chat-1")),
        label: None,
        arguments: None,
    };
    for client in [&engine, &person] {
        let walk: Walk = client.post("/v1/explain", &explain).await.unwrap();
        assert_eq!(walk.denied, Some(Code::UnknownTool));
    }

    let grants: Vec<bxcore::grant::Grant> = person.get("/v1/grants").await.unwrap();
    assert_eq!(grants, []);
    let status: AuditStatus = person.get("/v1/audit").await.unwrap();
    assert_eq!(status.seq, 3);
    let record: Value = person.get("/v1/audit/2").await.unwrap();
    assert_eq!(record["outcome"]["outcome"], "ok");
    for path in ["/v1/grants", "/v1/audit", "/v1/audit/2"] {
        assert_eq!(
            code(engine.get::<Value>(path).await),
            Code::NotAuthorised,
            "{path}"
        );
    }
    // loopd can neither lower a label nor have the log signed.
    let lower = serde_json::json!({
        "session": "chat-1", "path": ".", "why": "x",
        "label": {"class": "public", "untrusted": false}
    });
    for path in ["/v1/endorse", "/v1/audit/checkpoint"] {
        assert_eq!(
            code(engine.post::<_, Value>(path, &lower).await),
            Code::NotAuthorised,
            "{path}"
        );
    }
    assert_eq!(
        code(person.post::<_, Value>("/v1/endorse", &lower).await),
        Code::NotFound
    );
    // loopd can't approve what it asks for, nor look at the questions.
    let answer = serde_json::json!({"said": "approve", "shown_sha256": "x"});
    for path in ["/v1/approvals", "/v1/approvals/0a1b2c3d4e5f"] {
        assert_eq!(
            code(engine.get::<Value>(path).await),
            Code::NotAuthorised,
            "{path}"
        );
    }
    let path = "/v1/approvals/0a1b2c3d4e5f";
    assert_eq!(
        code(engine.post::<_, Value>(path, &answer).await),
        Code::NotAuthorised
    );
    assert_eq!(
        code(person.post::<_, Value>(path, &answer).await),
        Code::NotFound
    );
    // And a call is withdrawn by whoever makes it alone.
    let withdraw = serde_json::json!({"session": "chat-1", "call": 9});
    assert_eq!(
        code(
            person
                .post::<_, Value>("/v1/calls/withdraw", &withdraw)
                .await
        ),
        Code::NotAuthorised
    );
    let malformed = serde_json::json!({"session": "chat-1", "call": 1, "tool": "x", "extra": 1});
    assert_eq!(
        code(engine.post::<_, CallAnswer>("/v1/calls", &malformed).await),
        Code::BadRequest
    );

    shutdown.cancel();
    serving.await.unwrap();
    test.verify();
}

#[tokio::test]
async fn whoever_registers_is_told_the_hash_of_the_tools_it_may_use() {
    let test = TestHome::new();
    let shutdown = CancellationToken::new();
    let (Served { engine, .. }, serving) = served(&test, &shutdown);
    let mut seen = Vec::new();
    for denied in [&[][..], &["read_file"], &["list_dir", "read_file"], &[]] {
        let mut register = owner();
        register.rules.deny = denied.iter().map(ToString::to_string).collect();
        let told: Authority = engine.put("/v1/sessions/s", &register).await.unwrap();
        let listed = engine.get_raw("/v1/sessions/s/tools").await.unwrap();
        let listed = listed.body.collect(1 << 20).await.unwrap();
        assert_eq!(told.tools_sha256, sha256_hex(&listed), "{denied:?}");
        let again: Authority = engine.get("/v1/sessions/s").await.unwrap();
        assert_eq!(again, told);
        seen.push(told.tools_sha256);
    }
    assert_eq!(seen[0], seen[3]);
    assert_ne!(seen[0], seen[1]);
    assert_ne!(seen[1], seen[2]);
    shutdown.cancel();
    serving.await.unwrap();
}
