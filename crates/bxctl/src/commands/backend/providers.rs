//! Providers among the backends: what they cost, and whom they may lead.

use crate::connection::Connection;
use crate::output::{Paint, Table, dollars};
use bxcore::transcript::ToolMode;
use bxcore::wire::provider::ProviderInfo;
use serde_json::{Value, json};

/// The providers of brokerd's configuration; none where brokerd is away, which is told elsewhere.
pub(crate) async fn providers(connection: &Connection) -> Vec<ProviderInfo> {
    let found = connection.brokerd.get("/v1/providers").await;
    found.unwrap_or_default()
}

/// The providers as a table; nothing where there are none.
pub(crate) fn render_providers(providers: &[ProviderInfo], paint: Paint) -> String {
    if providers.is_empty() {
        return String::new();
    }
    let heads = [
        "provider",
        "sessions",
        "url",
        "model",
        "context",
        "tools",
        "a million tokens",
        "today",
    ];
    let mut table = Table::new(&heads, paint);
    for info in providers {
        let backend = &info.backend;
        let context = backend.context_tokens.map(|tokens| tokens.to_string());
        table.row([
            backend.name.as_str(),
            info.max_class
                .map_or("none: no grant", bxcore::label::Class::name),
            &backend.url,
            &backend.model,
            context.as_deref().unwrap_or("-"),
            match backend.tools {
                ToolMode::Native => "native",
                ToolMode::Schema => "schema",
            },
            &price(info),
            &spent(info),
        ]);
    }
    table.render()
}

/// What tokens cost, for a person.
fn price(info: &ProviderInfo) -> String {
    let price = info.price;
    let mut text = format!(
        "{} in, {} out",
        dollars(price.prompt),
        dollars(price.completion)
    );
    if let Some(cached) = price.cached_prompt {
        text.push_str(&format!(", {} cached", dollars(cached)));
    }
    text
}

/// What was spent today, of how much, for a person.
pub(crate) fn spent(info: &ProviderInfo) -> String {
    format!(
        "{} of {}",
        dollars(info.spent_today),
        dollars(info.daily_usd)
    )
}

/// A provider as one of the backends, for a program.
pub(super) fn as_json(info: &ProviderInfo) -> Value {
    let mut value = json!(info.backend);
    value["provider"] = json!({
        "tool": info.tool,
        "price": info.price,
        "answer_tokens": info.answer_tokens,
        "max_class": info.max_class,
        "daily_usd": info.daily_usd.to_string(),
        "spent_today_usd": info.spent_today.to_string(),
    });
    value
}

#[cfg(test)]
pub(crate) fn sample(max_class: Option<&str>, spent_today: i64) -> ProviderInfo {
    serde_json::from_value(json!({
        "backend": {
            "name": "big", "origin": "provider", "url": "https://api.example.org/v1/chat/completions",
            "kind": "openai", "model": "big-1", "slots": null, "max_concurrency": 4,
            "context_tokens": 128_000, "tools": "native", "keeps_reasoning": false,
            "fingerprint": "provider:1", "state": "ready"
        },
        "tool": "provider:big",
        "price": {"prompt": 3_000_000, "completion": 15_000_000, "cached_prompt": 300_000},
        "answer_tokens": 4096,
        "max_class": max_class,
        "daily_usd": 5_000_000,
        "spent_today": spent_today
    }))
    .unwrap()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_provider_has_whom_it_leads_and_what_it_costs() {
        let all = [sample(Some("public"), 6_600), sample(None, 0)];
        insta::assert_snapshot!(render_providers(&all, Paint::Plain), @"
        provider  sessions        url                                          model  context  tools   a million tokens                    today
        big       public          https://api.example.org/v1/chat/completions  big-1  128000   native  $3.00 in, $15.00 out, $0.30 cached  $0.0066 of $5.00
        big       none: no grant  https://api.example.org/v1/chat/completions  big-1  128000   native  $3.00 in, $15.00 out, $0.30 cached  $0.00 of $5.00
        ");
        assert_eq!(render_providers(&[], Paint::Plain), "");
        let value = as_json(&all[0]);
        assert_eq!(value["origin"], "provider");
        assert_eq!(value["provider"]["spent_today_usd"], "0.006600");
    }
}
