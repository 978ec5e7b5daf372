//! Reading.

use std::hash::BuildHasher;

use coloring::{Buffer, Gap, Problem};
use hashbrown::{DefaultHashBuilder, HashTable};
use lifetime::{Bytes, HalfStep, LiveRange, Offset};

use super::Column;
use crate::csv::{self, Header, Records, RowError, lossy, number, number_in};
use crate::error::{CsvProblem, GapFault};
use crate::input::Input;
use crate::limits::{MAX_ALIGNMENT, MAX_BYTES, add_below_limit};
use crate::{Error, Limits, NamedProblem, Result, document, gaps};

/// Whether the first record of `head` names two of the columns every file must have.
pub(crate) fn has_header(head: &[u8]) -> bool {
    csv::count_in_header(head, &["id", "lower", "upper", "size"]) >= 2
}

/// Reads all rows.
pub(crate) fn read(input: &mut Input<'_>, limits: &Limits) -> Result<NamedProblem> {
    let file = input.file().to_owned();
    let mut records = Records::new(&file, limits.max_record_bytes);
    if !records.advance(input)? {
        return Err(Error::Empty { file });
    }
    let header: Header<Column> = Header::new(&records)?;
    let mut rows = Rows::default();
    while records.advance(input)? {
        rows.push(&header, &records)
            .map_err(|(column, problem)| records.error(column.map(csv::Column::name), problem))?;
    }
    if rows.ids.is_empty() {
        return Err(records.error(None, CsvProblem::NoRows));
    }
    let (ids, zero_size) = rows
        .take_zero_sizes()
        .map_err(|line| records.error_at(line, Some(csv::Column::name(Column::Size)), CsvProblem::Zero))?;
    Ok(NamedProblem {
        name: document::stem(&file),
        ids,
        problem: Problem { buffers: rows.buffers, separations: Vec::new(), capacity: None },
        zero_size,
        ignored_columns: header.ignored,
    })
}

/// A row of size 0.
struct ZeroRow {
    row: u32,
    line: u64,
}

/// The rows so far.
#[derive(Default)]
struct Rows {
    ids: Vec<String>,
    buffers: Vec<Buffer>,
    hasher: DefaultHashBuilder,
    by_id: HashTable<u32>,
    /// Where the top would be if every buffer stood on top of the one before it, each moved up to its alignment.
    stacked: u64,
    /// Rows of size 0, which are among the identifiers but not among the buffers.
    zero_rows: Vec<ZeroRow>,
    /// Highest end of a buffer with a fixed offset. Solvers rely on `stacked + fixed_end` staying within 64 bits.
    fixed_end: u64,
}

impl Rows {
    fn push(&mut self, header: &Header<Column>, records: &Records) -> Result<(), RowError<Column>> {
        header.check_count(records)?;
        let lower = header.number_in(records, Column::Lower, 0..=u64::MAX)?;
        let upper = header.number_in(records, Column::Upper, 0..=u64::MAX)?;
        if upper <= lower {
            return Err((Some(Column::Upper), CsvProblem::EmptyRange { lower, upper }));
        }
        let size = header.number_in(records, Column::Size, 0..=MAX_BYTES)?;
        if size == 0 {
            return self.push_zero(header, records, upper - lower);
        }
        let mut buffer = Buffer::new(LiveRange::new(HalfStep(lower), HalfStep(upper)), Bytes(size));
        if let Some(field) = header.optional(records, Column::Alignment) {
            buffer.alignment = number_in(field, Column::Alignment, 1..=MAX_ALIGNMENT)?;
        }
        if let Some(field) = header.optional(records, Column::Offset) {
            let offset = number_in(field, Column::Offset, 0..=u64::MAX)?;
            let Some(end) = offset.checked_add(size) else {
                return Err((Some(Column::Offset), CsvProblem::EndOverflow { offset, size }));
            };
            if offset % buffer.alignment != 0 {
                let alignment = buffer.alignment;
                return Err((Some(Column::Offset), CsvProblem::Misaligned { offset, alignment }));
            }
            buffer.fixed = Some(Offset(offset));
            self.fixed_end = self.fixed_end.max(end);
        }
        if let Some(field) = header.optional(records, Column::Gaps) {
            buffer.gaps = read_gaps(field, &buffer).map_err(|problem| (Some(Column::Gaps), problem))?;
        }
        let padded = size.checked_add(buffer.alignment - 1);
        let stacked = padded.and_then(|padded| add_below_limit(self.stacked, padded));
        let Some(stacked) = stacked.filter(|&stacked| add_below_limit(stacked, self.fixed_end).is_some()) else {
            return Err((Some(Column::Size), CsvProblem::SumOverflow));
        };
        self.add_id(header.exact(records, Column::Id)).map_err(|problem| (Some(Column::Id), problem))?;
        self.stacked = stacked;
        self.buffers.push(buffer);
        Ok(())
    }

