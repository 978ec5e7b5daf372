//! What a gap must be, for every format that has them.

use coloring::Gap;
use lifetime::{Bytes, LiveRange};

use crate::error::GapFault;

/// Whether `gap` may follow `before` in a buffer of `size` that is live in `range`.
pub(crate) fn check(gap: &Gap, before: Option<&Gap>, range: LiveRange, size: Bytes) -> Result<(), GapFault> {
    if gap.range.death <= gap.range.birth {
        return Err(GapFault::Empty);
    }
    if gap.range.birth < range.birth || gap.range.death > range.death {
        return Err(GapFault::Outside);
    }
    if before.is_some_and(|before| gap.range.birth < before.range.death) {
        return Err(GapFault::OutOfOrder);
    }
    if gap.kept.is_some_and(|(from, to)| from >= to || to.0 > size.0) {
        return Err(GapFault::Kept);
    }
    Ok(())
}
