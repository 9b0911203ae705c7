//! A scripted OpenAI server that does as little as it can, so that it is not what is measured.
//!
//! It answers a person's question with a tool call and everything else with a sentence. It checks
//! nothing: whether requests are right is for the tests and their own scripted server.

use bytes::Bytes;
use http_body_util::{BodyExt, Full};
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper::{Request, Response};
use hyper_util::rt::TokioIo;
use std::convert::Infallible;
use std::net::{Ipv4Addr, SocketAddr};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, mpsc};
use std::time::Duration;
use tokio::net::{TcpListener, TcpStream};

/// A question with this in it is answered with a tool call first.
pub(crate) const ASKS_FOR_A_TOOL: &str = "what is here?";

/// How many connections wait to be accepted: more than a crowd opens at once.
const BACKLOG: u32 = 1024;

/// A running server. Its thread ends with the process.
#[derive(Debug)]
pub(crate) struct Model {
    address: SocketAddr,
    latency_ms: Arc<AtomicU64>,
    /// Where the kernel tells how long its thread has worked.
    schedstat: PathBuf,
}

impl Model {
    /// Starts one that takes no time to think.
    pub(crate) fn start() -> Self {
        let (told, started) = mpsc::channel();
        let latency_ms = Arc::new(AtomicU64::new(0));
        let latency = Arc::clone(&latency_ms);
        std::thread::spawn(move || {
            let runtime = tokio::runtime::Builder::new_current_thread()
                .enable_all()
                .build()
                .unwrap();
            runtime.block_on(async {
                let socket = tokio::net::TcpSocket::new_v4().unwrap();
                socket.bind((Ipv4Addr::LOCALHOST, 0).into()).unwrap();
                let listener = socket.listen(BACKLOG).unwrap();
                let thread = std::fs::read_link("/proc/thread-self").unwrap();
                told.send((listener.local_addr().unwrap(), thread)).unwrap();
                accept(listener, latency).await;
            });
        });
        let (address, thread) = started.recv().unwrap();
        Self {
            address,
            latency_ms,
            schedstat: Path::new("/proc").join(thread).join("schedstat"),
        }
    }

    /// Its address.
    pub(crate) fn address(&self) -> SocketAddr {
        self.address
    }

    /// How long it thinks about each request from now on.
    pub(crate) fn think_for(&self, latency: Duration) {
        let ms = u64::try_from(latency.as_millis()).unwrap();
        self.latency_ms.store(ms, Ordering::Relaxed);
    }

    /// How long its thread has worked.
    pub(crate) fn worked(&self) -> Duration {
        let text = std::fs::read_to_string(&self.schedstat).unwrap();
        let nanos = text.split_whitespace().next().unwrap();
        Duration::from_nanos(nanos.parse().unwrap())
    }
}

async fn accept(listener: TcpListener, latency_ms: Arc<AtomicU64>) {
    loop {
        let (stream, _) = listener.accept().await.unwrap();
        tokio::spawn(serve(stream, Arc::clone(&latency_ms)));
    }
}

async fn serve(stream: TcpStream, latency_ms: Arc<AtomicU64>) {
    stream.set_nodelay(true).unwrap();
    let service = service_fn(|request| {
        let latency = Duration::from_millis(latency_ms.load(Ordering::Relaxed));
        async move { Ok::<_, Infallible>(answer(request, latency).await) }
    });
    // A client that hangs up ends its connection, and nothing else.
    let _ = http1::Builder::new()
        .serve_connection(TokioIo::new(stream), service)
        .await;
}

async fn answer(request: Request<Incoming>, latency: Duration) -> Response<Full<Bytes>> {
    if request.uri().path().ends_with("/models") {
        return response(
            "application/json",
            r#"{"object":"list","data":[{"id":"scripted","object":"model"}]}"#.into(),
        );
    }
    if !request.uri().path().ends_with("/chat/completions") {
        let mut response = response("application/json", "{}".into());
        *response.status_mut() = hyper::StatusCode::NOT_FOUND;
        return response;
    }
    let body = request.into_body().collect().await.unwrap().to_bytes();
    if !latency.is_zero() {
        tokio::time::sleep(latency).await;
    }
    let text = std::str::from_utf8(&body).unwrap();
    response("text/event-stream", events(text).into())
}

fn response(kind: &'static str, body: Bytes) -> Response<Full<Bytes>> {
    Response::builder()
        .header("content-type", kind)
        .body(Full::new(body))
        .unwrap()
}

/// The answer to a request as server-sent events, in either way of calling tools.
fn events(body: &str) -> String {
    let last = body.rfind(r#"{"role":""#).map_or(body, |at| &body[at..]);
    let in_schema = body.contains(r#""response_format""#);
    let deltas = match (last.contains(ASKS_FOR_A_TOOL), in_schema) {
        (true, true) => {
            vec![
                r#"{"content":"{\"call_tool\":{\"name\":\"list_dir\",\"arguments\":{\"path\":\".\"}}}"}"#,
            ]
        }
        (true, false) => vec![
            r#"{"tool_calls":[{"index":0,"id":"c1","type":"function","function":{"name":"call_tool","arguments":""}}]}"#,
            r#"{"tool_calls":[{"index":0,"function":{"arguments":"{\"name\":\"list_dir\",\"arguments\":{\"path\":\".\"}}"}}]}"#,
        ],
        (false, true) => vec![
            r#"{"content":"{\"answer\":\"There are"}"#,
            r#"{"content":" no files.\"}"}"#,
        ],
        (false, false) => vec![r#"{"content":"There are"}"#, r#"{"content":" no files."}"#],
    };
    let finish = if deltas[0].contains("tool_calls") {
        "tool_calls"
    } else {
        "stop"
    };
    let choice = |delta: &str, finish: &str| {
        format!(
            "data: {{\"id\":\"c\",\"object\":\"chat.completion.chunk\",\"model\":\"scripted\",\"choices\":[{{\"index\":0,\"delta\":{delta},\"finish_reason\":{finish}}}]}}\n\n"
        )
    };
    let mut text = choice(r#"{"role":"assistant","content":null}"#, "null");
    for delta in deltas {
        text.push_str(&choice(delta, "null"));
    }
    text.push_str(&choice("{}", &format!("\"{finish}\"")));
    text.push_str("data: {\"id\":\"c\",\"object\":\"chat.completion.chunk\",\"model\":\"scripted\",\"choices\":[],\"usage\":{\"prompt_tokens\":900,\"completion_tokens\":12,\"total_tokens\":912}}\n\ndata: [DONE]\n\n");
    text
}
