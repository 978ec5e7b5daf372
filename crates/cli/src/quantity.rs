//! Sizes and times as people write them.

use std::fmt;
use std::str::FromStr;
use std::time::Duration;

/// A number of bytes on the command line: `4096`, `16M`, `1.5G`, `80GiB`; K, M, G and T are powers of 1024.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Size(pub(crate) u64);

impl FromStr for Size {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let digits = text.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(text.len());
        let (number, unit) = text.split_at(digits);
        let shift = match unit.trim().to_ascii_lowercase().as_str() {
            "" | "b" => 0,
            "k" | "kb" | "kib" => 10,
            "m" | "mb" | "mib" => 20,
            "g" | "gb" | "gib" => 30,
            "t" | "tb" | "tib" => 40,
            _ => return Err("a size is a number with K, M, G or T (binary) behind it, or nothing for bytes".into()),
        };
        let bytes = match number.parse::<u64>() {
            Ok(whole) => whole.checked_mul(1 << shift),
            Err(_) => number
                .parse::<f64>()
                .ok()
                .map(|fraction| (fraction * (1_u64 << shift) as f64).round())
                .filter(|&bytes| bytes <= (1_u64 << 62) as f64)
                .map(|bytes| bytes as u64),
        };
        match bytes {
            Some(bytes) if bytes <= 1 << 62 => Ok(Self(bytes)),
            _ => Err(format!("`{number}` is not a number, or too large: sizes go up to 2^62 bytes")),
        }
    }
}

/// A time on the command line, in seconds: `10`, `0.5`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Seconds(pub(crate) Duration);

impl FromStr for Seconds {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let seconds: f64 = text.parse().map_err(|_| "a time is a number of seconds".to_owned())?;
        if !(0.0..1e9).contains(&seconds) {
            return Err("a time is a number of seconds from 0 to 10^9".to_owned());
        }
        Ok(Self(Duration::from_secs_f64(seconds)))
    }
}

/// A whole number with a thin gap every three digits: `12 345 678`.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Grouped(pub(crate) u64);

impl fmt::Display for Grouped {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let digits = self.0.to_string();
        let mut text = String::with_capacity(digits.len() * 4 / 3);
        for (k, digit) in digits.chars().enumerate() {
            if k > 0 && (digits.len() - k).is_multiple_of(3) {
                text.push(' ');
            }
            text.push(digit);
        }
        f.pad_integral(true, "", &text)
    }
}

/// A duration in the unit that suits it: `870 us`, `12.3 ms`, `4.56 s`.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Took(pub(crate) Duration);

impl fmt::Display for Took {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let seconds = self.0.as_secs_f64();
        if seconds < 1e-3 {
            write!(f, "{:.0} us", seconds * 1e6)
        } else if seconds < 1.0 {
            write!(f, "{:.1} ms", seconds * 1e3)
        } else {
            write!(f, "{seconds:.2} s")
        }
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_read_in_binary_units_and_exactly() {
        let size = |text: &str| text.parse::<Size>().map(|s| s.0);
        assert_eq!(size("4096"), Ok(4096));
        assert_eq!(size("16M"), Ok(16 << 20));
        assert_eq!(size("1.5G"), Ok(3 << 29));
        assert_eq!(size("80GiB"), Ok(80 << 30));
        assert_eq!(size("2 t"), Ok(2 << 40));
        // A whole number must not pass through a float.
        assert_eq!(size("4611686018427387903"), Ok((1 << 62) - 1));
        assert_eq!(size("4611686018427387904"), Ok(1 << 62));
        for bad in ["", "G", "-1", "1e3", "12X", "4611686018427387905", "99999999999T", "1.2.3", "inf", "nan"] {
            assert!(size(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn times_out_of_range_are_refused() {
        assert_eq!("0.5".parse::<Seconds>().unwrap().0, Duration::from_millis(500));
        for bad in ["-1", "nan", "inf", "1e10", "soon", ""] {
            assert!(bad.parse::<Seconds>().is_err(), "{bad}");
        }
    }

    #[test]
    fn digits_are_grouped_by_three() {
        assert_eq!(Grouped(0).to_string(), "0");
        assert_eq!(Grouped(999).to_string(), "999");
        assert_eq!(Grouped(1_000).to_string(), "1 000");
        assert_eq!(Grouped(12_345_678).to_string(), "12 345 678");
    }
}
