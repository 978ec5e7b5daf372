//! Names come from files, and a file may put anything into a name: none of it may steer the terminal.

use std::borrow::Cow;
use std::io::{self, Write};

/// Whether a terminal might take a character for an order: control characters but the line end, marks that turn the
/// direction in which what follows is shown, and Unicode's own line ends.
fn is_wild(c: char) -> bool {
    let turns = matches!(c, '\u{61c}' | '\u{200e}' | '\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}');
    (c.is_control() && c != '\n') || turns || matches!(c, '\u{2028}' | '\u{2029}')
}

/// The text with a sign in place of each character that a terminal might take for an order.
pub(crate) fn tame(text: &str) -> Cow<'_, str> {
    if text.contains(is_wild) { text.replace(is_wild, "\u{fffd}").into() } else { text.into() }
}

/// Passes on text, tamed. What is written at once must be whole characters, as it is by `write!`.
pub(crate) struct Tame<W>(pub(crate) W);

impl<W: Write> Write for Tame<W> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.write_all(tame(&String::from_utf8_lossy(bytes)).as_bytes())?;
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        self.0.flush()
    }
}

/// Passes on JSON, with such characters written as escapes: the values stay what they are. As for [`Tame`].
pub(crate) struct TameJson<W>(pub(crate) W);

impl<W: Write> Write for TameJson<W> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let text = String::from_utf8_lossy(bytes);
        let mut rest = &*text;
        // Such characters stand in strings only, where an escape means the same. All are of the first 65536.
        while let Some((at, c)) = rest.char_indices().find(|&(_, c)| is_wild(c)) {
            self.0.write_all(&rest.as_bytes()[..at])?;
            write!(self.0, "\\u{:04x}", u32::from(c))?;
            rest = &rest[at + c.len_utf8()..];
        }
        self.0.write_all(rest.as_bytes())?;
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        self.0.flush()
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    #[test]
    fn control_characters_do_not_get_through() {
        let mut out = Tame(Vec::new());
        write!(out, "a\u{1b}[2Jb\r\u{9b}c\ngewöhnlich").unwrap();
        assert_eq!(String::from_utf8(out.0).unwrap(), "a\u{fffd}[2Jb\u{fffd}\u{fffd}c\ngewöhnlich");
    }

    #[test]
    fn nothing_turns_the_direction_of_what_follows() {
        assert_eq!(tame("a\u{202e}b\u{2066}c\u{200f}d\u{2028}e"), "a\u{fffd}b\u{fffd}c\u{fffd}d\u{fffd}e");
        // Letters of scripts that run to the left, and joiners, are ordinary text.
        assert_eq!(tame("שלום\u{200d}"), "שלום\u{200d}");
    }

    #[test]
    fn tame_json_means_the_same() {
        let value = serde_json::json!({"a\u{9b}31m\u{7f}": "\u{202e}\n\u{1b}\u{2029} ü 😀"});
        let mut out = TameJson(Vec::new());
        serde_json::to_writer_pretty(&mut out, &value).unwrap();
        let text = String::from_utf8(out.0).unwrap();
        assert!(!text.contains(is_wild), "{text:?}");
        assert_eq!(serde_json::from_str::<serde_json::Value>(&text).unwrap(), value);
    }
}
