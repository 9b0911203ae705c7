//! `grants`: the owner's rules, and what they decide.

use super::walk::render_walk;
use crate::connection::Connection;
use crate::context::Context;
use crate::failure::{Failure, Outcome};
use crate::output::{Paint, Table};
use crate::ready::ensure_up;
use bxcore::code::Code;
use bxcore::delegation::SUBAGENT;
use bxcore::grant::{Approval, Grant};
use bxcore::id::SessionId;
use bxcore::label::{Class, Label};
use bxcore::problem::Problem;
use bxcore::tool::{ToolName, ToolSpec};
use bxcore::wire::brokerd::{ExplainRequest, Rule, Step, Verdict, Walk};
use bxkit::exit;
use clap::{Args, Subcommand};

/// What to look at.
#[derive(Debug, Subcommand)]
pub enum GrantsCommand {
    /// List the grants in the order of the file.
    List,
    /// List the tools, and which of them need a grant.
    Tools,
    /// Show every step of the decision on a call, without making it.
    Explain(ExplainArgs),
}

/// Options of `grants explain`.
#[derive(Debug, Args)]
pub struct ExplainArgs {
    /// The tool.
    pub tool: ToolName,
    /// The session that would call.
    #[arg(long, value_name = "ID")]
    pub session: Option<SessionId>,
    /// A label to judge by in place of the session's: `private`, or `private,untrusted`.
    #[arg(long, value_parser = parse_label)]
    pub label: Option<Label>,
    /// The call's arguments, as JSON.
    #[arg(long = "args", value_name = "JSON")]
    pub arguments: Option<String>,
}

/// Reads a label as it is typed.
pub(super) fn parse_label(text: &str) -> Result<Label, String> {
    let (class, untrusted) = match text.split_once(',') {
        Some((class, flag)) if flag.trim() == "untrusted" => (class, true),
        Some((_, flag)) => return Err(format!("`{}` is not `untrusted`", flag.trim())),
        None => (text, false),
    };
    let class: Class = class.trim().parse().map_err(|error| format!("{error}"))?;
    Ok(Label::new(class, untrusted))
}

pub(crate) async fn run(context: &Context<'_>, command: GrantsCommand) -> Outcome {
    let connection = ensure_up(context).await?;
    match command {
        GrantsCommand::List => list(context, &connection).await,
        GrantsCommand::Tools => tools(context, &connection).await,
        GrantsCommand::Explain(args) => explain(context, &connection, args).await,
    }
}

async fn list(context: &Context<'_>, connection: &Connection) -> Outcome {
    let grants: Vec<Grant> = connection.brokerd.get("/v1/grants").await?;
    if context.output.json {
        context.output.answer_json(&grants)?;
    } else {
        context
            .output
            .answer(&render_list(&grants, context.output.paint_out))?;
    }
    Ok(())
}

async fn tools(context: &Context<'_>, connection: &Connection) -> Outcome {
    let specs: Vec<ToolSpec> = connection.brokerd.get("/v1/tools").await?;
    if context.output.json {
        context.output.answer_json(&specs)?;
    } else {
        context
            .output
            .answer(&render_tools(&specs, context.output.paint_out))?;
    }
    Ok(())
}

async fn explain(context: &Context<'_>, connection: &Connection, args: ExplainArgs) -> Outcome {
    let request = ExplainRequest {
        tool: args.tool,
        session: args.session,
        label: args.label,
        arguments: args.arguments,
    };
    let walk = match own_walk(&request.tool) {
        Some(walk) => walk,
        None => connection.brokerd.post("/v1/explain", &request).await?,
    };
    if context.output.json {
        context.output.answer_json(&walk)?;
    } else {
        context.output.answer(&render_walk(
            request.tool.as_str(),
            &walk,
            context.output.paint_out,
        ))?;
        if walk.allows() && names_a_path(request.arguments.as_deref()) {
            context.output.note(
                "The path is checked when the tool runs: one out of the workspace is refused then.",
            );
        }
        if walk.denied == Some(Code::UnknownTool) {
            context
                .output
                .note("`boxmaker grants tools` lists the tools.");
        }
    }
    // A denial is an answer here, but a script wants to tell it from a permission.
    if walk.allows() {
        Ok(())
    } else {
        Err(Failure::Said(exit::REFUSED))
    }
}

/// Whether a call's arguments name a file or folder.
fn names_a_path(arguments: Option<&str>) -> bool {
    let parsed = arguments.and_then(|text| serde_json::from_str::<serde_json::Value>(text).ok());
    parsed.is_some_and(|arguments| arguments.get("path").is_some())
}

/// The walk of a tool that loopd answers itself: nobody decides it.
fn own_walk(tool: &ToolName) -> Option<Walk> {
    LOOPDS_OWN.iter().find(|(name, _)| *name == tool.as_str())?;
    let because = match tool.as_str() {
        "call_tool" => "loopd's own: it stands for another tool, and that one is decided",
        SUBAGENT => {
            "loopd's own: it runs unless [guardrails] deny it, and the helper may do no more than who asks"
        }
        _ => "loopd's own tool: it runs without a grant, and nothing of it leaves the session",
    };
    let step = Step {
        rule: Rule::Known,
        verdict: Verdict::Pass,
        because: because.to_owned(),
    };
    Some(Walk {
        steps: vec![step],
        denied: None,
        grant: None,
    })
}

