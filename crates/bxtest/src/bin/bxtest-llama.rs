//! The scripted server as a program of its own, for benches with several processes and by hand.
//!
//! Prints its address, serves until it is ended, and then prints its counters and any breach.

#![allow(
    clippy::print_stdout,
    reason = "a test program that reports to whoever started it"
)]

use anyhow::Context;
use bxtest::contract::Breaches;
use bxtest::llama::{Kind, LlamaServer, Order, Reply, Script};
use clap::{Parser, ValueEnum};
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;
use tokio::signal::unix::{SignalKind, signal};

/// A scripted llama-server.
#[derive(Parser)]
struct Options {
    /// Port on 127.0.0.1; 0 takes any free one
    #[arg(long, default_value_t = 0)]
    port: u16,
    /// Which server to play
    #[arg(long, value_enum, default_value = "llama-server")]
    kind: KindName,
    /// Slots
    #[arg(long, default_value_t = 4)]
    slots: usize,
    /// Latency of each model call
    #[arg(long, default_value_t = 0)]
    delay_ms: u64,
    /// Answer every request with this text
    #[arg(long, default_value = "Scripted answer.")]
    reply: String,
    /// Answer from a file, one JSON reply a line
    #[arg(long, conflicts_with = "reply")]
    script: Option<PathBuf>,
    /// How the script's lines are used
    #[arg(long, value_enum, default_value = "turn")]
    order: OrderName,
    /// Slots share one cache, of which idle ones are cleared
    #[arg(long)]
    cache_idle_slots: bool,
    /// Let conversations start in the middle, as after a restart of this program
    #[arg(long)]
    any_epoch: bool,
}

#[derive(Clone, Copy, ValueEnum)]
enum KindName {
    LlamaServer,
    Openai,
}

#[derive(Clone, Copy, ValueEnum)]
enum OrderName {
    Turn,
    Arrival,
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> anyhow::Result<ExitCode> {
    let options = Options::parse();
    let kind = match options.kind {
        KindName::LlamaServer => Kind::LlamaServer,
        KindName::Openai => Kind::OpenAi,
    };
    let mut builder = LlamaServer::builder()
        .port(options.port)
        .kind(kind)
        .slots(options.slots)
        .latency(Duration::from_millis(options.delay_ms))
        .cache_idle_slots(options.cache_idle_slots)
        .keep_bodies(false)
        .new_epochs(if options.any_epoch { usize::MAX } else { 0 });
    builder = match &options.script {
        Some(path) => {
            let text = std::fs::read_to_string(path)
                .with_context(|| format!("script {}", path.display()))?;
            let order = match options.order {
                OrderName::Turn => Order::Turn,
                OrderName::Arrival => Order::Arrival,
            };
            builder.script(Script::parse(&text, order)?)
        }
        None => builder.respond_per_turn(vec![Reply::text(&options.reply)]),
    };
    // Before anybody knows the address, so that no signal comes too early.
    let mut interrupted = signal(SignalKind::interrupt())?;
    let mut terminated = signal(SignalKind::terminate())?;
    let server = builder.start().await;
    println!("{}", server.url());
    tokio::select! {
        _ = interrupted.recv() => {}
        _ = terminated.recv() => {}
    }
    println!("{:?}", server.counts());
    let breaches = server.take_breaches();
    if breaches.is_empty() {
        return Ok(ExitCode::SUCCESS);
    }
    println!("breaches:\n{}", Breaches(&breaches));
    Ok(ExitCode::FAILURE)
}
