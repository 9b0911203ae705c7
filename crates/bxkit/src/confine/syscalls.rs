//! The part that seccomp enforces: system calls. Pure but for the last step.

use super::plan::{Confinement, IpSockets, Programs};
use seccompiler::{
    BackendError, BpfProgram, SeccompAction, SeccompCmpArgLen, SeccompCmpOp, SeccompCondition,
    SeccompFilter, SeccompRule,
};
use std::collections::BTreeMap;

/// Mounts and namespaces: only what builds a sandbox has a use for them.
const NAMESPACES: &[i64] = &[
    libc::SYS_mount,
    libc::SYS_umount2,
    libc::SYS_pivot_root,
    libc::SYS_chroot,
    libc::SYS_move_mount,
    libc::SYS_open_tree,
    libc::SYS_fsopen,
    libc::SYS_fsconfig,
    libc::SYS_fsmount,
    libc::SYS_fspick,
    libc::SYS_mount_setattr,
    libc::SYS_unshare,
    libc::SYS_setns,
];

/// Calls that nothing of ours has a use for, each with a history of being the way out.
const NEVER: &[i64] = &[
    // Other processes.
    libc::SYS_ptrace,
    libc::SYS_process_vm_readv,
    libc::SYS_process_vm_writev,
    libc::SYS_pidfd_getfd,
    libc::SYS_kcmp,
    // A file past every check of its path.
    libc::SYS_open_by_handle_at,
    // Code in the kernel, and what looks into it.
    libc::SYS_bpf,
    libc::SYS_perf_event_open,
    libc::SYS_userfaultfd,
    libc::SYS_kexec_load,
    libc::SYS_init_module,
    libc::SYS_finit_module,
    libc::SYS_delete_module,
    libc::SYS_reboot,
    libc::SYS_swapon,
    libc::SYS_swapoff,
    libc::SYS_acct,
    libc::SYS_quotactl,
    // Kernel keys.
    libc::SYS_keyctl,
    libc::SYS_add_key,
    libc::SYS_request_key,
    // A second door to most calls, past this filter.
    libc::SYS_io_uring_setup,
    libc::SYS_io_uring_enter,
    libc::SYS_io_uring_register,
];

/// What a command of a tool has no use for either; the kernel refuses most of it without
/// capabilities, and is not asked.
const NOT_IN_A_SANDBOX: &[i64] = &[
    libc::SYS_syslog,
    libc::SYS_fanotify_init,
    libc::SYS_lookup_dcookie,
    libc::SYS_vhangup,
    libc::SYS_sethostname,
    libc::SYS_setdomainname,
    libc::SYS_settimeofday,
    libc::SYS_clock_settime,
    libc::SYS_clock_adjtime,
    libc::SYS_kexec_file_load,
    libc::SYS_personality,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_modify_ldt,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_iopl,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_ioperm,
];

/// New namespaces as flags of `clone`. (A new time namespace can't be had by `clone`.)
const NEW_NAMESPACES: &[i32] = &[
    libc::CLONE_NEWUSER,
    libc::CLONE_NEWNS,
    libc::CLONE_NEWPID,
    libc::CLONE_NEWNET,
    libc::CLONE_NEWIPC,
    libc::CLONE_NEWUTS,
    libc::CLONE_NEWCGROUP,
];

/// Requests to a terminal that put words into somebody else's mouth, or load code for it.
const TERMINAL_REQUESTS: &[u64] = &[libc::TIOCSTI, libc::TIOCLINUX, libc::TIOCSETD];

/// Calls that give a file a mode, with the place of the mode among their arguments.
const MODES: &[(i64, u8)] = &[
    #[cfg(target_arch = "x86_64")]
    (libc::SYS_chmod, 1),
    #[cfg(target_arch = "x86_64")]
    (libc::SYS_creat, 1),
    #[cfg(target_arch = "x86_64")]
    (libc::SYS_open, 2),
    #[cfg(target_arch = "x86_64")]
    (libc::SYS_mkdir, 1),
    #[cfg(target_arch = "x86_64")]
    (libc::SYS_mknod, 1),
    (libc::SYS_fchmod, 1),
    (libc::SYS_fchmodat, 2),
    (libc::SYS_fchmodat2, 2),
    (libc::SYS_openat, 3),
    (libc::SYS_mkdirat, 2),
    (libc::SYS_mknodat, 2),
];

/// The bits of a mode by which a program runs as its owner or group: what a command leaves in the
/// workspace would be the owner's.
const OTHERS_RIGHTS: &[u32] = &[libc::S_ISUID, libc::S_ISGID];

/// Starting programs.
const EXEC: &[i64] = &[libc::SYS_execve, libc::SYS_execveat];

/// The address families that a role with IP sockets may use.
const FAMILIES: &[i32] = &[
    libc::AF_UNIX,
    libc::AF_INET,
    libc::AF_INET6,
    libc::AF_NETLINK,
];

/// The bit that marks a call of the x32 interface, which x86-64 kernels may have beside their own.
#[cfg(target_arch = "x86_64")]
const X32: i64 = 0x4000_0000;

/// The calls above whose x32 number is one of its own.
#[cfg(target_arch = "x86_64")]
const X32_OWN_EXEC: &[i64] = &[X32 | 0x208, X32 | 0x221];
#[cfg(target_arch = "x86_64")]
const X32_OWN_NEVER: &[i64] = &[X32 | 0x209, X32 | 0x210, X32 | 0x21b, X32 | 0x21c];
#[cfg(target_arch = "x86_64")]
const X32_OWN_IOCTL: i64 = X32 | 0x202;

