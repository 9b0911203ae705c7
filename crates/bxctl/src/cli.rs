//! What can be typed. Nothing is done here.

use crate::commands::{
    approvals, ask, audit, backend, backup, chat, completions, doctor, endorse, grants, init, jobs,
    man, mcp, memory, session, sessions, up,
};
use clap::{Args, Parser, Subcommand};

/// Agents on your own box, on a local model: decided, sandboxed, labelled, budgeted, recorded.
#[derive(Debug, Parser)]
#[command(
    name = "boxmaker",
    version,
    max_term_width = 100,
    disable_help_subcommand = true,
    after_help = "Files: configuration in ~/.config/boxmaker, state in ~/.local/share/boxmaker, or both below \
                  BOXMAKER_HOME where that is set.\nBOXMAKER_STARTER=never keeps the starter engine from being set up.\n\n\
                  Exit codes: 0 done, 1 failed, 2 bad usage or configuration, 3 refused, 4 halted by a \
                  limit, 5 cannot reach a role or model, 78 up: configuration or state unusable, 130 stopped."
)]
pub struct Cli {
    /// Options of every command.
    #[command(flatten)]
    pub global: Global,
    /// What to do.
    #[command(subcommand)]
    pub command: Command,
}

/// Options of every command.
#[derive(Debug, Args)]
pub struct Global {
    /// Print JSON for a program instead of text for a person.
    #[arg(long, global = true)]
    pub json: bool,
}

/// What to do.
#[derive(Debug, Subcommand)]
pub enum Command {
    /// Ask one question and print the answer.
    Ask(ask::AskArgs),
    /// Talk with a session.
    Chat(chat::ChatArgs),
    /// Start Boxmaker and stay until it is stopped.
    Up(up::UpArgs),
    /// Stop Boxmaker.
    Down,
    /// Show what runs.
    Status,
    /// Write commented configuration files, where there are none.
    Init(init::InitArgs),
    /// Look for what is wrong or missing, and say what to do.
    Doctor(doctor::DoctorArgs),
    /// List the sessions.
    Sessions(sessions::SessionsArgs),
    /// Look at one session, stop it, export it, delete it.
    #[command(subcommand)]
    Session(session::SessionCommand),
    /// Show who holds the model's slots and who waits for them.
    Slots,
    /// List what begins by the clock, or begin one of them now.
    Jobs(jobs::JobsArgs),
    /// Look at what is in memory, and search it.
    #[command(subcommand)]
    Memory(memory::MemoryCommand),
    /// Look at the grants and at what they decide.
    #[command(subcommand)]
    Grants(grants::GrantsCommand),
    /// List the calls that wait for your approval.
    Approvals(approvals::ApprovalsArgs),
    /// Show a call that waits for your approval, and let it run once.
    Approve(approvals::ApproveArgs),
    /// Say no to a call that waits for your approval.
    Deny(approvals::DenyArgs),
    /// Look at MCP servers, and say which of their tools you trust.
    #[command(subcommand)]
    Mcp(mcp::McpCommand),
    /// Say what label a file has that a tool wrote; goes on record.
    Endorse(endorse::EndorseArgs),
    /// Read and verify the audit log.
    #[command(subcommand)]
    Audit(audit::AuditCommand),
    /// Add, remove, list and test model servers.
    #[command(subcommand)]
    Backend(backend::BackendCommand),
    /// Copy everything that is kept into one folder: sessions, their files, labels, the audit log and
    /// the configuration, but no secrets.
    Backup(backup::BackupArgs),
    /// Print completions for a shell.
    Completions(completions::CompletionsArgs),
    /// Print the manual page, or write all of them to a folder.
    Man(man::ManArgs),
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::CommandFactory;

    #[test]
    fn the_definition_is_sound() {
        Cli::command().debug_assert();
    }

    #[test]
    fn what_the_documentation_promises_can_be_typed() {
        for line in [
            "ask hello",
            "ask - --json",
            "ask hi --session chat-1 --class public --backend local --no-wait",
            "chat --session chat-1",
            "up -v",
            "down",
            "status --json",
            "init",
            "doctor",
            "sessions --json --all",
            "session delete chat-1",
            "session export chat-1 out.jsonl",
            "session log chat-1",
            "session cache chat-1",
            "session stop chat-1",
            "session verify sub-chat-1-2 --json",
            "slots",
            "jobs",
            "jobs --json",
            "jobs --run morning",
            "memory list",
            "memory show notes.md --json",
            "memory recall blue kettle -n 3",
            "grants list",
            "approvals",
            "approvals 0a1b",
            "approvals --watch --json",
            "approve",
            "approve 0a1b2c3d --yes",
            "deny 0a1b2c3d",
            "endorse notes/a.txt --label private --why mine",
            "endorse . --session chat-1 --label private,untrusted --why mine",
            "mcp list",
            "mcp list --known --json",
            "mcp show time",
            "mcp show time/now",
            "mcp trust time",
            "mcp trust mcp:time/now --yes --hash ab12",
            "mcp untrust time/now",
            "audit checkpoint",
            "audit verify --checkpoint file",
            "audit diff 7 --wire file",
            "grants tools",
            "grants explain http_fetch --session chat-1",
            "grants explain http_fetch --label secret,untrusted --args {}",
            "audit list -n 5",
            "audit show 3 --json",
            "audit verify",
            "backend add local http://127.0.0.1:8080 --main 0 --background 2",
            "backend remove local",
            "backend list",
            "backend test",
            "backend test local",
            "backup",
            "completions bash",
            "man",
        ] {
            let words = std::iter::once("boxmaker").chain(line.split(' '));
            if let Err(error) = Cli::try_parse_from(words) {
                panic!("{line}: {error}");
            }
        }
    }
}
