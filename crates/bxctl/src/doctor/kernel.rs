//! What the kernel offers to confine the roles with.

use super::finding::Finding;
use std::path::Path;

/// Where the kernel lists its security modules.
const LSM_FILE: &str = "/sys/kernel/security/lsm";

/// Where it lists what a seccomp filter can do.
const SECCOMP_FILE: &str = "/proc/sys/kernel/seccomp/actions_avail";

/// The kernel, Landlock and seccomp.
pub(crate) fn kernel() -> Vec<Finding> {
    let release = std::fs::read_to_string("/proc/sys/kernel/osrelease");
    let release = release.map_or_else(|_| "unknown".to_owned(), |text| text.trim().to_owned());
    let modules = std::fs::read_to_string(LSM_FILE).ok();
    vec![
        Finding::ok("kernel", format!("Linux {release}")),
        landlock(modules.as_deref()),
        seccomp(Path::new(SECCOMP_FILE).exists()),
    ]
}

fn landlock(modules: Option<&str>) -> Finding {
    let todo = "roles can then read more files than they need; the kernel option is CONFIG_SECURITY_LANDLOCK, \
                the boot option lsm=landlock,…";
    match modules {
        Some(modules) if modules.trim().split(',').any(|module| module == "landlock") => {
            Finding::ok("Landlock", "on")
        }
        Some(_) => Finding::warn("Landlock", "off in this kernel", todo),
        None => Finding::ok(
            "Landlock",
            "the kernel's list is not readable; what confines each role is told below",
        ),
    }
}

fn seccomp(there: bool) -> Finding {
    if there {
        return Finding::ok("seccomp", "filters work");
    }
    Finding::fail(
        "seccomp",
        "the kernel has no filters",
        "roles refuse to start without; the kernel option is CONFIG_SECCOMP_FILTER",
    )
}

#[cfg(test)]
mod tests {
    use super::super::finding::Level;
    use super::*;

    #[test]
    fn the_kernel_list_is_read_word_by_word() {
        assert_eq!(landlock(Some("lockdown,landlock,yama\n")).level, Level::Ok);
        assert_eq!(landlock(Some("lockdown,landlocked\n")).level, Level::Warn);
        assert_eq!(landlock(None).level, Level::Ok);
    }
}
