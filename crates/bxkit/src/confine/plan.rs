//! What a role keeps. Pure.

use std::path::PathBuf;

/// Files that any process needs to read: the time zone and randomness.
const COMMON_READ: &[&str] = &[
    "/dev/urandom",
    "/etc/localtime",
    "/etc/timezone",
    "/usr/share/zoneinfo",
];

/// What the C library reads to resolve a host name.
const RESOLVER_READ: &[&str] = &[
    "/etc/gai.conf",
    "/etc/host.conf",
    "/etc/hosts",
    "/etc/nsswitch.conf",
    "/etc/resolv.conf",
    "/etc/ld.so.cache",
    "/etc/ssl",
    "/lib",
    "/lib64",
    "/usr/lib",
    "/usr/lib64",
    "/usr/share/ca-certificates",
];

/// What a process may still do after [`confine`](super::confine).
///
/// Starts from nothing; each method adds one right. Tracing, mounting, loading code into the
/// kernel and the like are never kept.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Confinement {
    /// Files and folders that may be read, folders with all below.
    pub read_only: Vec<PathBuf>,
    /// Files and folders that may be read and written, folders with all below.
    pub read_write: Vec<PathBuf>,
    /// TCP ports that may be connected to.
    pub connect_ports: ConnectPorts,
    /// Whether sockets of the internet protocol may be made.
    pub ip_sockets: IpSockets,
    /// Which programs may be started.
    pub programs: Programs,
}

/// TCP ports that may be connected to; needs Landlock's fourth version.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ConnectPorts {
    /// Any.
    Any,
    /// These, on any address: a process that wants fewer addresses checks them itself.
    Only(Vec<u16>),
}

/// Whether sockets of the internet protocol may be made.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum IpSockets {
    /// IPv4 and IPv6, and the netlink socket that resolving names wants.
    Allowed,
    /// Unix sockets alone.
    Denied,
}

/// Which programs may be started.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Programs {
    /// None.
    Denied,
    /// Those in these files and folders, which may also be read.
    Within(Vec<PathBuf>),
}

impl Confinement {
    /// Nothing but what any process needs: no IP sockets, no programs, no folder of the user's.
    pub fn strict() -> Self {
        Self {
            read_only: COMMON_READ.iter().map(PathBuf::from).collect(),
            read_write: vec!["/dev/null".into()],
            connect_ports: ConnectPorts::Only(Vec::new()),
            ip_sockets: IpSockets::Denied,
            programs: Programs::Denied,
        }
    }

    /// Keeps the right to read a file, or a folder with all below.
    pub fn read(mut self, path: impl Into<PathBuf>) -> Self {
        self.read_only.push(path.into());
        self
    }

    /// Keeps the right to read and write a file, or a folder with all below.
    ///
    /// It must be there when the process is confined.
    pub fn write(mut self, path: impl Into<PathBuf>) -> Self {
        self.read_write.push(path.into());
        self
    }

    /// Keeps the right to connect to these TCP ports, and to resolve names.
    pub fn connect(mut self, ports: ConnectPorts) -> Self {
        self.read_only
            .extend(RESOLVER_READ.iter().map(PathBuf::from));
        self.connect_ports = ports;
        self.ip_sockets = IpSockets::Allowed;
        self
    }

    /// Keeps the right to start programs from these files and folders.
    pub fn programs(mut self, within: Vec<PathBuf>) -> Self {
        self.programs = Programs::Within(within);
        self
    }
}
