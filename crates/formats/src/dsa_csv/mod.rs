//! Buffers with live ranges as CSV: `id,lower,upper,size`, in the spirit of MiniMalloc's files.
//!
//! `docs/formats.md` has the rules. Rows are read one by one; a record's length is bounded by a limit.

mod read;
mod write;

pub(crate) use read::{has_header, read};
pub use write::write_csv;

use crate::csv;

/// The columns that are looked at.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Column {
    Id,
    Lower,
    Upper,
    Size,
    Alignment,
    Offset,
    Gaps,
}

impl csv::Column for Column {
    const ALL: &'static [Self] =
        &[Self::Id, Self::Lower, Self::Upper, Self::Size, Self::Alignment, Self::Offset, Self::Gaps];
    const REQUIRED: &'static [Self] = &[Self::Id, Self::Lower, Self::Upper, Self::Size];

    fn name(self) -> &'static str {
        match self {
            Self::Id => "id",
            Self::Lower => "lower",
            Self::Upper => "upper",
            Self::Size => "size",
            Self::Alignment => "alignment",
            Self::Offset => "offset",
            Self::Gaps => "gaps",
        }
    }

    fn index(self) -> usize {
        self as usize
    }
}
