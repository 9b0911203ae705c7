//! The service itself: a thread for each connection, no HTTP library in between.

use super::script::{Answer, StreamEnd};
use super::tls::{Identity, identity};
use rustls::{ServerConfig, ServerConnection, StreamOwned};
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

/// How long a stream that never ends waits between what it repeats.
const REPEAT_PAUSE: Duration = Duration::from_millis(20);
/// How long a connection waits for a request, and a silent one for its end.
const PATIENCE: Duration = Duration::from_mins(1);
const CHUNK_BYTES: usize = 64 * 1024;

/// A request as it came over the wire.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Seen {
    /// Everything up to and with the empty line.
    pub head: Vec<u8>,
    /// Everything after it.
    pub body: Vec<u8>,
}

impl Seen {
    /// The request line.
    pub fn line(&self) -> String {
        self.lines().next().unwrap_or_default()
    }

    /// The header lines, as they were written.
    pub fn headers(&self) -> Vec<(String, String)> {
        let split = |line: String| {
            let (name, value) = line.split_once(':')?;
            Some((name.to_owned(), value.trim().to_owned()))
        };
        self.lines().skip(1).filter_map(split).collect()
    }

    fn lines(&self) -> impl Iterator<Item = String> {
        let head = String::from_utf8_lossy(&self.head).into_owned();
        let lines: Vec<String> = head.split("\r\n").map(str::to_owned).collect();
        lines.into_iter()
    }
}

type Script = dyn Fn(usize, &Seen) -> Answer + Send + Sync;

struct Shared {
    script: Box<Script>,
    tls: Option<Arc<ServerConfig>>,
    seen: Mutex<Vec<Seen>>,
    connections: AtomicUsize,
    over: AtomicBool,
}

/// A service on a free port of this box. Dropping it ends it.
pub struct Provider {
    shared: Arc<Shared>,
    port: u16,
    authority: Option<String>,
}

impl Provider {
    /// A service that speaks in the open; `script` gets the number of the request, from 0.
    pub fn start(script: impl Fn(usize, &Seen) -> Answer + Send + Sync + 'static) -> Self {
        Self::begin(Box::new(script), None)
    }

    /// A service with a certificate for these names.
    pub fn start_tls(
        names: &[&str],
        script: impl Fn(usize, &Seen) -> Answer + Send + Sync + 'static,
    ) -> Self {
        Self::begin(Box::new(script), Some(identity(names)))
    }

    fn begin(script: Box<Script>, identity: Option<Identity>) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        let (tls, authority) = identity.map_or((None, None), |identity| {
            (Some(identity.config), Some(identity.authority))
        });
        let shared = Arc::new(Shared {
            script,
            tls,
            seen: Mutex::default(),
            connections: AtomicUsize::new(0),
            over: AtomicBool::new(false),
        });
        let accepting = Arc::clone(&shared);
        std::thread::spawn(move || {
            for stream in listener.incoming() {
                if accepting.over.load(Ordering::SeqCst) {
                    return;
                }
                let Ok(stream) = stream else { continue };
                accepting.connections.fetch_add(1, Ordering::SeqCst);
                let shared = Arc::clone(&accepting);
                std::thread::spawn(move || shared.serve(stream));
            }
        });
        Self {
            shared,
            port,
            authority,
        }
    }

    /// Its port.
    pub fn port(&self) -> u16 {
        self.port
    }

    /// Its address, with this host, for a path.
    pub fn url(&self, host: &str, path: &str) -> String {
        let scheme = if self.authority.is_some() {
            "https"
        } else {
            "http"
        };
        format!("{scheme}://{host}:{}{path}", self.port)
    }

    /// The certificate of its authority, as PEM.
    ///
    /// # Panics
    /// When it speaks in the open.
    pub fn authority(&self) -> &str {
        self.authority.as_deref().expect("a service with TLS")
    }

    /// All whole requests so far.
    pub fn seen(&self) -> Vec<Seen> {
        self.shared.seen.lock().unwrap().clone()
    }

    /// How many connections there were.
    pub fn connections(&self) -> usize {
        self.shared.connections.load(Ordering::SeqCst)
    }
}

impl Drop for Provider {
    fn drop(&mut self) {
        self.shared.over.store(true, Ordering::SeqCst);
        // The listener's thread looks up.
        let _ = TcpStream::connect(("127.0.0.1", self.port));
    }
}

impl Shared {
    fn serve(&self, stream: TcpStream) {
        let _ = stream.set_read_timeout(Some(PATIENCE));
        let _ = stream.set_write_timeout(Some(PATIENCE));
        match &self.tls {
            None => self.talk(stream),
            Some(config) => {
                let Ok(session) = ServerConnection::new(Arc::clone(config)) else {
                    return;
                };
                self.talk(StreamOwned::new(session, stream));
            }
        }
    }

