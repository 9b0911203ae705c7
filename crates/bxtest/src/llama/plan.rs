//! Turns a scripted reply into the steps of one answer. Pure: no clock, no sockets.

use bytes::Bytes;
use serde_json::{Map, Value, json};
use std::time::Duration;

use super::cache::Reuse;
use super::chunks::{self, Envelope};
use super::ending;
use super::garbage;
use super::gate::Gate;
use super::journal::Figures;
use super::render::{self, TOKEN_BYTES, tokens};
use super::reply::{Call, Completion, Finish, Pace, Reply, ReplyKind};

/// One step of an answer.
#[derive(Debug, Clone)]
pub(super) enum Step {
    /// Reads one batch of the prompt, which nothing interrupts.
    Batch { time: Duration, processed: usize },
    /// From here on the slot generates.
    Generate,
    /// Waits.
    Sleep(Duration),
    /// Waits for the test.
    Gate(Gate),
    /// Sends bytes, which stand for so many bytes of generated text.
    Bytes { bytes: Bytes, grown: usize },
    /// The answer is complete: the slot is free and the request counted.
    Settle,
    /// Sends the same bytes until the client goes away.
    Forever(Bytes),
    /// Sends nothing until the client goes away.
    Stall,
    /// Breaks the connection.
    Cut,
}

/// One answer, step by step.
#[derive(Debug, Clone, Default)]
pub(super) struct Plan {
    pub(super) status: u16,
    pub(super) headers: Vec<(String, String)>,
    pub(super) steps: Vec<Step>,
    /// What the slot's cache gets after the prompt.
    pub(super) generated: Vec<u8>,
    pub(super) figures: Figures,
    /// Whether the server notices that the client went away.
    pub(super) notices_close: bool,
    /// Whether it notices that between two batches of the prompt.
    pub(super) notices_in_prefill: bool,
}

/// What a plan needs to know of the request and the server.
#[derive(Debug, Clone)]
pub(super) struct Job {
    pub(super) envelope: Envelope,
    pub(super) seq: usize,
    pub(super) stream: bool,
    pub(super) include_usage: bool,
    pub(super) progress: bool,
    pub(super) timings_per_token: bool,
    pub(super) max_tokens: Option<usize>,
    pub(super) reuse: Reuse,
    pub(super) batch_tokens: usize,
    pub(super) batch_time: Duration,
    pub(super) latency: Duration,
}

/// Makes the plan for one reply.
pub(super) fn compile(reply: Reply, job: &Job) -> Plan {
    let Reply {
        kind,
        latency,
        hold,
        pace,
        chunk_bytes,
        transport_bytes,
        ending: how,
        headers,
    } = reply;
    let mut plan = Plan {
        status: 200,
        headers: Vec::new(),
        steps: hold.map(Step::Gate).into_iter().collect(),
        generated: Vec::new(),
        figures: Figures::default(),
        notices_close: job.stream || !job.envelope.llama,
        notices_in_prefill: job.progress || !job.envelope.llama,
    };
    let latency = latency.unwrap_or(job.latency);
    match kind {
        ReplyKind::Http {
            status,
            content_type,
            body,
        } => {
            plan.status = status;
            plan.headers.push(("content-type".to_owned(), content_type));
            plan.steps.extend(wait(latency));
            plan.steps.push(Step::Settle);
            plan.steps.push(sent(body, 0));
        }
        ReplyKind::HangUp => plan.steps.push(Step::Cut),
        ReplyKind::Stall(gate) => {
            plan.steps.push(Step::Generate);
            match gate {
                None => plan.steps.push(Step::Stall),
                Some(gate) => {
                    plan.steps.push(Step::Gate(gate));
                    complete(
                        &mut plan,
                        Completion::default(),
                        job,
                        &Pace::Full,
                        chunk_bytes,
                    );
                }
            }
        }
        ReplyKind::Garbage(kind) => {
            plan.steps.push(Step::Generate);
            plan.steps.extend(wait(latency));
            garbage::spoil(&mut plan, kind, job);
        }
        ReplyKind::Completion(completion) => {
            prefill(&mut plan, job);
            plan.steps.push(Step::Generate);
            plan.steps.extend(wait(latency));
            complete(&mut plan, completion, job, &pace, chunk_bytes);
            plan.figures.predicted_ms = latency.as_secs_f64() * 1e3;
        }
    }
    if !plan.headers.iter().any(|(name, _)| name == "content-type") {
        let kind = if job.stream {
            "text/event-stream"
        } else {
            "application/json; charset=utf-8"
        };
        plan.headers
            .push(("content-type".to_owned(), kind.to_owned()));
    }
    plan.headers.extend(headers);
    plan.steps = ending::end(plan.steps, &how);
    if let Some(bytes) = transport_bytes {
        plan.steps = plan
            .steps
            .into_iter()
            .flat_map(|step| ending::split(step, bytes))
            .collect();
    }
    plan
}

