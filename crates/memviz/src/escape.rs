//! Text that others wrote, made harmless for the place where it goes.

use std::borrow::Cow;

/// Text that shows what it holds: control characters, and what would turn the writing direction of the text around
/// it, become U+FFFD; line breaks, line and paragraph separators and tabs become spaces.
pub(crate) fn readable(text: &str) -> Cow<'_, str> {
    let shown = |character| match character {
        '\t' | '\n' | '\r' | '\u{2028}' | '\u{2029}' => ' ',
        '\u{0}'..='\u{1f}' | '\u{7f}'..='\u{9f}' | '\u{fffe}' | '\u{ffff}' => '\u{fffd}',
        '\u{200e}' | '\u{200f}' | '\u{61c}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}' => '\u{fffd}',
        other => other,
    };
    if text.chars().all(|c| shown(c) == c) { text.into() } else { text.chars().map(shown).collect::<String>().into() }
}

/// [`readable`] text for an element or a double-quoted attribute of HTML or XML.
pub(crate) fn markup(text: &str) -> String {
    let mut safe = String::with_capacity(text.len() + 8);
    for character in readable(text).chars() {
        match character {
            '&' => safe.push_str("&amp;"),
            '<' => safe.push_str("&lt;"),
            '>' => safe.push_str("&gt;"),
            '"' => safe.push_str("&quot;"),
            '\'' => safe.push_str("&#39;"),
            other => safe.push(other),
        }
    }
    safe
}

#[cfg(test)]
mod tests {
    use super::markup;

    #[test]
    fn nothing_that_opens_or_closes_markup_is_left() {
        let hostile = "</script><!--\"'&\u{2028}\u{0}\u{1b}\u{202e}]]>";
        let safe = markup(hostile);
        assert!(safe.chars().all(|c| !"<>\"'\u{2028}\u{0}\u{1b}\u{202e}".contains(c)), "{safe:?}");
        assert_eq!(markup("a & b"), "a &amp; b");
        assert_eq!(markup("&amp;"), "&amp;amp;");
    }
}
