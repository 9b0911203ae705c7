//! Measures an answer while it passes: when it began, how long it is, what the server counted.
//! Pure; the time is passed in.

use super::glance::{Chunk, Fault, Line, read_line};
use crate::chat::{MAX_ANSWER_BYTES, Timings, WireUsage};
use crate::usage::{Receipt, UsageSource};
use std::time::Duration;

/// The most bytes of a whole answer on the wire, with all that goes around its words.
pub const MAX_STREAM_BYTES: usize = 128 * 1024 * 1024;
/// The most bytes of its words, counted as the JSON text that they are on the wire.
pub const MAX_ANSWER_TEXT_BYTES: usize = MAX_ANSWER_BYTES;

/// An answer as it has passed so far.
#[derive(Debug, Clone, Default)]
pub struct Meter {
    stream_bytes: usize,
    answer_bytes: usize,
    first_byte: Option<Duration>,
    first_word: Option<Duration>,
    last_word: Duration,
    saw_progress: bool,
    finished: bool,
    done: bool,
    usage: Option<WireUsage>,
    timings: Option<Timings>,
}

/// What is known of a call besides what passed.
#[derive(Debug, Clone, Copy)]
pub struct CallFacts {
    /// The slot that served it.
    pub slot: Option<u32>,
    /// How long it waited before it was sent.
    pub waited: Duration,
    /// The size of its body.
    pub body_bytes: usize,
}

impl Meter {
    /// Looks at whole events; `at` is the time since the call was sent.
    ///
    /// Gives how many of their bytes belong to the answer: what follows its end does not.
    pub fn take(&mut self, events: &[u8], at: Duration) -> Result<usize, Fault> {
        self.first_byte.get_or_insert(at);
        self.stream_bytes += events.len();
        if self.stream_bytes > MAX_STREAM_BYTES {
            let why = format!("the answer is longer than {MAX_STREAM_BYTES} bytes");
            return Err(Fault::Garbled(why));
        }
        let mut end = 0;
        for line in events.split_inclusive(|byte| *byte == b'\n') {
            end += line.len();
            match read_line(line.strip_suffix(b"\n").unwrap_or(line))? {
                Line::Nothing if self.done => return Ok(end),
                Line::Nothing => {}
                Line::Chunk(chunk) => self.count(&chunk, at)?,
                // The empty line behind it still belongs to it.
                Line::Done => self.done = true,
            }
        }
        Ok(end)
    }

    /// Whether anything has come.
    pub fn has_begun(&self) -> bool {
        self.first_byte.is_some()
    }

    /// Whether the server has said that nothing more comes.
    pub fn is_done(&self) -> bool {
        self.done
    }

    /// Whether the server has said why the answer ended.
    pub fn is_finished(&self) -> bool {
        self.finished
    }

    /// What was measured.
    pub fn receipt(&self, facts: &CallFacts) -> Receipt {
        let read_ms = self
            .timings
            .map_or(0, |timings| whole_ms(timings.prompt_ms));
        let first_word = self.first_word.unwrap_or(self.last_word);
        let until_first_word = millis(first_word);
        // With progress reports the first byte comes as soon as the slot begins.
        let begun = match (self.timings, self.first_byte) {
            (Some(_), Some(at)) if self.saw_progress => millis(at),
            (Some(_), _) => until_first_word.saturating_sub(read_ms),
            (None, _) => 0,
        };
        let (prefill_ms, decode_ms) = match self.timings {
            Some(timings) => (read_ms, whole_ms(timings.predicted_ms)),
            None => (
                until_first_word,
                millis(self.last_word.saturating_sub(first_word)),
            ),
        };
        let (prompt_tokens, completion_tokens, source) = self.tokens(facts);
        let cache_n = self
            .timings
            .and_then(|timings| timings.cache_n)
            .or_else(|| self.usage.and_then(|usage| usage.cached_tokens));
        Receipt {
            slot: facts.slot,
            prompt_tokens,
            completion_tokens,
            cache_n,
            prompt_n: match self.timings {
                Some(timings) => Some(timings.prompt_n),
                None => cache_n.map(|cached| prompt_tokens.saturating_sub(cached)),
            },
            queue_ms: millis(facts.waited).saturating_add(begun),
            prefill_ms,
            decode_ms,
            source,
            taken_over: false,
        }
    }

