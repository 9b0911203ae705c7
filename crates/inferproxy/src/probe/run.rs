//! Runs a probe: five small calls, through the same door as every other.

use super::collect::collect;
use super::script::{
    ONLY_VALUE, TOOL, Talk, cache_body, continued, forced_tool_body, opening, schema_body,
};
use super::verdict::{Figures, Judgement, judge, slot_missing};
use crate::chat::{ChatHead, Engine};
use bxcore::chat::ModelAnswer;
use bxcore::code::Code;
use bxcore::id::{BackendName, ModelCallId, SessionId};
use bxcore::problem::Problem;
use bxcore::usage::Receipt;
use bxcore::wire::inferproxy::{BackendInfo, BackendState, Lane, ProbeCall, ProbeReport};
use bytes::Bytes;
use serde_json::{Map, Value};
use std::time::{SystemTime, UNIX_EPOCH};

/// The session in whose name a probe calls.
pub const PROBE_SESSION: &str = "probe";

/// Probes a backend's slots and what it can hold a model to.
///
/// # Errors
/// The backend can't be used, or a slot that the probe needs is busy.
pub async fn probe(engine: &Engine, name: &BackendName) -> Result<ProbeReport, Problem> {
    let backend = engine.registry().get(name).await?;
    let known = backend.fresh().await;
    let info = &known.info;
    if let Some(problem) = &info.problem
        && problem.code == Code::BackendSlotMissing
    {
        let spec = backend.spec();
        let named = spec
            .slots
            .iter()
            .flat_map(|slots| slots.main.iter().chain([&slots.background]));
        let last = named.chain(&spec.seats).max().copied().unwrap_or(0);
        let detail = problem.detail.clone().unwrap_or_default();
        return Ok(report(
            info,
            Vec::new(),
            slot_missing(last.saturating_add(1), &detail),
            Checks::default(),
        ));
    }
    if info.state != BackendState::Ready && info.state != BackendState::Loading {
        return Err(info.problem.clone().unwrap_or_else(|| {
            Problem::new(
                Code::BackendUnreachable,
                format!("The model server `{name}` can't be used"),
            )
        }));
    }
    let mut probe = Probe::new(engine, info.clone())?;
    let calls = probe.try_cache().await?;
    let checks = probe.check().await;
    let figures = Figures {
        calls: &calls,
        shows_slots: known.shows_slots,
    };
    let judgement = judge(info, &figures);
    Ok(report(info, calls, judgement, checks))
}

/// What the server can hold a model to.
#[derive(Debug, Clone, Copy, Default)]
struct Checks {
    forced_tool: bool,
    json_schema: bool,
}

fn report(
    info: &BackendInfo,
    calls: Vec<ProbeCall>,
    judgement: Judgement,
    checks: Checks,
) -> ProbeReport {
    ProbeReport {
        name: info.name.clone(),
        calls,
        verdict: judgement.verdict,
        advice: judgement.advice,
        flags: judgement.flags,
        forced_tool: checks.forced_tool,
        json_schema: checks.json_schema,
    }
}

struct Probe<'a> {
    engine: &'a Engine,
    info: BackendInfo,
    session: SessionId,
    /// Differs from probe to probe, so that an earlier one has left nothing in the cache.
    salt: u64,
    next_call: ModelCallId,
}

impl<'a> Probe<'a> {
    fn new(engine: &'a Engine, info: BackendInfo) -> Result<Self, Problem> {
        let session = SessionId::new(PROBE_SESSION)
            .map_err(|error| Problem::new(Code::Internal, error.to_string()))?;
        let since = SystemTime::now()
            .duration_since(UNIX_EPOCH)
            .unwrap_or_default();
        let salt = since
            .as_secs()
            .wrapping_mul(1_000_000)
            .wrapping_add(u64::from(since.subsec_micros()));
        Ok(Self {
            engine,
            info,
            session,
            salt,
            // Two probes at once must not have the same numbers.
            next_call: ModelCallId(salt),
        })
    }

    fn slot(&self, lane: Lane) -> Option<u32> {
        let slots = self.info.slots.as_ref()?;
        match lane {
            Lane::Main => slots.main.first().copied(),
            Lane::Background | Lane::Seat => Some(slots.background),
        }
    }

    async fn call(
        &mut self,
        lane: Lane,
        body: Map<String, Value>,
    ) -> Result<(ModelAnswer, Receipt), Problem> {
        let call = self.next_call;
        self.next_call = call.next();
        let head = ChatHead {
            backend: self.info.name.clone(),
            slot: self.slot(lane),
            lane,
            session: self.session.clone(),
            call,
        };
        let body = Bytes::from(Value::Object(body).to_string());
        collect(self.engine.begin(head, body).await?).await
    }

    async fn try_cache(&mut self) -> Result<Vec<ProbeCall>, Problem> {
        let mut calls = Vec::with_capacity(3);
        let main = opening(Talk::Main, self.salt);
        let answer = self.measured("main", Lane::Main, &main, &mut calls).await?;
        let other = opening(Talk::Background, self.salt);
        self.measured("background", Lane::Background, &other, &mut calls)
            .await?;
        let again = continued(main, &answer.content);
        self.measured("main again", Lane::Main, &again, &mut calls)
            .await?;
        Ok(calls)
    }

    async fn measured(
        &mut self,
        what: &str,
        lane: Lane,
        messages: &[Value],
        calls: &mut Vec<ProbeCall>,
    ) -> Result<ModelAnswer, Problem> {
        let body = cache_body(&self.info, self.slot(lane), messages);
        let (answer, receipt) = self.call(lane, body).await?;
        calls.push(ProbeCall {
            what: what.to_owned(),
            slot: receipt.slot,
            prompt_tokens: receipt.prompt_tokens,
            cache_n: receipt.cache_n,
        });
        Ok(answer)
    }

    /// A server that refuses a check, or answers something else, doesn't pass it.
    async fn check(&mut self) -> Checks {
        let slot = self.slot(Lane::Background);
        let forced = self
            .call(Lane::Background, forced_tool_body(&self.info, slot))
            .await;
        let schema = self
            .call(Lane::Background, schema_body(&self.info, slot))
            .await;
        Checks {
            forced_tool: forced
                .is_ok_and(|(answer, _)| answer.tool_calls.iter().any(|call| call.name == TOOL)),
            json_schema: schema.is_ok_and(|(answer, _)| holds_to_schema(&answer.content)),
        }
    }
}

fn holds_to_schema(content: &str) -> bool {
    serde_json::from_str::<Value>(content)
        .is_ok_and(|value| value.get("colour").and_then(Value::as_str) == Some(ONLY_VALUE))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_certain_value_passes_the_schema_check() {
        assert!(holds_to_schema("{\n  \"colour\": \"teal\"}"));
        for other in [
            "",
            "teal",
            "{\"colour\":\"red\"}",
            "{\"colour\":\"teal\"",
            "[]",
        ] {
            assert!(!holds_to_schema(other), "{other}");
        }
    }
}
