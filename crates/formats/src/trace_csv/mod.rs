//! What a program asked for, as CSV: one operation a row, `op,id,bytes,stream` and what else the header names.
//!
//! `docs/formats.md` has the rules. Rows are read one by one; a record's length is bounded by a limit.

mod read;
mod write;

pub(crate) use read::{has_header, read};
pub use write::write_trace_csv;

use crate::csv;

/// The columns that are looked at.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Column {
    Op,
    Id,
    Bytes,
    Stream,
    Device,
    Thread,
    Tag,
    TimeNs,
    TimeUs,
}

impl csv::Column for Column {
    const ALL: &'static [Self] = &[
        Self::Op,
        Self::Id,
        Self::Bytes,
        Self::Stream,
        Self::Device,
        Self::Thread,
        Self::Tag,
        Self::TimeNs,
        Self::TimeUs,
    ];
    const REQUIRED: &'static [Self] = &[Self::Op, Self::Id, Self::Bytes];

    fn name(self) -> &'static str {
        match self {
            Self::Op => "op",
            Self::Id => "id",
            Self::Bytes => "bytes",
            Self::Stream => "stream",
            Self::Device => "device",
            Self::Thread => "thread",
            Self::Tag => "tag",
            Self::TimeNs => "time_ns",
            Self::TimeUs => "time_us",
        }
    }

    fn index(self) -> usize {
        self as usize
    }
}

/// What a file in which frees come in pairs calls the first of each; the second one is `free` there.
const FREE_REQUESTED: &str = "free_requested";