    /// Compilers make values of no bytes that nobody reads; anything else of size 0 is a mistake.
    fn push_zero(&mut self, header: &Header<Column>, records: &Records, moments: u64) -> Result<(), RowError<Column>> {
        if moments > 1 {
            return Err((Some(Column::Size), CsvProblem::Zero));
        }
        let row = self.ids.len() as u32;
        self.add_id(header.exact(records, Column::Id)).map_err(|problem| (Some(Column::Id), problem))?;
        self.zero_rows.push(ZeroRow { row, line: records.line() });
        Ok(())
    }

    /// The identifiers of the buffers and those of the rows of size 0; the line of the first of these if they are
    /// more than one row in a hundred, when it is the column that is wrong.
    fn take_zero_sizes(&mut self) -> Result<(Vec<String>, Vec<String>), u64> {
        let rows = self.ids.len();
        let ids = std::mem::take(&mut self.ids);
        match self.zero_rows.first() {
            None => return Ok((ids, Vec::new())),
            Some(first) if self.zero_rows.len() * 100 > rows => return Err(first.line),
            Some(_) => {}
        }
        let mut next = self.zero_rows.iter().map(|zero| zero.row).peekable();
        let (mut kept, mut zero) = (Vec::with_capacity(rows), Vec::new());
        for (id, row) in ids.into_iter().zip(0..) {
            if next.next_if_eq(&row).is_some() { zero.push(id) } else { kept.push(id) }
        }
        Ok((kept, zero))
    }

    fn add_id(&mut self, field: &[u8]) -> Result<(), CsvProblem> {
        let id = csv::text(field)?;
        let row = u32::try_from(self.ids.len()).map_err(|_| CsvProblem::TooManyRows(u64::from(u32::MAX)))?;
        let hash = self.hasher.hash_one(id);
        if let Some(&first) = self.by_id.find(hash, |&row| self.ids[row as usize] == id) {
            return Err(CsvProblem::DuplicateId { id: lossy(field), first_row: first as usize + 1 });
        }
        self.ids.push(id.to_owned());
        let (ids, hasher) = (&self.ids, &self.hasher);
        self.by_id.insert_unique(hash, row, |&row| hasher.hash_one(&ids[row as usize]));
        Ok(())
    }
}

/// Gaps as `lower-upper` or `lower-upper@from:to`, separated by white space.
fn read_gaps(field: &[u8], buffer: &Buffer) -> Result<Vec<Gap>, CsvProblem> {
    let mut gaps: Vec<Gap> = Vec::new();
    for text in field.split(u8::is_ascii_whitespace).filter(|text| !text.is_empty()) {
        let fault = |fault| CsvProblem::Gap { gap: lossy(text), fault };
        let gap = parse_gap(text).ok_or_else(|| fault(GapFault::Syntax))?;
        gaps::check(&gap, gaps.last(), buffer.range, buffer.size).map_err(fault)?;
        gaps.push(gap);
    }
    Ok(gaps)
}

/// `None` if the text is not of the form; the range may still be empty.
fn parse_gap(text: &[u8]) -> Option<Gap> {
    let split = |text: &[u8], mark: u8| -> Option<(u64, u64)> {
        let at = text.iter().position(|&b| b == mark)?;
        Some((number(&text[..at]).ok()?, number(&text[at + 1..]).ok()?))
    };
    let (range, kept) = match text.iter().position(|&b| b == b'@') {
        Some(at) => (&text[..at], Some(split(&text[at + 1..], b':')?)),
        None => (text, None),
    };
    let (birth, death) = split(range, b'-')?;
    Some(Gap {
        range: LiveRange { birth: HalfStep(birth), death: HalfStep(death) },
        kept: kept.map(|(from, to)| (Offset(from), Offset(to))),
    })
}
