//! What can be wrong with a snapshot.

use std::fmt;

use crate::error::Tame;

/// A place in a snapshot and what is wrong there.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SnapshotError {
    /// The file.
    pub file: String,
    /// Bytes of the text before the opcode at which it was seen.
    pub offset: u64,
    /// The value, as in `device_traces[0][17].addr`; empty where the pickle itself is broken.
    pub place: String,
    /// What is wrong.
    pub problem: SnapshotProblem,
}

impl std::error::Error for SnapshotError {}

impl fmt::Display for SnapshotError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        use fmt::Write as _;
        write!(f, "{}: byte {}: ", self.file, self.offset)?;
        let mut out = Tame::new(f);
        if !self.place.is_empty() {
            write!(out, "{}: ", self.place)?;
        }
        write!(out, "{}", self.problem)
    }
}

/// What is wrong with a snapshot.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum SnapshotProblem {
    /// An opcode that makes Python import, build or run something.
    #[error("opcode {name} would import, build or run something; a memory snapshot holds plain values only")]
    Code {
        /// Its name.
        name: &'static str,
    },
    /// An opcode of pickle protocols 0 and 1, which no snapshot is written in.
    #[error("opcode {name} is of an older pickle protocol; protocols 2 to 5 are read")]
    OldOpcode {
        /// Its name.
        name: &'static str,
    },
    /// A byte that is no opcode.
    #[error("0x{byte:02x} is not a pickle opcode")]
    UnknownOpcode {
        /// The byte.
        byte: u8,
    },
    /// A protocol that isn't read.
    #[error("pickle protocol {0}; protocols 2 to 5 are read")]
    Protocol(u8),
    /// The pickle ends before its STOP.
    #[error("the pickle is cut off; was the file copied completely?")]
    CutOff,
    /// An opcode that takes more values than there are.
    #[error("opcode {name} takes values that aren't there")]
    Underflow {
        /// Its name.
        name: &'static str,
    },
    /// An opcode that takes what lies above a mark, and there is none.
    #[error("opcode {name} needs a MARK and there is none")]
    NoMark {
        /// Its name.
        name: &'static str,
    },
    /// An opcode applied to what it can't change.
    #[error("opcode {name} is applied to {found}")]
    WrongTarget {
        /// Its name.
        name: &'static str,
        /// What it is applied to.
        found: &'static str,
    },
    /// A container changed after it became part of another: it would contain itself, or isn't built as picklers do.
    #[error("opcode {name} changes a list or dict that is already part of another; does it contain itself?")]
    Changed {
        /// Its name.
        name: &'static str,
    },
    /// A memo entry that was never made.
    #[error("memo entry {0} was never made")]
    NoMemo(u64),
    /// SETITEMS with a key and no value.
    #[error("a dict's last key has no value")]
    OddItems,
    /// A length below 0.
    #[error("a length of {0}")]
    NegativeLength(i64),
    /// More of something than [`Limits`](crate::Limits) allow.
    #[error("more than {limit} {what}")]
    TooMany {
        /// Of what.
        what: &'static str,
        /// The limit.
        limit: u64,
    },
    /// Containers in containers beyond [`Limits::max_nesting`](crate::Limits::max_nesting).
    #[error("lists and dicts are nested more than {limit} deep")]
    TooDeep {
        /// The limit.
        limit: u64,
    },
    /// A pickle that holds something else.
    #[error("a pickle, but not a memory snapshot: it holds {found}")]
    NotASnapshot {
        /// What it holds.
        found: &'static str,
    },
    /// A value that has to be there.
    #[error("missing")]
    Missing,
    /// Something else was expected.
    #[error("expected {expected}, found {found}")]
    Expected {
        /// What was expected.
        expected: &'static str,
        /// What was found.
        found: &'static str,
    },
    /// A number below 0.
    #[error("{0} is negative")]
    Negative(i64),
    /// A number beyond what it may be.
    #[error("{value} is above the limit of {max}")]
    TooLarge {
        /// The number; `more than 2^64 - 1` where it is.
        value: String,
        /// The limit.
        max: u64,
    },
    /// A state of a block that isn't known.
    #[error("state `{0}` is unknown")]
    UnknownState(String),
    /// A part that can stand in one place only.
    #[error("the same {0} stands in the file twice")]
    UsedTwice(&'static str),
}
