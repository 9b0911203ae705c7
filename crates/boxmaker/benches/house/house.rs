//! A house at work: a disposable home, its roles, and a client that asks for turns.

use super::model::{ASKS_FOR_A_TOOL, Model};
use bxcore::id::SessionId;
use bxcore::role::Role;
use bxcore::transcript::TurnOutcome;
use bxcore::wire::loopd::{TurnEvent, TurnRequest};
use bxkit::home::Home;
use bxkit::keys::Token;
use bxkit::rpc::Client;
use bxtest::home::{BackendConfig, TestHome};
use bytes::Bytes;
use std::os::unix::net::UnixDatagram;
use std::path::Path;
use std::time::{Duration, Instant};

/// How many requests the server takes at once.
pub(crate) const MAX_CONCURRENCY: usize = 256;
/// How long a house may take to be ready.
const READY_WITHIN: Duration = Duration::from_secs(30);

/// The roles, as their sockets are named.
pub(crate) const ROLES: [&str; 4] = ["loopd", "brokerd", "memoryd", "inferproxy"];

/// What a turn needs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Ask {
    /// One model call.
    Plain,
    /// A model call, a tool call that brokerd decides and runs, a model call.
    Tool,
}

impl Ask {
    /// How many model calls.
    pub(crate) fn model_calls(self) -> u32 {
        match self {
            Self::Plain => 1,
            Self::Tool => 2,
        }
    }

    fn text(self) -> &'static str {
        match self {
            Self::Plain => "hello",
            Self::Tool => ASKS_FOR_A_TOOL,
        }
    }
}

/// A home that uses this model, with the wire dump as wanted and tools called in this mode.
pub(crate) fn home(parent: &Path, model: &Model, mode: &str, dump: bool) -> TestHome {
    let home = TestHome::under(parent);
    let url = format!("http://{}", model.address());
    home.write_backends(&[BackendConfig::openai(&url, MAX_CONCURRENCY).tools(mode)]);
    if !dump {
        let file = home.config_dir().join("inferproxy.toml");
        let text = std::fs::read_to_string(&file).unwrap();
        std::fs::write(&file, text.replace("wire_dump = true", "")).unwrap();
    }
    home
}

/// A command line that starts the house of a home, possibly under another program.
pub(crate) type Wrapper<'a> = Option<(&'a Path, &'a [String])>;

/// A house that runs.
pub(crate) struct House<'h> {
    home: &'h TestHome,
    up: bxtest::home::Child<'h>,
    door: Door,
    /// From the start of the process until it said that it is ready.
    pub(crate) ready_after: Duration,
}

impl<'h> House<'h> {
    /// Starts it and waits until it says that it is ready, as a service manager would.
    pub(crate) fn start(home: &'h TestHome, wrapper: Wrapper<'_>) -> Self {
        let place = home.path().join("notify");
        let _ = std::fs::remove_file(&place);
        let notify = UnixDatagram::bind(&place).unwrap();
        notify.set_read_timeout(Some(READY_WITHIN)).unwrap();
        let mut command = home.cmd("boxmaker").arg("up");
        if let Some((program, arguments)) = wrapper {
            command = command.under(program, arguments);
        }
        let began = Instant::now();
        let up = command.env("NOTIFY_SOCKET", &place).spawn();
        let mut word = [0; 512];
        loop {
            let length = notify.recv(&mut word).unwrap();
            if word[..length].starts_with(b"READY=1") {
                break;
            }
        }
        let ready_after = began.elapsed();
        let layout = Home::at(home.path());
        let token = std::fs::read_to_string(layout.owner_token_file()).unwrap();
        let token = Token::parse(token.trim_end()).unwrap();
        Self {
            home,
            up,
            door: Door {
                loopd: Client::new(layout.socket(Role::Loopd), &token),
            },
            ready_after,
        }
    }

    /// Stops it as a service manager does, with everything written out. Dropping it kills it.
    pub(crate) fn stop(self) {
        assert!(self.up.terminate().success());
    }

    /// The way in.
    pub(crate) fn door(&self) -> Door {
        self.door.clone()
    }

    /// Works a turn of a session to its end.
    pub(crate) async fn turn(&self, session: &SessionId, ask: Ask) {
        self.door.turn(session, ask).await;
    }

    /// The process of each role, in the order of [`ROLES`].
    pub(crate) fn roles(&self) -> [u32; 4] {
        ROLES.map(|role| self.home.role_pid(role).unwrap())
    }
}

/// The way into a house, for as many as like.
#[derive(Clone)]
pub(crate) struct Door {
    loopd: Client,
}

impl Door {
    /// Works a turn of a session to its end.
    pub(crate) async fn turn(&self, session: &SessionId, ask: Ask) {
        let request = TurnRequest {
            session: Some(session.clone()),
            text: ask.text().to_owned(),
            class: None,
            backend: None,
            no_wait: false,
        };
        let mut events = self.loopd.stream("/v1/turns", &request).await.unwrap();
        let mut ended = None;
        // Read to its end, so that the connection serves the next turn too.
        while let Some(event) = events.next().await {
            match serde_json::from_str(&event.unwrap().data).unwrap() {
                TurnEvent::End { report } => ended = Some(report),
                TurnEvent::Refused { problem } => panic!("{problem}"),
                _ => {}
            }
        }
        let report = ended.expect("a turn has an end");
        assert_eq!(report.outcome, TurnOutcome::Completed, "{report:?}");
        assert_eq!(report.usage.model_calls, u64::from(ask.model_calls()));
    }
}

/// A session by its number.
pub(crate) fn session(number: usize) -> SessionId {
    SessionId::new(format!("chat-{number}")).unwrap()
}

/// What the second turn of a session sends, for the bare client to send too.
pub(crate) fn bodies(model: &Model, ask: Ask) -> Vec<Bytes> {
    let home = home(Path::new("/tmp"), model, "native", true);
    let house = House::start(&home, None);
    runtime().block_on(async {
        for _ in 0..2 {
            house.turn(&session(0), ask).await;
        }
    });
    let sent = bxtest::wire::read(&home.wire_dump());
    sent[sent.len() - ask.model_calls() as usize..].to_vec()
}

/// A runtime for clients, which share the machine with what is measured.
pub(crate) fn runtime() -> tokio::runtime::Runtime {
    tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .unwrap()
}
