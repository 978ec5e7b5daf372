//! What can be wrong with a problem or a plan.

use lifetime::Bytes;

/// Why a problem was refused. Buffers are named by their number.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The system gave no threads to plan on.
    #[error("no threads to plan on: {reason}; the process may have as many as it is allowed (ulimit -u)")]
    NoThreads {
        /// What the system said.
        reason: String,
    },
    /// A buffer needs no bytes at all.
    #[error("buffer {buffer} has size 0; leave buffers without bytes out")]
    EmptyBuffer {
        /// Number of the buffer.
        buffer: usize,
    },
    /// A live range that ends no later than it begins.
    #[error("buffer {buffer} has an empty live range [{birth}, {death})")]
    EmptyRange {
        /// Number of the buffer.
        buffer: usize,
        /// Where the range begins.
        birth: u64,
        /// Where it ends.
        death: u64,
    },
    /// An alignment of 0.
    #[error("buffer {buffer} has alignment 0")]
    ZeroAlignment {
        /// Number of the buffer.
        buffer: usize,
    },
    /// A fixed offset that isn't a multiple of the alignment.
    #[error("buffer {buffer} is fixed at offset {offset}, which is not a multiple of its alignment {alignment}")]
    MisalignedFixed {
        /// Number of the buffer.
        buffer: usize,
        /// The offset asked for.
        offset: u64,
        /// The alignment asked for.
        alignment: u64,
    },
    /// A gap outside the live range, out of order, or keeping bytes that the buffer doesn't have.
    #[error("gap {gap} of buffer {buffer} {reason}")]
    BadGap {
        /// Number of the buffer.
        buffer: usize,
        /// Which of its gaps.
        gap: usize,
        /// What is wrong with it.
        reason: &'static str,
    },
    /// A pair of `separations` that isn't two different numbers, the smaller first, sorted.
    #[error("separation {index} ({first}, {second}) is out of range, out of order or repeated")]
    BadSeparation {
        /// Position in the list.
        index: usize,
        /// First of the pair.
        first: u32,
        /// Second of the pair.
        second: u32,
    },
    /// Two conflicting buffers are fixed on the same bytes.
    #[error("buffers {first} and {second} are fixed on overlapping bytes while both are live")]
    FixedOverlap {
        /// Number of one buffer.
        first: usize,
        /// Number of the other.
        second: usize,
    },
    /// Sizes, alignment padding and fixed offsets whose sum can't be addressed.
    #[error("sizes, alignment padding and fixed offsets add up to 2^63 bytes or more, beyond what offsets can address")]
    TooLarge,
    /// More buffers than numbers for them.
    #[error("{count} buffers are more than the planner can number (2^32 - 2)")]
    TooMany {
        /// How many there are.
        count: usize,
    },
    /// An invariant of this crate did not hold.
    #[error("internal error: {what}")]
    Internal {
        /// The invariant.
        what: String,
    },
}

/// A defect that [`verify`](crate::verify) found in a plan.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Defect {
    /// The plan's lists don't have one entry a buffer.
    #[error("{offsets} offsets for {buffers} buffers")]
    Count {
        /// How many offsets there are.
        offsets: usize,
        /// How many buffers.
        buffers: usize,
    },
    /// Two conflicting buffers share bytes.
    #[error("buffers {first} and {second} overlap in [{from}, {to}) bytes{}", at.map(|t| format!(" at moment {t}")).unwrap_or_default())]
    Overlap {
        /// Number of the one that was there first.
        first: usize,
        /// Number of the other.
        second: usize,
        /// First shared byte.
        from: u64,
        /// End of the shared bytes.
        to: u64,
        /// A moment at which both hold them; none for a pair that is separated by streams.
        at: Option<u64>,
    },
    /// An offset that isn't a multiple of the alignment.
    #[error("buffer {buffer} at offset {offset} is not aligned to {alignment}")]
    Misaligned {
        /// Number of the buffer.
        buffer: usize,
        /// Where it lies.
        offset: u64,
        /// What was asked for.
        alignment: u64,
    },
    /// A fixed buffer lies elsewhere.
    #[error("buffer {buffer} is fixed at offset {wanted} but lies at {offset}")]
    Moved {
        /// Number of the buffer.
        buffer: usize,
        /// Where it lies.
        offset: u64,
        /// Where it must lie.
        wanted: u64,
    },
    /// A buffer's end can't be addressed.
    #[error("buffer {buffer} at offset {offset} ends beyond 2^64")]
    Overflow {
        /// Number of the buffer.
        buffer: usize,
        /// Where it lies.
        offset: u64,
    },
    /// The stated peak isn't the highest end.
    #[error("the plan states a peak of {stated:?} but its highest end is {found:?}")]
    Peak {
        /// What the plan says.
        stated: Bytes,
        /// What it is.
        found: Bytes,
    },
    /// The stated load or bound isn't what the buffers say.
    #[error("the plan states a {what} of {stated:?} but it is {found:?}")]
    Bound {
        /// Which figure.
        what: &'static str,
        /// What the plan says.
        stated: Bytes,
        /// What it is.
        found: Bytes,
    },
    /// The stated status contradicts the figures.
    #[error("the plan claims to be {claimed} but {because}")]
    Status {
        /// The status stated.
        claimed: &'static str,
        /// What contradicts it.
        because: String,
    },
    /// The buffers themselves are refused.
    #[error(transparent)]
    Problem(#[from] Error),
}
