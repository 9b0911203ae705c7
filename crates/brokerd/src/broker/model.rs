//! Model calls to providers: judged by the walk that tool calls are judged by, and on record
//! before the first byte leaves.

use super::core::{Batch, Core, Fault};
use super::job::{Note, OwnedRecord, Reply};
use super::outgoing::Body;
use crate::audit::{BodyPlace, Decided, Ended, Raw, Synced};
use crate::decision::{Arguments, Decision, Facts, Next, Question, Reservation, decide};
use crate::ledger::LedgerError;
use crate::provider::{self, Provider};
use bxcore::audit::Kind;
use bxcore::code::Code;
use bxcore::guardrails::ToolRules;
use bxcore::id::{BackendName, ModelCallId, SessionId};
use bxcore::label::Label;
use bxcore::money::MicroUsd;
use bxcore::problem::Problem;
use bxcore::text::present;
use bxcore::tool::ToolName;
use bxcore::usage::Charge;
use bxcore::wire::brokerd::Walk;
use bxcore::wire::provider::{ProviderCall, ProviderInfo, denial};
use bytes::Bytes;
use jiff::civil::Date;

/// How much of an answer goes on record, in bytes. Its hash there is of all of it.
const MAX_RECORDED_BYTES: usize = 48 * 1024;

/// A model call's key: it is made once.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(super) struct ModelKey {
    pub(super) session: SessionId,
    pub(super) call: ModelCallId,
}

/// A model call to a provider.
#[derive(Debug)]
pub(super) struct ModelRequest {
    pub(super) provider: BackendName,
    pub(super) call: ProviderCall,
    pub(super) body: Bytes,
}

/// The right to make one model call: its intent is on disk.
#[derive(Debug)]
pub(super) struct ModelTicket {
    pub(super) key: ModelKey,
    pub(super) provider: Provider,
    pub(super) body: Body,
}

/// How a model call ended.
#[derive(Debug)]
pub(super) struct ModelEnd {
    pub(super) failure: Option<Code>,
    pub(super) text: String,
    pub(super) raw: Raw,
    pub(super) charge: Charge,
}

/// A model call that is under way.
#[derive(Debug)]
pub(super) struct Leading {
    tool: ToolName,
    intent: u64,
    /// The label that it was judged by.
    label: Label,
    /// What the grant says of the answer.
    answer: Label,
    day: Date,
    set_aside: MicroUsd,
}

/// A model call with what the decision has to know of it.
struct Judged {
    label: Label,
    body: Body,
    decision: Decision,
}

