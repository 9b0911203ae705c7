//! One model call through inferproxy, or through brokerd to a provider: sends the bytes, follows the
//! stream, gives the answer.

use bxcore::chat::{AnswerBuilder, AnswerError, Chunk, ModelAnswer, PromptProgress};
use bxcore::code::Code;
use bxcore::id::{BackendName, ModelCallId, SessionId};
use bxcore::label::Label;
use bxcore::money::MicroUsd;
use bxcore::problem::Problem;
use bxcore::usage::Receipt;
use bxcore::wire::inferproxy::{
    BackendInfo, EVENT_PROBLEM, EVENT_RECEIPT, EVENT_WAITING, HEADER_BACKEND, HEADER_CALL,
    HEADER_LANE, HEADER_SESSION, HEADER_SLOT, Lane, StopReply, StopRequest, Waiting,
};
use bxcore::wire::provider::{EVENT_LABEL, HEADER_PROVIDER_CALL, ProviderCall};
use bxkit::rpc::{Break, CallError, Client};
use bytes::Bytes;
use std::time::Duration;

use axum::http::{HeaderMap, HeaderName, HeaderValue};

/// How long inferproxy may take to say what a stop became, past its own bound of two seconds.
const STOP_TIMEOUT: Duration = Duration::from_secs(10);

/// One request to a model. Cheap to clone.
#[derive(Debug, Clone)]
pub struct ModelRequest<'a> {
    /// The backend.
    pub backend: &'a BackendName,
    /// Which way it goes.
    pub way: Way,
    /// The session.
    pub session: &'a SessionId,
    /// The session's number for the call.
    pub call: ModelCallId,
    /// The body, byte for byte as the server gets it.
    pub body: Bytes,
}

/// Which way a request goes, and what is needed on it.
#[derive(Debug, Clone, Copy)]
pub enum Way {
    /// Through inferproxy, to a server of the owner's.
    Inferproxy {
        /// The slot, on a backend that has slots.
        slot: Option<u32>,
        /// What the slot is used for.
        lane: Lane,
    },
    /// Through brokerd, to a provider.
    Brokerd {
        /// The session's label.
        label: Label,
        /// What is set aside for the call.
        reserved: MicroUsd,
    },
}

