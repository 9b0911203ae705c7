//! The part that seccomp enforces: system calls. Pure but for the last step.

use super::plan::{Confinement, IpSockets, Programs};
use seccompiler::{
    BackendError, BpfProgram, SeccompAction, SeccompCmpArgLen, SeccompCmpOp, SeccompCondition,
    SeccompFilter, SeccompRule,
};
use std::collections::BTreeMap;

/// Calls that no role has a use for, each with a history of being the way out.
const NEVER: &[i64] = &[
    // Other processes.
    libc::SYS_ptrace,
    libc::SYS_process_vm_readv,
    libc::SYS_process_vm_writev,
    libc::SYS_pidfd_getfd,
    libc::SYS_kcmp,
    // Mounts and namespaces.
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

/// The filter for a plan: what is listed fails with EPERM, all else is allowed.
pub(super) fn filter(plan: &Confinement) -> Result<BpfProgram, BackendError> {
    let mut rules = BTreeMap::new();
    deny(&mut rules, NEVER);
    if plan.programs == Programs::Denied {
        deny(&mut rules, EXEC);
    }
    #[cfg(target_arch = "x86_64")]
    {
        rules.extend(X32_OWN_NEVER.iter().map(|number| (*number, Vec::new())));
        if plan.programs == Programs::Denied {
            rules.extend(X32_OWN_EXEC.iter().map(|number| (*number, Vec::new())));
        }
    }
    let families = match plan.ip_sockets {
        IpSockets::Allowed => FAMILIES,
        IpSockets::Denied => &[libc::AF_UNIX],
    };
    for number in with_x32(libc::SYS_socket) {
        rules.insert(number, vec![other_family_than(families)?]);
    }
    let filter = SeccompFilter::new(
        rules,
        SeccompAction::Allow,
        SeccompAction::Errno(libc::EPERM.unsigned_abs()),
        std::env::consts::ARCH.try_into()?,
    )?;
    filter.try_into()
}

fn deny(rules: &mut BTreeMap<i64, Vec<SeccompRule>>, calls: &[i64]) {
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
    }
}