/// What loopd answers itself, which brokerd therefore does not list.
const LOOPDS_OWN: [(&str, &str); 4] = [
    (
        "call_tool",
        "Calls a tool that was found; that one is decided.",
    ),
    ("clock", "Tells date and time."),
    ("find_tool", "Finds tools by what they do."),
    (SUBAGENT, "Has a helper work on a part of the task."),
];

fn render_tools(specs: &[ToolSpec], paint: Paint) -> String {
    let mut table = Table::new(&["tool", "needs", "what it does"], paint);
    for (name, does) in LOOPDS_OWN {
        table.row([name, "nothing", does]);
    }
    for spec in specs {
        let tags: Vec<&str> = spec.tags.iter().map(|tag| tag.name()).collect();
        let needs = if tags.is_empty() {
            "nothing".to_owned()
        } else {
            format!("a grant ({})", tags.join(", "))
        };
        table.row([spec.name.as_str(), &needs, &spec.description]);
    }
    table.render()
}

fn render_list(grants: &[Grant], paint: Paint) -> String {
    if grants.is_empty() {
        return "no grants: only tools that need none may run\n".to_owned();
    }
    let heads = [
        "no",
        "tool",
        "up to class",
        "untrusted sessions",
        "result",
        "approval",
        "hosts",
    ];
    let mut table = Table::new(&heads, paint);
    for (number, grant) in grants.iter().enumerate() {
        let result = match grant.untrusted {
            Some(true) => format!("{}, untrusted", grant.result_class()),
            Some(false) => format!("{}, trusted", grant.result_class()),
            None => grant.result_class().to_string(),
        };
        table.row([
            (number + 1).to_string().as_str(),
            grant.tool.as_str(),
            grant.max_taint.name(),
            if grant.accept_untrusted {
                "accepted"
            } else {
                "refused"
            },
            &result,
            if grant.approval == Approval::Always {
                "always"
            } else {
                "never"
            },
            &grant.hosts.join(" "),
        ]);
    }
    table.render()
}

/// What is said when a number is none of the log's.
pub(super) fn no_record(seq: u64) -> Problem {
    Problem::new(Code::NotFound, format!("The audit log has no record {seq}"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use bxcore::tool::{BUILT_IN_TOOLS, is_loopds_own};

    #[test]
    fn labels_are_read_as_they_are_typed() {
        assert_eq!(parse_label("secret"), Ok(Label::new(Class::Secret, false)));
        assert_eq!(
            parse_label("public, untrusted"),
            Ok(Label::new(Class::Public, true))
        );
        for bad in [
            "",
            "privat",
            "private,trusted",
            "untrusted",
            "private,untrusted,x",
        ] {
            assert!(parse_label(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn loopds_own_tools_need_nobodys_word() {
        let walk = own_walk(&ToolName::new("clock").unwrap()).unwrap();
        insta::assert_snapshot!(render_walk("clock", &walk, Paint::Plain), @"
        pass  known       loopd's own tool: it runs without a grant, and nothing of it leaves the session
        clock may run
        ");
        assert!(own_walk(&ToolName::new("read_file").unwrap()).is_none());
    }

    #[test]
    fn every_tool_of_loopds_is_listed() {
        let own = BUILT_IN_TOOLS
            .into_iter()
            .filter(|name| is_loopds_own(name));
        let listed: Vec<&str> = LOOPDS_OWN.iter().map(|(name, _)| *name).collect();
        assert_eq!(own.collect::<Vec<_>>(), listed);
    }

    #[test]
    fn a_path_among_the_arguments_is_noticed() {
        assert!(names_a_path(Some(r#"{"path":"/etc/passwd"}"#)));
        for arguments in [None, Some("{}"), Some("path"), Some(r#"["path"]"#)] {
            assert!(!names_a_path(arguments), "{arguments:?}");
        }
    }

    #[test]
    fn tools_say_what_they_need() {
        let specs: Vec<ToolSpec> = serde_json::from_str(
            r#"[{"name":"list_dir","description":"Lists a folder.","parameters":{},"tags":[],"repeat":"safe"},
                {"name":"shell","description":"Runs a line.","parameters":{},"tags":["write","exec"],"repeat":"never"}]"#,
        )
        .unwrap();
        insta::assert_snapshot!(render_tools(&specs, Paint::Plain), @"
        tool       needs                  what it does
        call_tool  nothing                Calls a tool that was found; that one is decided.
        clock      nothing                Tells date and time.
        find_tool  nothing                Finds tools by what they do.
        subagent   nothing                Has a helper work on a part of the task.
        list_dir   nothing                Lists a folder.
        shell      a grant (write, exec)  Runs a line.
        ");
    }

    #[test]
    fn grants_are_numbered_as_in_the_file() {
        let grants: Vec<Grant> = serde_json::from_str(
            r#"[{"tool":"http_fetch","hosts":["*.example.org"],"max_taint":"private"},{"tool":"shell","approval":"always","untrusted":true}]"#,
        )
        .unwrap();
        insta::assert_snapshot!(render_list(&grants, Paint::Plain), @"
        no  tool        up to class  untrusted sessions  result              approval  hosts
        1   http_fetch  private      refused             private             never     *.example.org
        2   shell       public       refused             private, untrusted  always
        ");
    }
}