/// What arrives of an answer before it is whole.
#[derive(Debug, Clone, PartialEq)]
pub enum Piece<'a> {
    /// Why nothing comes yet.
    Waiting(Waiting),
    /// The session's label, now that it has read the answer.
    Label(Label),
    /// How far the prompt is read.
    Prefill(PromptProgress),
    /// More of the reasoning.
    Reasoning(&'a str),
    /// More of the text.
    Content(&'a str),
}

/// Is told what arrives of an answer, piece by piece, while the call is under way.
pub trait Listener: Send {
    /// Takes a piece. The call waits for it, so that a slow listener slows the stream down.
    fn hear(&mut self, piece: Piece<'_>) -> impl Future<Output = ()> + Send;
}

/// How a model call failed.
#[derive(Debug)]
pub enum InferenceError {
    /// Who makes the call, or the server, says why; what was used is known or nothing was.
    Refused(Problem),
    /// The answer went on past its bounds, or ended without an end.
    Answer(AnswerError),
    /// Who makes the call was not there: nothing of the call was made.
    Unreachable(CallError),
    /// Who makes the call died, or left, in the middle: what the call used will never be known.
    Lost(Problem),
    /// Who makes the call lives and gave no proper answer: what the call used will never be known.
    Broken(CallError),
}

impl InferenceError {
    /// The failure as a person meets it.
    pub fn problem(&self) -> Problem {
        match self {
            Self::Refused(problem) | Self::Lost(problem) => problem.clone(),
            Self::Answer(error @ AnswerError::CutOff) => {
                Problem::new(Code::BackendCutOff, "The model's answer broke off")
                    .detail(error.to_string())
            }
            Self::Answer(error) => {
                Problem::new(Code::BackendGarbled, "The model's answer is out of bounds")
                    .detail(error.to_string())
            }
            Self::Unreachable(error) | Self::Broken(error) => error.problem(),
        }
    }
}

impl From<CallError> for InferenceError {
    fn from(error: CallError) -> Self {
        match error {
            CallError::Refused(problem) => Self::Refused(problem),
            CallError::Unreachable { .. } => Self::Unreachable(error),
            CallError::Broken {
                why: Break::CutOff(_),
                ..
            } => Self::Lost(error.problem()),
            CallError::Broken { .. } => Self::Broken(error),
        }
    }
}

/// What a problem in the stream means. A call that is stopped here is dropped and hears nothing
/// more: one that hears of a stop was stopped because inferproxy is leaving.
fn told(problem: Problem) -> InferenceError {
    match problem.code {
        Code::Stopped => InferenceError::Lost(problem),
        _ => InferenceError::Refused(problem),
    }
}

/// Calls inferproxy, or brokerd for providers. Cheap to clone.
#[derive(Debug, Clone)]
pub struct Inference {
    client: Client,
}

impl Inference {
    /// Over this client of the role that makes the calls.
    pub fn new(client: Client) -> Self {
        Self { client }
    }

    /// What backends there are.
    pub async fn backends(&self) -> Result<Vec<BackendInfo>, CallError> {
        self.client.get("/v1/backends").await
    }

    /// Waits until the role answers.
    pub async fn wait_ready(&self, within: Duration) -> Result<(), CallError> {
        self.client.wait_ready(within).await.map(drop)
    }

    /// Makes one model call; `listener` is told what arrives. Dropping the future stops the call.
    pub async fn call(
        &self,
        request: ModelRequest<'_>,
        listener: &mut impl Listener,
    ) -> Result<(ModelAnswer, Receipt), InferenceError> {
        let headers = headers(&request).map_err(InferenceError::Refused)?;
        let path = path(&request);
        let stream = self.client.stream_raw(&path, request.body, headers);
        let mut stream = stream.await?;
        let mut builder = AnswerBuilder::default();
        let mut receipt = None;
        while let Some(event) = stream.next().await {
            let event = match event {
                Ok(event) => event,
                // The receipt is the last that comes: the answer is whole.
                Err(_) if receipt.is_some() => break,
                Err(error) => return Err(error.into()),
            };
            match event.event.as_str() {
                EVENT_WAITING => {
                    let waiting = read(&event.data)?;
                    listener.hear(Piece::Waiting(waiting)).await;
                }
                EVENT_LABEL => listener.hear(Piece::Label(read(&event.data)?)).await,
                EVENT_RECEIPT => receipt = Some(read::<Receipt>(&event.data)?),
                EVENT_PROBLEM => return Err(told(read(&event.data)?)),
                _ if event.data == "[DONE]" => {}
                _ => take_chunk(read(&event.data)?, &mut builder, listener).await?,
            }
        }
        let answer = builder.finish().map_err(InferenceError::Answer)?;
        match receipt {
            Some(receipt) => Ok((answer, receipt)),
            None => Err(InferenceError::Answer(AnswerError::CutOff)),
        }
    }

    /// Makes sure that a call which was dropped is over at the server too.
    pub async fn stop(
        &self,
        session: &SessionId,
        call: ModelCallId,
    ) -> Result<StopReply, CallError> {
        let request = StopRequest {
            session: session.clone(),
            call,
        };
        self.client
            .clone()
            .timeout(STOP_TIMEOUT)
            .post("/v1/stop", &request)
            .await
    }
}

async fn take_chunk(
    chunk: Chunk,
    builder: &mut AnswerBuilder,
    listener: &mut impl Listener,
) -> Result<(), InferenceError> {
    if let Some(progress) = chunk.prompt_progress {
        listener.hear(Piece::Prefill(progress)).await;
    }
    let Some(choice) = chunk.choices.into_iter().next() else {
        return Ok(());
    };
    if let Some(text) = choice
        .delta
        .reasoning_content
        .as_deref()
        .filter(|text| !text.is_empty())
    {
        listener.hear(Piece::Reasoning(text)).await;
    }
    if let Some(text) = choice
        .delta
        .content
        .as_deref()
        .filter(|text| !text.is_empty())
    {
        listener.hear(Piece::Content(text)).await;
    }
    builder.push(choice).map_err(InferenceError::Answer)
}

fn read<T: serde::de::DeserializeOwned>(data: &str) -> Result<T, InferenceError> {
    serde_json::from_str(data).map_err(|error| {
        let problem = Problem::new(
            Code::BackendGarbled,
            "The model server sent something that is no chat completion",
        );
        InferenceError::Refused(problem.detail(error.to_string()))
    })
}

fn path(request: &ModelRequest<'_>) -> String {
    match request.way {
        Way::Inferproxy { .. } => "/v1/chat".to_owned(),
        Way::Brokerd { .. } => format!("/v1/providers/{}/chat", request.backend),
    }
}

fn headers(request: &ModelRequest<'_>) -> Result<HeaderMap, Problem> {
    let mut map = HeaderMap::new();
    let mut put = |name: &'static str, text: &str| {
        let value = HeaderValue::from_str(text).map_err(|error| {
            Problem::new(Code::Internal, "A name can't be a header").detail(error.to_string())
        })?;
        map.insert(HeaderName::from_static(name), value);
        Ok::<(), Problem>(())
    };
    match request.way {
        Way::Inferproxy { slot, lane } => {
            put(HEADER_BACKEND, request.backend.as_str())?;
            put(HEADER_LANE, lane.name())?;
            put(HEADER_SESSION, request.session.as_str())?;
            put(HEADER_CALL, &request.call.to_string())?;
            if let Some(slot) = slot {
                put(HEADER_SLOT, &slot.to_string())?;
            }
        }
        Way::Brokerd { label, reserved } => {
            let call = ProviderCall {
                session: request.session.clone(),
                call: request.call,
                label,
                reserved,
            };
            // Plain data always serialises.
            let call = serde_json::to_string(&call).unwrap_or_default();
            put(HEADER_PROVIDER_CALL, &call)?;
        }
    }
    Ok(map)
}
