//! What a called tool gave, as text. Pure.

use bxcore::text::cap;
use rmcp::model::{CallToolResult, ContentBlock, ErrorData};

/// How much of a word of the server's about a part that is not passed on is shown, in bytes.
const MAX_KIND_BYTES: usize = 60;
/// How much of an error's text is shown, in bytes.
const MAX_ERROR_BYTES: usize = 2_000;

/// What a called tool gave.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Called {
    /// Whether the tool says that it failed.
    pub is_error: bool,
    /// Its text, neither capped nor neutralised yet.
    pub text: String,
}

impl Called {
    /// Reads a result. What is no text is named, and not passed on.
    pub(super) fn of(result: &CallToolResult) -> Self {
        let mut parts: Vec<String> = result.content.iter().map(shown).collect();
        if let (true, Some(structured)) = (parts.is_empty(), &result.structured_content) {
            parts.push(structured.to_string());
        }
        Self {
            is_error: result.is_error.unwrap_or(false),
            text: parts.join("\n"),
        }
    }

    /// Reads an error of the protocol: the server refused the call.
    pub(super) fn refused(error: &ErrorData) -> Self {
        let said = cap(&error.message, MAX_ERROR_BYTES);
        Self {
            is_error: true,
            text: format!("The server refused the call ({}): {said}", error.code.0),
        }
    }
}

fn shown(block: &ContentBlock) -> String {
    let (what, kind) = match block {
        ContentBlock::Text(text) => return text.text.clone(),
        ContentBlock::Image(image) => ("image", image.mime_type.as_str()),
        ContentBlock::Audio(audio) => ("sound", audio.mime_type.as_str()),
        ContentBlock::Resource(_) => ("resource", "embedded"),
        ContentBlock::ResourceLink(_) => ("resource", "linked"),
        _ => ("part", "unknown"),
    };
    let kind = cap(kind, MAX_KIND_BYTES);
    format!("[{what} ({kind}): not passed on]")
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn text(result: serde_json::Value) -> (bool, String) {
        let called = Called::of(&serde_json::from_value(result).unwrap());
        (called.is_error, called.text)
    }

    #[test]
    fn texts_are_joined_and_all_else_is_named() {
        let mixed = json!({"content": [
            {"type": "text", "text": "one"},
            {"type": "image", "data": "QUJD", "mimeType": "image/png"},
            {"type": "audio", "data": "QUJD", "mimeType": "audio/wav"},
            {"type": "resource", "resource": {"uri": "file:///x", "text": "inside"}},
            {"type": "resource_link", "uri": "file:///y", "name": "y"},
            {"type": "text", "text": "two"},
        ]});
        let expect = "one\n[image (image/png): not passed on]\n[sound (audio/wav): not passed on]\n\
                      [resource (embedded): not passed on]\n[resource (linked): not passed on]\ntwo";
        assert_eq!(text(mixed), (false, expect.to_owned()));
        let failed = json!({"content": [{"type": "text", "text": "no"}], "isError": true});
        assert_eq!(text(failed), (true, "no".to_owned()));
        let structured = json!({"content": [], "structuredContent": {"a": 1}});
        assert_eq!(text(structured), (false, r#"{"a":1}"#.to_owned()));
        let both =
            json!({"content": [{"type": "text", "text": "a"}], "structuredContent": {"a": 1}});
        assert_eq!(text(both), (false, "a".to_owned()));
    }
}
