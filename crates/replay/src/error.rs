//! Why a replay can't be made.

/// A replay that came to no figures. Running out of memory is not among them: that is an answer.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// A row names a block that isn't live, or gives a live block's id to another.
    #[error("row {row}: block {id} {fault}")]
    UnsoundTrace {
        /// Number of the row, from 0.
        row: u64,
        /// The block.
        id: u64,
        /// What is wrong with it.
        fault: &'static str,
    },
    /// The trace is about several devices, and none was chosen.
    #[error("the trace is about devices {first} and {second}; choose one")]
    SeveralDevices {
        /// One.
        first: u32,
        /// Another.
        second: u32,
    },
    /// More streams than can be told apart.
    #[error("row {row}: more than {most} streams")]
    TooManyStreams {
        /// Number of the row, from 0.
        row: u64,
        /// The limit.
        most: usize,
    },
    /// A setting that the real allocator refuses as well.
    #[error("{what}")]
    BadSetting {
        /// Which, and why.
        what: String,
    },
    /// A block held what it shouldn't: memory was handed out too early. A mistake of the allocator, and so of ours.
    #[error("row {row}: byte {offset} of the block is {found:#04x} instead of {expected:#04x}")]
    Contents {
        /// Number of the row that freed the block, from 0.
        row: u64,
        /// The byte, counted from the block's beginning.
        offset: u64,
        /// What was written.
        expected: u8,
        /// What was found.
        found: u8,
    },
    /// The allocator refused what it should not have.
    #[error("row {row}: {what}")]
    Allocator {
        /// Number of the row, from 0.
        row: u64,
        /// What it says.
        what: String,
    },
    /// Somebody who watches the log could not take more.
    #[error("the log: {what}")]
    Log {
        /// What they say.
        what: String,
    },
    /// The simulated device refused: a mistake of the policy, and so of ours.
    #[error("row {row}: {source}")]
    Device {
        /// Number of the row, from 0.
        row: u64,
        /// What the device says.
        source: device::Error,
    },
}

/// A result of this crate.
pub type Result<T> = std::result::Result<T, Error>;
