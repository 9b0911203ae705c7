//! `approvals`, `approve`, `deny`: what waits for the owner, and the owner's answers.

use crate::confirm;
use crate::connection::Connection;
use crate::context::Context;
use crate::failure::{Failure, Outcome};
use crate::output::{Output, Paint, Table, sanitize};
use crate::ready::ensure_up;
use bxcore::code::Code;
use bxcore::id::{ApprovalId, SessionId};
use bxcore::problem::Problem;
use bxcore::wire::approval::{Answer, Approval, Approvals, Said, WATCH_SECS};
use bxkit::rpc::{CallError, Client};
use clap::Args;
use jiff::Timestamp;
use std::collections::HashSet;
use std::time::Duration;

/// How much longer than brokerd waits for news we wait for its answer, in seconds.
const WATCH_GRACE_SECS: u64 = 20;

/// Options of `approvals`.
#[derive(Debug, Args)]
pub struct ApprovalsArgs {
    /// Show this one in full; the start of its id is enough.
    #[arg(value_name = "ID")]
    pub id: Option<String>,
    /// Stay, and show each new one in full as it comes.
    #[arg(long, conflicts_with = "id")]
    pub watch: bool,
}

/// Options of `approve`.
#[derive(Debug, Args)]
pub struct ApproveArgs {
    /// Which one: the start of its id is enough. It may be left out where only one waits.
    #[arg(value_name = "ID")]
    pub id: Option<String>,
    /// Ask for no confirmation; needs an id.
    #[arg(long, short = 'y')]
    pub yes: bool,
}

/// Options of `deny`.
#[derive(Debug, Args)]
pub struct DenyArgs {
    /// Which one: the start of its id is enough. It may be left out where only one waits.
    #[arg(value_name = "ID")]
    pub id: Option<String>,
}

pub(crate) async fn run(context: &Context<'_>, args: ApprovalsArgs) -> Outcome {
    let connection = ensure_up(context).await?;
    let output = &context.output;
    if args.watch {
        return watch(output, &connection).await;
    }
    if let Some(id) = &args.id {
        let approval = find(&connection.brokerd, Some(id)).await?;
        return show(output, &approval);
    }
    let list = pending(&connection.brokerd).await?;
    if output.json {
        output.answer_json(&list.pending)?;
    } else {
        output.answer(&render(&list.pending, Timestamp::now(), output.paint_out))?;
        if let Some(why) = &list.webhook_failure {
            output.note(&format!(
                "the webhook did not take the last notification: {why}"
            ));
        }
    }
    Ok(())
}

pub(crate) async fn approve(context: &Context<'_>, args: ApproveArgs) -> Outcome {
    let id = args.id.as_deref().filter(|id| !id.is_empty());
    if args.yes && id.is_none() {
        let title = "Nothing is approved that was neither seen nor named";
        return Err(Problem::new(Code::BadUsage, title)
            .hint("name it: `boxmaker approve ID --yes`; or leave `--yes` out, and it is shown")
            .into());
    }
    let connection = ensure_up(context).await?;
    let seen = find(&connection.brokerd, id).await?;
    if !args.yes {
        context.output.note_raw(&sanitize(&seen.shown));
        if !confirm::firmly(context, "Let it run, once?")? {
            context.output.note("nothing was said; it still waits");
            return Err(Failure::Said(bxkit::exit::FAILED));
        }
    }
    answer(context, &connection, &seen, Said::Approve).await
}

pub(crate) async fn deny(context: &Context<'_>, args: DenyArgs) -> Outcome {
    let connection = ensure_up(context).await?;
    let seen = find(&connection.brokerd, args.id.as_deref()).await?;
    answer(context, &connection, &seen, Said::Deny).await
}

async fn answer(
    context: &Context<'_>,
    connection: &Connection,
    seen: &Approval,
    said: Said,
) -> Outcome {
    let output = &context.output;
    let told = say(&connection.brokerd, seen, said).await?;
    if output.json {
        output.answer_json(&told)?;
    } else {
        let Approval { id, tool, .. } = &told;
        output.answer(&format!("{id} ({tool}) is {}\n", told.state.name()))?;
    }
    Ok(())
}

/// Tells brokerd what the owner says of what was seen.
pub(crate) async fn say(
    brokerd: &Client,
    seen: &Approval,
    said: Said,
) -> Result<Approval, CallError> {
    let answer = Answer {
        said,
        shown_sha256: seen.shown_sha256.clone(),
    };
    let path = format!("/v1/approvals/{}", seen.id);
    brokerd.post(&path, &answer).await
}

async fn pending(brokerd: &Client) -> Result<Approvals, CallError> {
    brokerd.get("/v1/approvals").await
}

