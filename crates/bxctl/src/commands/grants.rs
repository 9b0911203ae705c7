//! `grants`: the owner's rules, and what they decide.

use crate::connection::Connection;
use crate::context::Context;
use crate::failure::{Failure, Outcome};
use crate::output::{Paint, Style, Table, one_line};
use crate::ready::ensure_up;
use bxcore::code::Code;
use bxcore::grant::{Approval, Grant};
use bxcore::id::SessionId;
use bxcore::label::{Class, Label};
use bxcore::problem::Problem;
use bxcore::tool::ToolName;
use bxcore::wire::brokerd::{ExplainRequest, Verdict, Walk};
use bxkit::exit;
use clap::{Args, Subcommand};

/// The longest reason that is shown, in characters.
const MAX_REASON_CHARS: usize = 300;

/// What to look at.
#[derive(Debug, Subcommand)]
pub enum GrantsCommand {
    /// List the grants in the order of the file.
    List,
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
fn parse_label(text: &str) -> Result<Label, String> {
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

async fn explain(context: &Context<'_>, connection: &Connection, args: ExplainArgs) -> Outcome {
    let request = ExplainRequest {
        tool: args.tool,
        session: args.session,
        label: args.label,
        arguments: args.arguments,
    };
    let walk: Walk = connection.brokerd.post("/v1/explain", &request).await?;
    if context.output.json {
        context.output.answer_json(&walk)?;
    } else {
        context.output.answer(&render_walk(
            request.tool.as_str(),
            &walk,
            context.output.paint_out,
        ))?;
    }
    // A denial is an answer here, but a script wants to tell it from a permission.
    if walk.allows() {
        Ok(())
    } else {
        Err(Failure::Said(exit::REFUSED))
    }
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
            Some(true) => format!("{}, untrusted", grant.result_class),
            Some(false) => format!("{}, trusted", grant.result_class),
            None => grant.result_class.to_string(),
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

fn render_walk(tool: &str, walk: &Walk, paint: Paint) -> String {
    let mut text = String::new();
    for step in &walk.steps {
        let (style, mark) = match step.verdict {
            Verdict::Pass => (Style::Good, "pass"),
            Verdict::Fail => (Style::Bad, "FAIL"),
            Verdict::Open => (Style::Warn, "open"),
        };
        let rule = serde_json::to_value(step.rule).unwrap_or_default();
        let rule = rule.as_str().unwrap_or("?");
        let because = one_line(&step.because, MAX_REASON_CHARS);
        text.push_str(&format!(
            "{}  {rule:<10}  {because}\n",
            paint.paint(style, mark)
        ));
    }
    let by = walk
        .grant
        .map(|number| format!(" by grant {number}"))
        .unwrap_or_default();
    let verdict = match walk.denied {
        None => paint.paint(Style::Good, &format!("{tool} may run{by}")),
        Some(code) => {
            let text = format!("{tool} is denied{by}: {code} (see docs/runbook/{code}.md)");
            paint.paint(Style::Bad, &text)
        }
    };
    text + &verdict + "\n"
}

/// What is said when a number is none of the log's.
pub(super) fn no_record(seq: u64) -> Problem {
    Problem::new(Code::NotFound, format!("The audit log has no record {seq}"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use bxcore::wire::brokerd::{Rule, Step};

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
    fn a_walk_ends_with_its_verdict() {
        let step = |rule, verdict, because: &str| Step {
            rule,
            verdict,
            because: because.into(),
        };
        let mut walk = Walk {
            steps: vec![
                step(Rule::Known, Verdict::Pass, "http_fetch"),
                step(Rule::Arguments, Verdict::Open, "none were given"),
                step(
                    Rule::Class,
                    Verdict::Fail,
                    "secret is above private\u{1b}[2J",
                ),
            ],
            denied: Some(Code::TaintTooHigh),
            grant: Some(2),
        };
        insta::assert_snapshot!(render_walk("http_fetch", &walk, Paint::Plain), @"
        pass  known       http_fetch
        open  arguments   none were given
        FAIL  class       secret is above private
        http_fetch is denied by grant 2: taint-too-high (see docs/runbook/taint-too-high.md)
        ");
        walk.denied = None;
        assert!(render_walk("clock", &walk, Paint::Plain).ends_with("clock may run by grant 2\n"));
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
