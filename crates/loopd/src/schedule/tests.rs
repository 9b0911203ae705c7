//! What is due when: clock changes, downtime, quiet hours, and lines that can't be.

use super::*;
use jiff::{SignedDuration, Timestamp};
use proptest::prelude::*;

fn job(cron: &str, zone: &str) -> Job {
    Job {
        name: "j".to_owned(),
        cron: cron.to_owned(),
        text: "look".to_owned(),
        time_zone: Some(zone.to_owned()),
        class: None,
        backend: None,
    }
}

fn heartbeat(every_minutes: u32, quiet: Option<&str>) -> Heartbeat {
    Heartbeat {
        every_minutes,
        text: "look around".to_owned(),
        quiet: quiet.map(str::to_owned),
        time_zone: Some("UTC".to_owned()),
        class: None,
        backend: None,
    }
}

fn only(jobs: &[Job], heartbeat: Option<&Heartbeat>) -> Entry {
    let schedule = Schedule::new(jobs, heartbeat).unwrap();
    schedule.entries()[0].clone()
}

fn at(text: &str) -> Timestamp {
    text.parse().unwrap()
}

/// The times from one moment to another, as if each had been begun at once.
fn times(entry: &Entry, from: &str, until: &str) -> Vec<String> {
    let (mut stamp, until) = (Stamp::first(at(from)), at(until));
    let mut times = Vec::new();
    while let Some(next) = entry
        .next(&stamp, stamp.through)
        .filter(|next| *next <= until)
    {
        assert!(next > stamp.through, "time goes on");
        times.push(next.to_string());
        stamp.through = next;
    }
    times
}

#[test]
fn a_job_comes_by_its_own_clock() {
    let entry = only(&[job("30 7 * * 1-5", "Europe/Berlin")], None);
    assert_eq!(entry.session.as_str(), "job-j");
    assert_eq!(
        times(&entry, "2026-12-04T00:00:00Z", "2026-12-08T00:00:00Z"),
        ["2026-12-04T06:30:00Z", "2026-12-07T06:30:00Z"]
    );
}

/// At 2:00 on 28 March 2027 the clocks of Berlin go to 3:00, and on 31 October at 3:00 back to 2:00.
#[test]
fn a_clock_change_neither_loses_a_job_nor_runs_it_twice() {
    let daily = only(&[job("30 2 * * *", "Europe/Berlin")], None);
    assert_eq!(
        times(&daily, "2027-03-27T12:00:00Z", "2027-03-29T12:00:00Z"),
        ["2027-03-28T01:00:00Z", "2027-03-29T00:30:00Z"]
    );
    assert_eq!(
        times(&daily, "2027-10-30T12:00:00Z", "2027-11-01T12:00:00Z"),
        ["2027-10-31T00:30:00Z", "2027-11-01T01:30:00Z"]
    );
    let hourly = only(&[job("0 * * * *", "Europe/Berlin")], None);
    let hours = times(&hourly, "2027-10-30T23:30:00Z", "2027-10-31T03:30:00Z");
    assert_eq!(hours.len(), 4, "{hours:?}");
}

#[test]
fn what_was_missed_is_due_once() {
    let entry = only(&[job("0 * * * *", "UTC")], None);
    let mut stamp = Stamp::first(at("2026-12-01T00:30:00Z"));
    let now = at("2026-12-03T10:10:00Z");
    let due = entry.due(&stamp, now).unwrap();
    assert_eq!(due.since, at("2026-12-01T01:00:00Z"));
    let message = entry.message(due, now);
    assert_eq!(
        message,
        "It is 10:10 on Thursday, 3 December 2026. This was due at 01:00 on Tuesday, 1 December 2026.\n\nlook"
    );
    stamp.through = now;
    assert_eq!(entry.due(&stamp, now), None);
    assert_eq!(entry.next(&stamp, now), Some(at("2026-12-03T11:00:00Z")));
    let due = Due {
        since: at("2026-12-03T11:00:00Z"),
    };
    let message = entry.message(due, at("2026-12-03T11:00:01Z"));
    assert!(!message.contains("due"), "{message}");
}

#[test]
fn a_clock_that_is_set_back_runs_nothing_again_and_silences_nothing_for_long() {
    let entry = only(&[job("0 * * * *", "UTC")], None);
    let stamp = Stamp::first(at("2026-12-01T12:00:10Z"));
    // An hour back: what was run stays run.
    assert_eq!(entry.due(&stamp, at("2026-12-01T11:00:30Z")), None);
    assert_eq!(entry.due(&stamp, at("2026-12-01T12:30:00Z")), None);
    assert!(entry.due(&stamp, at("2026-12-01T13:00:00Z")).is_some());
    // A year back, from a clock that was wrong.
    let now = at("2025-12-01T12:30:00Z");
    assert_eq!(entry.next(&stamp, now), Some(at("2025-12-01T13:00:00Z")));
}

