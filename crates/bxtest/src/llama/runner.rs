//! Walks the steps of one answer: sends, waits, and notices when the client goes away.

use bytes::Bytes;
use std::io;
use std::ops::ControlFlow;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::{mpsc, oneshot};

use super::journal::Outcome;
use super::plan::{Plan, Step};
use super::shared::Shared;
use super::slots::Phase;

/// What comes before the body.
#[derive(Debug)]
pub(super) struct Head {
    pub(super) status: u16,
    pub(super) headers: Vec<(String, String)>,
}

/// One request at work. Dropped before its end, it counts as lost with the server.
#[derive(Debug)]
pub(super) struct Run {
    pub(super) shared: Arc<Shared>,
    pub(super) seq: usize,
    pub(super) slot: Option<usize>,
    pub(super) prompt: Vec<u8>,
    pub(super) plan: Plan,
    pub(super) head: Option<oneshot::Sender<Head>>,
    pub(super) body: mpsc::Sender<Result<Bytes, io::Error>>,
    pub(super) settled: bool,
    pub(super) decoded: usize,
}

/// Long enough for the connection's task to write to a loopback socket.
const FLUSH_TIME: Duration = Duration::from_millis(5);

type Flow = ControlFlow<Outcome>;

impl Run {
    /// Works the answer off.
    pub(super) async fn work(mut self) {
        let steps = std::mem::take(&mut self.plan.steps);
        let mut prefilling = true;
        for step in steps {
            if matches!(step, Step::Generate) {
                prefilling = false;
            }
            if let ControlFlow::Break(outcome) = self.step(step, prefilling).await {
                self.stop(outcome).await;
                return;
            }
        }
        self.settle();
    }

    async fn step(&mut self, step: Step, prefilling: bool) -> Flow {
        match step {
            Step::Batch { time, processed } => self.batch(time, processed).await,
            Step::Generate => {
                self.note(Phase::Generating);
                self.watch(prefilling)
            }
            Step::Sleep(time) => self.until_closed(tokio::time::sleep(time)).await,
            Step::Gate(gate) => self.until_closed(gate.pass()).await,
            Step::Bytes { bytes, grown } => {
                let flow = self.send(bytes, prefilling).await;
                self.decoded += grown;
                if grown > 0 && !self.settled {
                    self.note(Phase::Generating);
                }
                flow
            }
            Step::Settle => {
                self.settle();
                Flow::Continue(())
            }
            Step::Forever(bytes) => loop {
                if let ControlFlow::Break(outcome) = self.send(bytes.clone(), false).await {
                    break Flow::Break(outcome);
                }
            },
            Step::Stall => {
                self.body.closed().await;
                Flow::Break(Outcome::ClosedByClient)
            }
            Step::Cut => {
                if self.head.take().is_none() {
                    self.flushed().await;
                    let cut = io::Error::new(io::ErrorKind::ConnectionReset, "cut by the script");
                    let _ = self.body.send(Err(cut)).await;
                }
                Flow::Break(Outcome::CutByScript)
            }
        }
    }

    /// Waits until what was sent is on its way: an error would make the connection forget it.
    async fn flushed(&self) {
        while self.body.capacity() < self.body.max_capacity() && !self.body.is_closed() {
            tokio::time::sleep(FLUSH_TIME).await;
        }
        tokio::time::sleep(FLUSH_TIME).await;
    }

    /// A batch runs to its end whatever the client does; in between the server may look up.
    async fn batch(&mut self, time: Duration, processed: usize) -> Flow {
        if !time.is_zero() {
            tokio::time::sleep(time).await;
        }
        if let Some(slot) = self.slot {
            self.shared
                .slots
                .progress(slot, Phase::Prefill, processed, 0);
        }
        self.watch(!self.plan.notices_in_prefill)
    }

    fn watch(&self, blind: bool) -> Flow {
        if !blind && self.plan.notices_close && self.body.is_closed() {
            return Flow::Break(Outcome::ClosedByClient);
        }
        Flow::Continue(())
    }

    async fn until_closed(&self, wait: impl Future<Output = ()>) -> Flow {
        if !self.plan.notices_close || self.settled {
            wait.await;
            return Flow::Continue(());
        }
        tokio::select! {
            () = wait => Flow::Continue(()),
            () = self.body.closed() => Flow::Break(Outcome::ClosedByClient),
        }
    }

    async fn send(&mut self, bytes: Bytes, prefilling: bool) -> Flow {
        if let Some(head) = self.head.take() {
            let headers = self.plan.headers.clone();
            let _ = head.send(Head {
                status: self.plan.status,
                headers,
            });
        }
        // An error says the same as the check that follows.
        let _ = self.body.send(Ok(bytes)).await;
        self.watch(prefilling && !self.plan.notices_in_prefill)
    }

    fn note(&self, phase: Phase) {
        if let Some(slot) = self.slot {
            let processed = self.plan.figures.prompt_n;
            let decoded = super::render::tokens(self.decoded);
            self.shared.slots.progress(slot, phase, processed, decoded);
        }
    }

    /// Counts the answer as complete and frees the slot, before the client can know of it.
    fn settle(&mut self) {
        if std::mem::replace(&mut self.settled, true) {
            return;
        }
        let outcome = match self.plan.status {
            200 => Outcome::Completed,
            status => Outcome::Status(status),
        };
        if let Some(slot) = self.slot.take() {
            let sequence = [&self.prompt[..], &self.plan.generated].concat();
            self.shared.slots.release(slot, sequence);
        }
        self.shared.ended(self.seq, outcome, self.plan.figures);
    }

    /// Ends an answer before its time: the slot stays at work for the server's stop lag.
    async fn stop(mut self, outcome: Outcome) {
        if std::mem::replace(&mut self.settled, true) {
            return;
        }
        self.shared.ended(self.seq, outcome, self.plan.figures);
        if let Some(slot) = self.slot.take() {
            if outcome == Outcome::ClosedByClient && !self.shared.config.stop_lag.is_zero() {
                tokio::time::sleep(self.shared.config.stop_lag).await;
            }
            let mut sequence = std::mem::take(&mut self.prompt);
            let made = self.decoded.min(self.plan.generated.len());
            sequence.extend_from_slice(&self.plan.generated[..made]);
            self.shared.slots.release(slot, sequence);
        }
    }
}

impl Drop for Run {
    fn drop(&mut self) {
        if !self.settled {
            self.shared
                .ended(self.seq, Outcome::ServerKilled, self.plan.figures);
        }
    }
}
