//! Paths as models write them. Pure: what a path leads to is found out when it is opened.

use super::output::ToolError;
use bxcore::text::cap;

/// The longest path, in bytes.
pub const MAX_PATH_BYTES: usize = 4096;
/// The most parts of a path.
pub const MAX_PATH_PARTS: usize = 64;
/// How much of a refused path is shown, in bytes.
const MAX_SHOWN_BYTES: usize = 200;

/// A path below the workspace: no `..`, no root, no odd bytes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RelativePath {
    parts: Vec<String>,
}

impl RelativePath {
    /// Reads a path; `.`, a leading `./` and a slash at the end mean nothing. An empty path is the
    /// workspace itself: models write it for that.
    ///
    /// # Errors
    /// It is absolute, goes up or is too long.
    pub fn parse(text: &str) -> Result<Self, ToolError> {
        let refuse = |why| {
            let path = cap(text, MAX_SHOWN_BYTES).to_owned();
            Err(ToolError::Outside { path, why })
        };
        if text.len() > MAX_PATH_BYTES {
            return refuse("it is too long");
        }
        if text.starts_with('/') {
            return refuse("it is absolute");
        }
        if text.contains('\0') {
            return refuse("it contains a zero byte");
        }
        let parts: Vec<&str> = text
            .split('/')
            .filter(|part| !matches!(*part, "" | "."))
            .collect();
        if parts.contains(&"..") {
            return refuse("it contains `..`");
        }
        if parts.len() > MAX_PATH_PARTS {
            return refuse("it has too many parts");
        }
        Ok(Self {
            parts: parts.into_iter().map(str::to_owned).collect(),
        })
    }

    /// The path of the workspace itself.
    pub fn top() -> Self {
        Self { parts: Vec::new() }
    }

    /// Whether it is that.
    pub fn is_top(&self) -> bool {
        self.parts.is_empty()
    }

    /// The first part and what follows it.
    pub fn split_first(&self) -> Option<(&str, Self)> {
        let (first, rest) = self.parts.split_first()?;
        Some((
            first,
            Self {
                parts: rest.to_vec(),
            },
        ))
    }

    /// The path as the system takes it: `.` for the workspace itself.
    pub fn to_system(&self) -> String {
        if self.is_top() {
            ".".to_owned()
        } else {
            self.parts.join("/")
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_are_read_or_refused() {
        let check = |text: &str, expect: Option<&str>| {
            let read = RelativePath::parse(text).ok().map(|path| path.to_system());
            assert_eq!(read.as_deref(), expect, "{text:?}");
        };
        check("", Some("."));
        check(".", Some("."));
        check("./", Some("."));
        check("a", Some("a"));
        check("./a//b/./c/", Some("a/b/c"));
        check("..a/b..", Some("..a/b.."));
        check("~", Some("~"));
        check("a\\..\\b", Some("a\\..\\b"));
        for refused in [
            "/",
            "/etc/passwd",
            "//x",
            "..",
            "a/..",
            "a/../b",
            "../a",
            "a/b/../..",
            "a\0b",
        ] {
            check(refused, None);
        }
        check(&"a/".repeat(65), None);
        check(&"a".repeat(4097), None);
    }

    #[test]
    fn a_refusal_does_not_repeat_a_long_path() {
        let error = RelativePath::parse(&"ü".repeat(4000)).unwrap_err();
        assert!(error.to_string().len() < 500);
        assert_eq!(error.code(), bxcore::code::Code::PathOutsideWorkspace);
    }
}
