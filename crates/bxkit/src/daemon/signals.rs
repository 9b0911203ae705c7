//! What tells a role to end or to read its files again.

use rustix::process::{Signal, getpid, kill_process};
use std::io::{self, Read};
use std::time::Duration;
use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

/// SIGTERM and SIGINT begin the shutdown; SIGHUP raises the counter of `reload`.
pub(super) async fn watch_signals(shutdown: CancellationToken, reload: watch::Sender<u64>) {
    let streams = (|| {
        Ok::<_, io::Error>((
            signal(SignalKind::terminate())?,
            signal(SignalKind::interrupt())?,
            signal(SignalKind::hangup())?,
        ))
    })();
    let (mut terminate, mut interrupt, mut hangup) = match streams {
        Ok(streams) => streams,
        Err(error) => {
            tracing::error!(%error, "signals can't be received; SIGKILL still works");
            return;
        }
    };
    loop {
        tokio::select! {
            _ = terminate.recv() => break,
            _ = interrupt.recv() => break,
            _ = hangup.recv() => {
                tracing::info!("asked to read the configuration again");
                reload.send_modify(|count| *count += 1);
            }
            () = shutdown.cancelled() => return,
        }
    }
    tracing::info!("asked to stop");
    shutdown.cancel();
}

/// Begins the shutdown when standard input ends: the supervisor, which holds its other end, is gone.
///
/// A plain thread, as a read of standard input can't be cancelled. If the role has not ended
/// `grace` later, it is killed: with no supervisor nobody else would.
pub(super) fn watch_lifeline(shutdown: CancellationToken, grace: Duration) -> io::Result<()> {
    let watch = move || {
        let mut byte = [0_u8; 1];
        let mut stdin = io::stdin().lock();
        loop {
            match stdin.read(&mut byte) {
                // Nothing is expected here; what comes is ignored.
                Ok(1..) => {}
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Ok(0) | Err(_) => break,
            }
        }
        if !shutdown.is_cancelled() {
            // First the act, then the word: with the supervisor went the reader of our log.
            shutdown.cancel();
            tracing::info!("the supervisor is gone");
        }
        std::thread::sleep(grace);
        let _ = kill_process(getpid(), Signal::KILL);
    };
    std::thread::Builder::new()
        .name("lifeline".to_owned())
        .stack_size(128 * 1024)
        .spawn(watch)
        .map(drop)
}
