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
    /// Most events of a memory snapshot, on all devices together; each takes some 100 bytes while it is read. 2^24 by
    /// default.
    pub max_events: u64,
    /// Most entries of a pickle's memo, and most of its lists and dicts; 16 bytes each. 2^25 by default.
    pub max_memo_entries: u64,
    /// Most values on a pickle's stack, and most in those of its lists and dicts that aren't events; 16 bytes each. 2^24
    /// by default.
    pub max_values: u64,
    /// Most bytes of text in a pickle, equal texts counted once. 256 MiB by default.
    pub max_name_bytes: u64,
    /// Most lists and dicts in one another in a pickle. 64 by default; snapshots have 6.
    pub max_nesting: u64,
}

impl Limits {
    /// Text up to here is never called a bomb.
    pub(crate) const FREE_TEXT_BYTES: u64 = 64 << 20;
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            max_text_bytes: 4 << 30,
            max_expansion: 250,
            max_record_bytes: 16 << 20,
            max_events: 1 << 24,
            max_memo_entries: 1 << 25,
            max_values: 1 << 24,
            max_name_bytes: 256 << 20,
            max_nesting: 64,
        }
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
