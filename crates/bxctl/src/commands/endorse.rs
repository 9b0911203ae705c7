//! `endorse`: the owner says what label one object has.

use super::grants::parse_label;
use crate::context::Context;
use crate::failure::Outcome;
use crate::ready::ensure_up;
use bxcore::id::SessionId;
use bxcore::label::Label;
use bxcore::wire::brokerd::{Endorse, Endorsed};
use clap::Args;

/// Options of `endorse`.
#[derive(Debug, Args)]
pub struct EndorseArgs {
    /// A file that a tool wrote, as tools see it: `notes/a.txt` in the folder `notes`; with
    /// `--session`, `.` for that session's own folder.
    pub path: String,
    /// The label that it has from now on: `private`, or `private,untrusted`.
    #[arg(long, value_parser = parse_label)]
    pub label: Label,
    /// Why, for the record.
    #[arg(long, value_name = "TEXT")]
    pub why: String,
    /// The session whose folder is meant.
    #[arg(long, value_name = "ID")]
    pub session: Option<SessionId>,
}

pub(crate) async fn run(context: &Context<'_>, args: EndorseArgs) -> Outcome {
    let connection = ensure_up(context).await?;
    let request = Endorse {
        session: args.session,
        path: args.path,
        label: args.label,
        why: args.why,
    };
    let endorsed: Endorsed = connection.brokerd.post("/v1/endorse", &request).await?;
    if context.output.json {
        context.output.answer_json(&endorsed)?;
    } else {
        let Endorsed {
            before,
            after,
            audit,
        } = endorsed;
        let path = match &request.session {
            Some(session) => format!("the folder of session {session}, with all that is in it"),
            None => request.path.clone(),
        };
        context.output.answer(&format!(
            "{path}: it was {before}, and is {after} from now on (record {audit})\n"
        ))?;
    }
    Ok(())
}
