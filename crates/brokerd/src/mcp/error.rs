//! Why brokerd can't start with its servers.

use crate::egress::RootsError;
use crate::secrets::SecretError;
use bxcore::code::Code;
use bxcore::id::McpServerName;
use bxcore::problem::Problem;

/// Why brokerd can't start with its `[[mcp]]`.
#[derive(Debug, thiserror::Error)]
pub enum McpError {
    /// A secret can't be used.
    #[error("the secret of an MCP server can't be used")]
    Secret(#[source] SecretError),
    /// There are no certificates to check a service's against.
    #[error("the MCP server `{name}` can't be reached")]
    Roots {
        /// Which.
        name: McpServerName,
        /// What is wrong.
        source: RootsError,
    },
}

impl From<McpError> for Problem {
    fn from(error: McpError) -> Self {
        let detail = bxkit::report::chain(&error);
        let hint = match error {
            McpError::Secret(_) => {
                "put it into a file of its own: chmod 600, in the folder `state/secrets`"
            }
            McpError::Roots { .. } => "name a `ca_file`, or install the system's certificates",
        };
        Self::new(Code::ConfigInvalid, "An `[[mcp]]` can't be used")
            .detail(detail)
            .hint(hint)
    }
}
