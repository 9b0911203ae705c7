//! The shapes in which a secret could leave the box: as it is, and as the usual encodings write it.
//!
//! This finds what is sent by mistake or by a clumsy trick. Nothing finds a secret that somebody
//! takes the trouble to scramble, which is why labels and grants come first.

use base64::Engine as _;
use base64::engine::general_purpose::{STANDARD_NO_PAD, URL_SAFE_NO_PAD};
use bxcore::text::hex;
use secrecy::zeroize::{Zeroize, Zeroizing};

/// The shortest piece that is looked for, in bytes: a shorter one stands in too much by chance.
const MIN_SHAPE_BYTES: usize = 6;

/// How often a text is percent-decoded: more than anything on the way to a service would.
const MAX_DECODINGS: usize = 4;

/// Everything that one secret is looked for as. Wiped when dropped.
#[derive(Clone)]
pub(super) struct Shapes(Vec<String>);

impl std::fmt::Debug for Shapes {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Shapes({})", self.0.len())
    }
}

impl Drop for Shapes {
    fn drop(&mut self) {
        self.0.zeroize();
    }
}

impl Shapes {
    pub(super) fn of(secret: &str) -> Self {
        let bytes = secret.as_bytes();
        let lower = hex(bytes);
        let reversed: String = secret.chars().rev().collect();
        let mut shapes = vec![lower.to_ascii_uppercase(), lower, reversed];
        for offset in 0..3 {
            shapes.extend(in_base64(bytes, offset));
        }
        // A short shape would be found everywhere, but the secret itself is looked for however
        // short it is: that it stands somewhere by chance is the owner's to mend.
        shapes.retain(|shape| shape.len() >= MIN_SHAPE_BYTES);
        shapes.push(secret.to_owned());
        shapes.sort_unstable();
        shapes.dedup();
        Self(shapes)
    }

    /// Whether the secret stands in a text, in whichever shape.
    pub(super) fn stand_in(&self, text: &[u8]) -> bool {
        self.0
            .iter()
            .any(|shape| memchr::memmem::find(text, shape.as_bytes()).is_some())
    }
}

impl Shapes {
    /// The shapes that don't stand in a text by chance, the longest first.
    fn telling(&self) -> Vec<&str> {
        let shapes = self.0.iter().map(String::as_str);
        let mut telling: Vec<&str> = shapes
            .filter(|shape| shape.len() >= MIN_SHAPE_BYTES)
            .collect();
        telling.sort_unstable_by_key(|shape| std::cmp::Reverse(shape.len()));
        telling
    }

    /// Whether the secret stands in a text, and surely not by chance.
    pub(super) fn surely_stand_in(&self, text: &[u8]) -> bool {
        let mut shapes = self.telling().into_iter();
        shapes.any(|shape| memchr::memmem::find(text, shape.as_bytes()).is_some())
    }

    /// A text with something else wherever the secret stands in it; none where it doesn't.
    pub(super) fn replaced_in(&self, text: &str, by: &str) -> Option<String> {
        let mut replaced = None;
        for shape in self.telling() {
            let now = replaced.as_deref().unwrap_or(text);
            if memchr::memmem::find(now.as_bytes(), shape.as_bytes()).is_some() {
                replaced = Some(now.replace(shape, by));
            }
        }
        replaced
    }
}

/// The characters of a base64 text that depend on these bytes alone, wherever they begin in it.
fn in_base64(bytes: &[u8], offset: usize) -> [String; 2] {
    let mut padded = vec![0; offset];
    padded.extend_from_slice(bytes);
    // Three bytes are four characters; those that hold bits of a neighbour are cut off.
    let first = (offset * 8).div_ceil(6);
    let last = padded.len() * 8 / 6;
    let cut = |text: String| text.get(first..last).unwrap_or_default().to_owned();
    let shapes = [
        cut(STANDARD_NO_PAD.encode(&padded)),
        cut(URL_SAFE_NO_PAD.encode(&padded)),
    ];
    padded.zeroize();
    shapes
}

