//! Values as people write them.

use crate::Kind;
use crate::keys::nearest;

/// A number of bytes: `4096`, `16M`, `1.5G`, `80GiB`; K, M, G and T are powers of 1024. `None` if it isn't one, or is more
/// than 2^62.
#[must_use]
pub fn parse_size(text: &str) -> Option<u64> {
    const LARGEST: u64 = 1 << 62;
    let text = text.trim();
    let digits = text.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(text.len());
    let (number, unit) = text.split_at(digits);
    let shift = match unit.trim().to_ascii_lowercase().as_str() {
        "" | "b" => 0,
        "k" | "kb" | "kib" => 10,
        "m" | "mb" | "mib" => 20,
        "g" | "gb" | "gib" => 30,
        "t" | "tb" | "tib" => 40,
        _ => return None,
    };
    let bytes = match number.parse::<u64>() {
        // Not through a float, which would lose the last digits.
        Ok(whole) => whole.checked_mul(1 << shift)?,
        Err(_) => {
            let bytes = (number.parse::<f64>().ok()? * (1_u64 << shift) as f64).round();
            if bytes <= LARGEST as f64 { bytes as u64 } else { return None }
        }
    };
    (bytes <= LARGEST).then_some(bytes)
}

/// A whole number from 0 to 100, with or without `%`.
#[must_use]
pub fn parse_percent(text: &str) -> Option<u8> {
    let text = text.trim();
    let number = text.strip_suffix('%').unwrap_or(text).trim_end();
    number.parse().ok().filter(|percent| *percent <= 100)
}

/// `on`, `1`, `true`, `yes` or `off`, `0`, `false`, `no`, in any case.
#[must_use]
pub fn parse_switch(text: &str) -> Option<bool> {
    match text.trim().to_ascii_lowercase().as_str() {
        "on" | "1" | "true" | "yes" => Some(true),
        "off" | "0" | "false" | "no" => Some(false),
        _ => None,
    }
}

/// Why a text is no value of a kind.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Misfit {
    /// What it could be, in words.
    pub(crate) expected: String,
    /// The nearest word there is.
    pub(crate) nearest: Option<String>,
}

/// Whether `text` is a value of this kind.
pub(crate) fn check(kind: Kind, text: &str) -> Result<(), Misfit> {
    let misfit = |expected: &str| Err(Misfit { expected: expected.to_owned(), nearest: None });
    match kind {
        Kind::Size if parse_size(text).is_none() => {
            misfit("a size is a number up to 2^62 with K, M, G or T (binary) behind it, or nothing for bytes")
        }
        Kind::Percent if parse_percent(text).is_none() => misfit("a share is a whole number from 0 to 100"),
        Kind::Switch if parse_switch(text).is_none() => misfit("a switch is on or off"),
        Kind::Word(words) if !words.contains(&text) => Err(Misfit {
            expected: format!("it is one of {}", words.join(", ")),
            nearest: nearest(text, words.iter().copied()),
        }),
        Kind::Text if text.is_empty() => misfit("it is empty"),
        _ => Ok(()),
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_binary_and_exact() {
        assert_eq!(parse_size("4096"), Some(4096));
        assert_eq!(parse_size(" 16M "), Some(16 << 20));
        assert_eq!(parse_size("1.5G"), Some(3 << 29));
        assert_eq!(parse_size("80 GiB"), Some(80 << 30));
        assert_eq!(parse_size("4611686018427387903"), Some((1 << 62) - 1));
        for bad in ["", "G", "-1", "1e3", "12X", "4611686018427387905", "99999999999T", "1.2.3", "inf", "nan"] {
            assert_eq!(parse_size(bad), None, "{bad}");
        }
    }

    #[test]
    fn shares_and_switches_are_what_people_write() {
        assert_eq!((parse_percent("80%"), parse_percent(" 0 "), parse_percent("101")), (Some(80), Some(0), None));
        assert_eq!((parse_switch("ON"), parse_switch("0"), parse_switch("maybe")), (Some(true), Some(false), None));
    }

    #[test]
    fn a_wrong_word_is_told_the_right_ones() {
        let misfit = check(Kind::Word(&["recorded", "all", "off"]), "record").unwrap_err();
        assert_eq!(misfit.expected, "it is one of recorded, all, off");
        assert_eq!(misfit.nearest.as_deref(), Some("recorded"));
        assert!(check(Kind::Text, "").is_err());
    }
}
