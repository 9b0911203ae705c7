//! What the decision has to know of a model call, and what is told of providers without one.

use crate::broker::core::{Core, Fault};
use crate::broker::outgoing::Body;
use crate::decision::{
    Approval, Arguments, Decision, Facts, Question, Reservation, Unroutable, decide,
};
use crate::ledger::LedgerError;
use crate::provider::{self, Provider};
use bxcore::guardrails::ToolRules;
use bxcore::label::Label;
use bxcore::money::MicroUsd;
use bxcore::tool::ToolName;
use bxcore::wire::brokerd::Walk;
use bxcore::wire::provider::ProviderInfo;

impl Core {
    /// Walks the rules for a model call, or for one that is only asked about.
    pub(super) fn decide_model(
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
            approval: Approval::Unroutable(Unroutable::Provider),
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

    /// What there is of providers, and what they cost today.
    pub(in crate::broker) fn providers(&self) -> Result<Vec<ProviderInfo>, Fault> {
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
    pub(in crate::broker) fn explain_model(
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
