//! Each act that a command must not get away with, tried; and that ordinary ones work.

use super::place::{Place, SECRET, text};
use brokerd::sandbox::Ended;
use std::os::linux::net::SocketAddrExt;
use std::os::unix::net::{SocketAddr, UnixListener};

/// What an act prints that got through.
const BREACH: &str = "BREACH";

/// An act: its name, the command, and a word of the refusal.
#[derive(Clone)]
struct Act(String, String, &'static str);

const DENIED: &str = "Permission denied";
const NOT_PERMITTED: &str = "Operation not permitted";
const NOT_THERE: &str = "No such file or directory";
const READ_ONLY: &str = "Read-only file system";

/// An act of the shell's: it got through if the command succeeds.
fn shell(name: &str, command: &str, refusal: &'static str) -> Act {
    Act(
        name.to_owned(),
        format!("{{ {command}; }} && echo {BREACH}"),
        refusal,
    )
}

/// A system call with these arguments, made directly.
fn call(name: &str, number: i64, arguments: &str, refusal: &'static str) -> Act {
    let command = format!(
        "perl -e 'my $b = \"\\0\" x 4096; my $r = syscall({number}, {arguments}); \
         print $r == -1 ? \"refused: $!\" : \"{BREACH}\"'"
    );
    Act(name.to_owned(), command, refusal)
}

/// A socket of this family and type.
fn socket(name: &str, family: i32, kind: i32) -> Act {
    let arguments = format!("{family}, {kind}, 0");
    call(name, libc::SYS_socket, &arguments, NOT_PERMITTED)
}

/// A connection to a Unix socket; `\0` in front makes the name an abstract one.
fn connect(name: &str, address: &str, refusal: &'static str) -> Act {
    let command = format!(
        "perl -MSocket -e 'socket(S, AF_UNIX, SOCK_STREAM, 0) or die \"socket: $!\"; \
         print connect(S, pack_sockaddr_un(\"{address}\")) ? \"{BREACH}\" : \"refused: $!\"'"
    );
    Act(name.to_owned(), command, refusal)
}

fn ioctl(name: &str, request: u64) -> Act {
    let arguments = format!("0, {request}, $b");
    call(name, libc::SYS_ioctl, &arguments, NOT_PERMITTED)
}

/// Files of others, and what is not a command's to write.
fn files(place: &Place) -> Vec<Act> {
    let test = &place.test;
    let state = test.home.state_dir();
    let outside = test.beside("outside").join("secret.txt");
    let other = test.workspace("other").join("secret.txt");
    let ssh = test.beside(".ssh").join("id_ed25519");
    let secret = test.home.secrets_dir().join("key");
    let token = test.home.owner_token_file();
    for path in [&outside, &other, &ssh, &secret, &token] {
        std::fs::write(path, SECRET).unwrap();
    }
    let read = |name: &str, path: &std::path::Path| {
        shell(name, &format!("cat {}", path.display()), NOT_THERE)
    };
    vec![
        read("a file outside", &outside),
        read("another session's workspace", &other),
        read("a key of ssh", &ssh),
        read("a secret", &secret),
        read("the owner's token", &token),
        read("the ledger", &test.home.broker_db()),
        read("the audit log", &test.home.audit_dir().join("000001.jsonl")),
        read("the folder of state", state),
        read("accounts of the system", "/etc/shadow".as_ref()),
        shell(
            "a link out of the workspace",
            &format!("ln -s {} out && cat out", outside.display()),
            NOT_THERE,
        ),
        shell(
            "a hard link to the owner's file",
            "ln /owner/notes/n.txt h",
            "cross-device",
        ),
        shell(
            "writing the owner's file",
            "echo x > /owner/notes/n.txt",
            READ_ONLY,
        ),
        shell(
            "removing the owner's file",
            "rm -f /owner/notes/n.txt",
            READ_ONLY,
        ),
        shell("writing below /usr", "touch /usr/bin/planted", READ_ONLY),
        shell("writing /etc/passwd", "echo x >> /etc/passwd", READ_ONLY),
        shell("writing at the root", "touch /planted", READ_ONLY),
        shell("writing in /dev", "touch /dev/planted", READ_ONLY),
        shell(
            "writing the stage",
            "echo x > /run/boxmaker-stage",
            READ_ONLY,
        ),
        shell(
            "a setting of the kernel",
            "cat /proc/sys/kernel/core_pattern > /proc/sys/kernel/core_pattern",
            READ_ONLY,
        ),
        shell("a magic key", "echo h > /proc/sysrq-trigger", ""),
        shell(
            "being spared by the kernel",
            "echo -1000 > /proc/self/oom_score_adj",
            DENIED,
        ),
        shell("the kernel's devices", "ls /sys/kernel", NOT_THERE),
        shell("a disk", "mknod disk b 8 0", NOT_PERMITTED),
        shell("a terminal", "echo x > /dev/tty", "No such device"),
    ]
}

/// Other processes, and rights of others.
fn processes() -> Vec<Act> {
    let own = std::process::id();
    vec![
        shell(
            "the first process's environment",
            "cat /proc/1/environ",
            DENIED,
        ),
        shell(
            "the first process's memory",
            "head -c 1 /proc/1/mem",
            DENIED,
        ),
        shell(
            "the first process's descriptors",
            "cat < /proc/1/fd/0",
            DENIED,
        ),
        shell(
            "a descriptor that was left open outside",
            "ls /proc/self/fd | grep -vx '[0123]'",
            "",
        ),
        shell("the first process's maps", "cat /proc/1/maps", DENIED),
        shell(
            "a process outside",
            &format!("kill -9 {own}"),
            "No such process",
        ),
        call("tracing", libc::SYS_ptrace, "0, 0, 0, 0", NOT_PERMITTED),
        call(
            "reading another's memory",
            libc::SYS_process_vm_readv,
            "1, $b, 1, $b, 1, 0",
            NOT_PERMITTED,
        ),
        call(
            "another's descriptor",
            libc::SYS_pidfd_getfd,
            "0, 0, 0",
            NOT_PERMITTED,
        ),
        call(
            "comparing with another",
            libc::SYS_kcmp,
            "1, 1, 0, 0, 0",
            NOT_PERMITTED,
        ),
        call("being root", libc::SYS_setuid, "0", "Invalid argument"),
        shell(
            "a program that makes root",
            "cp /usr/bin/perl p && chmod 4755 p",
            NOT_PERMITTED,
        ),
        shell(
            "a folder that hands on its group",
            "mkdir g && chmod g+s g",
            NOT_PERMITTED,
        ),
        call(
            "a file made with another's rights",
            libc::SYS_openat,
            "-100, \"p2\".$b, 0101, 04755",
            NOT_PERMITTED,
        ),
        shell("su", "su root -c id </dev/null", ""),
        shell(
            "giving a file away",
            "touch f && chown 0:0 f",
            "Invalid argument",
        ),
        shell("a higher priority", "renice -n -20 -p $$", DENIED),
        shell("real-time priority", "chrt -f 50 true", NOT_PERMITTED),
        shell("more open files", "ulimit -n 100000", "error setting limit"),
        shell("longer files", "ulimit -f unlimited", "error setting limit"),
        shell("more memory", "ulimit -d unlimited", "error setting limit"),
        shell("a file of a terabyte", "truncate -s 1T big", ""),
        shell(
            "a full disk of memory",
            "for i in 1 2 3; do head -c 100M /dev/zero > /tmp/$i || exit 1; done",
            "No space left",
        ),
        shell(
            "more memory than there may be",
            "perl -e 'my $x = \"x\" x (3 << 30); print length $x'",
            "Out of memory",
        ),
    ]
}

/// Namespaces, mounts, the kernel.
fn kernel() -> Vec<Act> {
    let new_user = libc::CLONE_NEWUSER | libc::SIGCHLD;
    vec![
        shell("a namespace of its own", "unshare -U true", NOT_PERMITTED),
        call(
            "a namespace by clone",
            libc::SYS_clone,
            &format!("{new_user}, 0, 0, 0, 0"),
            NOT_PERMITTED,
        ),
        call(
            "a namespace by clone3",
            libc::SYS_clone3,
            "$b, 88",
            "not implemented",
        ),
        call(
            "another's namespace",
            libc::SYS_setns,
            "0, 0",
            NOT_PERMITTED,
        ),
        call(
            "mounting",
            libc::SYS_mount,
            "$b, $b, $b, 0, 0",
            NOT_PERMITTED,
        ),
        call("unmounting", libc::SYS_umount2, "$b, 2", NOT_PERMITTED),
        call(
            "mounting the new way",
            libc::SYS_fsopen,
            "$b, 0",
            NOT_PERMITTED,
        ),
        call(
            "moving a mount",
            libc::SYS_move_mount,
            "0, $b, 0, $b, 0",
            NOT_PERMITTED,
        ),
        call("another root", libc::SYS_chroot, "$b", NOT_PERMITTED),
        call(
            "another root folder",
            libc::SYS_pivot_root,
            "$b, $b",
            NOT_PERMITTED,
        ),
        call(
            "a file by its handle",
            libc::SYS_open_by_handle_at,
            "0, $b, 0",
            NOT_PERMITTED,
        ),
        call(
            "keys of the kernel",
            libc::SYS_keyctl,
            "0, -3, 0",
            NOT_PERMITTED,
        ),
        call(
            "a new key",
            libc::SYS_add_key,
            "$b, $b, $b, 1, -3",
            NOT_PERMITTED,
        ),
        call(
            "a program in the kernel",
            libc::SYS_bpf,
            "0, $b, 72",
            NOT_PERMITTED,
        ),
        call(
            "counters",
            libc::SYS_perf_event_open,
            "$b, 0, -1, -1, 0",
            NOT_PERMITTED,
        ),
        call(
            "faults of memory",
            libc::SYS_userfaultfd,
            "0",
            NOT_PERMITTED,
        ),
        call(
            "calls past the filter",
            libc::SYS_io_uring_setup,
            "4, $b",
            NOT_PERMITTED,
        ),
        call(
            "a module",
            libc::SYS_init_module,
            "$b, 16, $b",
            NOT_PERMITTED,
        ),
        call(
            "another kernel",
            libc::SYS_kexec_load,
            "0, 0, $b, 0",
            NOT_PERMITTED,
        ),
        call("a restart", libc::SYS_reboot, "1, 2, 0, 0", NOT_PERMITTED),
        call("swapping", libc::SYS_swapon, "$b, 0", NOT_PERMITTED),
        call("quotas", libc::SYS_quotactl, "0, $b, 0, $b", NOT_PERMITTED),
        call(
            "the kernel's log",
            libc::SYS_syslog,
            "3, $b, 4096",
            NOT_PERMITTED,
        ),
        call("the clock", libc::SYS_clock_settime, "0, $b", NOT_PERMITTED),
        call(
            "the host's name",
            libc::SYS_sethostname,
            "$b, 1",
            NOT_PERMITTED,
        ),
        call(
            "an old personality",
            libc::SYS_personality,
            "0x0400000",
            NOT_PERMITTED,
        ),
    ]
}

/// The network, and whoever listens nearby.
fn network(place: &Place) -> Vec<Act> {
    let run = place.test.home.run_dir().join("brokerd.sock");
    vec![
        socket("the internet", libc::AF_INET, libc::SOCK_STREAM),
        socket("datagrams", libc::AF_INET, libc::SOCK_DGRAM),
        socket("the newer internet", libc::AF_INET6, libc::SOCK_STREAM),
        socket("raw packets", libc::AF_INET, libc::SOCK_RAW),
        socket("packets of a device", libc::AF_PACKET, libc::SOCK_RAW),
        socket("the kernel's network", libc::AF_NETLINK, libc::SOCK_RAW),
        socket(
            "the host of this machine",
            libc::AF_VSOCK,
            libc::SOCK_STREAM,
        ),
        socket("ciphers of the kernel", libc::AF_ALG, libc::SOCK_SEQPACKET),
        connect("brokerd by its path", &run.display().to_string(), NOT_THERE),
        connect(
            "somebody by an abstract name",
            &format!("\\0{}", abstract_name()),
            "refused: ",
        ),
        ioctl("typing into a terminal", libc::TIOCSTI),
        ioctl("pasting into a console", libc::TIOCLINUX),
        ioctl("another discipline of a terminal", libc::TIOCSETD),
    ]
}

fn abstract_name() -> String {
    format!("boxmaker-test-{}", std::process::id())
}

#[test]
fn what_a_command_must_not_do_fails() {
    let place = Place::new();
    let _listener = UnixListener::bind(place.test.home.run_dir().join("brokerd.sock")).unwrap();
    let address = SocketAddr::from_abstract_name(abstract_name()).unwrap();
    let _abstract = UnixListener::bind_addr(&address).unwrap();
    let acts = [files(&place), processes(), kernel(), network(&place)].concat();
    assert!(acts.len() >= 40, "{}", acts.len());
    let mut wrong = Vec::new();
    for Act(name, command, refusal) in &acts {
        let ran = place.run(command);
        let said = text(&ran);
        let held = !said.contains(BREACH)
            && !said.contains(SECRET)
            && said.to_lowercase().contains(&refusal.to_lowercase());
        if !held {
            wrong.push(format!("{name}: {command}\n    {:?} {said}", ran.ended));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    let big = std::fs::metadata(place.work.join("big"));
    assert!(big.map_or(0, |big| big.len()) <= brokerd::sandbox::MAX_FILE_BYTES);
    let note = place.test.root.path().join("notes/n.txt");
    assert_eq!(std::fs::read_to_string(note).unwrap(), "a note");
}

#[test]
fn what_a_command_is_for_works() {
    let place = Place::new();
    for (command, expect) in [
        ("echo hello | tr a-z A-Z", "HELLO\n"),
        ("pwd; cat /owner/notes/n.txt", "/work\na note"),
        (
            "echo text > a.txt && mkdir -p d && cp a.txt d/ && cat d/a.txt",
            "text\n",
        ),
        ("ln -s a.txt link && cat link && rm link", "text\n"),
        (
            "mkfifo f && (echo through > f &) && cat f && rm f",
            "through\n",
        ),
        (
            "echo $HOME $PATH; env | wc -l",
            "/home/box /usr/local/bin:/usr/bin:/bin\n7\n",
        ),
        (
            "echo x > ~/x && echo y > /tmp/y && cat ~/x /tmp/y",
            "x\ny\n",
        ),
        (
            "id -u; cat /proc/self/status | grep -c CapEff:.*0000000000000000",
            "1000\n1\n",
        ),
        ("perl -e 'print 6 * 7'", "42"),
        ("sleep 0 & wait; echo done", "done\n"),
        ("cat; echo at its end", "at its end\n"),
        ("(sleep 0.1; echo late) & wait", "late\n"),
        (
            "perl -MSocket -e 'socketpair(A, B, AF_UNIX, SOCK_STREAM, 0) and print 1'",
            "1",
        ),
    ] {
        let ran = place.run(command);
        assert_eq!(
            (ran.ended.clone(), text(&ran).as_str()),
            (Ended::Exit(0), expect),
            "{command}"
        );
    }
    assert_eq!(
        std::fs::read_to_string(place.work.join("a.txt")).unwrap(),
        "text\n"
    );
}
