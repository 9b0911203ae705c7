//! The beginning of a model call: denied, or allowed with its intent on disk.

use super::{Leading, ModelKey, ModelRequest, ModelTicket};
use crate::audit::{BodyPlace, Decided, Synced};
use crate::broker::core::{Batch, Core, Fault};
use crate::broker::job::{Note, OwnedRecord, Reply};
use crate::broker::outgoing::Body;
use crate::decision::{Arguments, Decision, Next};
use crate::provider::{self, Provider};
use bxcore::audit::Kind;
use bxcore::code::Code;
use bxcore::id::BackendName;
use bxcore::label::Label;
use bxcore::problem::Problem;
use bxcore::tool::ToolName;
use bxcore::wire::provider::{ProviderCall, denial};
use bytes::Bytes;

/// A model call with what the decision has to know of it.
struct Judged {
    label: Label,
    body: Body,
    decision: Decision,
}

impl Core {
    /// Decides a model call, and gives the right to make it once its intent is on disk.
    pub(in crate::broker) fn begin_model(
        &mut self,
        request: ModelRequest,
        reply: Reply<ModelTicket>,
        batch: &mut Batch,
    ) -> Result<(), Problem> {
        match self.judge_model(&request, batch) {
            Err(fault) => batch.give(reply, Err(fault)),
            Ok((provider, judged)) => match judged.decision.next {
                Next::Run => self.allow_model(request, provider, judged, reply, batch),
                Next::Refuse(code) => {
                    self.deny_model(&request, code, judged, reply, batch);
                    Ok(())
                }
                // The owner can't be asked for a whole conversation at each step.
                Next::Ask | Next::Unclear => {
                    self.deny_model(&request, Code::ApprovalUnroutable, judged, reply, batch);
                    Ok(())
                }
            },
        }
    }

    fn judge_model(
        &mut self,
        request: &ModelRequest,
        batch: &Batch,
    ) -> Result<(Provider, Judged), Fault> {
        let ModelRequest { call, body, .. } = request;
        let name = &request.provider;
        let provider = self.policy.providers.get(name).cloned();
        let provider = provider.ok_or_else(|| Fault::Request(unknown(name)))?;
        let session = self.ledger.known_session(&call.session)?;
        let latest = self.ledger.latest_model_call(&call.session)?;
        if latest.is_some_and(|latest| latest >= call.call) {
            return Err(Fault::Request(made_before(call)));
        }
        let label = session.label.join(call.label);
        if label != session.label {
            self.writing(batch)?;
            self.ledger.raise(&call.session, label)?;
        }
        let (body, arguments) = read(&provider, body);
        let rules = self.ledger.rules(&session)?;
        let decision = self.decide_model(
            &provider,
            &arguments,
            Some((&body, call.reserved)),
            label,
            &rules,
        )?;
        let reason = decision.walk.denied.map_or("allowed", Code::as_str);
        metrics::counter!("boxmaker_decisions_total", "reason" => reason).increment(1);
        let judged = Judged {
            label,
            body,
            decision,
        };
        Ok((provider, judged))
    }

    fn allow_model(
        &mut self,
        request: ModelRequest,
        provider: Provider,
        judged: Judged,
        reply: Reply<ModelTicket>,
        batch: &mut Batch,
    ) -> Result<(), Problem> {
        let ProviderCall { session, call, .. } = &request.call;
        let tool = provider.spec().name.clone();
        let (day, set_aside) = (self.today(), request.call.reserved);
        let counted = self
            .writing(batch)
            .and_then(|()| {
                let intent = self.next_number(batch);
                self.ledger.set_aside(intent, tool.as_str(), day, set_aside)
            })
            .and_then(|()| self.ledger.put_model_call(session, *call));
        if let Err(error) = counted {
            return batch.give(reply, Err(error.into()));
        }
        let key = ModelKey {
            session: session.clone(),
            call: *call,
        };
        let body = judged.body.clone();
        let answer = self.label_of_answer(judged.decision.walk.grant, judged.label);
        let label = judged.label;
        let intent = self.note(note(&request, Kind::Intent, None, &tool, judged), batch);
        batch.synced = Synced::Now;
        let leading = Leading {
            tool,
            intent,
            label,
            answer,
        };
        self.leading.insert(key.clone(), leading);
        batch.after(move |core, done| {
            let ticket = done.clone().map(|()| ModelTicket {
                key: key.clone(),
                provider,
                body,
            });
            let is_allowed = ticket.is_ok();
            let is_wanted = reply.send(ticket).is_ok();
            if is_allowed && is_wanted {
                return;
            }
            core.leading.remove(&key);
            if is_allowed {
                core.give_back(intent);
            }
        });
        Ok(())
    }

    fn deny_model(
        &mut self,
        request: &ModelRequest,
        code: Code,
        judged: Judged,
        reply: Reply<ModelTicket>,
        batch: &mut Batch,
    ) {
        let problem = denial(&request.provider, code, &judged.decision.walk);
        let tool = ToolName::of_provider(&request.provider);
        self.note(note(request, Kind::Deny, Some(code), &tool, judged), batch);
        batch.synced = Synced::Now;
        batch.after(move |_, done| {
            let _ = reply.send(Err(done.clone().err().unwrap_or(problem)));
        });
    }

    /// The label of an answer: what it was made from, and what the grant says of all that comes
    /// back. What a model elsewhere writes is untrusted unless the grant trusts it.
    fn label_of_answer(&self, grant: Option<usize>, label: Label) -> Label {
        let grant = grant.and_then(|number| self.policy.grants.get(number.checked_sub(1)?));
        grant.map_or(Label::TOP, |grant| {
            let untrusted = grant.untrusted.unwrap_or(true);
            label.join(Label::new(grant.result_class(), untrusted))
        })
    }
}

/// The body as it is recorded and sent, and what it says. One that is no text is never sent.
fn read(provider: &Provider, body: &Bytes) -> (Body, Arguments) {
    match std::str::from_utf8(body) {
        Ok(text) => (
            Body(text.into()),
            provider::arguments(provider.settings(), text),
        ),
        Err(_) => {
            let text = String::from_utf8_lossy(body);
            let why = "the body is not UTF-8".to_owned();
            (Body(text.into()), Arguments::Invalid(why))
        }
    }
}

fn note(
    request: &ModelRequest,
    kind: Kind,
    reason: Option<Code>,
    tool: &ToolName,
    judged: Judged,
) -> Note {
    let decided = match kind {
        Kind::Intent => Decided::Allow,
        _ => Decided::Deny,
    };
    let record = OwnedRecord {
        session: Some(request.call.session.clone()),
        model_call: Some(request.call.call.0),
        tool: Some(tool.as_str().to_owned()),
        label: Some(judged.label),
        grant: judged.decision.walk.grant,
        decision: Some(decided),
        reason,
        walk: Some(judged.decision.walk.steps),
        body: Some(judged.body.0),
        body_place: BodyPlace::File,
        ..OwnedRecord::default()
    };
    Note { kind, record }
}

fn unknown(name: &BackendName) -> Problem {
    Problem::new(
        Code::BackendUnknown,
        format!("There is no provider `{name}`"),
    )
    .hint(format!("write `[provider.{name}]` into brokerd.toml"))
}

fn made_before(call: &ProviderCall) -> Problem {
    let title = format!(
        "Model call {} of `{}` was made before",
        call.call, call.session
    );
    Problem::new(Code::BadRequest, title).detail("a session's number for a call is used once")
}
