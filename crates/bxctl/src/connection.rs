//! Connections to what runs.

use crate::context::Context;
use bxcore::code::Code;
use bxcore::problem::Problem;
use bxcore::role::Role;
use bxcore::wire::supervisor::Status;
use bxkit::home::Home;
use bxkit::keys::Token;
use bxkit::rpc::{CallError, Client, EventStream};
use std::os::unix::net::UnixStream;
use std::time::Duration;

/// How long a plain question to a role may take, in seconds. Tests of a backend take longer.
const ANSWER_WITHIN_SECS: u64 = 30;

/// Clients of everything that runs in a home.
#[derive(Debug)]
pub(crate) struct Connection {
    pub(crate) supervisor: Client,
    pub(crate) loopd: Client,
    pub(crate) brokerd: Client,
    pub(crate) memoryd: Client,
    pub(crate) inferproxy: Client,
    /// What keeps a background supervisor from leaving, where it was asked for.
    attached: Option<EventStream>,
}

impl Connection {
    /// Connects to what runs.
    ///
    /// # Errors
    /// Nothing runs, with how to start it.
    pub(crate) async fn open(context: &Context<'_>) -> Result<Self, Problem> {
        match Self::find(context.home).await? {
            Some(connection) => Ok(connection),
            None => Err(not_running()),
        }
    }

    /// Connects to what runs; none if nothing does.
    pub(crate) async fn find(home: &Home) -> Result<Option<Self>, Problem> {
        let Some(token) = token_of_house(home)? else {
            return Ok(None);
        };
        let mut connection = Self::with_token(home, &token);
        let mut status = connection.status().await;
        if matches!(&status, Err(CallError::Refused(problem)) if problem.code == Code::NotAuthorised)
        {
            // A token that was read in the moment in which another supervisor took over.
            if let Some(token) = token_of_house(home)? {
                connection = Self::with_token(home, &token);
                status = connection.status().await;
            }
        }
        match status {
            Ok(_) => Ok(Some(connection)),
            // Broken: it is about to leave, and its socket takes nothing any more.
            Err(CallError::Unreachable { .. } | CallError::Broken { .. }) => Ok(None),
            Err(error) => Err(error.problem()),
        }
    }

    fn with_token(home: &Home, token: &Token) -> Self {
        let within = Duration::from_secs(ANSWER_WITHIN_SECS);
        let client = |socket| Client::new(socket, token).timeout(within);
        Self {
            supervisor: client(home.supervisor_socket()),
            loopd: client(home.socket(Role::Loopd)),
            brokerd: client(home.socket(Role::Brokerd)),
            memoryd: client(home.socket(Role::Memoryd)),
            inferproxy: client(home.socket(Role::Inferproxy)),
            attached: None,
        }
    }

    /// What the supervisor says of the house.
    pub(crate) async fn status(&self) -> Result<Status, CallError> {
        self.supervisor.get("/v1/status").await
    }

    /// Keeps a background supervisor from leaving, for as long as the connection is held.
    ///
    /// # Errors
    /// It leaves already.
    pub(crate) async fn attach(&mut self) -> Result<(), CallError> {
        self.attached = Some(self.supervisor.get_stream("/v1/attach").await?);
        Ok(())
    }
}

/// What is said where nothing runs.
pub(crate) fn not_running() -> Problem {
    Problem::new(
        Code::RoleUnreachable,
        "Boxmaker is not running in this home",
    )
    .hint("`boxmaker up` starts it; `boxmaker ask`, `chat` and most others start it by themselves")
}

/// The owner's token; none if nothing runs.
///
/// # Errors
/// Something runs, and its token is gone or can't be trusted.
fn token_of_house(home: &Home) -> Result<Option<Token>, Problem> {
    if let Ok(token) = owner_token(home) {
        return Ok(Some(token));
    }
    if UnixStream::connect(home.supervisor_socket()).is_err() {
        return Ok(None);
    }
    // The token is there before the socket is: the house may have begun between the two looks.
    owner_token(home).map(Some).map_err(|why| {
        Problem::new(
            Code::NotAuthorised,
            "Boxmaker is running, but its owner's token can't be used",
        )
        .detail(why)
        .hint("`boxmaker down` stops what runs even so; the next start writes a new token")
    })
}

/// The owner's token, or why there is none.
fn owner_token(home: &Home) -> Result<Token, String> {
    let path = home.owner_token_file();
    let bytes =
        bxkit::fsx::read_nofollow_private(&path).map_err(|error| bxkit::report::chain(&error))?;
    let text = std::str::from_utf8(&bytes).unwrap_or_default();
    Token::parse(text.trim_end()).map_err(|error| format!("{}: {error}", path.display()))
}
