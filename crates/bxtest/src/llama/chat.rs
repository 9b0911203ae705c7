//! One chat request: checked, given a slot and a reply, and answered.

use axum::body::Body as HttpBody;
use axum::http::{HeaderMap, HeaderValue, Response, StatusCode, header};
use bytes::Bytes;
use std::sync::Arc;
use tokio::sync::{mpsc, oneshot};
use tokio_stream::wrappers::ReceiverStream;

use super::builder::Kind;
use super::cache::Reuse;
use super::chunks::{self, Envelope};
use super::journal::{Figures, Outcome};
use super::plan::{self, Job, Plan};
use super::render::{TOKEN_BYTES, tokens};
use super::reply::Reply;
use super::request::Request;
use super::runner::{Head, Run};
use super::shared::Shared;
use crate::contract::{Breach, BreachKind, Breaches};

/// Chunks that may wait for a slow client, as in a socket's buffer.
const MAX_WAITING_CHUNKS: usize = 16;

/// Marks an answer that must not be sent: the connection is closed instead.
#[derive(Debug, Clone, Copy)]
pub(super) struct HangUp;

/// Answers one chat request.
pub(super) async fn chat(
    shared: Arc<Shared>,
    headers: HeaderMap,
    raw: Bytes,
) -> Response<HttpBody> {
    let (seq, at, mut seen) = shared.observe(raw);
    let request = seen
        .body
        .take()
        .map(|body| Request::new(seq, at, seen.link, headers, body));
    if let Some(request) = &request {
        for breach in slot_breaches(&shared, request) {
            let tolerated = shared.config.rules.tolerated.contains(&breach.kind);
            if tolerated {
                &mut seen.tolerated
            } else {
                &mut seen.breaches
            }
            .push(breach);
        }
    }
    let mut reply = None;
    if let Some(request) = request.as_ref().filter(|_| seen.breaches.is_empty()) {
        reply = shared.reply(request);
        if reply.is_none() {
            let detail = "the script has no reply left";
            seen.breaches
                .push(Breach::new(seq, BreachKind::Unscripted, detail));
        }
    }
    shared.journal.began(request.as_ref());
    shared.journal.breached(&seen.breaches, &seen.tolerated);
    let (Some(request), Some(reply)) = (request, reply) else {
        return refuse(&shared, seq, &seen.breaches);
    };
    let (head_sender, head) = oneshot::channel();
    let (body, chunks) = mpsc::channel(MAX_WAITING_CHUNKS);
    let run = Run {
        shared: Arc::clone(&shared),
        seq,
        slot: None,
        prompt: shared.config.template.prompt(request.body()),
        plan: Plan::default(),
        head: Some(head_sender),
        body,
        settled: false,
        decoded: 0,
    };
    start(run, request, reply);
    if let Ok(head) = head.await {
        return response(head, HttpBody::from_stream(ReceiverStream::new(chunks)));
    }
    let mut response = Response::new(HttpBody::empty());
    response.extensions_mut().insert(HangUp);
    response
}

fn refuse(shared: &Shared, seq: usize, breaches: &[Breach]) -> Response<HttpBody> {
    shared.ended(seq, Outcome::Status(400), Figures::default());
    let message = format!("the scripted server refuses:\n{}", Breaches(breaches));
    let body = chunks::error(400, "invalid_request_error", &message);
    json_response(StatusCode::BAD_REQUEST, body.to_string())
}

/// What is wrong with the request's slot, or with how many come at once.
fn slot_breaches(shared: &Shared, request: &Request) -> Vec<Breach> {
    let mut found = Vec::new();
    let mut say = |kind, detail: String| found.push(Breach::new(request.seq(), kind, detail));
    let running = shared.journal.counts().running;
    if let Some(most) = shared.config.max_concurrency
        && running >= most
    {
        say(
            BreachKind::Concurrency,
            format!("{running} are at work, {most} may be"),
        );
    }
    if shared.config.kind != Kind::LlamaServer {
        return found;
    }
    let total = shared.config.slots;
    match request.slot().map(|slot| slot as usize) {
        None => say(BreachKind::SlotAbsent, "no `id_slot`".to_owned()),
        Some(slot) if slot >= total => {
            say(
                BreachKind::SlotMissing,
                format!("`id_slot` {slot}, the server has {total}"),
            );
        }
        Some(slot) => {
            if let Some(holder) = shared.slots.holder(slot) {
                let detail = format!("slot {slot} is at work for request {holder}");
                say(BreachKind::SlotBusy, detail);
            }
        }
    }
    found
}

