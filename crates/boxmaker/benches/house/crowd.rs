//! Turns a second with many sessions at once, on a server that thinks for 50 ms about each call.

use super::bare::Bare;
use super::house::{Ask, House, ROLES, bodies, home, runtime, session};
use super::model::Model;
use super::process::worked;
use super::table::{ms, print as table, row};
use futures_util::future::join_all;
use std::path::Path;
use std::time::{Duration, Instant};

/// How many sessions are at work at once.
const CROWDS: [usize; 3] = [1, 32, 256];
/// How long the server thinks.
const THINKING: Duration = Duration::from_millis(50);
/// How many turns each session has in a row.
const TURNS: u32 = 8;

/// Prints the tables.
pub(crate) fn print() {
    let model = Model::start();
    for ask in [Ask::Plain, Ask::Tool] {
        model.think_for(Duration::ZERO);
        let bodies = bodies(&model, ask);
        model.think_for(THINKING);
        let floor = THINKING * ask.model_calls() * TURNS;
        let times =
            |time: Duration| format!("{:.2} x floor", time.as_secs_f64() / floor.as_secs_f64());
        let mut rows = Vec::new();
        for sessions in CROWDS.into_iter().filter(|sessions| wanted(*sessions)) {
            let rate = |time: Duration| {
                format!(
                    "{:.0} turns/s",
                    f64::from(TURNS) * sessions as f64 / time.as_secs_f64()
                )
            };
            let before = model.worked();
            let bare = bare(&model, &bodies, sessions);
            let thought = model.worked().saturating_sub(before) / turns(sessions);
            rows.push(row(
                format!("{sessions} sessions, bare client"),
                times(bare),
                format!("{}; the server works {} a turn", rate(bare), ms(thought)),
            ));
            for (place, parent) in [("in memory", "/dev/shm"), ("on disk", "/tmp")] {
                let crowd = crowd(&model, Path::new(parent), ask, sessions);
                rows.push(row(
                    format!("{sessions} sessions, home {place}"),
                    times(crowd.took),
                    format!("{}; {}", rate(crowd.took), crowd.work),
                ));
            }
        }
        let calls = ask.model_calls();
        table(
            &format!(
                "Turns of {calls} model calls of 50 ms, {TURNS} in a row, against calls x 50 ms (aim at 256: 1.4)"
            ),
            &rows,
        );
    }
}

/// Whether a crowd of this size is to be measured: all are, or the one that the environment names.
fn wanted(sessions: usize) -> bool {
    std::env::var("HOUSE_SESSIONS").map_or(true, |only| only == sessions.to_string())
}

fn turns(sessions: usize) -> u32 {
    TURNS * u32::try_from(sessions).unwrap()
}

fn bare(model: &Model, bodies: &[bytes::Bytes], sessions: usize) -> Duration {
    runtime().block_on(async {
        let connecting = (0..sessions).map(|_| Bare::connect(model.address()));
        let clients = join_all(connecting).await;
        let began = Instant::now();
        let work = clients.into_iter().map(|mut client| {
            let bodies = bodies.to_vec();
            tokio::spawn(async move {
                for _ in 0..TURNS {
                    client.turn(&bodies).await;
                }
            })
        });
        for done in join_all(work).await {
            done.unwrap();
        }
        began.elapsed()
    })
}

struct Crowd {
    took: Duration,
    work: String,
}

fn crowd(model: &Model, parent: &Path, ask: Ask, sessions: usize) -> Crowd {
    let home = home(parent, model, "native", false);
    let house = House::start(&home, None);
    let own = std::process::id();
    let cores = std::thread::available_parallelism().unwrap().get();
    runtime().block_on(async {
        // The first turn makes each session; what follows is the steady state.
        all_work(&house, ask, sessions, 1).await;
        let pids = house.roles();
        let all = || pids.iter().map(|pid| worked(*pid)).sum::<Duration>() + worked(own);
        let (before, all_before) = (pids.map(worked), all());
        let began = Instant::now();
        all_work(&house, ask, sessions, TURNS).await;
        let took = began.elapsed();
        let a_turn = |now: Duration, before: Duration| now.saturating_sub(before) / turns(sessions);
        let mut work: Vec<String> = ROLES
            .iter()
            .zip(pids.map(worked).iter().zip(before))
            .map(|(role, (now, before))| format!("{role} {}", ms(a_turn(*now, before))))
            .collect();
        let all = a_turn(all(), all_before);
        // What this much work needs on these cores when nothing else runs on them.
        let alone = all.as_secs_f64() * sessions as f64 / cores as f64;
        let alone = alone / (THINKING * ask.model_calls()).as_secs_f64();
        work.push(format!("with client and server {}", ms(all)));
        work.push(format!("which alone needs {alone:.2} x floor"));
        Crowd {
            took,
            work: work.join(", "),
        }
    })
}

/// Works turns in each of the sessions, all sessions at once.
async fn all_work(house: &House<'_>, ask: Ask, sessions: usize, turns: u32) {
    let work = (0..sessions).map(|number| {
        let door = house.door();
        tokio::spawn(async move {
            for _ in 0..turns {
                door.turn(&session(number), ask).await;
            }
        })
    });
    for done in join_all(work).await {
        done.unwrap();
    }
}
