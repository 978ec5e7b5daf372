//! The smallest device on which a trace still finishes.

use crate::driver::UNLIMITED_BYTES;
use crate::rounding::round_up;
use crate::{Program, Result, Settings, replay};

/// Bytes of the smallest device on which every request is served, searched to 0.2 % of peak live; `None` if even twelve
/// times peak live, or all that a simulated device can have (32 TiB), are too few.
///
/// Capacities are whole pages of 2 MiB (256 KiB where less than 1 GiB is live), so that rounding alone fails no policy.
/// The search halves: it takes for granted that more memory never hurts, which best fit breaks by a percent or so. The
/// order of streams isn't checked and no time is modelled.
///
/// # Errors
/// As [`replay`].
pub fn min_capacity(program: &Program<'_>, settings: &Settings, mut tried: impl FnMut(u64)) -> Result<Option<u64>> {
    let live = program.peak_live_bytes();
    let unit: u64 = if live > 1 << 30 { 2 << 20 } else { 256 << 10 };
    let up = |bytes| round_up(bytes, unit);
    let mut fits = |capacity: u64| {
        tried(capacity);
        let settings = Settings {
            capacity_bytes: Some(capacity),
            keeps_history: false,
            measures_fragmentation: false,
            models_time: false,
            checks_order: false,
            ..*settings
        };
        replay(program, &settings).map(|outcome| outcome.is_ok())
    };
    let (mut low, mut high) = (up(live), up(live));
    if high > UNLIMITED_BYTES {
        return Ok(None);
    }
    while !fits(high)? {
        low = high;
        if high == UNLIMITED_BYTES {
            return Ok(None);
        }
        high = up(high.saturating_add(high / 4).saturating_add(unit)).min(UNLIMITED_BYTES);
        if high > live.saturating_mul(12).max(unit * 64) {
            return Ok(None);
        }
    }
    let exact = unit.max(live / 500);
    while high - low > exact {
        let middle = up(low + (high - low) / 2);
        if middle >= high {
            break;
        }
        if fits(middle)? { high = middle } else { low = middle }
    }
    Ok(Some(high))
}
