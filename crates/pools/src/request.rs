//! Requests, checked.

use crate::block::GRANULE;
use crate::{Error, Result};

/// The largest alignment: that of a gigabyte page.
const MOST_ALIGN: u64 = 1 << 30;

/// A request whose numbers have been looked at.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Request {
    pub(crate) requested: u64,
    /// What the block has to have: a multiple of the granule.
    pub(crate) bytes: u64,
    /// At least the granule.
    pub(crate) align: u64,
    /// Packed.
    pub(crate) tag: u64,
    /// Memory is short: every free block is looked at.
    pub(crate) is_thorough: bool,
}

impl Request {
    /// No device has more, and sums of it don't overflow.
    pub(crate) const MOST_BYTES: u64 = 1 << 46;

    /// One of the usual alignment and at most [`MOST_BYTES`](Self::MOST_BYTES).
    #[inline]
    pub(crate) fn usual(requested: u64, tag: u64) -> Self {
        // A request for nothing gets an address of its own, as from malloc.
        Self { requested, bytes: requested.max(1).next_multiple_of(GRANULE), align: GRANULE, tag, is_thorough: false }
    }

    #[inline]
    pub(crate) fn new(requested: u64, align: u64, tag: u64) -> Result<Self> {
        if requested > Self::MOST_BYTES {
            return Err(Error::TooLarge { bytes: requested, most: Self::MOST_BYTES });
        }
        if align > MOST_ALIGN || align & align.wrapping_sub(1) != 0 {
            return Err(Error::BadAlignment { align, most: MOST_ALIGN });
        }
        Ok(Self { align: align.max(GRANULE), ..Self::usual(requested, tag) })
    }
}
