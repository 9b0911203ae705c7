//! `ask_memory`: finds the passages that loopd has a model answer the question from.
//!
//! What is found joins the session's label here, like everything that a tool gives: before loopd has it.

use super::MemoryCall;
use super::client::{Again, Memory, failed};
use super::recall::head;
use crate::tools::{Output, ToolError};
use bxcore::label::Label;
use bxcore::memory::{MemoryPassage, Passages, QUESTION_HITS};
use bxcore::wire::memoryd::{Hit, RecallRequest, Recalled};
use serde::Deserialize;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Arguments {
    question: String,
}

pub(super) async fn run(memory: &Memory, call: MemoryCall) -> Output {
    let question = match Arguments::deserialize(&call.arguments) {
        Ok(Arguments { question }) => question,
        Err(error) => {
            return Output::failed(&ToolError::Arguments(error.to_string()), Label::BOTTOM);
        }
    };
    let request = RecallRequest {
        query: question.clone(),
        limit: Some(QUESTION_HITS),
        // The model has its own conversation before it.
        except: Some(call.session),
    };
    match memory
        .post::<_, Recalled>("/v1/recall", &request, Again::May)
        .await
    {
        Ok(found) => given(question, &found),
        Err(error) => failed(&error),
    }
}

fn given(question: String, found: &Recalled) -> Output {
    let label = found
        .hits
        .iter()
        .fold(Label::BOTTOM, |label, hit| label.join(hit.label));
    let passage = |hit: &Hit| MemoryPassage {
        place: head(hit),
        text: hit.snippet.clone(),
    };
    let passages = Passages {
        question,
        passages: found.hits.iter().map(passage).collect(),
        complete: found.complete,
    };
    // Plain text always serialises.
    Output::ok(serde_json::to_string(&passages).unwrap_or_default(), label)
}
