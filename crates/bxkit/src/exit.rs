//! What a process says by its exit code.
//!
//! The list is part of the interface: scripts and the supervisor decide by it.

use bxcore::code::Code;

/// Done.
pub const EXIT_OK: u8 = 0;
/// Failed, for a reason that trying again may cure.
pub const FAILED: u8 = 1;
/// The command line or what it names is wrong.
pub const USAGE: u8 = 2;
/// Refused: a denial by a grant, a label, an approval.
pub const REFUSED: u8 = 3;
/// Halted by a guardrail or a budget.
pub const HALTED: u8 = 4;
/// A role or a model can't be reached.
pub const UNREACHABLE: u8 = 5;
/// Configuration, state or audit are unusable: starting again can't help, so nobody should.
pub const CONFIG: u8 = 78;
/// Stopped by the person, as a shell reports an interrupt.
pub const STOPPED: u8 = 130;

/// The exit code with which a role ends because of `code`.
///
/// Either [`CONFIG`], after which the supervisor doesn't restart it, or [`FAILED`].
pub const fn of_role(code: Code) -> u8 {
    match code {
        Code::ConfigInvalid
        | Code::HomeUnusable
        | Code::StateBroken
        | Code::AuditUnavailable
        | Code::AuditChainBroken
        | Code::NotAuthorised
        | Code::ConsultSecretUnreadable
        | Code::ProviderSecretUnreadable
        | Code::SandboxUnavailable => CONFIG,
        _ => FAILED,
    }
}

/// The exit code with which a command ends because of `code`.
pub const fn of_command(code: Code) -> u8 {
    match code {
        Code::ConfigInvalid
        | Code::HomeUnusable
        | Code::BadRequest
        | Code::BadUsage
        | Code::NotFound
        | Code::TooLarge
        | Code::SessionUnknown
        | Code::SessionIdInvalid
        | Code::BackendUnknown
        | Code::MemoryEntryUnknown
        | Code::InvalidArguments => USAGE,
        Code::NoGrant
        | Code::NotConfigured
        | Code::DeniedByGuardrail
        | Code::TaintTooHigh
        | Code::UntrustedSession
        | Code::McpNotTrusted
        | Code::SecretInPayload
        | Code::SecretUnreadable
        | Code::ApprovalDenied
        | Code::ApprovalExpired
        | Code::ApprovalUnroutable
        | Code::UnknownTool
        | Code::PathOutsideWorkspace
        | Code::FetchRefused
        | Code::SlotNotOwned
        | Code::NotAuthorised => REFUSED,
        Code::BudgetExhausted | Code::IterationsExhausted | Code::ContextFull => HALTED,
        Code::NoBackend
        | Code::BackendUnreachable
        | Code::BackendLoading
        | Code::BackendStalled
        | Code::BackendBusy
        | Code::RoleUnreachable => UNREACHABLE,
        Code::Stopped => STOPPED,
        _ => FAILED,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_role_that_cannot_be_helped_by_a_restart_says_so() {
        for code in Code::ALL {
            let exit = of_role(*code);
            assert!(
                exit == FAILED || exit == CONFIG,
                "{code} ends a role with {exit}"
            );
        }
        assert_eq!(of_role(Code::AuditChainBroken), CONFIG);
        assert_eq!(of_role(Code::Internal), FAILED);
        assert_eq!(of_role(Code::DiskFull), FAILED);
    }

    #[test]
    fn no_failure_of_a_command_looks_like_success() {
        for code in Code::ALL {
            assert_ne!(of_command(*code), EXIT_OK, "{code}");
        }
        assert_eq!(of_command(Code::NoGrant), REFUSED);
        assert_eq!(of_command(Code::NoBackend), UNREACHABLE);
        assert_eq!(of_command(Code::Stopped), STOPPED);
    }
}