    /// How long the first word took, if one came.
    pub fn first_word(&self) -> Option<Duration> {
        self.first_word
    }

    /// Prompt and completion tokens: as reported, else an upper bound, as a token is at least a byte.
    fn tokens(&self, facts: &CallFacts) -> (u64, u64, UsageSource) {
        let timed = self.timings.map(|timings| {
            let prompt = timings
                .prompt_n
                .saturating_add(timings.cache_n.unwrap_or(0));
            (prompt, timings.predicted_n)
        });
        let used = self
            .usage
            .map(|usage| (usage.prompt_tokens, usage.completion_tokens));
        // A prompt has a token at least, and so has an answer that says something.
        let can_be = |(prompt, completion): &(u64, u64)| {
            *prompt > 0 && (*completion > 0 || self.answer_bytes == 0)
        };
        match used.filter(can_be).or(timed) {
            Some((prompt, completion)) => (prompt, completion, UsageSource::Reported),
            None => (
                facts.body_bytes as u64,
                self.answer_bytes as u64,
                UsageSource::Estimated,
            ),
        }
    }

    fn count(&mut self, chunk: &Chunk<'_>, at: Duration) -> Result<(), Fault> {
        let bytes = chunk.answer_bytes();
        self.answer_bytes += bytes;
        if self.answer_bytes > MAX_ANSWER_TEXT_BYTES {
            let why = format!("the answer's text is longer than {MAX_ANSWER_TEXT_BYTES} bytes");
            return Err(Fault::Garbled(why));
        }
        if bytes > 0 {
            self.first_word.get_or_insert(at);
        }
        self.last_word = at;
        self.finished |= chunk.finishes();
        self.saw_progress |= chunk.prompt_progress.is_some();
        self.usage = chunk.usage.or(self.usage);
        self.timings = chunk.timings.or(self.timings);
        Ok(())
    }
}

fn millis(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}

/// A server's time in milliseconds, which may be anything a float can be.
fn whole_ms(ms: f64) -> u64 {
    let sane = if ms.is_finite() {
        ms.clamp(0.0, 1e12)
    } else {
        0.0
    };
    millis(Duration::from_secs_f64(sane / 1e3))
}

#[cfg(test)]
mod tests {
    use super::*;

    const FACTS: CallFacts = CallFacts {
        slot: Some(2),
        waited: Duration::from_millis(7),
        body_bytes: 900,
    };

    fn ms(ms: u64) -> Duration {
        Duration::from_millis(ms)
    }

    fn feed(meter: &mut Meter, at: u64, data: &str) {
        let event = format!("data: {data}\n\n");
        assert_eq!(meter.take(event.as_bytes(), ms(at)), Ok(event.len()));
    }

    #[test]
    fn the_figures_of_llama_server_are_taken() {
        let mut meter = Meter::default();
        feed(
            &mut meter,
            20,
            r#"{"choices":[{"delta":{"content":null}}],"prompt_progress":{"total":31,"processed":10}}"#,
        );
        feed(
            &mut meter,
            150,
            r#"{"choices":[{"delta":{"content":"I"}}]}"#,
        );
        feed(
            &mut meter,
            190,
            r#"{"choices":[{"finish_reason":"stop","delta":{}}]}"#,
        );
        assert!(meter.is_finished() && !meter.is_done());
        feed(
            &mut meter,
            191,
            r#"{"choices":[],"usage":{"completion_tokens":8,"prompt_tokens":31},"timings":{"cache_n":10,"prompt_n":21,"prompt_ms":120.6,"predicted_n":8,"predicted_ms":40.2}}"#,
        );
        feed(&mut meter, 192, "[DONE]");
        assert!(meter.is_done());
        let receipt = meter.receipt(&FACTS);
        assert_eq!(
            receipt,
            Receipt {
                slot: Some(2),
                prompt_tokens: 31,
                completion_tokens: 8,
                cache_n: Some(10),
                prompt_n: Some(21),
                queue_ms: 27,
                prefill_ms: 120,
                decode_ms: 40,
                source: UsageSource::Reported,
                taken_over: false,
            }
        );
    }

