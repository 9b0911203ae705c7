//! An inferproxy of its own for each test, and calls to it as loopd makes them.

use axum::http::{HeaderMap, HeaderValue};
use bxcore::chat::{AnswerBuilder, Chunk, ModelAnswer};
use bxcore::code::Code;
use bxcore::id::{ModelCallId, SessionId};
use bxcore::problem::Problem;
use bxcore::role::Role;
use bxcore::usage::Receipt;
use bxcore::wire::inferproxy::{
    BackendInfo, EVENT_PROBLEM, EVENT_RECEIPT, EVENT_WAITING, HEADER_BACKEND, HEADER_CALL,
    HEADER_LANE, HEADER_SESSION, HEADER_SLOT, StopReply, StopRequest, Waiting,
};
use bxkit::keys::{KeyRing, StarterAddress};
use bxkit::rpc::{CallError, Client, EventStream, ServerAuth, SocketListener, serve};
use bxtest::llama::LlamaServer;
use inferproxy::backend::Registry;
use inferproxy::chat::Engine;
use inferproxy::config::{Settings, check};
use inferproxy::dump::Dump;
use inferproxy::http::router;
use inferproxy::limits::Limits;
use serde_json::{Value, json};
use std::path::Path;
use std::time::Duration;
use tempfile::TempDir;
use tokio_util::sync::CancellationToken;

/// The name of the backend under test.
pub(crate) const BACKEND: &str = "local";

/// An inferproxy; ends when dropped.
pub(crate) struct Proxy {
    pub(crate) loopd: Client,
    pub(crate) owner: Client,
    pub(crate) engine: Engine,
    pub(crate) folder: TempDir,
    shutdown: CancellationToken,
}

/// Limits under which a test of waiting takes moments.
pub(crate) fn quick() -> Limits {
    Limits {
        loading_poll: Duration::from_millis(20),
        ..Limits::with_liveness(Duration::from_secs(20))
    }
}

/// The configuration of one llama-server with three slots.
pub(crate) fn llama(server: &LlamaServer) -> String {
    format!(
        "[[backend]]\nname = \"{BACKEND}\"\nurl = \"{}\"\nkind = \"llama-server\"\n\
         slots = {{ main = [0, 1], background = 2 }}\n",
        server.url()
    )
}

/// The configuration of one server without slots.
pub(crate) fn openai(server: &LlamaServer) -> String {
    let url = server.url();
    format!("[[backend]]\nname = \"{BACKEND}\"\nurl = \"{url}/v1\"\nkind = \"openai\"\n")
}

impl Proxy {
    pub(crate) async fn start(config: &str) -> Self {
        Self::with(config, quick(), None).await
    }

    pub(crate) async fn with(
        config: &str,
        limits: Limits,
        starter: Option<StarterAddress>,
    ) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let settings: Settings =
            bxkit::config::parse(Path::new("inferproxy.toml"), config, check).unwrap();
        let registry = Registry::new(&settings, starter.as_ref()).unwrap();
        let dump = settings
            .wire_dump
            .then(|| Dump::open(folder.path()).unwrap());
        let shutdown = CancellationToken::new();
        let engine = Engine::start(registry, limits, dump, shutdown.clone());
        let ring = KeyRing::generate().unwrap();
        let socket = folder.path().join("i.sock");
        let listener = SocketListener::bind(&socket).unwrap();
        let auth = ServerAuth::from_keys(&ring.for_role(Role::Inferproxy, None));
        let served = serve(listener, router(engine.clone()), auth, shutdown.clone());
        tokio::spawn(served);
        let keys = ring.for_role(Role::Loopd, None);
        Self {
            loopd: Client::new(socket.clone(), keys.token_for(Role::Inferproxy).unwrap()),
            owner: Client::new(socket, ring.owner()),
            engine,
            folder,
            shutdown,
        }
    }

    pub(crate) async fn backends(&self) -> Vec<BackendInfo> {
        self.owner.get("/v1/backends").await.unwrap()
    }

    /// Makes a call and reads its answer to the end.
    pub(crate) async fn call(&self, ask: &Ask) -> Ended {
        match self.begin(ask).await {
            Ok(stream) => read(stream).await,
            Err(problem) => Ended::failed(problem),
        }
    }

    /// Makes a call and gives its stream, or why it was not admitted.
    pub(crate) async fn begin(&self, ask: &Ask) -> Result<EventStream, Problem> {
        let body = ask.body.to_string().into();
        match self.loopd.stream_raw("/v1/chat", body, ask.headers()).await {
            Ok(stream) => Ok(stream),
            Err(CallError::Refused(problem)) => Err(problem),
            Err(other) => panic!("{other}"),
        }
    }

    pub(crate) async fn stop(&self, ask: &Ask) -> StopReply {
        let request = StopRequest {
            session: SessionId::new(ask.session.clone()).unwrap(),
            call: ModelCallId(ask.call),
        };
        self.loopd.post("/v1/stop", &request).await.unwrap()
    }

    /// Waits until no call is under way and no slot drains.
    pub(crate) async fn quiet(&self) {
        for _ in 0..3_000 {
            if self.engine.running() == 0 {
                return;
            }
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
        panic!("calls are still under way");
    }
}

