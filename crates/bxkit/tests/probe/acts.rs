//! Tries, after confining itself, what it may and may not do, and prints how each ended.

use bxkit::confine::{Confinement, ConnectPorts, confine};
use rustix::mount::MountFlags;
use std::fmt::Display;
use std::fs;
use std::net::{TcpListener, TcpStream};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::process::{Command, ExitCode};

/// Confines itself to `folder/inside` and `folder/readable`; with an empty `allowed_port` it keeps no
/// IP sockets at all.
pub(crate) fn run(folder: &str, allowed_port: &str, other_port: &str) -> ExitCode {
    let folder = Path::new(folder);
    let inside = folder.join("inside");
    let mut plan = Confinement::strict()
        .write(&inside)
        .read(folder.join("readable"));
    if let Ok(port) = allowed_port.parse() {
        plan = plan.connect(ConnectPorts::Only(vec![port]));
    }
    match confine(&plan) {
        Ok(report) => println!("landlock {}", report.landlock),
        Err(error) => {
            println!("failed {}", bxkit::report::chain(&error));
            return ExitCode::FAILURE;
        }
    }
    tell("read-inside", fs::read(inside.join("file")));
    tell("write-inside", fs::write(inside.join("new"), "x"));
    tell(
        "rename-inside",
        fs::rename(inside.join("new"), inside.join("newer")),
    );
    tell("mkdir-inside", fs::create_dir(inside.join("folder")));
    tell("remove-inside", fs::remove_file(inside.join("newer")));
    tell(
        "link-inside",
        std::os::unix::fs::symlink("x", inside.join("link")),
    );
    tell("read-readable", fs::read(folder.join("readable")));
    tell("write-readable", fs::write(folder.join("readable"), "x"));
    tell("read-outside", fs::read(folder.join("outside")));
    tell("read-through-link", fs::read(inside.join("to-outside")));
    tell("write-outside", fs::write(folder.join("planted"), "x"));
    tell("read-environment", fs::read("/proc/1/environ"));
    tell("time-zone", fs::read_dir("/usr/share/zoneinfo"));
    tell("unix-socket", UnixStream::pair());
    tell(
        "connect-allowed",
        TcpStream::connect(format!("127.0.0.1:{allowed_port}")),
    );
    tell(
        "connect-other",
        TcpStream::connect(format!("127.0.0.1:{other_port}")),
    );
    tell("listen", TcpListener::bind("127.0.0.1:0"));
    tell("vsock", socket(rustix::net::AddressFamily::VSOCK));
    tell("packet", socket(rustix::net::AddressFamily::PACKET));
    tell("program", Command::new("/bin/true").status());
    tell(
        "mount",
        rustix::mount::mount("none", &inside, "tmpfs", MountFlags::empty(), None),
    );
    tell("chroot", rustix::process::chroot(&inside));
    let parent = rustix::process::getppid();
    tell(
        "signal-parent",
        parent.map_or(Ok(()), rustix::process::test_kill_process),
    );
    println!(
        "core {:?}",
        rustix::process::getrlimit(rustix::process::Resource::Core).maximum
    );
    println!("dumpable {:?}", rustix::process::dumpable_behavior());
    println!("no-new-privs {:?}", rustix::thread::no_new_privs());
    ExitCode::SUCCESS
}

fn socket(family: rustix::net::AddressFamily) -> rustix::io::Result<()> {
    rustix::net::socket(family, rustix::net::SocketType::DGRAM, None).map(drop)
}

fn tell<T, E: Display>(act: &str, outcome: Result<T, E>) {
    match outcome {
        Ok(_) => println!("{act} allowed"),
        Err(error) => println!("{act} {error}"),
    }
}
