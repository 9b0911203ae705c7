//! The same model calls by a client that does nothing else: the measure for everything.

use bytes::Bytes;
use http_body_util::{BodyExt, Full};
use hyper::Request;
use hyper::client::conn::http1::{self, SendRequest};
use hyper_util::rt::TokioIo;
use std::net::SocketAddr;
use tokio::net::TcpStream;

/// A client with one warm connection.
pub(crate) struct Bare {
    sender: SendRequest<Full<Bytes>>,
}

impl Bare {
    /// Connects.
    pub(crate) async fn connect(to: SocketAddr) -> Self {
        let stream = TcpStream::connect(to).await.unwrap();
        stream.set_nodelay(true).unwrap();
        let (sender, connection) = http1::handshake(TokioIo::new(stream)).await.unwrap();
        tokio::spawn(connection);
        Self { sender }
    }

    /// Makes the calls of a turn, one after the other.
    pub(crate) async fn turn(&mut self, bodies: &[Bytes]) {
        for body in bodies {
            self.sender.ready().await.unwrap();
            let request = Request::post("/v1/chat/completions")
                .header("host", "localhost")
                .header("content-type", "application/json")
                .body(Full::new(body.clone()))
                .unwrap();
            let answer = self.sender.send_request(request).await.unwrap();
            let bytes = answer.into_body().collect().await.unwrap().to_bytes();
            assert!(bytes.ends_with(b"data: [DONE]\n\n"));
        }
    }
}
