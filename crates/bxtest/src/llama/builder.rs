//! How a scripted server is set up.

use std::collections::VecDeque;
use std::time::Duration;

use super::render::Template;
use super::reply::Reply;
use super::request::Request;
use super::server::LlamaServer;
use super::shared::{Config, Responder, Shared};
use super::spec::Script;
use crate::contract::{BreachKind, Dialect, Rules};

/// Which server is played.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// llama-server, with slots.
    LlamaServer,
    /// A server that knows OpenAI's chat endpoint and nothing else: no slots, no properties.
    OpenAi,
}

/// Sets up a scripted server.
#[must_use = "a builder does nothing until it is started"]
pub struct Builder {
    config: Config,
    model: String,
    queue: VecDeque<Reply>,
    responder: Option<Responder>,
    port: u16,
    loading: bool,
}

const DEFAULT_SLOTS: usize = 4;
const DEFAULT_CONTEXT_TOKENS: usize = 32 * 1024;
const DEFAULT_BATCH_TOKENS: usize = 2048;
const DEFAULT_STOP_LAG: Duration = Duration::from_millis(20);

impl Builder {
    pub(super) fn new() -> Self {
        let config = Config {
            kind: Kind::LlamaServer,
            slots: DEFAULT_SLOTS,
            slots_endpoint: true,
            context_tokens: DEFAULT_CONTEXT_TOKENS,
            latency: Duration::ZERO,
            batch_tokens: DEFAULT_BATCH_TOKENS,
            batch_time: Duration::ZERO,
            stop_lag: DEFAULT_STOP_LAG,
            template: Template {
                has_tools: true,
                keeps_reasoning: false,
                rewrites_calls: false,
            },
            cached_tokens: true,
            api_key: None,
            max_concurrency: None,
            keeps_bodies: true,
            clears_idle: false,
            rules: Rules::strict(Dialect::LlamaServer),
        };
        Self {
            config,
            model: "scripted".to_owned(),
            queue: VecDeque::new(),
            responder: None,
            port: 0,
            loading: false,
        }
    }

    /// Which server is played. Default llama-server.
    pub fn kind(mut self, kind: Kind) -> Self {
        self.config.kind = kind;
        self.config.rules.dialect = match kind {
            Kind::LlamaServer => Dialect::LlamaServer,
            Kind::OpenAi => Dialect::OpenAi,
        };
        self
    }

    /// How many slots it has. Default 4.
    pub fn slots(mut self, count: usize) -> Self {
        self.config.slots = count.max(1);
        self
    }

    /// Whether `/slots` is served. Default yes.
    pub fn slots_endpoint(mut self, served: bool) -> Self {
        self.config.slots_endpoint = served;
        self
    }

    /// A slot's context in tokens (of four bytes). Default 32768.
    pub fn context_tokens(mut self, tokens: usize) -> Self {
        self.config.context_tokens = tokens;
        self
    }

    /// The model's name. Default `scripted`.
    pub fn model(mut self, name: &str) -> Self {
        name.clone_into(&mut self.model);
        self
    }

    /// The next reply. Replies are used in the order in which requests come.
    pub fn reply(mut self, reply: impl Into<Reply>) -> Self {
        self.queue.push_back(reply.into());
        self
    }

    /// The next replies.
    pub fn replies(mut self, replies: impl IntoIterator<Item = Reply>) -> Self {
        self.queue.extend(replies);
        self
    }

    /// Decides on each request once the queued replies are used up.
    pub fn respond(mut self, respond: impl Fn(&Request) -> Reply + Send + Sync + 'static) -> Self {
        self.responder = Some(Box::new(respond));
        self
    }

    /// Answers each turn alike: its first call with the first reply, and so on; the last one stays.
    pub fn respond_per_turn(self, replies: Vec<Reply>) -> Self {
        assert!(!replies.is_empty(), "a script needs a reply");
        self.respond(move |request| {
            replies[request.calls_before_in_turn().min(replies.len() - 1)].clone()
        })
    }