impl Drop for Proxy {
    fn drop(&mut self) {
        self.shutdown.cancel();
    }
}

/// One call as loopd makes it.
#[derive(Debug, Clone)]
pub(crate) struct Ask {
    pub(crate) body: Value,
    pub(crate) slot: Option<u32>,
    pub(crate) lane: &'static str,
    pub(crate) session: String,
    pub(crate) call: u64,
}

impl Ask {
    /// A call for a slot of a llama-server.
    pub(crate) fn slot(slot: u32) -> Self {
        let body = json!({
            "model": "scripted",
            "messages": [{"role": "system", "content": "s"}, {"role": "user", "content": "hello"}],
            "max_tokens": 64,
            "stream": true,
            "stream_options": {"include_usage": true},
            "cache_prompt": true,
            "return_progress": true,
            "id_slot": slot,
        });
        Self {
            body,
            slot: Some(slot),
            lane: if slot == 2 { "background" } else { "main" },
            session: format!("chat-{slot}"),
            call: 1,
        }
    }

    /// A call for a server without slots.
    pub(crate) fn slotless(session: &str) -> Self {
        let mut ask = Self::slot(0);
        let body = ask.body.as_object_mut().unwrap();
        for name in ["cache_prompt", "return_progress", "id_slot"] {
            body.shift_remove(name);
        }
        ask.slot = None;
        session.clone_into(&mut ask.session);
        ask
    }

    pub(crate) fn with(mut self, name: &str, value: Value) -> Self {
        self.body[name] = value;
        self
    }

    pub(crate) fn number(mut self, call: u64) -> Self {
        self.call = call;
        self
    }

    fn headers(&self) -> HeaderMap {
        let mut headers = HeaderMap::new();
        let mut add = |name, value: String| {
            headers.insert(name, HeaderValue::try_from(value).unwrap());
        };
        add(HEADER_BACKEND, BACKEND.to_owned());
        add(HEADER_LANE, self.lane.to_owned());
        add(HEADER_SESSION, self.session.clone());
        add(HEADER_CALL, self.call.to_string());
        if let Some(slot) = self.slot {
            add(HEADER_SLOT, slot.to_string());
        }
        headers
    }
}

/// How a call ended.
#[derive(Debug)]
pub(crate) struct Ended {
    pub(crate) answer: Option<ModelAnswer>,
    pub(crate) receipt: Option<Receipt>,
    pub(crate) problem: Option<Problem>,
    pub(crate) waits: Vec<Waiting>,
    pub(crate) text: String,
}

impl Ended {
    fn failed(problem: Problem) -> Self {
        Self {
            answer: None,
            receipt: None,
            problem: Some(problem),
            waits: Vec::new(),
            text: String::new(),
        }
    }

    /// The answer's text; panics unless the call is complete.
    pub(crate) fn content(&self) -> &str {
        assert!(self.receipt.is_some(), "{self:?}");
        &self.answer.as_ref().unwrap().content
    }

    pub(crate) fn code(&self) -> Option<Code> {
        self.problem.as_ref().map(|problem| problem.code)
    }

    pub(crate) fn detail(&self) -> &str {
        self.problem
            .as_ref()
            .and_then(|problem| problem.detail.as_deref())
            .unwrap_or_default()
    }
}

/// Reads a stream to its end.
pub(crate) async fn read(mut stream: EventStream) -> Ended {
    let mut builder = AnswerBuilder::default();
    let mut ended = Ended {
        answer: None,
        receipt: None,
        problem: None,
        waits: Vec::new(),
        text: String::new(),
    };
    while let Some(event) = stream.next().await {
        let event = event.unwrap();
        assert!(
            ended.receipt.is_none() && ended.problem.is_none(),
            "nothing follows the last event"
        );
        match event.event.as_str() {
            EVENT_WAITING => ended.waits.push(serde_json::from_str(&event.data).unwrap()),
            EVENT_RECEIPT => ended.receipt = Some(serde_json::from_str(&event.data).unwrap()),
            EVENT_PROBLEM => ended.problem = Some(serde_json::from_str(&event.data).unwrap()),
            _ if event.data == "[DONE]" => {}
            _ => {
                let chunk: Chunk = serde_json::from_str(&event.data).unwrap();
                if let Some(choice) = chunk.choices.into_iter().next() {
                    ended
                        .text
                        .push_str(choice.delta.content.as_deref().unwrap_or_default());
                    builder.push(choice).unwrap();
                }
            }
        }
    }
    ended.answer = builder.finish().ok();
    ended
}

/// Reads a stream up to its first words.
pub(crate) async fn first_words(stream: &mut EventStream) -> String {
    while let Some(event) = stream.next().await {
        let Ok(chunk) = serde_json::from_str::<Chunk>(&event.unwrap().data) else {
            continue;
        };
        let words = chunk
            .choices
            .into_iter()
            .next()
            .and_then(|choice| choice.delta.content);
        if let Some(words) = words.filter(|words| !words.is_empty()) {
            return words;
        }
    }
    panic!("no words came");
}
