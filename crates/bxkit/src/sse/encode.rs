//! Events as text.

/// A comment, sent now and then so that an end which is gone is noticed.
pub const KEEP_ALIVE: &str = ":\n\n";

/// One event as the text of a stream.
///
/// `data` may have several lines; a carriage return in it counts as a line end, as the format has
/// no way to say it otherwise. In `event` line ends become spaces: they would end the field.
pub fn encode(event: &str, data: &str) -> String {
    let mut text = String::with_capacity(event.len() + data.len() + 24);
    if !event.is_empty() && event != "message" {
        text.push_str("event: ");
        text.extend(
            event
                .chars()
                .map(|c| if matches!(c, '\r' | '\n') { ' ' } else { c }),
        );
        text.push('\n');
    }
    for line in lines(data) {
        text.push_str("data: ");
        text.push_str(line);
        text.push('\n');
    }
    text.push('\n');
    text
}

/// The lines of a text, ended by LF, CR LF or CR, the last one even if it is empty.
fn lines(text: &str) -> impl Iterator<Item = &str> {
    let mut rest = Some(text);
    std::iter::from_fn(move || {
        let text = rest?;
        let Some(end) = text.find(['\r', '\n']) else {
            rest = None;
            return Some(text);
        };
        let after = if text[end..].starts_with("\r\n") {
            end + 2
        } else {
            end + 1
        };
        rest = Some(&text[after..]);
        Some(&text[..end])
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_line_becomes_a_data_field() {
        assert_eq!(encode("delta", "a"), "event: delta\ndata: a\n\n");
        assert_eq!(encode("", "a\nb"), "data: a\ndata: b\n\n");
        assert_eq!(encode("message", ""), "data: \n\n");
        assert_eq!(
            encode("x", "a\r\nb\rc\n"),
            "event: x\ndata: a\ndata: b\ndata: c\ndata: \n\n"
        );
    }

    #[test]
    fn nothing_can_break_out_of_its_event() {
        let text = encode("a\n\nevent: b", "x\n\nevent: execute\ndata: y");
        assert_eq!(
            text,
            "event: a  event: b\ndata: x\ndata: \ndata: event: execute\ndata: data: y\n\n"
        );
    }
}