fn wait(latency: Duration) -> Option<Step> {
    (!latency.is_zero()).then_some(Step::Sleep(latency))
}

pub(super) fn sent(bytes: impl Into<Bytes>, grown: usize) -> Step {
    Step::Bytes {
        bytes: bytes.into(),
        grown,
    }
}

/// Reading the prompt, batch by batch, with an event after each where the client asked for them.
fn prefill(plan: &mut Plan, job: &Job) {
    let Reuse {
        prompt_tokens,
        cache_n,
    } = job.reuse;
    let report = |processed: usize, batches: u32, steps: &mut Vec<Step>| {
        if job.progress && job.stream {
            let ms = u64::try_from((job.batch_time * batches).as_millis()).unwrap_or(u64::MAX);
            let mut chunk = job
                .envelope
                .delta(&json!({"role": "assistant", "content": null}));
            if job.timings_per_token {
                chunk.insert("timings".to_owned(), chunks::timings(&plan.figures));
            }
            let progress = chunks::progress(prompt_tokens, cache_n, processed, ms);
            chunk.insert("prompt_progress".to_owned(), progress);
            steps.push(sent(chunks::event(&Value::Object(chunk)), 0));
        }
    };
    report(cache_n, 0, &mut plan.steps);
    let mut processed = cache_n;
    let mut batches = 0;
    while processed < prompt_tokens {
        processed = (processed + job.batch_tokens).min(prompt_tokens);
        batches += 1;
        plan.steps.push(Step::Batch {
            time: job.batch_time,
            processed: processed - cache_n,
        });
        report(processed, batches, &mut plan.steps);
    }
    plan.figures.cache_n = cache_n;
    plan.figures.prompt_n = prompt_tokens - cache_n;
    plan.figures.prompt_ms = (job.batch_time * batches).as_secs_f64() * 1e3;
}

fn complete(plan: &mut Plan, completion: Completion, job: &Job, pace: &Pace, chunk_bytes: usize) {
    let completion = limit(name_calls(completion, job.seq), job.max_tokens);
    plan.figures.cache_n = job.reuse.cache_n;
    plan.figures.prompt_n = job.reuse.prompt_tokens - job.reuse.cache_n;
    plan.generated = render::generated(&completion);
    plan.figures.predicted_n = tokens(plan.generated.len()).max(1);
    let reason = match completion.finish {
        Some(Finish::Length) => "length",
        Some(Finish::Unknown) => "unheard_of",
        Some(Finish::Natural) | None if completion.calls.is_empty() => "stop",
        Some(Finish::Natural) | None => "tool_calls",
    };
    if !job.stream {
        let grown = plan.generated.len();
        let body = job
            .envelope
            .whole(&message(&completion), reason, &plan.figures);
        plan.steps.extend(paced(pace));
        plan.steps.push(Step::Settle);
        plan.steps.push(sent(body.to_string(), grown));
        return;
    }
    let figures = plan.figures;
    let event = |mut chunk: Map<String, Value>, last: bool, grown: usize| {
        if job.envelope.llama && (last || job.timings_per_token) {
            chunk.insert("timings".to_owned(), chunks::timings(&figures));
        }
        sent(chunks::event(&Value::Object(chunk)), grown)
    };
    let role = job
        .envelope
        .delta(&json!({"role": "assistant", "content": null}));
    plan.steps.push(event(role, false, 0));
    for (delta, grown) in deltas(&completion, chunk_bytes) {
        plan.steps.extend(paced(pace));
        plan.steps
            .push(event(job.envelope.delta(&delta), false, grown));
    }
    plan.steps.push(Step::Settle);
    plan.steps
        .push(event(job.envelope.finish(reason), !job.include_usage, 0));
    if job.include_usage {
        plan.steps
            .push(event(job.envelope.usage(&figures), true, 0));
    }
    plan.steps.push(sent(DONE, 0));
}