    /// Answers from a script file's content.
    pub fn script(self, script: Script) -> Self {
        script.install(self)
    }

    /// The model's latency before its first byte. Default none.
    pub fn latency(mut self, latency: Duration) -> Self {
        self.config.latency = latency;
        self
    }

    /// The prompt is read in batches of so many tokens that take so long and can't be interrupted.
    pub fn prefill(mut self, batch_tokens: usize, batch_time: Duration) -> Self {
        self.config.batch_tokens = batch_tokens.max(1);
        self.config.batch_time = batch_time;
        self
    }

    /// How long a slot stays at work after its client went away while it generated. Default 20 ms.
    pub fn stop_lag(mut self, lag: Duration) -> Self {
        self.config.stop_lag = lag;
        self
    }

    /// Whether the slots share one cache, so that a request clears the idle ones. Default no.
    pub fn cache_idle_slots(mut self, clears: bool) -> Self {
        self.config.clears_idle = clears;
        self
    }

    /// Whether the template writes earlier reasoning back into the prompt. Default no.
    pub fn keeps_reasoning(mut self, keeps: bool) -> Self {
        self.config.template.keeps_reasoning = keeps;
        self
    }

    /// Whether the template puts a tool call into other bytes than the model wrote. Default no.
    pub fn rewrites_tool_calls(mut self, rewrites: bool) -> Self {
        self.config.template.rewrites_calls = rewrites;
        self
    }

    /// Whether the template has native tools, as `/props` says. Default yes.
    pub fn supports_tools(mut self, supports: bool) -> Self {
        self.config.template.has_tools = supports;
        self
    }

    /// Whether the usage of an OpenAI server has `prompt_tokens_details.cached_tokens`. Default yes.
    pub fn cached_tokens(mut self, reported: bool) -> Self {
        self.config.cached_tokens = reported;
        self
    }

    /// Requires this key as a bearer token.
    pub fn api_key(mut self, key: &str) -> Self {
        self.config.api_key = Some(key.to_owned());
        self
    }

    /// More requests at once are a breach. Default no limit.
    pub fn max_concurrency(mut self, count: usize) -> Self {
        self.config.max_concurrency = Some(count);
        self
    }

    /// Whether bodies are kept for inspection. Off for benches. Default yes.
    pub fn keep_bodies(mut self, keeps: bool) -> Self {
        self.config.keeps_bodies = keeps;
        self
    }

    /// Starts with the model still loading, until [`LlamaServer::set_loading`].
    pub fn loading(mut self) -> Self {
        self.loading = true;
        self
    }

    /// Serves requests with this breach, as the real server would, and only counts it.
    pub fn tolerate(mut self, kind: BreachKind) -> Self {
        self.config.rules.tolerated.insert(kind);
        self
    }

    /// Lets so many requests break off their conversation and start a new epoch.
    pub fn new_epochs(mut self, count: usize) -> Self {
        self.config.rules.new_epochs = count;
        self
    }

    /// Listens on this port of 127.0.0.1. Default any free one.
    pub fn port(mut self, port: u16) -> Self {
        self.port = port;
        self
    }

    /// Starts the server on a thread of its own, so that a test may block.
    pub async fn start(self) -> LlamaServer {
        let (shared, port) = self.build();
        LlamaServer::launch(shared, port).await
    }

    /// The same as [`Builder::start`] for a test without a runtime.
    pub fn start_blocking(self) -> LlamaServer {
        let (shared, port) = self.build();
        LlamaServer::launch_blocking(shared, port)
    }

    fn build(self) -> (Shared, u16) {
        let shared = Shared::new(self.config, self.model, self.queue, self.responder);
        shared
            .loading
            .store(self.loading, std::sync::atomic::Ordering::SeqCst);
        (shared, self.port)
    }
}
