//! The report of memory taken from work that may still use it.

use crate::{AddressRange, Sequence, StreamId};
use std::fmt;

/// One use of memory by a stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Use {
    /// The stream whose work uses it.
    pub stream: StreamId,
    /// The entry of the stream's queue that does.
    pub sequence: Sequence,
    /// The addresses.
    pub range: AddressRange,
}

impl fmt::Display for Use {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "entry {} of {} on {}", self.sequence.0, self.stream, self.range)
    }
}

/// What the later use is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Later {
    /// Another block got the bytes and its first work was queued.
    Reuse(Use),
    /// The addresses were unmapped.
    Unmap(AddressRange),
    /// Plain memory was freed on a device whose free doesn't wait.
    Free(AddressRange),
    /// Memory of the driver's pool was freed in order of a stream that isn't ordered behind the use.
    PoolFree {
        /// The memory.
        range: AddressRange,
        /// The stream.
        stream: StreamId,
    },
}

/// Memory taken from work that may still use it, or work on memory that isn't there. A bug of the caller.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Violation {
    /// Two uses of the same bytes without an order between them.
    Unordered {
        /// The use that may not have finished.
        earlier: Use,
        /// The entries of its stream that had finished.
        finished: Sequence,
        /// The entries of its stream that the host knew to have finished.
        seen: Sequence,
        /// Where the later one is a stream's: the entries of the earlier stream that it waits for.
        waits_for: Option<Sequence>,
        /// What came too early.
        later: Later,
    },
    /// Work on addresses that hold no memory, or none that may be accessed.
    NoMemory {
        /// The use.
        used: Use,
        /// The first address without.
        at: u64,
    },
}

impl fmt::Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Violation::Unordered { earlier, finished, seen, waits_for, later } => {
                match later {
                    Later::Reuse(later) => write!(f, "{later} takes the bytes of ")?,
                    Later::Unmap(range) => write!(f, "unmapping {range} takes the addresses of ")?,
                    Later::Free(range) => write!(f, "freeing {range} takes the memory of ")?,
                    Later::PoolFree { range, stream } => {
                        write!(f, "freeing {range} in order of {stream} takes the memory of ")?;
                    }
                }
                write!(
                    f,
                    "{earlier}, which may still be running: {} had finished {} entries, the host had seen {} of them",
                    earlier.stream, finished.0, seen.0
                )?;
                let upto = waits_for.map_or(0, |upto| upto.0);
                match later {
                    Later::Reuse(Use { stream, .. }) | Later::PoolFree { stream, .. } => write!(
                        f,
                        ", and {stream} waits for the first {upto} only; make it wait for entry {}, or see it finish first",
                        earlier.sequence.0
                    ),
                    Later::Unmap(_) | Later::Free(_) => write!(f, "; wait for entry {} first", earlier.sequence.0),
                }
            }
            Violation::NoMemory { used, at } => {
                write!(f, "{used} finds no memory that may be accessed at {at:#x}")
            }
        }
    }
}
