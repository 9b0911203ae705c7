//! From the words that were typed to the exit code.

use crate::cli::{Cli, Command};
use crate::commands;
use crate::context::Context;
use crate::failure::{Failure, Outcome};
use crate::launcher::Launcher;
use crate::output::Output;
use bxcore::code::Code;
use bxcore::problem::Problem;
use bxkit::exit;
use bxkit::home::Home;
use clap::{CommandFactory, FromArgMatches};
use std::ffi::OsString;
use std::process::ExitCode;

/// Runs the command line of `program`; without a launcher as a mere client.
pub fn run(
    program: &'static str,
    words: impl IntoIterator<Item = OsString>,
    launcher: Option<&dyn Launcher>,
) -> ExitCode {
    let command = Cli::command().name(program).bin_name(program);
    let parsed = command
        .try_get_matches_from(words)
        .and_then(|found| Cli::from_arg_matches(&found));
    let cli = match parsed {
        Ok(cli) => cli,
        Err(error) => {
            // Help and version go to standard output and are no error.
            let _ = error.print();
            let code = if error.use_stderr() {
                exit::USAGE
            } else {
                exit::EXIT_OK
            };
            return ExitCode::from(code);
        }
    };
    let output = Output::of_process(cli.global.json);
    let home = match Home::discover() {
        Ok(home) => home,
        Err(error) => {
            output.problem(&error.problem());
            return ExitCode::from(exit::of_command(error.code()));
        }
    };
    let context = Context {
        program,
        home: &home,
        output,
        launcher,
    };
    if let (Command::Up(args), Some(launcher)) = (&cli.command, launcher) {
        return launcher.up(&home, &args.options(), &output);
    }
    match dispatch(&context, cli.command) {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => {
            if let Some(problem) = failure.problem() {
                output.problem(&problem);
            }
            failure.exit_code()
        }
    }
}

fn dispatch(context: &Context<'_>, command: Command) -> Outcome {
    match command {
        Command::Up(_) => Err(commands::up::only_boxmaker()),
        Command::Init(args) => commands::init::run(context, &args),
        Command::Completions(args) => commands::completions::run(context, &args),
        Command::Man(args) => commands::man::run(context, &args),
        command => {
            let runtime = runtime()?;
            let outcome = runtime.block_on(talk(context, command));
            // A thread that waits for somebody to type must not keep the process.
            runtime.shutdown_background();
            outcome
        }
    }
}

/// The commands that talk to what runs.
async fn talk(context: &Context<'_>, command: Command) -> Outcome {
    match command {
        Command::Ask(args) => commands::ask::run(context, args).await,
        Command::Chat(args) => commands::chat::run(context, args).await,
        Command::Down => commands::down::run(context).await,
        Command::Status => commands::status::run(context).await,
        Command::Doctor(args) => commands::doctor::run(context, &args).await,
        Command::Sessions(args) => commands::sessions::run(context, &args).await,
        Command::Jobs(args) => commands::jobs::run(context, &args).await,
        Command::Session(command) => commands::session::run(context, command).await,
        Command::Slots => commands::slots::run(context).await,
        Command::Approvals(args) => commands::approvals::run(context, args).await,
        Command::Approve(args) => commands::approvals::approve(context, args).await,
        Command::Deny(args) => commands::approvals::deny(context, args).await,
        Command::Mcp(command) => commands::mcp::run(context, command).await,
        Command::Endorse(args) => commands::endorse::run(context, args).await,
        Command::Memory(command) => commands::memory::run(context, command).await,
        Command::Grants(command) => commands::grants::run(context, command).await,
        Command::Audit(command) => commands::audit::run(context, command).await,
        Command::Backend(command) => commands::backend::run(context, command).await,
        Command::Backup(args) => commands::backup::run(context, args).await,
        Command::Up(_) | Command::Init(_) | Command::Completions(_) | Command::Man(_) => Ok(()),
    }
}

fn runtime() -> Result<tokio::runtime::Runtime, Failure> {
    tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .map_err(|error| {
            Problem::new(Code::Internal, "The program can't be set up")
                .detail(error.to_string())
                .into()
        })
}
