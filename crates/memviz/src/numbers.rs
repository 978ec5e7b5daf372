//! Numbers as people read them; `numbers.js` says them the same way.

/// `1152921` as `1 152 921`, with no-break spaces.
pub(crate) fn grouped(value: u64) -> String {
    let digits = value.to_string();
    let mut text = String::with_capacity(digits.len() * 2);
    for (index, digit) in digits.chars().enumerate() {
        if index > 0 && (digits.len() - index).is_multiple_of(3) {
            text.push('\u{a0}');
        }
        text.push(digit);
    }
    text
}

/// A share as a percentage with two decimals; a share that is not 0 never reads as 0.
pub(crate) fn percent(share: f64) -> String {
    match share * 100.0 {
        value if value <= 0.0 || value.is_nan() => "0\u{a0}%".to_owned(),
        value if value < 0.01 => "<\u{a0}0.01\u{a0}%".to_owned(),
        value => format!("{value:.2}\u{a0}%"),
    }
}

/// `count` things, with the right ending.
pub(crate) fn counted(count: u64, singular: &str, plural: &str) -> String {
    format!("{}\u{a0}{}", grouped(count), if count == 1 { singular } else { plural })
}

/// `text` with at most `limit` bytes, cut at a character and marked with an ellipsis where it was longer.
pub(crate) fn cut(text: &str, limit: usize) -> std::borrow::Cow<'_, str> {
    if text.len() <= limit {
        return text.into();
    }
    let mut end = limit.saturating_sub('…'.len_utf8());
    while end > 0 && !text.is_char_boundary(end) {
        end -= 1;
    }
    format!("{}…", &text[..end]).into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn digits_are_grouped_from_the_right() {
        assert_eq!(grouped(0), "0");
        assert_eq!(grouped(999), "999");
        assert_eq!(grouped(1_000), "1\u{a0}000");
        assert_eq!(grouped(u64::MAX), "18 446 744 073 709 551 615".replace(' ', "\u{a0}"));
    }

    #[test]
    fn a_small_gap_never_reads_as_none() {
        assert_eq!(percent(0.0), "0\u{a0}%");
        assert_eq!(percent(1e-9), "<\u{a0}0.01\u{a0}%");
        assert_eq!(percent(0.0611), "6.11\u{a0}%");
    }

    #[test]
    fn long_names_are_cut_between_characters() {
        assert_eq!(cut("abc", 3), "abc");
        assert_eq!(cut("äöüß", 6), "ä…");
        assert!(cut(&"x".repeat(5000), 1024).len() <= 1024);
    }
}
