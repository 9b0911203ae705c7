//! `audit`: the log read and verified.
//!
//! Verifying and listing need nothing that runs: they read the files themselves.

mod checkpoint;
mod record;
mod wire;

use super::grants::no_record;
use crate::context::Context;
use crate::failure::{Failure, Outcome};
use crate::ready::ensure_up;
use bxcore::code::Code;
use bxkit::audit_reader::{AuditFault, Expected, Verified, latest, verify};
use bxkit::rpc::CallError;
use clap::{Args, Subcommand};
use serde_json::{Value, json};
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

/// What to do with the log.
#[derive(Debug, Subcommand)]
pub enum AuditCommand {
    /// List the latest records.
    List(ListArgs),
    /// Show a record, an intent together with its outcome.
    Show(ShowArgs),
    /// Check every line, hash, number, body and payload file.
    Verify(VerifyArgs),
    /// Sign the log as it is now and print that, to be kept where nothing here can change it.
    Checkpoint,
    /// Compare the exact bytes on record with a request that was captured on the wire.
    Diff(DiffArgs),
}

/// Options of `audit list`.
#[derive(Debug, Args)]
pub struct ListArgs {
    /// How many, at most.
    #[arg(short = 'n', long, default_value_t = 20, value_parser = clap::value_parser!(u16).range(1..=10_000))]
    pub count: u16,
}

/// Options of `audit show`.
#[derive(Debug, Args)]
pub struct ShowArgs {
    /// The record's number.
    pub seq: u64,
}

/// Options of `audit verify`.
#[derive(Debug, Args)]
pub struct VerifyArgs {
    /// The folder of another log, such as a backup's.
    pub folder: Option<PathBuf>,
    /// A record that the log must have, as `SEQ:HASH`: finds a tail that was cut off.
    #[arg(long, value_name = "SEQ:HASH", value_parser = parse_expected)]
    pub head: Option<Expected>,
    /// A file that `audit checkpoint` wrote: finds a tail that was cut off since, and an older copy.
    #[arg(long, value_name = "FILE", conflicts_with = "head")]
    pub checkpoint: Option<PathBuf>,
}

/// Options of `audit diff`.
#[derive(Debug, Args)]
pub struct DiffArgs {
    /// The number of the record of what was sent.
    pub seq: u64,
    /// The captured request: with its head, or the body alone.
    #[arg(long, value_name = "FILE")]
    pub wire: PathBuf,
}

/// Reads `12:9f…`.
fn parse_expected(text: &str) -> Result<Expected, String> {
    let (seq, hash) = text.split_once(':').ok_or("it is not SEQ:HASH")?;
    let seq = seq
        .parse()
        .map_err(|_| format!("`{seq}` is not a number"))?;
    if hash.len() != 64 || !hash.bytes().all(|byte| byte.is_ascii_hexdigit()) {
        return Err("the hash is not 64 hex digits".to_owned());
    }
    Ok(Expected {
        seq,
        hash: hash.to_ascii_lowercase(),
    })
}

pub(crate) async fn run(context: &Context<'_>, command: AuditCommand) -> Outcome {
    match command {
        AuditCommand::List(args) => list(context, args.count),
        AuditCommand::Show(args) => show(context, args.seq).await,
        AuditCommand::Verify(args) => check(context, &args),
        AuditCommand::Checkpoint => checkpoint::make(context).await,
        AuditCommand::Diff(args) => wire::diff(context, &args).await,
    }
}

fn list(context: &Context<'_>, count: u16) -> Outcome {
    let folder = context.home.audit_dir();
    let lines = if has_log(&folder) {
        latest(&folder, usize::from(count)).map_err(|fault| fault.problem())?
    } else {
        Vec::new()
    };
    let records: Vec<Value> = lines
        .iter()
        .filter_map(|line| serde_json::from_str(line).ok())
        .collect();
    if context.output.json {
        context.output.answer_json(&records)?;
    } else {
        context
            .output
            .answer(&record::table(&records, context.output.paint_out))?;
    }
    Ok(())
}

async fn show(context: &Context<'_>, seq: u64) -> Outcome {
    let record = record_of(context, seq).await?;
    if context.output.json {
        context.output.answer_json(&record)?;
    } else {
        context
            .output
            .answer(&record::render(&record, context.output.paint_out))?;
    }
    Ok(())
}

/// A record with its exact bytes, as brokerd shows it; that it was shown goes on record.
async fn record_of(context: &Context<'_>, seq: u64) -> Result<Value, Failure> {
    let connection = ensure_up(context).await?;
    match connection.brokerd.get(&format!("/v1/audit/{seq}")).await {
        Ok(record) => Ok(record),
        Err(CallError::Refused(problem)) if problem.code == Code::NotFound => {
            Err(no_record(seq).into())
        }
        Err(error) => Err(error.into()),
    }
}

fn check(context: &Context<'_>, args: &VerifyArgs) -> Outcome {
    let folder = args
        .folder
        .clone()
        .unwrap_or_else(|| context.home.audit_dir());
    let signed = args
        .checkpoint
        .as_deref()
        .map(checkpoint::read)
        .transpose()?;
    let named = args.head.clone().or(signed.as_ref().map(Expected::from));
    // What brokerd signed last lies beside the log: a log that was cut before it does not hold.
    let own = checkpoint::own(&folder)?;
    let expected = named.or(own.as_ref().map(Expected::from));
    if args.folder.is_none() && expected.is_none() && !has_log(&folder) {
        return nothing_yet(context);
    }
    let Verified { records, head } =
        verify(&folder, expected.as_ref()).map_err(|fault| fault.problem())?;
    // Whoever named another place is also told of what is missing behind it.
    if let Some(own) = own
        .as_ref()
        .filter(|own| own.seq > expected_seq(expected.as_ref()))
    {
        verify(&folder, Some(&own.into())).map_err(|fault| fault.problem())?;
    }
    if let Some(signed) = &signed {
        checkpoint::same_key(own.as_ref(), signed)?;
    }
    if context.output.json {
        let value = json!({ "records": records, "seq": head.seq, "head": head.hex() });
        context.output.answer_json(&value)?;
    } else {
        let text = format!(
            "the log holds: {records} records, head {}:{}\n",
            head.seq,
            head.hex()
        );
        context.output.answer(&text)?;
    }
    Ok(())
}

/// The record that a log is compared at; 0 for none.
fn expected_seq(expected: Option<&Expected>) -> u64 {
    expected.map_or(0, |expected| expected.seq)
}

/// Whether anything was ever recorded in a home; what can't be looked at is for `verify` to tell.
fn has_log(folder: &Path) -> bool {
    match bxkit::audit_reader::segments(folder) {
        Ok(segments) => !segments.is_empty(),
        Err(AuditFault::Unreadable { source, .. }) => source.kind() != ErrorKind::NotFound,
        Err(_) => true,
    }
}

fn nothing_yet(context: &Context<'_>) -> Outcome {
    if context.output.json {
        let value = json!({ "records": 0, "seq": 0, "head": null });
        context.output.answer_json(&value)?;
    } else {
        let text = "nothing was recorded in this home yet, so there is nothing to verify\n";
        context.output.answer(text)?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_head_is_read_as_it_is_printed() {
        let hash = "AB".repeat(32);
        let head = parse_expected(&format!("12:{hash}")).unwrap();
        assert_eq!((head.seq, head.hash), (12, hash.to_lowercase()));
        for bad in ["", "12", "x:00", "12:00", &format!("12:{}", "g".repeat(64))] {
            assert!(parse_expected(bad).is_err(), "{bad}");
        }
    }
}
