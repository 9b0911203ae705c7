//! `backend remove`: an entry out of inferproxy.toml, in use no more.

use super::{add, edit};
use crate::connection::Connection;
use crate::context::Context;
use crate::failure::Outcome;
use bxcore::id::BackendName;
use bxcore::role::Role;
use serde_json::json;

pub(super) async fn run(context: &Context<'_>, name: &BackendName) -> Outcome {
    let path = context.home.config_file(Role::Inferproxy);
    let text = edit::removed(&add::current(&path)?, name)?;
    add::check(context, &path, &text)?;
    add::write(&path, &text)?;
    if let Some(connection) = Connection::find(context.home).await? {
        add::read_again(&connection).await?;
    }
    let file = path.display().to_string();
    if context.output.json {
        let value = json!({ "file": file, "removed": name });
        context.output.answer_json(&value)?;
    } else {
        let text = format!("{name} is no longer in {file}\n");
        context.output.answer(&text)?;
    }
    Ok(())
}
