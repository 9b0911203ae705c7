//! What a scripted server answers: built by the test, turned into steps by `plan`.

use serde_json::Value;
use std::time::Duration;

use super::gate::Gate;

/// Why a completion ended, as the server says it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Finish {
    /// The model was done; `tool_calls` where it called tools.
    Natural,
    /// The reply's token limit was reached.
    Length,
    /// A reason that no client knows.
    Unknown,
}

/// A tool call that the scripted model makes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Call {
    /// The call's id; empty to let the server make a unique one.
    pub id: String,
    /// The function's name.
    pub name: String,
    /// The arguments as text, which need not be JSON.
    pub arguments: String,
}

/// Answers that are no valid completion.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Garbage {
    /// Text where JSON belongs.
    NotJson,
    /// A content string with bytes that are not UTF-8.
    InvalidUtf8,
    /// Two JSON documents where one belongs.
    TwoDocuments,
    /// A proxy's HTML error page with status 200.
    Html,
    /// Content that never ends.
    Endless,
    /// One line that never ends.
    EndlessLine,
    /// One delta of 10 MB.
    HugeDelta,
    /// A header that claims gzip over bytes that aren't.
    GzipHeader,
    /// Valid JSON without `choices`.
    NoChoices,
    /// An error object inside a stream that began well.
    ErrorInStream,
}

impl Garbage {
    /// Every kind, for tests that go through all of them.
    pub const ALL: [Self; 10] = [
        Self::NotJson,
        Self::InvalidUtf8,
        Self::TwoDocuments,
        Self::Html,
        Self::Endless,
        Self::EndlessLine,
        Self::HugeDelta,
        Self::GzipHeader,
        Self::NoChoices,
        Self::ErrorInStream,
    ];
}

/// One scripted answer.
#[derive(Debug, Clone)]
pub struct Reply {
    pub(super) kind: ReplyKind,
    pub(super) latency: Option<Duration>,
    pub(super) hold: Option<Gate>,
    pub(super) pace: Pace,
    pub(super) chunk_bytes: usize,
    pub(super) transport_bytes: Option<usize>,
    pub(super) ending: Ending,
    pub(super) headers: Vec<(String, String)>,
}

#[derive(Debug, Clone)]
pub(super) enum ReplyKind {
    Completion(Completion),
    Http {
        status: u16,
        content_type: String,
        body: Vec<u8>,
    },
    Garbage(Garbage),
    Stall(Option<Gate>),
    HangUp,
}

#[derive(Debug, Clone, Default)]
pub(super) struct Completion {
    pub(super) reasoning: String,
    pub(super) content: String,
    pub(super) calls: Vec<Call>,
    pub(super) finish: Option<Finish>,
}

#[derive(Debug, Clone)]
pub(super) enum Pace {
    Full,
    Every(Duration),
    Gated(Gate),
}

#[derive(Debug, Clone)]
pub(super) enum Ending {
    Whole,
    CutAfterBytes(usize),
    CutAfterChunks(usize),
    StallAfterChunks(usize, Option<Gate>),
}

const DEFAULT_CHUNK_BYTES: usize = 16;

impl Reply {
    fn of(kind: ReplyKind) -> Self {
        Self {
            kind,
            latency: None,
            hold: None,
            pace: Pace::Full,
            chunk_bytes: DEFAULT_CHUNK_BYTES,
            transport_bytes: None,
            ending: Ending::Whole,
            headers: Vec::new(),
        }
    }

    fn completion(completion: Completion) -> Self {
        Self::of(ReplyKind::Completion(completion))
    }

    /// An answer in words; an empty text is a model that ends at once.
    pub fn text(text: impl Into<String>) -> Self {
        Self::completion(Completion {
            content: text.into(),
            ..Completion::default()
        })
    }

    /// An answer that is a JSON document, as schema mode has it.
    pub fn json(value: &Value) -> Self {
        Self::text(value.to_string())
    }

    /// One native tool call.
    pub fn tool_call(name: &str, arguments: impl Into<Value>) -> Self {
        Self::tool_calls([(name, arguments.into())])
    }

