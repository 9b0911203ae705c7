//! All of a tool that a model would read, and its hash.

use bxcore::text::hex;
use sha2::{Digest, Sha256};

/// Set before what is hashed, so that the hash means nothing else.
const DOMAIN: &[u8] = b"bx-mcp-tool-v1\0";

/// A tool as its server describes it: all of it that a model would read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ToolText {
    /// Its own name.
    pub name: String,
    /// Its description.
    pub description: String,
    /// The schema of its arguments, byte for byte as it was received.
    pub schema: String,
}

impl ToolText {
    /// The hash by which the owner trusts it, as hex: over each part with its length before it, so
    /// that no two tools are hashed as the same bytes.
    pub fn sha256(&self) -> String {
        let mut hash = Sha256::new_with_prefix(DOMAIN);
        for part in [&self.name, &self.description, &self.schema] {
            hash.update((part.len() as u64).to_be_bytes());
            hash.update(part.as_bytes());
        }
        hex(&hash.finalize())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn text(name: &str, description: &str, schema: &str) -> ToolText {
        ToolText {
            name: name.to_owned(),
            description: description.to_owned(),
            schema: schema.to_owned(),
        }
    }

    #[test]
    fn the_hash_is_what_the_documentation_says() {
        let mut bytes = b"bx-mcp-tool-v1\0\0\0\0\0\0\0\0\x01a\0\0\0\0\0\0\0\x02bc".to_vec();
        bytes.extend_from_slice(b"\0\0\0\0\0\0\0\x02{}");
        let expect = bxcore::audit::sha256_hex(&bytes);
        assert_eq!(text("a", "bc", "{}").sha256(), expect);
    }

    proptest! {
        #[test]
        fn other_parts_have_another_hash(a in prop::array::uniform3(".{0,4}"), b in prop::array::uniform3(".{0,4}")) {
            let [one, two] = [&a, &b].map(|[name, description, schema]| text(name, description, schema));
            prop_assert_eq!(one == two, one.sha256() == two.sha256());
        }
    }
}
