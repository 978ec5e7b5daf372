//! Bytes, shares and bars as text.

use lifetime::Bytes;

use crate::quantity::Grouped;

/// `22.5 GiB`.
pub(crate) fn size(bytes: u64) -> String {
    Bytes(bytes).to_string()
}

/// `22.5 GiB (24 207 532 032 B)`; below 1 KiB the bytes alone.
pub(crate) fn size_exact(bytes: u64) -> String {
    if bytes < 1024 { size(bytes) } else { format!("{} ({} B)", Bytes(bytes), Grouped(bytes)) }
}

/// `12.3 %`.
pub(crate) fn percent(part: u64, whole: u64) -> String {
    if whole == 0 {
        return "-".to_owned();
    }
    format!("{:.1} %", part as f64 / whole as f64 * 100.0)
}

/// `1 block`, `1 432 blocks`.
pub(crate) fn count(number: u64, noun: &str) -> String {
    format!("{} {noun}{}", Grouped(number), if number == 1 { "" } else { "s" })
}

/// One bar a value, its height the share of `highest`: a value above 0 is always to be seen.
pub(crate) fn bars(values: impl IntoIterator<Item = f64>, highest: f64) -> String {
    const BARS: [char; 9] = [' ', '▁', '▂', '▃', '▄', '▅', '▆', '▇', '█'];
    let bar = |value: f64| {
        if value <= 0.0 || highest <= 0.0 {
            return BARS[0];
        }
        let height = (value / highest * 8.0).ceil().clamp(1.0, 8.0);
        BARS[height as usize]
    };
    values.into_iter().map(bar).collect()
}

/// At most `width` characters of `text`; what is cut off is shown by dots.
pub(crate) fn cut(text: &str, width: usize) -> String {
    let text = text.replace('\n', " ");
    if text.chars().count() <= width {
        return text;
    }
    let mut short: String = text.chars().take(width.saturating_sub(3)).collect();
    short.push_str("...");
    short
}

/// Words of a text. A number stays with its groups of digits and its unit: `9 944 694 784 B` is one word.
fn words(text: &str) -> Vec<String> {
    let mut words: Vec<String> = Vec::new();
    for part in text.split_whitespace() {
        let unit = part.trim_end_matches(|c: char| c.is_ascii_punctuation() && c != '%');
        let is_unit = matches!(unit, "B" | "KiB" | "MiB" | "GiB" | "TiB" | "PiB" | "EiB" | "%" | "us" | "ms" | "s");
        let digits = part.chars().take_while(char::is_ascii_digit).count();
        let goes_on = |last: &&mut String| last.ends_with(|c: char| c.is_ascii_digit()) && (is_unit || digits == 3);
        match words.last_mut().filter(goes_on) {
            Some(last) => {
                last.push(' ');
                last.push_str(part);
            }
            None => words.push(part.to_owned()),
        }
    }
    words
}

/// Lines of at most `width` characters, broken between words; a longer word has a line of its own.
pub(crate) fn wrap(text: &str, width: usize) -> Vec<String> {
    let mut lines: Vec<String> = Vec::new();
    for word in words(text) {
        match lines.last_mut().filter(|line| line.chars().count() + 1 + word.chars().count() <= width) {
            Some(line) => {
                line.push(' ');
                line.push_str(&word);
            }
            None => lines.push(word),
        }
    }
    lines
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bars_show_every_value_above_zero() {
        assert_eq!(bars([0.0, 0.001, 0.5, 1.0, 2.0], 1.0), " ▁▄██");
        assert_eq!(bars([1.0], 0.0), " ");
        assert_eq!(cut("abcdef", 6), "abcdef");
        assert_eq!(cut("abcdefg", 6), "abc...");
        assert_eq!(wrap("a bc  def\ng", 4), ["a bc", "def", "g"]);
        assert_eq!(
            wrap("of 100.000 MiB (104 857 600 B), 2 of 3", 18),
            ["of 100.000 MiB", "(104 857 600 B), 2", "of 3"]
        );
        assert_eq!(percent(1, 3), "33.3 %");
        assert_eq!(percent(1, 0), "-");
    }
}