impl Core {
    /// Decides a model call, and gives the right to make it once its intent is on disk.
    pub(super) fn begin_model(
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
                // Asking the owner comes with approvals; whoever can't be asked has not agreed.
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

    /// Walks the rules for a model call, or for one that is only asked about.
    fn decide_model(
        &self,
        provider: &Provider,
        arguments: &Arguments,
        sent: Option<(&Body, MicroUsd)>,
        label: Label,
        rules: &ToolRules,
    ) -> Result<Decision, LedgerError> {
        let spec = provider.spec();
        let (least, reserved) = match (arguments, sent) {
            (Arguments::Valid(body), Some((_, reserved))) => {
                (provider::least_reserve(provider.settings(), body), reserved)
            }
            // loopd sets aside what a call may cost; here that is taken as done.
            _ => (MicroUsd::ZERO, MicroUsd::ZERO),
        };
        let facts = Facts {
            destination: Some(provider.settings().url.host().to_owned()),
            secrets: self.secrets_in(spec, arguments, sent.map(|(body, _)| body)),
            reservation: self.reserved_for(provider, least, reserved)?,
            ..Facts::default()
        };
        Ok(decide(&Question {
            name: &spec.name,
            tool: Some(spec),
            arguments,
            label,
            rules,
            grants: &self.policy.grants,
            facts: &facts,
        }))
    }

    fn reserved_for(
        &self,
        provider: &Provider,
        least: MicroUsd,
        reserved: MicroUsd,
    ) -> Result<Reservation, LedgerError> {
        if reserved < least {
            return Ok(Reservation::Missing);
        }
        let spent = self
            .ledger
            .spent(provider.spec().name.as_str(), self.today())?;
        let fits = spent.saturating_add(reserved) <= provider.settings().daily_usd.0;
        Ok(if fits {
            Reservation::Held
        } else {
            Reservation::DayLimit
        })
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
            .and_then(|()| self.ledger.set_aside(tool.as_str(), day, set_aside))
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
            day,
            set_aside,
        };
        self.leading.insert(key.clone(), leading);
        batch.after(move |core, done| {
            let ticket = done.clone().map(|()| ModelTicket {
                key: key.clone(),
                provider,
                body,
            });
            let is_lost = ticket.is_err();
            if reply.send(ticket).is_err() || is_lost {
                core.leading.remove(&key);
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

    /// Ends a model call: label and cost first, then the outcome, then the answer's end. Gives the
    /// session's label.
    pub(super) fn end_model(
        &mut self,
        key: ModelKey,
        end: &ModelEnd,
        reply: Reply<Label>,
        batch: &mut Batch,
    ) -> Result<(), Problem> {
        let Some(leading) = self.leading.remove(&key) else {
            let title = "A model call ended without having begun";
            let _ = reply.send(Err(Problem::new(Code::Internal, title)));
            return Ok(());
        };
        let label = match self.store_model_end(&key, &leading, end, batch) {
            Ok(label) => label,
            Err(error) => return batch.give(reply, Err(error.into())),
        };
        let presented = present(&end.text, MAX_RECORDED_BYTES);
        let record = OwnedRecord {
            intent: Some(leading.intent),
            outcome: Some(match end.failure {
                None => Ended::Ok,
                Some(_) => Ended::Failed,
            }),
            session: Some(key.session),
            model_call: Some(key.call.0),
            tool: Some(leading.tool.as_str().to_owned()),
            label: Some(leading.answer),
            reason: end.failure,
            body: Some(presented.text.into()),
            raw: Some(end.raw.clone()),
            charge: Some(end.charge),
            ..OwnedRecord::default()
        };
        let kind = Kind::Outcome;
        self.note(Note { kind, record }, batch);
        batch.give(reply, Ok(label))
    }

    fn store_model_end(
        &mut self,
        key: &ModelKey,
        leading: &Leading,
        end: &ModelEnd,
        batch: &Batch,
    ) -> Result<Label, LedgerError> {
        self.writing(batch)?;
        let (tool, cost) = (leading.tool.as_str(), end.charge.usd);
        self.ledger
            .charge(tool, leading.day, leading.set_aside, cost)?;
        let label = leading.label.join(leading.answer);
        self.ledger.raise(&key.session, label)
    }

    /// What there is of providers, and what they cost today.
    pub(super) fn providers(&self) -> Result<Vec<ProviderInfo>, Fault> {
        let today = self.today();
        let all = self.policy.providers.iter().map(|(name, provider)| {
            let settings = provider.settings();
            let tool = provider.spec().name.clone();
            let grants = self.policy.grants.iter();
            let max_class = grants
                .filter(|grant| grant.tool == tool)
                .map(|grant| grant.max_taint)
                .max();
            Ok(ProviderInfo {
                backend: provider.as_backend(name),
                price: settings.price(),
                answer_tokens: settings.answer_tokens,
                max_class,
                daily_usd: settings.daily_usd.0,
                spent_today: self.ledger.spent(tool.as_str(), today)?,
                tool,
            })
        });
        all.collect()
    }

    /// What the decision on a provider would be; none where no provider has this name.
    pub(super) fn explain_model(
        &self,
        tool: &ToolName,
        body: Option<&str>,
        label: Label,
        rules: &ToolRules,
    ) -> Result<Option<Walk>, LedgerError> {
        let mut all = self.policy.providers.values();
        let Some(provider) = all.find(|provider| provider.spec().name == *tool) else {
            return Ok(None);
        };
        let arguments = match body {
            Some(body) => provider::arguments(provider.settings(), body),
            None => Arguments::NotGiven,
        };
        let decision = self.decide_model(provider, &arguments, None, label, rules)?;
        Ok(Some(decision.walk))
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
