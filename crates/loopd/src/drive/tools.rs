//! Runs a turn's tool calls: loopd's own here, all others at brokerd.

use super::perform::Performance;
use crate::tools::{self, OwnEnv, OwnTool, Target};
use crate::turn::{Input, RunTool};
use bxcore::code::Code;
use bxcore::id::CallId;
use bxcore::memory::ASK_MEMORY;
use bxcore::problem::Problem;
use bxcore::transcript::CallOutcome;
use bxcore::usage::Charge;
use bxcore::wire::approval::Withdraw;
use bxcore::wire::brokerd::{CallAnswer, CallRequest, CallResult};
use bxcore::wire::loopd::TurnEvent;
use bxkit::rpc::CallError;
use std::time::Duration;

/// How often a call is made again because brokerd went away in the middle of it. It answers the
/// same key from its record, so that nothing runs twice.
const MAX_TOOL_TRIES: u32 = 3;
/// Room for the passages that a question to memory is answered from, in bytes.
const PASSAGES_BYTES: u32 = 64 * 1024;
/// How long brokerd may take to come back.
const BROKER_RETURN: Duration = Duration::from_secs(30);

impl Performance<'_> {
    /// Runs a tool; none if a stop came first, whose command follows.
    pub(super) async fn run_tool(&mut self, run: RunTool) -> Option<Input> {
        let stop = self.hold.stop().clone();
        let call = run.call;
        // A stop that came before: its command is on its way, and must find the call not ended.
        if stop.is_cancelled() {
            self.never_sent = Some(call);
            return None;
        }
        bxkit::fault::point("loopd.before-tool");
        let result = match run.target {
            Target::Own(tool) => self.run_own(tool, &run.arguments),
            Target::Child => tokio::select! {
                biased;
                () = stop.cancelled() => return None,
                // On the heap: few turns have helpers, and all would carry the room for one.
                result = Box::pin(self.run_child(&run)) => result,
            },
            Target::Broker => tokio::select! {
                biased;
                () = stop.cancelled() => return None,
                result = self.run_at_broker(run) => result,
            },
        };
        bxkit::fault::point("loopd.after-tool");
        Some(Input::ToolEnded { call, result })
    }

    fn run_own(&self, tool: OwnTool, arguments: &str) -> CallResult {
        let now = jiff::Zoned::now();
        let max_result_bytes =
            usize::try_from(self.engine.config.tool_result_bytes).unwrap_or(usize::MAX);
        let env = OwnEnv {
            now: &now,
            catalog: &self.turn.context().catalog,
            mode: self.turn.conversation().mode(),
            max_result_bytes,
        };
        tools::run(tool, arguments, &env)
    }

    pub(super) async fn run_at_broker(&mut self, run: RunTool) -> CallResult {
        let configured = self.engine.config.tool_result_bytes;
        // Passages and what is summed up are read here first; what is made of them is capped.
        let result_bytes = match run.tool.as_str() {
            ASK_MEMORY => configured.max(PASSAGES_BYTES),
            _ if self.engine.config.summarise.results => {
                configured.max(self.engine.config.summarise.read_bytes)
            }
            _ => configured,
        };
        let mut request = CallRequest {
            session: self.turn.session().clone(),
            call: run.call,
            tool: run.tool,
            arguments: run.arguments,
            label: self.turn.label(),
            result_bytes,
            resumed: run.resumed,
            reserved: run.reserved,
        };
        let broker = &self.engine.broker;
        let mut tries = 1;
        let mut told = None;
        let mut began = request.resumed;
        loop {
            let error = match broker.call(&request).await {
                Ok(CallAnswer::Ended(result)) => return *result,
                // The owner is told once of each question, which may be put anew.
                Ok(CallAnswer::Awaiting(awaiting)) => {
                    tries = 1;
                    if told.as_ref() != Some(&awaiting) {
                        let event = TurnEvent::Approval {
                            call: request.call,
                            tool: request.tool.clone(),
                            awaiting: awaiting.clone(),
                        };
                        self.sink.send(event).await;
                        told = Some(awaiting);
                    }
                    continue;
                }
                Err(error) => error,
            };
            began |= may_have_begun(&error);
            let gone = !matches!(error, CallError::Refused(_));
            if !gone || tries == MAX_TOOL_TRIES || broker.wait_ready(BROKER_RETURN).await.is_err() {
                return CallResult {
                    charge: (!began).then_some(Charge::NOTHING),
                    ..self.not_run(&error.problem())
                };
            }
            tries += 1;
            request.resumed = true;
        }
    }

    /// A call that a stop overtook. If it waited for the owner, it never runs; else, whether it
    /// took effect is brokerd's to know.
    pub(super) async fn stopped_tool(&mut self, call: CallId) -> Input {
        if let Some(result) = Box::pin(self.stop_child(call)).await {
            return Input::ToolEnded { call, result };
        }
        let withdraw = Withdraw {
            session: self.turn.session().clone(),
            call,
        };
        match self.engine.broker.withdraw(&withdraw).await {
            Ok(Some(result)) => return Input::ToolEnded { call, result },
            Ok(None) => {}
            Err(error) => {
                let problem = error.problem();
                tracing::warn!(code = %problem.code, "a call can't be withdrawn: {problem}");
            }
        }
        let problem = Problem::new(Code::Interrupted, "The call was interrupted by a stop");
        let never_sent = self.never_sent == Some(call);
        let result = CallResult {
            outcome: CallOutcome::Interrupted,
            charge: never_sent.then_some(Charge::NOTHING),
            ..self.not_run(&problem)
        };
        Input::ToolEnded { call, result }
    }

    pub(super) fn not_run(&self, problem: &Problem) -> CallResult {
        let content = problem.to_string();
        CallResult {
            outcome: CallOutcome::Failed,
            code: Some(problem.code),
            raw_bytes: content.len() as u64,
            content,
            // Our own words, but they may tell of what the session knows.
            label: self.turn.label(),
            session_label: self.turn.label(),
            audit: None,
            charge: None,
            replayed: false,
        }
    }
}

/// Whether a call that failed this way may have begun at brokerd. What it refuses for the request's
/// own sake did not; of any other end nobody here can tell.
fn may_have_begun(error: &CallError) -> bool {
    match error {
        CallError::Unreachable { .. } => false,
        CallError::Broken { .. } => true,
        CallError::Refused(problem) => !matches!(
            problem.code,
            Code::BadRequest | Code::NotAuthorised | Code::SessionUnknown | Code::TooLarge
        ),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use bxkit::rpc::Break;
    use std::io;

    #[test]
    fn only_what_brokerd_never_began_is_free() {
        let refused = |code| CallError::Refused(Problem::new(code, "no"));
        let unreachable = CallError::Unreachable {
            socket: "b.sock".into(),
            source: io::ErrorKind::NotFound.into(),
        };
        let broken = CallError::Broken {
            path: "/v1/calls".to_owned(),
            why: Break::TimedOut { secs: 900 },
        };
        for (error, expect) in [
            (unreachable, false),
            (refused(Code::BadRequest), false),
            (refused(Code::SessionUnknown), false),
            (refused(Code::StateBroken), true),
            (refused(Code::RoleUnreachable), true),
            (broken, true),
        ] {
            assert_eq!(may_have_begun(&error), expect, "{error}");
        }
    }
}