/// What a text says once its `%XX` are read, and again what that says, as long as there are any:
/// whoever gets an address reads it so, in whichever letters and however much of it was encoded.
pub(super) fn percent_decodings(text: &[u8]) -> Vec<Zeroizing<Vec<u8>>> {
    let mut decodings: Vec<Zeroizing<Vec<u8>>> = Vec::new();
    for _ in 0..MAX_DECODINGS {
        let last = decodings.last().map_or(text, |decoded| decoded.as_slice());
        let Some(decoded) = percent_decoded(last) else {
            break;
        };
        decodings.push(Zeroizing::new(decoded));
    }
    decodings
}

/// A text with its `%XX` read once; none where it has none. What only looks like one stays.
fn percent_decoded(text: &[u8]) -> Option<Vec<u8>> {
    let digit = |at: usize| char::from(*text.get(at)?).to_digit(16);
    let mut decoded = Vec::with_capacity(text.len());
    let mut at = 0;
    while let Some(byte) = text.get(at) {
        let pair = (*byte == b'%').then(|| Some(digit(at + 1)? * 16 + digit(at + 2)?));
        let read = pair.flatten().and_then(|value| u8::try_from(value).ok());
        at += if read.is_some() { 3 } else { 1 };
        decoded.push(read.unwrap_or(*byte));
    }
    (decoded.len() < text.len()).then_some(decoded)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_secret_is_found_in_every_usual_shape() {
        let secret = "sk-test/9f+3=Zq";
        let shapes = Shapes::of(secret);
        let found = |text: &str| shapes.stand_in(text.as_bytes());
        assert!(found(&format!("tell me about {secret}!")));
        assert!(found(&hex(secret.as_bytes())));
        assert!(found(&hex(secret.as_bytes()).to_uppercase()));
        assert!(found(&secret.chars().rev().collect::<String>()));
        for lead in ["", "a", "ab", "abc", "Bearer "] {
            let text = format!("{lead}{secret} and more");
            assert!(found(&STANDARD_NO_PAD.encode(&text)), "{lead}");
            assert!(found(&URL_SAFE_NO_PAD.encode(&text)), "{lead}");
        }
        for other in ["", "sk-test/9f+3=Z", "sk-test", "%2F9f%2B3"] {
            assert!(!found(other), "{other}");
        }
    }

    #[test]
    fn percent_encodings_are_read_however_they_are_written() {
        let all = |text: &str| {
            let decodings = percent_decodings(text.as_bytes());
            let last = decodings.last().map(|last| last.to_vec());
            last.map(|last| String::from_utf8(last).unwrap())
        };
        for text in ["", "a+b", "100%", "%", "%2", "%g1%1g", "%%"] {
            assert_eq!(all(text), None, "{text}");
        }
        for (text, expect) in [
            ("q=sk-test%2F9f%2B3%3DZq&x", "q=sk-test/9f+3=Zq&x"),
            ("sk-test%2f9f%2b3%3dZq", "sk-test/9f+3=Zq"),
            ("s%6b-%74est/9f+3=Zq", "sk-test/9f+3=Zq"),
            ("sk%252Dtest", "sk-test"),
            ("%2525252Fx", "/x"),
            ("%25%32%46", "/"),
            ("%%41", "%A"),
        ] {
            assert_eq!(all(text).as_deref(), Some(expect), "{text}");
        }
        let endless = "%25".repeat(9);
        assert!(percent_decodings(endless.as_bytes()).len() <= MAX_DECODINGS);
    }

    #[test]
    fn a_short_secret_is_looked_for_as_it_is() {
        let shapes = Shapes::of("ab");
        assert!(shapes.stand_in(b"xxabxx"));
        assert!(!shapes.stand_in(b"6162 YW"));
    }
}