    /// Several native tool calls in one answer.
    pub fn tool_calls<'a>(calls: impl IntoIterator<Item = (&'a str, Value)>) -> Self {
        Self::raw_calls(calls.into_iter().map(|(name, arguments)| Call {
            id: String::new(),
            name: name.to_owned(),
            arguments: arguments.to_string(),
        }))
    }

    /// Tool calls as they stand: own ids, arguments that need not be JSON.
    pub fn raw_calls(calls: impl IntoIterator<Item = Call>) -> Self {
        let calls = calls.into_iter().collect();
        Self::completion(Completion {
            calls,
            ..Completion::default()
        })
    }

    /// An HTTP answer with a body of its own.
    pub fn http(status: u16, content_type: &str, body: impl Into<Vec<u8>>) -> Self {
        let content_type = content_type.to_owned();
        Self::of(ReplyKind::Http {
            status,
            content_type,
            body: body.into(),
        })
    }

    /// llama-server's error body with `status`.
    pub fn error(status: u16, kind: &str, message: &str) -> Self {
        let body = super::chunks::error(status, kind, message);
        Self::http(status, "application/json; charset=utf-8", body.to_string())
    }

    /// 429, to be tried again after so many seconds.
    pub fn rate_limited(retry_after_seconds: u32) -> Self {
        Self::error(429, "rate_limit_error", "too many requests")
            .header("retry-after", &retry_after_seconds.to_string())
    }

    /// 503 while the model loads.
    pub fn loading() -> Self {
        Self::error(503, "unavailable_error", "Loading model")
    }

    /// 401 for a wrong key.
    pub fn unauthorized() -> Self {
        Self::error(401, "authentication_error", "Invalid API Key")
    }

    /// 500.
    pub fn server_error() -> Self {
        Self::error(500, "server_error", "scripted failure")
    }

    /// 400 for a prompt that doesn't fit. The server also says so by itself, by its context size.
    pub fn context_exceeded(prompt_tokens: usize, context_tokens: usize) -> Self {
        let body = super::chunks::context_exceeded(prompt_tokens, context_tokens);
        Self::http(400, "application/json; charset=utf-8", body.to_string())
    }

    /// An answer that is no completion.
    pub fn garbage(garbage: Garbage) -> Self {
        Self::of(ReplyKind::Garbage(garbage))
    }

    /// No byte at all, for ever.
    pub fn stall() -> Self {
        Self::of(ReplyKind::Stall(None))
    }

    /// No byte until the gate is released, then an empty answer.
    pub fn stall_until(gate: &Gate) -> Self {
        Self::of(ReplyKind::Stall(Some(gate.clone())))
    }

    /// The connection is closed without an answer.
    pub fn hang_up() -> Self {
        Self::of(ReplyKind::HangUp)
    }

    /// Reasoning before the answer.
    pub fn reasoning(mut self, text: impl Into<String>) -> Self {
        if let ReplyKind::Completion(completion) = &mut self.kind {
            completion.reasoning = text.into();
        }
        self
    }

    /// Words beside the tool calls.
    pub fn content(mut self, text: impl Into<String>) -> Self {
        if let ReplyKind::Completion(completion) = &mut self.kind {
            completion.content = text.into();
        }
        self
    }

    /// How the completion ends.
    pub fn finish(mut self, finish: Finish) -> Self {
        if let ReplyKind::Completion(completion) = &mut self.kind {
            completion.finish = Some(finish);
        }
        self
    }

    /// Bytes of text in a delta, cut at characters. Default 16.
    pub fn chunk_bytes(mut self, bytes: usize) -> Self {
        self.chunk_bytes = bytes.max(1);
        self
    }

    /// Sends the stream in pieces of so many bytes, cut anywhere, for decoders to put together.
    pub fn transport_bytes(mut self, bytes: usize) -> Self {
        self.transport_bytes = Some(bytes.max(1));
        self
    }

    /// Waits before each chunk.
    pub fn pace(mut self, every: Duration) -> Self {
        self.pace = Pace::Every(every);
        self
    }

    /// Each chunk waits for a pass of the gate.
    pub fn gated(mut self, gate: &Gate) -> Self {
        self.pace = Pace::Gated(gate.clone());
        self
    }

    /// The model's latency before its first byte, instead of the server's default.
    pub fn after(mut self, latency: Duration) -> Self {
        self.latency = Some(latency);
        self
    }

    /// Nothing is sent before the gate is released once.
    pub fn hold(mut self, gate: &Gate) -> Self {
        self.hold = Some(gate.clone());
        self
    }

    /// The connection breaks after so many bytes of the body.
    pub fn cut_after_bytes(mut self, bytes: usize) -> Self {
        self.ending = Ending::CutAfterBytes(bytes);
        self
    }

    /// The connection breaks after so many chunks.
    pub fn cut_after_chunks(mut self, chunks: usize) -> Self {
        self.ending = Ending::CutAfterChunks(chunks);
        self
    }

    /// Nothing more comes after so many chunks.
    pub fn stall_after_chunks(mut self, chunks: usize) -> Self {
        self.ending = Ending::StallAfterChunks(chunks, None);
        self
    }

    /// Nothing more comes after so many chunks until the gate is released.
    pub fn pause_after_chunks(mut self, chunks: usize, gate: &Gate) -> Self {
        self.ending = Ending::StallAfterChunks(chunks, Some(gate.clone()));
        self
    }

    /// Whether a slot works on it: an HTTP error is said before a slot is taken.
    pub(super) fn occupies_slot(&self) -> bool {
        !matches!(self.kind, ReplyKind::Http { .. })
    }

    /// Adds a header, or replaces one.
    pub fn header(mut self, name: &str, value: &str) -> Self {
        self.headers.push((name.to_owned(), value.to_owned()));
        self
    }
}

impl From<&str> for Reply {
    fn from(text: &str) -> Self {
        Self::text(text)
    }
}
