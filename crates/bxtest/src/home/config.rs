//! Configuration files for a disposable home, as the owner of a box would write them.

use std::fmt::Write as _;

use crate::llama::LlamaServer;

/// One `[[backend]]` table of inferproxy.toml.
#[derive(Debug, Clone)]
pub struct BackendConfig {
    name: String,
    url: String,
    lines: Vec<String>,
}

impl BackendConfig {
    /// A llama-server at `url` with one main slot, 0, and slot 2 for the background.
    pub fn llama_server(url: &str) -> Self {
        Self::of("llama-server", url).main_slots(&[0], 2)
    }

    /// An OpenAI-compatible server at `url` that takes so many requests at once.
    pub fn openai(url: &str, max_concurrency: usize) -> Self {
        Self::of("openai", url).line(&format!("max_concurrency = {max_concurrency}"))
    }

    /// The scripted server's own kind, with the usual slots.
    pub fn of_server(server: &LlamaServer) -> Self {
        match server.kind() {
            crate::llama::Kind::LlamaServer => Self::llama_server(&server.url()),
            crate::llama::Kind::OpenAi => Self::openai(&server.url(), DEFAULT_CONCURRENCY),
        }
    }

    fn of(kind: &str, url: &str) -> Self {
        let (name, url) = ("local".to_owned(), url.to_owned());
        Self {
            name,
            url,
            lines: vec![format!("kind = \"{kind}\"")],
        }
    }

    /// Its name. Default `local`.
    pub fn name(mut self, name: &str) -> Self {
        name.clone_into(&mut self.name);
        self
    }

    /// Its slots.
    pub fn main_slots(self, main: &[u32], background: u32) -> Self {
        self.without("slots").line(&format!(
            "slots = {{ main = {main:?}, background = {background} }}"
        ))
    }

    /// Slots for council seats.
    pub fn seats(self, seats: &[u32]) -> Self {
        self.without("seats").line(&format!("seats = {seats:?}"))
    }

    /// How tools are called: `native`, `schema` or `auto`.
    pub fn tools(self, mode: &str) -> Self {
        self.without("tools").line(&format!("tools = \"{mode}\""))
    }

    /// Any other line of the table.
    pub fn line(mut self, line: &str) -> Self {
        self.lines.push(line.to_owned());
        self
    }

    fn without(mut self, key: &str) -> Self {
        self.lines
            .retain(|line| !line.starts_with(&format!("{key} =")));
        self
    }

    fn render(&self, text: &mut String) {
        let Self { name, url, lines } = self;
        let lines = lines.join("\n");
        write!(
            text,
            "[[backend]]\nname = \"{name}\"\nurl = \"{url}\"\n{lines}\n\n"
        )
        .expect("a string takes any text");
    }
}

const DEFAULT_CONCURRENCY: usize = 256;

/// The text of inferproxy.toml: the top-level lines, then the backends.
pub(super) fn inferproxy(top: &[&str], backends: &[BackendConfig]) -> String {
    let mut text = String::new();
    for line in top {
        text.push_str(line);
        text.push('\n');
    }
    text.push('\n');
    for backend in backends {
        backend.render(&mut text);
    }
    text
}
