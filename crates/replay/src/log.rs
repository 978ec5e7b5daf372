//! What a replay tells as it goes.

/// Something that happened in a replay.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum LogEntry<'a> {
    /// A request was served.
    Alloc {
        /// Number of its row in the trace, from 0.
        row: u64,
        /// The block.
        id: u64,
        /// Where it lies.
        address: u64,
        /// Bytes asked for.
        bytes: u64,
        /// The stream that asked, as the trace numbers it.
        stream: i64,
        /// Streams that this one was made to wait for, as the trace numbers them.
        waits: &'a [i64],
    },
    /// Addresses got memory.
    Map {
        /// Number of the row at which it happened.
        row: u64,
        /// Number of the memory; a plain segment counts as memory of its own.
        handle: u64,
        /// First address.
        address: u64,
        /// How many bytes.
        bytes: u64,
    },
    /// Addresses lost their memory.
    Unmap {
        /// Number of the row at which it happened.
        row: u64,
        /// Number of the memory.
        handle: u64,
        /// First address.
        address: u64,
        /// How many bytes.
        bytes: u64,
    },
}

/// Somebody who wants to know what a replay does.
pub trait Observer {
    /// Something happened.
    ///
    /// # Errors
    /// Why no more can be taken, in words: the replay ends there.
    fn entry(&mut self, _entry: &LogEntry<'_>) -> Result<(), String> {
        Ok(())
    }

    /// Whether [`entry`](Self::entry) wants to be called at all.
    fn wants_entries(&self) -> bool {
        false
    }

    /// So many rows of all passes are done. Called now and then.
    fn rows_done(&mut self, _rows: u64) {}
}

/// Nobody.
impl Observer for () {}
