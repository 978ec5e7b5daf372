//! Requests, checked.

use crate::block::GRANULE;
use crate::{Error, Result, Tag};

/// No device has more, and sums of it don't overflow.
const MOST_BYTES: u64 = 1 << 46;
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
    pub(crate) tag: Tag,
}

impl Request {
    #[inline]
    pub(crate) fn new(requested: u64, align: u64, tag: Tag) -> Result<Self> {
        if requested > MOST_BYTES {
            return Err(Error::TooLarge { bytes: requested, most: MOST_BYTES });
        }
        if align > MOST_ALIGN || align & align.wrapping_sub(1) != 0 {
            return Err(Error::BadAlignment { align, most: MOST_ALIGN });
        }
        // A request for nothing gets an address of its own, as from malloc.
        let bytes = requested.max(1).next_multiple_of(GRANULE);
        Ok(Self { requested, bytes, align: align.max(GRANULE), tag })
    }
}
