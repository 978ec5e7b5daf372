//! Axes: where ticks stand and what they say. `axes.js` does the same for a view that moves.

use lifetime::Bytes;

use crate::numbers::grouped;

/// A labelled place on an axis.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Tick {
    /// Where.
    pub(crate) at: u64,
    /// What it says.
    pub(crate) label: String,
}

/// Ticks of a time axis and, where labels count from a base, that base.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct TimeTicks {
    /// From left to right.
    pub(crate) ticks: Vec<Tick>,
    /// What the labels are added to; in units.
    pub(crate) base: Option<u64>,
}

/// At most `most` ticks (two at least) of a byte axis over `[0, top]`, at
/// multiples of a power of two, exact and in one unit.
pub(crate) fn byte_ticks(top: u64, most: u32) -> Vec<Tick> {
    let most = u128::from(most.max(2));
    let mut step: u128 = 1;
    while u128::from(top) / step + 1 > most {
        step *= 2;
    }
    const UNITS: [&str; 7] = ["B", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB"];
    let last = u128::from(top) / step * step;
    let mut unit = 0;
    while unit + 1 < UNITS.len() && last >= 1 << (10 * (unit + 1)) {
        unit += 1;
    }
    // Three decimals say eighths exactly, and nothing finer.
    while unit > 0 && step * 8 < 1 << (10 * unit) {
        unit -= 1;
    }
    let size = 1_u128 << (10 * unit);
    (0..=u128::from(top) / step)
        .map(|index| {
            let at = index * step;
            let number = if at.is_multiple_of(size) {
                grouped(u64::try_from(at / size).unwrap_or(u64::MAX))
            } else {
                let text = format!("{:.3}", at as f64 / size as f64);
                text.trim_end_matches('0').trim_end_matches('.').to_owned()
            };
            let label = if at == 0 { number } else { format!("{number}\u{a0}{}", UNITS[unit]) };
            Tick { at: u64::try_from(at).unwrap_or(u64::MAX), label }
        })
        .collect()
}

/// At most `most` ticks (two at least) of a time axis over `[start, end]`, at round multiples of `unit`; labels
/// count units.
pub(crate) fn time_ticks(start: u64, end: u64, unit: u64, most: u32) -> TimeTicks {
    let unit = unit.max(1);
    let span = end.saturating_sub(start);
    let most = u128::from(most.max(2));
    // 1, 2, 5, 10, 20, ... units; 10^20 of them is more than 64 bits hold, so one always fits.
    let step = (0..60)
        .map(|k| u128::from(unit) * [1, 2, 5][k % 3] * 10_u128.pow(k as u32 / 3))
        .find(|step| u128::from(span) / step < most)
        .unwrap_or(u128::MAX);
    let first = u128::from(start).div_ceil(step) * step;
    let places: Vec<u64> = (0..=most)
        .map(|i| first + i * step)
        .take_while(|&at| at <= u128::from(end))
        .filter_map(|at| u64::try_from(at).ok())
        .collect();
    let base = base_of(&places, unit);
    let label = |at: u64| match base {
        Some(base) => format!("+{}", compact(at / unit - base)),
        None => compact(at / unit),
    };
    TimeTicks { ticks: places.iter().map(|&at| Tick { at, label: label(at) }).collect(), base }
}

/// What labels should count from when three decimals of one unit would not tell them apart.
fn base_of(places: &[u64], unit: u64) -> Option<u64> {
    let (first, last) = (places.first()? / unit, places.last()? / unit);
    let span = last - first;
    if last < 10_000_000 || u128::from(first) < u128::from(span) * 50 {
        return None;
    }
    let round = 10_u64.checked_pow(span.max(1).ilog10() + 2)?;
    Some(first / round * round)
}

/// `12 500` up to ten million, `1.25 G` from there on.
fn compact(value: u64) -> String {
    if value < 10_000_000 {
        return grouped(value);
    }
    const UNITS: [(u64, &str); 5] = [
        (1_000_000_000_000_000_000, "E"),
        (1_000_000_000_000_000, "P"),
        (1_000_000_000_000, "T"),
        (1_000_000_000, "G"),
        (1_000_000, "M"),
    ];
    for (size, name) in UNITS {
        if value >= size {
            let number = format!("{:.3}", value as f64 / size as f64);
            return format!("{}\u{a0}{name}", number.trim_end_matches('0').trim_end_matches('.'));
        }
    }
    grouped(value)
}

/// `17.489 GiB`, with a no-break space.
pub(crate) fn bytes(value: Bytes) -> String {
    value.to_string().replace(' ', "\u{a0}")
}

#[cfg(test)]
#[allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]
mod tests {
    use super::*;

    fn labels(ticks: &[Tick]) -> Vec<String> {
        ticks.iter().map(|t| t.label.replace('\u{a0}', " ")).collect()
    }

    #[test]
    fn byte_ticks_stand_at_powers_of_two() {
        assert_eq!(labels(&byte_ticks(5 << 30, 6)), ["0", "1 GiB", "2 GiB", "3 GiB", "4 GiB", "5 GiB"]);
        assert_eq!(labels(&byte_ticks(3 << 29, 4)), ["0", "0.5 GiB", "1 GiB", "1.5 GiB"]);
        assert_eq!(labels(&byte_ticks(0, 6)), ["0"]);
        let fine = labels(&byte_ticks((1 << 30) + 1, 18));
        assert_eq!(fine[1..3], ["64 MiB", "128 MiB"], "0.0625 GiB has too many decimals");
        assert_eq!(fine.last().unwrap(), "1 024 MiB");
        assert_eq!(labels(&byte_ticks(6, 8)).len(), 7);
        let most = byte_ticks(u64::MAX, 6);
        assert!(most.len() <= 6 && most.len() >= 3, "{most:?}");
    }

    #[test]
    fn time_ticks_are_round_and_few() {
        for (start, end, unit) in [
            (0, 1, 1),
            (0, 9_000, 2),
            (7, 7, 1),
            (0, u64::MAX, 1),
            (u64::MAX - 3, u64::MAX, 1),
            (1 << 60, (1 << 60) + 1000, 1),
            (0, 3, 2),
        ] {
            let ticks = time_ticks(start, end, unit, 8);
            assert!(ticks.ticks.len() <= 9, "{start} {end}: {ticks:?}");
            assert!(ticks.ticks.windows(2).all(|w| w[0].at < w[1].at && w[0].label != w[1].label), "{ticks:?}");
            assert!(ticks.ticks.iter().all(|t| t.at >= start && t.at <= end && t.at.is_multiple_of(unit)), "{ticks:?}");
        }
        assert_eq!(labels(&time_ticks(0, 9_000, 2, 6).ticks), ["0", "1 000", "2 000", "3 000", "4 000"]);
    }

    #[test]
    fn late_times_count_from_a_base() {
        let ticks = time_ticks(1_700_000_000_000_000_000, 1_700_000_000_000_001_000, 1, 6);
        assert_eq!(ticks.base, Some(1_700_000_000_000_000_000));
        assert_eq!(labels(&ticks.ticks), ["+0", "+200", "+400", "+600", "+800", "+1 000"]);
    }
}
