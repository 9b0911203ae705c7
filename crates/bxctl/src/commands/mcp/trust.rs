//! `mcp trust` and `mcp untrust`: the owner's word on tools, once they were read.

use super::look;
use super::show::{no_tool, render};
use super::target::Target;
use crate::confirm;
use crate::connection::Connection;
use crate::context::Context;
use crate::failure::{Failure, Outcome};
use bxcore::audit::sha256_hex;
use bxcore::code::Code;
use bxcore::problem::Problem;
use bxcore::wire::mcp::{McpChanged, McpPin, McpState, McpTool, McpTrust, McpUntrust};
use clap::Args;

/// Options of `mcp trust`.
#[derive(Debug, Args)]
pub struct TrustArgs {
    /// `SERVER`, for all of its tools that are not trusted as they are, or `SERVER/TOOL`.
    target: Target,
    /// Ask for no confirmation; needs the hash of what was read.
    #[arg(long, short = 'y', requires = "hash")]
    yes: bool,
    /// Trust only what has this hash, as an earlier run showed it.
    #[arg(long, value_name = "HASH")]
    hash: Option<String>,
}

pub(super) async fn run(
    context: &Context<'_>,
    connection: &Connection,
    args: &TrustArgs,
) -> Outcome {
    let target = &args.target;
    let mut tools = target.of(look(connection, &target.server).await?);
    if tools.is_empty() {
        return Err(no_tool(target).into());
    }
    tools.retain(|tool| matches!(tool.state, McpState::New | McpState::Changed));
    if tools.is_empty() {
        context.output.note("it is trusted as it is already");
        return Ok(());
    }
    let pins = pins(&tools);
    let hash = hash(&pins);
    if args.hash.as_ref().is_some_and(|wanted| *wanted != hash) {
        return Err(other_hash(&hash).into());
    }
    if !args.yes {
        context.output.note_raw(&render(target, &tools));
        context
            .output
            .note(&format!("hash of all that is shown: {hash}"));
        if !confirm::firmly(context, "Trust this, as it is?")? {
            context.output.note("nothing was trusted");
            return Err(Failure::Said(bxkit::exit::FAILED));
        }
    }
    let path = format!("/v1/mcp/{}/trust", target.server);
    let changed: McpChanged = connection
        .brokerd
        .post(&path, &McpTrust { tools: pins })
        .await?;
    tell(context, target, &changed, "trusted")
}

pub(super) async fn untrust(
    context: &Context<'_>,
    connection: &Connection,
    target: Target,
) -> Outcome {
    let path = format!("/v1/mcp/{}/untrust", target.server);
    let untrust = McpUntrust {
        tool: target.tool.clone(),
    };
    let changed: McpChanged = connection.brokerd.post(&path, &untrust).await?;
    tell(context, &target, &changed, "not trusted any more")
}

fn tell(context: &Context<'_>, target: &Target, changed: &McpChanged, how: &str) -> Outcome {
    if context.output.json {
        context.output.answer_json(changed)?;
        return Ok(());
    }
    let Some(audit) = changed.audit else {
        context.output.note("nothing of it was trusted");
        return Ok(());
    };
    let names = changed.tools.join(", ");
    let server = &target.server;
    context
        .output
        .answer(&format!("{server}: {names}: {how} (record {audit})\n"))?;
    Ok(())
}

fn pins(tools: &[McpTool]) -> Vec<McpPin> {
    let seen = tools.iter().filter_map(|tool| {
        Some(McpPin {
            name: tool.name.clone(),
            sha256: tool.seen.as_ref()?.sha256.clone(),
        })
    });
    seen.collect()
}

/// One hash for all that is trusted at once: that of one tool, or that of all their hashes.
fn hash(pins: &[McpPin]) -> String {
    match pins {
        [pin] => pin.sha256.clone(),
        pins => {
            let lines = pins.iter().map(|pin| format!("{}\n", pin.sha256));
            sha256_hex(lines.collect::<String>().as_bytes())
        }
    }
}

fn other_hash(hash: &str) -> Problem {
    Problem::new(Code::McpNotTrusted, "It is not what has this hash")
        .detail(format!("the hash is {hash} now"))
        .hint("read what it says now: boxmaker mcp show")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_tool_has_its_own_hash_and_more_have_one_of_all() {
        let pin = |hash: &str| McpPin {
            name: "a".to_owned(),
            sha256: hash.to_owned(),
        };
        assert_eq!(hash(&[pin("aa")]), "aa");
        let both = hash(&[pin("aa"), pin("bb")]);
        assert_eq!(both, sha256_hex(b"aa\nbb\n"));
        assert_ne!(both, hash(&[pin("bb"), pin("aa")]));
    }
}