    /// One request, one answer. Whatever breaks ends the connection.
    fn talk(&self, mut stream: impl Read + Write) {
        let Some(seen) = read_request(&mut stream) else {
            return;
        };
        let number = {
            let mut all = self.seen.lock().unwrap();
            all.push(seen.clone());
            all.len() - 1
        };
        let _ = self.answer(&mut stream, (self.script)(number, &seen));
        let _ = stream.flush();
    }

    fn answer(&self, stream: &mut (impl Read + Write), answer: Answer) -> std::io::Result<()> {
        match answer {
            Answer::Json(status, value) => whole(
                stream,
                status,
                &["content-type: application/json".to_owned()],
                value.to_string().as_bytes(),
            ),
            Answer::Text(status, headers, body) => whole(stream, status, &headers, &body),
            Answer::Raw(bytes) => stream.write_all(&bytes),
            Answer::CutOff { promised, body } => {
                write!(
                    stream,
                    "HTTP/1.1 200 OK\r\ncontent-length: {promised}\r\n\r\n"
                )?;
                stream.write_all(&body)
            }
            Answer::Endless => {
                write!(stream, "HTTP/1.1 200 OK\r\n\r\n")?;
                let chunk = vec![b'x'; CHUNK_BYTES];
                while !self.over.load(Ordering::SeqCst) {
                    stream.write_all(&chunk)?;
                }
                Ok(())
            }
            Answer::Drip(pause) => {
                write!(stream, "HTTP/1.1 200 OK\r\n\r\n")?;
                while !self.over.load(Ordering::SeqCst) {
                    stream.write_all(b" ")?;
                    stream.flush()?;
                    std::thread::sleep(pause);
                }
                Ok(())
            }
            Answer::Stream(pieces, end) => {
                write!(
                    stream,
                    "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\n\
                     transfer-encoding: chunked\r\n\r\n"
                )?;
                for piece in pieces {
                    chunk(stream, &piece)?;
                }
                match end {
                    StreamEnd::Whole => stream.write_all(b"0\r\n\r\n"),
                    StreamEnd::CutOff => Ok(()),
                    StreamEnd::Repeats(piece) => {
                        while !self.over.load(Ordering::SeqCst) {
                            chunk(stream, piece.as_bytes())?;
                            std::thread::sleep(REPEAT_PAUSE);
                        }
                        Ok(())
                    }
                    StreamEnd::Silence => {
                        let _ = stream.read(&mut [0]);
                        Ok(())
                    }
                }
            }
            Answer::Silence => {
                let _ = stream.read(&mut [0]);
                Ok(())
            }
            Answer::Close => Ok(()),
        }
    }
}

/// One piece of a body that comes in chunks.
fn chunk(stream: &mut impl Write, piece: &[u8]) -> std::io::Result<()> {
    write!(stream, "{:x}\r\n", piece.len())?;
    stream.write_all(piece)?;
    stream.write_all(b"\r\n")?;
    stream.flush()
}

fn whole(
    stream: &mut impl Write,
    status: u16,
    headers: &[String],
    body: &[u8],
) -> std::io::Result<()> {
    write!(stream, "HTTP/1.1 {status} Scripted\r\n")?;
    for header in headers {
        write!(stream, "{header}\r\n")?;
    }
    write!(stream, "content-length: {}\r\n\r\n", body.len())?;
    stream.write_all(body)
}

/// A request with as much of a body as its head says.
fn read_request(stream: &mut impl Read) -> Option<Seen> {
    let mut bytes = Vec::new();
    let mut chunk = [0; 8 * 1024];
    let end = loop {
        if let Some(at) = bytes.windows(4).position(|four| four == b"\r\n\r\n") {
            break at + 4;
        }
        let count = stream.read(&mut chunk).ok().filter(|count| *count > 0)?;
        bytes.extend_from_slice(&chunk[..count]);
    };
    let body = bytes.split_off(end);
    let mut seen = Seen { head: bytes, body };
    let length = seen
        .headers()
        .into_iter()
        .find(|(name, _)| name.eq_ignore_ascii_case("content-length"))
        .and_then(|(_, value)| value.parse::<usize>().ok())
        .unwrap_or(0);
    while seen.body.len() < length {
        let count = stream.read(&mut chunk).ok().filter(|count| *count > 0)?;
        seen.body.extend_from_slice(&chunk[..count]);
    }
    Some(seen)
}
