//! How much of a file is taken before it is refused.

/// What a reader accepts. Nothing is allocated because a file says how long it is; memory grows with what was really
/// read, and these limits bound that.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Limits {
    /// Most bytes of text, after decompression. 4 GiB by default.
    pub max_text_bytes: u64,
    /// Most bytes of text for one compressed byte, once the text is longer than 64 MiB; 0 for no limit. 250 by
    /// default: real graphs reach 10 to 30, a bomb 1000 and more.
    pub max_expansion: u64,
    /// Most bytes of one CSV record. 16 MiB by default.
    pub max_record_bytes: usize,
}

impl Limits {
    /// Text up to here is never called a bomb.
    pub(crate) const FREE_TEXT_BYTES: u64 = 64 << 20;
}

impl Default for Limits {
    fn default() -> Self {
        Self { max_text_bytes: 4 << 30, max_expansion: 250, max_record_bytes: 16 << 20 }
    }
}

/// Largest size of a tensor or buffer, in bytes.
pub const MAX_BYTES: u64 = 1 << 62;

/// Largest alignment, in bytes.
pub const MAX_ALIGNMENT: u64 = 1 << 62;

/// What sizes, alignment padding and fixed offsets of one file stay below together, in bytes: offsets that a planner works
/// out can then be added up without a second thought.
pub const SUM_LIMIT: u64 = 1 << 63;

/// The sum, if it is below [`SUM_LIMIT`].
pub(crate) fn add_below_limit(sum: u64, bytes: u64) -> Option<u64> {
    sum.checked_add(bytes).filter(|&sum| sum < SUM_LIMIT)
}
