//! One thing that begins by the clock, and when.

use super::quiet::Quiet;
use super::stamp::Stamp;
use super::zone;
use crate::config::{Heartbeat, Job, MAX_JOB_TEXT_BYTES};
use crate::tools::time_line;
use bxcore::id::{BackendName, SessionId};
use bxcore::label::Class;
use bxcore::wire::loopd::Priority;
use bxkit::config::InvalidValue;
use croner::Cron;
use croner::parser::{CronParser, Seconds, Year};
use jiff::tz::TimeZone;
use jiff::{SignedDuration, Timestamp};

/// The session of the heartbeat.
pub const HEARTBEAT: &str = "heartbeat";
/// What the sessions of jobs begin with.
pub const JOB_PREFIX: &str = "job-";

/// The least and the most minutes between two heartbeats; the most is a week.
const EVERY_MINUTES: std::ops::RangeInclusive<u32> = 1..=10_080;
/// A stamp that lies further ahead than this comes from a clock that was wrong.
const MOST_AHEAD: SignedDuration = SignedDuration::from_hours(26);
/// What begins later than this after it was due is told so.
const LATE: SignedDuration = SignedDuration::from_mins(2);

/// How urgent a turn is that the clock began, by the session that it is in or that its helper comes
/// from; none if another began it.
pub fn priority_of(session: &SessionId) -> Option<Priority> {
    match session.as_str() {
        HEARTBEAT => Some(Priority::Heartbeat),
        id if id.starts_with(JOB_PREFIX) => Some(Priority::Job),
        _ => None,
    }
}

/// One thing that begins by the clock.
#[derive(Debug, Clone)]
pub struct Entry {
    /// The session that its turns are in.
    pub session: SessionId,
    /// What its turns begin with, behind a line with the time.
    pub text: String,
    /// The class of the text; private if none is given.
    pub class: Option<Class>,
    /// The backend that its session begins with.
    pub backend: Option<BackendName>,
    /// Its clock.
    pub zone: TimeZone,
    rule: Rule,
}

#[derive(Debug, Clone)]
enum Rule {
    Cron(Box<Cron>),
    After {
        pause: SignedDuration,
        quiet: Option<Quiet>,
    },
}

/// That something is due.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Due {
    /// Since when; the first of several times that were missed.
    pub since: Timestamp,
}