/// Takes the slot and works the reply off in a task of its own: it may outlive the connection.
///
/// Takes a free slot before anything is awaited, so that no second request can find it free too.
fn start(mut run: Run, request: Request, mut reply: Reply) {
    let shared = Arc::clone(&run.shared);
    let total = tokens(run.prompt.len());
    if reply.occupies_slot() && total > shared.config.context_tokens {
        reply = Reply::context_exceeded(total, shared.config.context_tokens);
    }
    let mut deferred = None;
    let mut reuse = Reuse {
        prompt_tokens: total,
        cache_n: 0,
    };
    if shared.config.kind == Kind::OpenAi {
        reuse = extended(&request, total);
    } else if reply.occupies_slot() {
        let slot = slot_for(&shared, &request);
        match shared.slots.take(slot, run.seq, &run.prompt) {
            Some(found) => (reuse, run.slot) = (found, Some(slot)),
            None => deferred = Some(slot),
        }
    }
    tokio::spawn(async move {
        if let Some(slot) = deferred {
            reuse = shared.slots.wait(slot, run.seq, &run.prompt).await;
            run.slot = Some(slot);
        }
        run.plan = plan::compile(reply, &job(&shared, &request, reuse));
        shared.journal.served(run.seq, run.slot, run.plan.figures);
        run.work().await;
    });
}

/// The slot that serves a request: one that doesn't exist silently becomes slot 0.
fn slot_for(shared: &Shared, request: &Request) -> usize {
    match request.slot().map(|slot| slot as usize) {
        None => shared.slots.pick(),
        Some(slot) if slot < shared.config.slots => slot,
        Some(_) => 0,
    }
}

/// What a server without slots reuses: the prompt of the request that this one extends.
fn extended(request: &Request, prompt_tokens: usize) -> Reuse {
    let known = request
        .link()
        .filter(|link| link.extends.is_some())
        .map_or(0, |link| {
            request
                .body()
                .open_messages()
                .len()
                .saturating_sub(link.appended_bytes)
        });
    let cache_n = (known / TOKEN_BYTES).min(prompt_tokens.saturating_sub(1));
    Reuse {
        prompt_tokens,
        cache_n,
    }
}

fn job(shared: &Shared, request: &Request, reuse: Reuse) -> Job {
    let config = &shared.config;
    let llama = config.kind == Kind::LlamaServer;
    let value = request.value();
    let most = ["max_tokens", "max_completion_tokens"]
        .iter()
        .find_map(|key| value[key].as_u64());
    Job {
        envelope: Envelope {
            id: format!("chatcmpl-{}", request.seq()),
            model: shared.model(),
            created: CREATED_SECONDS + request.at().as_secs(),
            llama,
            usage_details: llama || config.cached_tokens,
        },
        seq: request.seq(),
        stream: value["stream"] == true,
        include_usage: value.pointer("/stream_options/include_usage") == Some(&true.into()),
        progress: llama && value["return_progress"] == true,
        timings_per_token: llama && value["timings_per_token"] == true,
        max_tokens: most.and_then(|most| usize::try_from(most).ok()),
        reuse,
        batch_tokens: config.batch_tokens,
        batch_time: config.batch_time,
        latency: config.latency,
    }
}

/// A fixed day for `created`, so that answers are the same on each run.
const CREATED_SECONDS: u64 = 1_796_000_000;

fn response(head: Head, body: HttpBody) -> Response<HttpBody> {
    let mut response = Response::new(body);
    *response.status_mut() =
        StatusCode::from_u16(head.status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
    for (name, value) in head.headers {
        let name = header::HeaderName::from_bytes(name.as_bytes()).expect("a scripted header name");
        let value = HeaderValue::from_str(&value).expect("a scripted header value");
        response.headers_mut().insert(name, value);
    }
    response
}

pub(super) fn json_response(status: StatusCode, body: String) -> Response<HttpBody> {
    let mut response = Response::new(HttpBody::from(body));
    *response.status_mut() = status;
    let kind = HeaderValue::from_static("application/json; charset=utf-8");
    response.headers_mut().insert(header::CONTENT_TYPE, kind);
    response
}
