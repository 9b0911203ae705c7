//! `mcp list`: servers, their tools, and which of them are trusted.

use super::look;
use crate::connection::Connection;
use crate::context::Context;
use crate::failure::Outcome;
use crate::output::{Paint, Table};
use bxcore::problem::Problem;
use bxcore::wire::mcp::{McpServer, McpState};
use clap::Args;
use serde::Serialize;

/// Options of `mcp list`.
#[derive(Debug, Args)]
pub struct ListArgs {
    /// Ask no server: show what is known from when they were asked last.
    #[arg(long)]
    known: bool,
}

/// A server, and why it could not be asked, if it could not.
#[derive(Debug, Serialize)]
struct Listed {
    #[serde(flatten)]
    server: McpServer,
    #[serde(skip_serializing_if = "Option::is_none")]
    problem: Option<Problem>,
}

pub(super) async fn run(
    context: &Context<'_>,
    connection: &Connection,
    args: &ListArgs,
) -> Outcome {
    let servers: Vec<McpServer> = connection.brokerd.get("/v1/mcp").await?;
    let mut listed = Vec::with_capacity(servers.len());
    for server in servers {
        listed.push(if args.known {
            Listed {
                server,
                problem: None,
            }
        } else {
            let mut progress = context.progress();
            progress.say(&format!("asking {} …", server.name));
            match look(connection, &server.name).await {
                Ok(server) => Listed {
                    server,
                    problem: None,
                },
                Err(error) => Listed {
                    server,
                    problem: Some(error.problem()),
                },
            }
        });
    }
    if context.output.json {
        context.output.answer_json(&listed)?;
        return Ok(());
    }
    let text = render(&listed, context.output.paint_out);
    context.output.answer(&text)?;
    let is_open = |listed: &Listed| {
        let mut tools = listed.server.tools.iter();
        tools.any(|tool| tool.state != McpState::Pinned)
    };
    if let Some(open) = listed.iter().find(|listed| is_open(listed)) {
        let name = &open.server.name;
        context.output.note(&format!(
            "`boxmaker mcp show {name}` shows what its tools say, `boxmaker mcp trust {name}` trusts it."
        ));
    }
    Ok(())
}

fn render(listed: &[Listed], paint: Paint) -> String {
    if listed.is_empty() {
        return "no MCP servers: they are the `[[mcp]]` of brokerd.toml\n".to_owned();
    }
    let mut table = Table::new(&["server", "where", "tool", "state"], paint);
    for Listed { server, problem } in listed {
        let (name, place) = (server.name.as_str(), server.place.as_str());
        if let Some(problem) = problem {
            table.row([name, place, "", &problem.title]);
        } else if server.tools.is_empty() {
            table.row([name, place, "", "no tools"]);
        }
        for tool in &server.tools {
            table.row([name, place, &tool.name, tool.state.name()]);
        }
    }
    table.render()
}

#[cfg(test)]
mod tests {
    use super::*;
    use bxcore::code::Code;
    use bxcore::id::McpServerName;
    use bxcore::wire::mcp::McpTool;

    #[test]
    fn each_tool_has_its_state_and_each_failure_its_line() {
        let server = |name: &str, states: &[McpState]| McpServer {
            name: McpServerName::new(name).unwrap(),
            place: "sandbox".to_owned(),
            tools: states
                .iter()
                .map(|state| McpTool {
                    name: format!("do-{}", state.name()),
                    state: *state,
                    seen: None,
                    pinned: None,
                })
                .collect(),
        };
        let listed = [
            Listed {
                server: server("a", &[McpState::Pinned, McpState::Changed]),
                problem: None,
            },
            Listed {
                server: server("b", &[]),
                problem: Some(Problem::new(Code::McpFailed, "It can't be used (timeout)")),
            },
            Listed {
                server: server("c", &[]),
                problem: None,
            },
        ];
        insta::assert_snapshot!(render(&listed, Paint::Plain), @"
        server  where    tool        state
        a       sandbox  do-pinned   pinned
        a       sandbox  do-changed  changed
        b       sandbox              It can't be used (timeout)
        c       sandbox              no tools
        ");
    }
}