/// An error with the key that it is of.
type Wrong = (&'static str, InvalidValue);

impl Entry {
    pub(super) fn job(job: &Job) -> Result<Self, Wrong> {
        let session = SessionId::new(format!("{JOB_PREFIX}{}", job.name));
        let session = session.ok().filter(|_| !job.name.is_empty());
        let session = session.ok_or_else(|| {
            let why = format!("`{}` can't be the name of a job", job.name);
            let error = InvalidValue::new("", why);
            ("name", error.hint("1 to 60 characters of a-z, 0-9 and -"))
        })?;
        let entry = Self {
            session,
            text: text(&job.text)?,
            class: job.class,
            backend: job.backend.clone(),
            zone: zone(job.time_zone.as_deref()).map_err(|error| ("time_zone", error))?,
            rule: Rule::Cron(Box::new(cron(&job.cron).map_err(|error| ("cron", error))?)),
        };
        let never = Stamp::first(Timestamp::UNIX_EPOCH);
        if entry.next(&never, never.through).is_none() {
            let why = format!("`{}` never comes", job.cron);
            return Err(("cron", InvalidValue::new("", why)));
        }
        Ok(entry)
    }

    pub(super) fn heartbeat(heartbeat: &Heartbeat) -> Result<Self, Wrong> {
        let every = heartbeat.every_minutes;
        if !EVERY_MINUTES.contains(&every) {
            let (least, most) = (EVERY_MINUTES.start(), EVERY_MINUTES.end());
            let why = format!("must be from {least} to {most}");
            return Err(("every_minutes", InvalidValue::new("", why)));
        }
        let quiet = heartbeat.quiet.as_deref().map(Quiet::parse).transpose();
        let session = SessionId::new(HEARTBEAT);
        Ok(Self {
            session: session.map_err(|error| ("text", InvalidValue::new("", error.to_string())))?,
            text: text(&heartbeat.text)?,
            class: heartbeat.class,
            backend: heartbeat.backend.clone(),
            zone: zone(heartbeat.time_zone.as_deref()).map_err(|error| ("time_zone", error))?,
            rule: Rule::After {
                pause: SignedDuration::from_mins(i64::from(every)),
                quiet: quiet.map_err(|error| ("quiet", error))?,
            },
        })
    }

    /// When it comes next, as things stand: no later than now if it is due. None if it never comes.
    pub fn next(&self, stamp: &Stamp, now: Timestamp) -> Option<Timestamp> {
        // A clock that was far ahead and was set back must not silence it for as long.
        let is_ahead = stamp.through.duration_since(now) > MOST_AHEAD;
        let through = if is_ahead { now } else { stamp.through };
        match &self.rule {
            Rule::Cron(cron) => after(cron, through, &self.zone),
            Rule::After { pause, quiet } => {
                let next = through.checked_add(*pause).ok()?.max(now);
                let here = next.to_zoned(self.zone.clone());
                Some(quiet.map_or(next, |quiet| quiet.past(&here)))
            }
        }
    }

    /// Whether it is due. Several times that were missed are due once.
    pub fn due(&self, stamp: &Stamp, now: Timestamp) -> Option<Due> {
        let since = self.next(stamp, now).filter(|next| *next <= now)?;
        Some(Due { since })
    }

    /// Whether a time of it came between the last decision and the end of a run. What is counted from
    /// that end has none.
    pub fn came_due(&self, stamp: &Stamp, ended: Timestamp) -> bool {
        matches!(self.rule, Rule::Cron(_)) && self.due(stamp, ended).is_some()
    }

    /// What a turn begins with: the time, since when it is due if that is a while ago, and the text.
    pub fn message(&self, due: Due, now: Timestamp) -> String {
        let now_here = now.to_zoned(self.zone.clone());
        let mut message = time_line(&now_here);
        if now.duration_since(due.since) > LATE {
            let since = due.since.to_zoned(self.zone.clone());
            let since = since.strftime("%H:%M on %A, %-d %B %Y");
            message.push_str(&format!(" This was due at {since}."));
        }
        format!("{message}\n\n{}", self.text)
    }

    /// When it comes, as it was written.
    pub fn rule(&self) -> String {
        match &self.rule {
            Rule::Cron(cron) => cron.as_str().to_owned(),
            Rule::After { pause, .. } => format!("every {} min", pause.as_mins()),
        }
    }
}

/// The first time after another.
fn after(cron: &Cron, time: Timestamp, zone: &TimeZone) -> Option<Timestamp> {
    let from = time.to_zoned(zone.clone());
    let next = cron.find_next_occurrence(&from, false).ok()?;
    Some(next.timestamp())
}

fn text(text: &str) -> Result<String, Wrong> {
    if text.trim().is_empty() {
        return Err(("text", InvalidValue::new("", "it is empty")));
    }
    if text.len() > MAX_JOB_TEXT_BYTES {
        let why = format!("it is longer than {MAX_JOB_TEXT_BYTES} bytes");
        return Err(("text", InvalidValue::new("", why)));
    }
    Ok(text.to_owned())
}

/// Reads a cron line of five fields: seconds and years are not taken, so that nothing comes more
/// than once a minute.
fn cron(line: &str) -> Result<Cron, InvalidValue> {
    let parser = CronParser::builder()
        .seconds(Seconds::Disallowed)
        .year(Year::Disallowed)
        .build();
    parser.parse(line).map_err(|error| {
        let why = format!("`{line}` is no cron line: {error}");
        let hint =
            "minute, hour, day of month, month, day of week: \"30 7 * * 1-5\" is 7:30 on weekdays";
        InvalidValue::new("", why).hint(hint)
    })
}
