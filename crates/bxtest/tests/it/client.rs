//! A bare HTTP client for the scripted server: one connection a request, nothing repaired.

use bxtest::llama::LlamaServer;
use bytes::Bytes;
use http_body_util::{BodyExt, Full};
use hyper::body::Incoming;
use hyper::{HeaderMap, Request, Response};
use hyper_util::rt::TokioIo;
use serde_json::{Value, json};
use tokio::net::TcpStream;

/// What came back. `whole` says that the body ended as HTTP says it should.
#[derive(Debug)]
pub(crate) struct Answer {
    pub(crate) status: u16,
    pub(crate) headers: HeaderMap,
    pub(crate) body: Vec<u8>,
    pub(crate) whole: bool,
}

impl Answer {
    pub(crate) fn json(&self) -> Value {
        serde_json::from_slice(&self.body).unwrap()
    }

    /// The events of a stream, without the last `[DONE]`.
    pub(crate) fn events(&self) -> Vec<Value> {
        let text = std::str::from_utf8(&self.body).unwrap();
        let data = text
            .split("\n\n")
            .filter_map(|event| event.strip_prefix("data: "));
        data.filter(|data| *data != "[DONE]")
            .map(|data| serde_json::from_str(data).unwrap())
            .collect()
    }

    /// The deltas' strings under `key`, put together.
    pub(crate) fn joined(&self, key: &str) -> String {
        let piece = |event: &Value| {
            event["choices"][0]["delta"][key]
                .as_str()
                .map(str::to_owned)
        };
        self.events().iter().filter_map(piece).collect()
    }
}

/// An open response whose body is not read yet.
pub(crate) async fn open(
    server: &LlamaServer,
    request: Request<Full<Bytes>>,
) -> hyper::Result<Response<Incoming>> {
    let stream = TcpStream::connect(("127.0.0.1", server.port()))
        .await
        .unwrap();
    let (mut sender, connection) =
        hyper::client::conn::http1::handshake(TokioIo::new(stream)).await?;
    tokio::spawn(connection);
    let response = sender.send_request(request).await;
    // The sender is dropped: the connection ends with the response's body.
    response
}

pub(crate) fn chat(body: impl Into<Bytes>) -> Request<Full<Bytes>> {
    Request::post("/v1/chat/completions")
        .header("host", "x")
        .body(Full::new(body.into()))
        .unwrap()
}

pub(crate) async fn read(response: Response<Incoming>) -> Answer {
    let status = response.status().as_u16();
    let headers = response.headers().clone();
    let mut incoming = response.into_body();
    let mut body = Vec::new();
    let mut whole = true;
    while let Some(frame) = incoming.frame().await {
        let Ok(frame) = frame else {
            whole = false;
            break;
        };
        body.extend_from_slice(frame.data_ref().map_or(&[][..], |data| data));
    }
    Answer {
        status,
        headers,
        body,
        whole,
    }
}

pub(crate) async fn post(server: &LlamaServer, body: &Value) -> Answer {
    read(open(server, chat(body.to_string())).await.unwrap()).await
}

pub(crate) async fn get(server: &LlamaServer, path: &str) -> Answer {
    let request = Request::get(path)
        .header("host", "x")
        .body(Full::default())
        .unwrap();
    read(open(server, request).await.unwrap()).await
}

/// A streaming request for slot 0 as a careful client sends it.
pub(crate) fn request(messages: &Value) -> Value {
    json!({
        "model": "scripted",
        "messages": messages,
        "stream": true,
        "stream_options": {"include_usage": true},
        "return_progress": true,
        "cache_prompt": true,
        "id_slot": 0,
    })
}

pub(crate) fn opener(text: &str) -> Value {
    json!([{"role": "system", "content": "You are a box."}, {"role": "user", "content": text}])
}

pub(crate) fn with(messages: &Value, more: &[Value]) -> Value {
    let mut all = messages.as_array().unwrap().clone();
    all.extend_from_slice(more);
    Value::Array(all)
}
