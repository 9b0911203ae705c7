//! A sandbox under way: its output is read, its time is kept, and nothing of it is left behind.

use super::capture::Capture;
use super::limits::{KILLING_SECS, MAX_OUTPUT_BYTES, STARTING_SECS};
use super::wire::{Ended, Word};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use std::io::{self, PipeReader, Read};
use std::os::fd::AsFd;
use std::os::unix::net::UnixStream;
use std::process::Child;
use std::time::{Duration, Instant};

/// How much is read at once.
const PIECE_BYTES: usize = 64 * 1024;
/// The longest line of the stage's.
const MAX_WORD_BYTES: usize = 16 * 1024;
/// How much of bubblewrap's complaint is told.
const MAX_COMPLAINT_BYTES: usize = 500;

/// A sandbox that was started.
#[derive(Debug)]
pub(super) struct Sandboxed {
    pub(super) bubblewrap: Child,
    /// What it writes; none once every process of it is gone.
    pub(super) output: Option<PipeReader>,
    /// What the stage says; none once that is gone.
    pub(super) control: Option<Lines>,
}

/// How far it has come.
struct Course {
    /// When it is killed, or given up if it was killed already.
    deadline: Instant,
    has_begun: bool,
    /// What the stage said last, or why it was killed.
    ended: Option<Ended>,
    is_killed: bool,
}

impl Sandboxed {
    /// Lets it run to its end, or to the end of its time. The error is why it did not begin.
    pub(super) fn run_out(
        mut self,
        timeout: Duration,
        capture: &mut Capture,
        client: &UnixStream,
    ) -> Result<Ended, String> {
        let mut course = Course {
            deadline: Instant::now() + Duration::from_secs(STARTING_SECS),
            has_begun: false,
            ended: None,
            is_killed: false,
        };
        while self.output.is_some() || self.control.is_some() {
            let left = course.deadline.saturating_duration_since(Instant::now());
            if left.is_zero() {
                if course.is_killed {
                    break;
                }
                self.kill(&mut course, Ended::Timeout);
                continue;
            }
            let watched = if course.is_killed { None } else { Some(client) };
            let ready = wait(&self, watched, left).map_err(|error| error.to_string())?;
            if ready.client {
                // Whoever wanted the result is gone, and with it whoever may kill it later.
                self.kill(&mut course, Ended::Broken);
            }
            if ready.control {
                self.listen(&mut course, timeout);
            }
            if ready.output {
                self.read(&mut course, capture);
            }
        }
        // It has ended by itself, unless it outlived even its killing.
        let _ = self.bubblewrap.kill();
        let _ = self.bubblewrap.wait();
        if course.has_begun {
            return Ok(course.ended.unwrap_or(Ended::Broken));
        }
        Err(why_not(course.ended, capture))
    }

    /// Kills bubblewrap, with which every process in the sandbox dies.
    fn kill(&mut self, course: &mut Course, why: Ended) {
        if course.is_killed {
            return;
        }
        course.is_killed = true;
        course.deadline = Instant::now() + Duration::from_secs(KILLING_SECS);
        course.ended.get_or_insert(why);
        let _ = self.bubblewrap.kill();
    }

    fn listen(&mut self, course: &mut Course, timeout: Duration) {
        let Some(lines) = &mut self.control else {
            return;
        };
        let is_open = lines.read();
        while let Some(word) = lines.next() {
            match word {
                Word::Began => {
                    course.has_begun = true;
                    if !course.is_killed {
                        course.deadline = Instant::now() + timeout;
                    }
                }
                Word::Failed(why) => {
                    course.ended.get_or_insert(Ended::Unavailable(why));
                }
                Word::Ended(ended) => {
                    course.ended.get_or_insert(ended);
                }
            }
        }
        if !is_open {
            self.control = None;
        }
    }

    fn read(&mut self, course: &mut Course, capture: &mut Capture) {
        let Some(output) = &mut self.output else {
            return;
        };
        let mut piece = vec![0; PIECE_BYTES];
        match output.read(&mut piece) {
            Ok(0) => self.output = None,
            Ok(length) => {
                capture.add(&piece[..length]);
                if capture.total_bytes() > MAX_OUTPUT_BYTES {
                    self.kill(course, Ended::Output);
                }
            }
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(_) => self.output = None,
        }
    }
}

/// Why a sandbox never ran its command; what bubblewrap said about it came as output.
fn why_not(ended: Option<Ended>, capture: &mut Capture) -> String {
    if let Some(Ended::Unavailable(why)) = ended {
        return why;
    }
    let (mut said, _) = std::mem::replace(capture, Capture::new(0)).parts();
    said.truncate(MAX_COMPLAINT_BYTES);
    let said = String::from_utf8_lossy(&said);
    match (ended, said.trim()) {
        (Some(Ended::Timeout), _) => format!("it was not ready within {STARTING_SECS} s"),
        (_, "") => "bubblewrap ended without a word".to_owned(),
        (_, said) => said.to_owned(),
    }
}

/// What there is to be read.
struct ReadyNow {
    output: bool,
    control: bool,
    client: bool,
}

fn wait(
    sandboxed: &Sandboxed,
    client: Option<&UnixStream>,
    at_most: Duration,
) -> io::Result<ReadyNow> {
    let sources = [
        sandboxed.output.as_ref().map(AsFd::as_fd),
        sandboxed.control.as_ref().map(|lines| lines.stream.as_fd()),
        client.map(AsFd::as_fd),
    ];
    let watched = sources.iter().flatten();
    let mut polled: Vec<PollFd<'_>> = watched
        .map(|fd| PollFd::from_borrowed_fd(*fd, PollFlags::IN))
        .collect();
    let timeout = Timespec {
        tv_sec: i64::try_from(at_most.as_secs()).unwrap_or(i64::MAX),
        tv_nsec: at_most.subsec_nanos().into(),
    };
    match poll(&mut polled, Some(&timeout)) {
        Ok(_) | Err(rustix::io::Errno::INTR) => {}
        Err(errno) => return Err(errno.into()),
    }
    let mut came = polled.iter().map(|fd| !fd.revents().is_empty());
    let [output, control, client] =
        sources.map(|source| source.is_some() && came.next().unwrap_or(false));
    Ok(ReadyNow {
        output,
        control,
        client,
    })
}

/// The stage's words, as they come.
#[derive(Debug)]
pub(super) struct Lines {
    stream: UnixStream,
    pending: Vec<u8>,
}

impl Lines {
    pub(super) fn new(stream: UnixStream) -> Self {
        Self {
            stream,
            pending: Vec::new(),
        }
    }

    /// Takes in what is there; no once the other end is gone, or says what no stage says.
    fn read(&mut self) -> bool {
        let mut piece = [0; 4096];
        match (&self.stream).read(&mut piece) {
            Ok(0) => false,
            Ok(length) => {
                self.pending.extend_from_slice(&piece[..length]);
                self.pending.len() <= MAX_WORD_BYTES
            }
            Err(error) => matches!(
                error.kind(),
                io::ErrorKind::WouldBlock | io::ErrorKind::Interrupted
            ),
        }
    }

    fn next(&mut self) -> Option<Word> {
        let end = self.pending.iter().position(|byte| *byte == b'\n')?;
        let line: Vec<u8> = self.pending.drain(..=end).collect();
        serde_json::from_slice(&line).ok()
    }
}