/// The approval that is meant: by its id, by the start of one that waits, or the only one.
async fn find(brokerd: &Client, id: Option<&str>) -> Result<Approval, Failure> {
    let list = pending(brokerd).await?.pending;
    let start = id.unwrap_or_default();
    let mut matching = list
        .into_iter()
        .filter(|one| one.id.as_str().starts_with(start));
    match (matching.next(), matching.next(), id) {
        (Some(one), None, _) => Ok(one),
        (Some(one), Some(_), Some(id)) if one.id.as_str() == id => Ok(one),
        (Some(_), Some(_), _) => Err(Problem::new(
            Code::BadUsage,
            "Several approvals wait for you",
        )
        .hint("`boxmaker approvals` lists them; name one by its id")
        .into()),
        (None, _, None) => Err(Problem::new(Code::NotFound, "No approval waits for you")
            .hint("`boxmaker approvals --watch` shows each as it comes")
            .into()),
        (None, _, Some(id)) => {
            let id = ApprovalId::new(id).map_err(|error| {
                Problem::new(Code::BadUsage, "The id is not valid").detail(error.to_string())
            })?;
            Ok(brokerd.get(&format!("/v1/approvals/{id}")).await?)
        }
    }
}

fn show(output: &Output, approval: &Approval) -> Outcome {
    if output.json {
        output.answer_json(approval)?;
        return Ok(());
    }
    output.answer(&sanitize(&approval.shown))?;
    output.answer(&format!("state           │ {}\n", approval.state.name()))?;
    Ok(())
}

/// Shows each approval once, as it comes, until it is interrupted.
async fn watch(output: &Output, connection: &Connection) -> Outcome {
    let patient = Duration::from_secs(WATCH_SECS + WATCH_GRACE_SECS);
    let brokerd = connection.brokerd.clone().timeout(patient);
    let mut told = HashSet::new();
    let mut path = "/v1/approvals".to_owned();
    loop {
        let list: Approvals = tokio::select! {
            list = brokerd.get(&path) => list?,
            _ = tokio::signal::ctrl_c() => return Err(Failure::Stopped),
        };
        path = format!("/v1/approvals?after={}", list.version);
        for one in &list.pending {
            if !told.insert(one.id.clone()) {
                continue;
            }
            if output.json {
                output.answer_json(one)?;
            } else {
                let id = &one.id;
                let shown = sanitize(&one.shown);
                output.answer(&format!(
                    "{shown}`boxmaker approve {id}` or `boxmaker deny {id}`\n\n"
                ))?;
            }
        }
        told.retain(|id| list.pending.iter().any(|one| one.id == *id));
    }
}

fn render(pending: &[Approval], now: Timestamp, paint: Paint) -> String {
    if pending.is_empty() {
        return "nothing waits for your approval\n".to_owned();
    }
    let heads = ["id", "tool", "session", "label", "asked by", "minutes left"];
    let mut table = Table::new(&heads, paint);
    for one in pending {
        let lineage: Vec<&str> = one.lineage.iter().map(SessionId::as_str).collect();
        table.row([
            one.id.as_str(),
            one.tool.as_str(),
            one.session.as_str(),
            &one.label.to_string(),
            &lineage.join(" < "),
            &minutes_left(&one.expires, now),
        ]);
    }
    let more = "`boxmaker approve ID` shows one in full and asks; `boxmaker deny ID` says no\n";
    format!("{}{more}", table.render())
}

fn minutes_left(expires: &str, now: Timestamp) -> String {
    match expires.parse::<Timestamp>() {
        Ok(expires) => (expires.duration_since(now).as_secs().max(0) / 60).to_string(),
        Err(_) => "?".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use bxcore::id::CallId;
    use bxcore::label::Label;
    use bxcore::tool::ToolName;
    use bxcore::wire::approval::ApprovalState;

    #[test]
    fn the_list_names_what_waits_and_how_long() {
        let session = |id: &str| SessionId::new(id).unwrap();
        let one = Approval {
            id: ApprovalId::new("0a1b2c3d").unwrap(),
            state: ApprovalState::Pending,
            session: session("sub-chat-1-2"),
            lineage: vec![session("chat-1")],
            call: CallId(3),
            tool: ToolName::new("shell").unwrap(),
            label: Label::OWNER,
            asked: "2026-12-01T10:00:00Z".into(),
            expires: "2026-12-01T11:00:00Z".into(),
            shown: String::new(),
            shown_sha256: String::new(),
        };
        let now = "2026-12-01T10:20:30Z".parse().unwrap();
        insta::assert_snapshot!(render(&[one], now, Paint::Plain), @r"
        id        tool   session       label    asked by  minutes left
        0a1b2c3d  shell  sub-chat-1-2  private  chat-1    39
        `boxmaker approve ID` shows one in full and asks; `boxmaker deny ID` says no
        ");
        assert_eq!(
            render(&[], now, Paint::Plain),
            "nothing waits for your approval\n"
        );
    }
}