    #[test]
    fn without_progress_the_queue_is_what_reading_does_not_explain() {
        let mut meter = Meter::default();
        feed(
            &mut meter,
            300,
            r#"{"choices":[{"delta":{"content":"I"}}]}"#,
        );
        feed(
            &mut meter,
            310,
            r#"{"choices":[{"finish_reason":"stop"}],"timings":{"cache_n":0,"prompt_n":5,"prompt_ms":100,"predicted_n":1,"predicted_ms":9}}"#,
        );
        assert_eq!(meter.receipt(&FACTS).queue_ms, 207);
        assert_eq!(meter.receipt(&FACTS).prompt_tokens, 5);
    }

    #[test]
    fn other_servers_are_timed_by_our_own_clock() {
        let mut meter = Meter::default();
        feed(
            &mut meter,
            80,
            r#"{"choices":[{"delta":{"role":"assistant","content":""}}]}"#,
        );
        feed(
            &mut meter,
            100,
            r#"{"choices":[{"delta":{"content":"Hello"}}]}"#,
        );
        feed(
            &mut meter,
            140,
            r#"{"choices":[{"delta":{},"finish_reason":"stop"}]}"#,
        );
        let unknown = meter.receipt(&FACTS);
        assert_eq!(
            (unknown.queue_ms, unknown.prefill_ms, unknown.decode_ms),
            (7, 100, 40)
        );
        assert_eq!((unknown.prompt_tokens, unknown.completion_tokens), (900, 5));
        // What was written can't have taken no token.
        feed(
            &mut meter,
            141,
            r#"{"choices":[],"usage":{"prompt_tokens":20,"completion_tokens":0}}"#,
        );
        assert_eq!(meter.receipt(&FACTS).source, UsageSource::Estimated);
        assert_eq!(
            (unknown.source, unknown.cache_n),
            (UsageSource::Estimated, None)
        );
        feed(
            &mut meter,
            141,
            r#"{"choices":[],"usage":{"prompt_tokens":20,"completion_tokens":2,"prompt_tokens_details":{"cached_tokens":16}}}"#,
        );
        let told = meter.receipt(&FACTS);
        assert_eq!((told.cache_n, told.prompt_n), (Some(16), Some(4)));
        assert_eq!(told.source, UsageSource::Reported);
    }

    #[test]
    fn what_follows_the_end_is_not_part_of_the_answer() {
        let mut meter = Meter::default();
        let events = b"data: [DONE]\n\ndata: {\"choices\":[]}\n\n";
        assert_eq!(meter.take(events, ms(1)), Ok(14));
    }

    #[test]
    fn an_endless_answer_is_refused() {
        let chunk = format!(
            "data: {{\"choices\":[{{\"delta\":{{\"content\":\"{}\"}}}}]}}\n\n",
            "x".repeat(1 << 20)
        );
        let mut meter = Meter::default();
        let refused = (0..=8).any(|_| meter.take(chunk.as_bytes(), ms(1)).is_err());
        assert!(refused);
    }

    #[test]
    fn senseless_times_do_no_harm() {
        let mut meter = Meter::default();
        feed(
            &mut meter,
            1,
            r#"{"choices":[],"timings":{"prompt_n":18446744073709551615,"cache_n":9,"prompt_ms":-3,"predicted_ms":1e300}}"#,
        );
        let receipt = meter.receipt(&FACTS);
        assert_eq!(receipt.prefill_ms, 0);
        assert_eq!(receipt.prompt_tokens, u64::MAX);
    }
}
