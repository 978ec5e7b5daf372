//! Rounding of requests, as allocators and the sums of a trace share it.

/// Requests are rounded up to a multiple of this, as the caching allocators of the field do.
pub(crate) const GRANULE: u64 = 512;

/// Rounded up to a multiple; at the very end of the numbers left as it is, where no device can serve it anyway.
pub(crate) fn round_up(bytes: u64, multiple: u64) -> u64 {
    bytes.checked_next_multiple_of(multiple).unwrap_or(bytes)
}