#[test]
fn a_heartbeat_comes_so_long_after_the_last_and_not_in_quiet_hours() {
    let entry = only(&[], Some(&heartbeat(30, Some("22:00-07:00"))));
    assert_eq!(entry.session.as_str(), "heartbeat");
    let next = |through: &str, now: &str| {
        let next = entry.next(&Stamp::first(at(through)), at(now)).unwrap();
        next.to_string()
    };
    let day = "2026-12-01T";
    for (through, now, expect) in [
        ("10:00:00Z", "10:01:00Z", "2026-12-01T10:30:00Z"),
        ("21:29:59Z", "21:30:00Z", "2026-12-01T21:59:59Z"),
        ("21:30:00Z", "21:31:00Z", "2026-12-02T07:00:00Z"),
        ("03:00:00Z", "03:10:00Z", "2026-12-01T07:00:00Z"),
        // It was due before the quiet hours, and the machine slept.
        ("10:00:00Z", "23:00:00Z", "2026-12-02T07:00:00Z"),
    ] {
        let (through, now) = (format!("{day}{through}"), format!("{day}{now}"));
        assert_eq!(next(&through, &now), expect, "{through} {now}");
    }
    let stamp = Stamp::first(at("2026-12-01T10:00:00Z"));
    assert!(entry.due(&stamp, at("2026-12-01T10:30:00Z")).is_some());
    assert!(entry.due(&stamp, at("2026-12-01T23:00:00Z")).is_none());
    let noon = only(&[], Some(&heartbeat(30, Some("12:00-13:00"))));
    let stamp = Stamp::first(at("2026-12-01T11:40:00Z"));
    let next = noon.next(&stamp, stamp.through).unwrap();
    assert_eq!(next, at("2026-12-01T13:00:00Z"));
}

#[test]
fn what_can_not_be_kept_is_refused_by_name() {
    let refused = |jobs: &[Job], heartbeat: Option<&Heartbeat>| {
        let error = Schedule::new(jobs, heartbeat).unwrap_err();
        format!("{}: {}", error.key, error.why)
    };
    let good = || job("0 * * * *", "UTC");
    let check = |job: Job, expect: &str| {
        let shown = refused(&[good(), job], None);
        assert!(shown.contains(expect), "{shown}\n{expect}");
    };
    let with = |change: fn(&mut Job)| {
        let mut job = job("0 * * * *", "UTC");
        job.name = "k".to_owned();
        change(&mut job);
        job
    };
    for line in [
        "",
        "* * * *",
        "* * * * * *",
        "0 0 0 * * * 2030",
        "61 * * * *",
        "x",
        "@reboot",
    ] {
        let mut bad = with(|_| {});
        bad.cron = line.to_owned();
        check(bad, "job.1.cron: ");
    }
    check(
        with(|job| job.cron = "0 0 31 2 *".to_owned()),
        "never comes",
    );
    check(
        with(|job| job.time_zone = Some("Mars/Base".to_owned())),
        "job.1.time_zone",
    );
    check(
        with(|job| job.text = " \n".to_owned()),
        "job.1.text: it is empty",
    );
    check(with(|job| job.text = "x".repeat(20_000)), "job.1.text");
    check(with(|job| job.name = "A b".to_owned()), "job.1.name");
    check(with(|job| job.name = String::new()), "job.1.name");
    check(with(|job| job.name = "x".repeat(61)), "job.1.name");
    check(
        with(|job| job.name = "j".to_owned()),
        "another job has this name",
    );
    let many: Vec<Job> = (0..=MAX_JOBS)
        .map(|n| Job {
            name: format!("n{n}"),
            ..good()
        })
        .collect();
    assert!(refused(&many, None).contains("at most 64"));
    for (every, quiet) in [
        (0, None),
        (20_000, None),
        (5, Some("22:00")),
        (5, Some("7:00-7:00")),
        (5, Some("25:00-3:00")),
    ] {
        let shown = refused(&[], Some(&heartbeat(every, quiet)));
        assert!(shown.starts_with("heartbeat."), "{shown}");
    }
}

proptest! {
    /// Whatever the clock does, a job is never due twice for one time, and never lost for good.
    #[test]
    fn looks_at_any_times_begin_each_time_once(
        steps in proptest::collection::vec(-5_000_i64..20_000, 1..60),
    ) {
        let entry = only(&[job("*/7 * * * *", "Europe/Berlin")], None);
        let mut now = at("2027-03-27T22:00:00Z");
        let mut stamp = Stamp::first(now);
        let mut begun: Vec<Timestamp> = Vec::new();
        for step in steps {
            now += SignedDuration::from_secs(step);
            if let Some(due) = entry.due(&stamp, now) {
                prop_assert!(due.since <= now);
                prop_assert!(begun.iter().all(|earlier| *earlier < due.since));
                begun.push(due.since);
                stamp.through = now;
            }
            let next = entry.next(&stamp, now).unwrap();
            prop_assert!(next > stamp.through);
            prop_assert!(next.duration_since(stamp.through) < SignedDuration::from_mins(80));
        }
    }
}