/// The filter for a plan: what is listed fails with EPERM, all else is allowed.
pub(super) fn filter(plan: &Confinement) -> Result<BpfProgram, BackendError> {
    let mut rules = never();
    deny(&mut rules, NAMESPACES);
    if plan.programs == Programs::Denied {
        deny(&mut rules, EXEC);
        #[cfg(target_arch = "x86_64")]
        rules.extend(X32_OWN_EXEC.iter().map(|number| (*number, Vec::new())));
    }
    let families = match plan.ip_sockets {
        IpSockets::Allowed => FAMILIES,
        IpSockets::Denied => &[libc::AF_UNIX],
    };
    allow_families(&mut rules, families)?;
    program(rules, libc::EPERM)
}

/// The filter for what builds sandboxes: namespaces, mounts and programs stay allowed, and the
/// netlink socket that brings up a loopback device.
pub(super) fn launcher_filter() -> Result<BpfProgram, BackendError> {
    let mut rules = never();
    allow_families(&mut rules, &[libc::AF_UNIX, libc::AF_NETLINK])?;
    program(rules, libc::EPERM)
}

/// The filters for a command in a sandbox. The second is for `clone3` and `openat2`, whose flags
/// lie in memory where no filter sees them: they are said not to exist, and programs then take the
/// older calls.
pub(super) fn command_filters() -> Result<[BpfProgram; 2], BackendError> {
    let mut rules = never();
    deny(&mut rules, NAMESPACES);
    deny(&mut rules, NOT_IN_A_SANDBOX);
    allow_families(&mut rules, &[libc::AF_UNIX])?;
    let new_namespaces = NEW_NAMESPACES.iter().map(|flag| {
        let flag = u64::from(flag.unsigned_abs());
        argument(0, SeccompCmpOp::MaskedEq(flag), flag)
    });
    insert(&mut rules, libc::SYS_clone, new_namespaces)?;
    let requests = TERMINAL_REQUESTS
        .iter()
        .map(|request| argument(1, SeccompCmpOp::Eq, *request));
    insert(&mut rules, libc::SYS_ioctl, requests)?;
    #[cfg(target_arch = "x86_64")]
    deny(&mut rules, &[X32_OWN_IOCTL]);
    for (call, place) in MODES {
        let bits = OTHERS_RIGHTS.iter().map(|bit| {
            let bit = u64::from(*bit);
            argument(*place, SeccompCmpOp::MaskedEq(bit), bit)
        });
        insert(&mut rules, *call, bits)?;
    }
    let mut hidden = BTreeMap::new();
    deny(&mut hidden, &[libc::SYS_clone3, libc::SYS_openat2]);
    Ok([program(rules, libc::EPERM)?, program(hidden, libc::ENOSYS)?])
}

type Rules = BTreeMap<i64, Vec<SeccompRule>>;

/// What every filter begins with: nothing of ours has a use for these, by whichever number.
fn never() -> Rules {
    let mut rules = Rules::new();
    deny(&mut rules, NEVER);
    #[cfg(target_arch = "x86_64")]
    rules.extend(X32_OWN_NEVER.iter().map(|number| (*number, Vec::new())));
    rules
}

/// What is listed fails with this error, all else is allowed.
fn program(rules: Rules, errno: i32) -> Result<BpfProgram, BackendError> {
    let filter = SeccompFilter::new(
        rules,
        SeccompAction::Allow,
        SeccompAction::Errno(errno.unsigned_abs()),
        std::env::consts::ARCH.try_into()?,
    )?;
    filter.try_into()
}

fn allow_families(rules: &mut Rules, families: &[i32]) -> Result<(), BackendError> {
    for number in with_x32(libc::SYS_socket) {
        rules.insert(number, vec![other_family_than(families)?]);
    }
    Ok(())
}

/// Any one of these conditions denies the call.
fn insert(
    rules: &mut Rules,
    call: i64,
    conditions: impl Iterator<Item = Result<SeccompCondition, BackendError>>,
) -> Result<(), BackendError> {
    let denied = conditions
        .map(|condition| SeccompRule::new(vec![condition?]))
        .collect::<Result<Vec<_>, _>>()?;
    for number in with_x32(call) {
        rules.insert(number, denied.clone());
    }
    Ok(())
}

fn argument(
    index: u8,
    operator: SeccompCmpOp,
    value: u64,
) -> Result<SeccompCondition, BackendError> {
    SeccompCondition::new(index, SeccompCmpArgLen::Dword, operator, value)
}

fn deny(rules: &mut Rules, calls: &[i64]) {
    for call in calls {
        rules.extend(
            with_x32(*call)
                .into_iter()
                .map(|number| (number, Vec::new())),
        );
    }
}

#[cfg(target_arch = "x86_64")]
fn with_x32(call: i64) -> [i64; 2] {
    [call, call | X32]
}

#[cfg(not(target_arch = "x86_64"))]
fn with_x32(call: i64) -> [i64; 1] {
    [call]
}

/// Matches a `socket` call whose family is none of these.
fn other_family_than(families: &[i32]) -> Result<SeccompRule, BackendError> {
    let conditions = families
        .iter()
        .map(|family| {
            let family = u64::from(family.unsigned_abs());
            SeccompCondition::new(0, SeccompCmpArgLen::Dword, SeccompCmpOp::Ne, family)
        })
        .collect::<Result<_, _>>()?;
    SeccompRule::new(conditions)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_plan_gives_a_filter() {
        let strict = filter(&Confinement::strict()).unwrap();
        let wider = Confinement::strict()
            .connect(super::super::ConnectPorts::Any)
            .programs(vec!["/usr".into()]);
        assert!(filter(&wider).unwrap().len() < strict.len() + FAMILIES.len() * 8);
        assert!(!launcher_filter().unwrap().is_empty());
        assert!(
            command_filters()
                .unwrap()
                .iter()
                .all(|filter| !filter.is_empty())
        );
    }
}
