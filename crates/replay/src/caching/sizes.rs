//! How sizes are rounded.

use crate::CachingSettings;
use crate::rounding::{GRANULE, round_up};

const MIB: u64 = 1 << 20;

/// Largest request that the small pool serves.
pub(crate) const SMALL_REQUEST: u64 = MIB;
/// Segment of the small pool.
pub(crate) const SMALL_SEGMENT: u64 = 2 * MIB;
/// Segment for requests under [`LARGE_REQUEST`]; also the unit of the large pool's expandable segments.
pub(crate) const LARGE_SEGMENT: u64 = 20 * MIB;
/// Smallest request that gets a segment of its own size.
const LARGE_REQUEST: u64 = 10 * MIB;

/// Bytes that a block for a request of `bytes` takes up.
pub(super) fn block_bytes(bytes: u64, settings: &CachingSettings) -> u64 {
    let divisions = u64::from(settings.roundup_power2_divisions);
    if bytes < GRANULE {
        GRANULE
    } else if divisions > 1 && bytes > GRANULE * divisions {
        next_division(bytes, divisions)
    } else {
        round_up(bytes, GRANULE)
    }
}

/// `bytes` rounded up so that no more than `divisions` sizes lie between two powers of two.
fn next_division(bytes: u64, divisions: u64) -> u64 {
    if bytes.is_power_of_two() {
        return bytes;
    }
    let floor = 1 << bytes.ilog2();
    let step = floor >> divisions.ilog2();
    if step == 0 { floor << 1 } else { round_up(bytes, step) }
}

/// Bytes of the segment that is asked of the device for a block of `bytes`.
pub(super) fn segment_bytes(bytes: u64) -> u64 {
    if bytes <= SMALL_REQUEST {
        SMALL_SEGMENT
    } else if bytes < LARGE_REQUEST {
        LARGE_SEGMENT
    } else {
        round_up(bytes, SMALL_SEGMENT)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_rounded_as_the_real_one_does() {
        let plain = CachingSettings::default();
        assert_eq!(block_bytes(1, &plain), 512);
        assert_eq!(block_bytes(513, &plain), 1024);
        let four = CachingSettings { roundup_power2_divisions: 4, ..plain };
        assert_eq!(block_bytes(1200, &four), 1536);
        assert_eq!(block_bytes(5 * MIB + 1, &four), 6 * MIB);
        assert_eq!(block_bytes(4 * MIB, &four), 4 * MIB);
        assert_eq!(segment_bytes(512), 2 * MIB);
        assert_eq!(segment_bytes(MIB + 512), 20 * MIB);
        assert_eq!(segment_bytes(10 * MIB), 10 * MIB);
        assert_eq!(segment_bytes(10 * MIB + 512), 12 * MIB);
        assert_eq!(block_bytes(u64::MAX, &plain), u64::MAX);
    }
}
