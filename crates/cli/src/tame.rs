//! Names come from files, and a file may put anything into a name: none of it may steer the terminal.

use std::borrow::Cow;
use std::io::{self, Write};

/// The text with a sign in place of each control character but the line end.
pub(crate) fn tame(text: &str) -> Cow<'_, str> {
    let is_wild = |c: char| c.is_control() && c != '\n';
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
}