pub(super) const DONE: &str = "data: [DONE]\n\n";

fn paced(pace: &Pace) -> Option<Step> {
    match pace {
        Pace::Full => None,
        Pace::Every(every) => Some(Step::Sleep(*every)),
        Pace::Gated(gate) => Some(Step::Gate(gate.clone())),
    }
}

fn name_calls(mut completion: Completion, seq: usize) -> Completion {
    for (index, call) in completion.calls.iter_mut().enumerate() {
        if call.id.is_empty() {
            call.id = format!("call-{seq}-{index}");
        }
    }
    completion
}

/// Cuts a completion where the request's token limit does.
fn limit(mut completion: Completion, max_tokens: Option<usize>) -> Completion {
    let Some(max_tokens) = max_tokens else {
        return completion;
    };
    let mut left = max_tokens * TOKEN_BYTES;
    let Completion {
        reasoning,
        content,
        calls,
        finish,
    } = &mut completion;
    let texts = [reasoning, content].into_iter();
    for text in texts.chain(calls.iter_mut().map(|call| &mut call.arguments)) {
        let keep = text.floor_char_boundary(left);
        if keep < text.len() {
            text.truncate(keep);
            *finish = Some(Finish::Length);
        }
        left -= keep;
    }
    completion
}

fn message(completion: &Completion) -> Value {
    let mut message = json!({"role": "assistant", "content": completion.content});
    if !completion.reasoning.is_empty() {
        message["reasoning_content"] = completion.reasoning.as_str().into();
    }
    if !completion.calls.is_empty() {
        if completion.content.is_empty() {
            message["content"] = Value::Null;
        }
        let call = |call: &Call| {
            let function = json!({"name": call.name, "arguments": call.arguments});
            json!({"type": "function", "function": function, "id": call.id})
        };
        message["tool_calls"] = completion.calls.iter().map(call).collect();
    }
    message
}

/// The deltas of a completion, each with the bytes of generated text that it stands for.
fn deltas(completion: &Completion, chunk_bytes: usize) -> Vec<(Value, usize)> {
    let mut found = Vec::new();
    for piece in pieces(&completion.reasoning, chunk_bytes) {
        found.push((json!({"reasoning_content": piece}), piece.len()));
    }
    for piece in pieces(&completion.content, chunk_bytes) {
        found.push((json!({"content": piece}), piece.len()));
    }
    for (index, call) in completion.calls.iter().enumerate() {
        let (first, rest) = call
            .arguments
            .split_at(call.arguments.ceil_char_boundary(1));
        let function = json!({"name": call.name, "arguments": first});
        let head = json!({"index": index, "id": call.id, "type": "function", "function": function});
        found.push((json!({"tool_calls": [head]}), call.name.len() + first.len()));
        for piece in pieces(rest, chunk_bytes) {
            let more = json!({"index": index, "function": {"arguments": piece}});
            found.push((json!({"tool_calls": [more]}), piece.len()));
        }
    }
    found
}

/// `text` in pieces of about `bytes` bytes, never inside a character.
fn pieces(text: &str, bytes: usize) -> Vec<&str> {
    let mut found = Vec::new();
    let mut rest = text;
    while !rest.is_empty() {
        let end = rest.floor_char_boundary(bytes);
        let end = if end == 0 {
            rest.ceil_char_boundary(1)
        } else {
            end
        };
        found.push(&rest[..end]);
        rest = &rest[end..];
    }
    found
}
