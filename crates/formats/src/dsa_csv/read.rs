//! Reading.

use std::hash::BuildHasher;
use std::io::BufRead;

use coloring::{Buffer, Gap, Problem};
use csv_core::ReadRecordResult;
use hashbrown::{DefaultHashBuilder, HashTable};
use lifetime::{Bytes, HalfStep, LiveRange, Offset};

use super::Column;
use crate::error::{CsvError, CsvProblem, GapFault};
use crate::input::Input;
use crate::limits::{MAX_ALIGNMENT, MAX_BYTES, add_below_limit};
use crate::{Error, Limits, NamedProblem, Result, document, gaps};

/// Whether the first record of `head` names two of the columns every file must have.
pub(crate) fn has_header(head: &[u8]) -> bool {
    let lines = head.split(|&b| b == b'\n').map(<[u8]>::trim_ascii);
    let Some(first) = lines.into_iter().find(|line| !line.is_empty() && !line.starts_with(b"#")) else {
        return false;
    };
    first
        .split(|&b| b == b',')
        .map(<[u8]>::trim_ascii)
        .map(|field| field.strip_prefix(b"\"").and_then(|f| f.strip_suffix(b"\"")).unwrap_or(field))
        .filter(|field| Column::REQUIRED.into_iter().any(|column| column.name().as_bytes() == *field))
        .nth(1)
        .is_some()
}

/// Reads all rows.
pub(crate) fn read(input: &mut Input<'_>, limits: &Limits) -> Result<NamedProblem> {
    let file = input.file().to_owned();
    let mut records = Records::new(limits.max_record_bytes);
    let at = |line, column: Option<&str>, problem| {
        Error::Csv(Box::new(CsvError { file: file.clone(), line, column: column.map(str::to_owned), problem }))
    };
    if !records.advance(input, &at)? {
        return Err(Error::Empty { file: file.clone() });
    }
    let header = Header::new(&records).map_err(|(column, problem)| at(records.line, column.as_deref(), problem))?;
    let mut rows = Rows::default();
    while records.advance(input, &at)? {
        rows.push(&header, &records)
            .map_err(|(column, problem)| at(records.line, column.map(Column::name), problem))?;
    }
    if rows.ids.is_empty() {
        return Err(at(records.line, None, CsvProblem::NoRows));
    }
    let (ids, zero_size) =
        rows.take_zero_sizes().map_err(|line| at(line, Some(Column::Size.name()), CsvProblem::Zero))?;
    Ok(NamedProblem {
        name: document::stem(&file),
        ids,
        problem: Problem { buffers: rows.buffers, separations: Vec::new(), capacity: None },
        zero_size,
        ignored_columns: header.ignored,
    })
}

/// One record after the other, each in the same memory.
struct Records {
    core: csv_core::Reader,
    bytes: Vec<u8>,
    ends: Vec<usize>,
    fields: usize,
    /// Line on which the current record starts, from 1.
    line: u64,
    max_bytes: usize,
}

impl Records {
    fn new(max_bytes: usize) -> Self {
        let core = csv_core::ReaderBuilder::new().comment(Some(b'#')).build();
        Self { core, bytes: vec![0; 1024], ends: vec![0; 16], fields: 0, line: 1, max_bytes }
    }

    /// Goes to the next record; false when there is none.
    fn advance(&mut self, input: &mut Input<'_>, at: &impl Fn(u64, Option<&str>, CsvProblem) -> Error) -> Result<bool> {
        let (mut used, mut fields) = (0, 0);
        loop {
            let chunk = match input.fill_buf() {
                Ok(chunk) => chunk,
                Err(source) => {
                    let file = input.file().to_owned();
                    return Err(input.failure().unwrap_or(Error::Io { file, action: "read", source }));
                }
            };
            let (result, taken, written, ended) =
                self.core.read_record(chunk, &mut self.bytes[used..], &mut self.ends[fields..]);
            let past_line_feed = taken > 0 && chunk[taken - 1] == b'\n';
            input.consume(taken);
            used += written;
            fields += ended;
            match result {
                ReadRecordResult::InputEmpty => {}
                ReadRecordResult::OutputFull if self.bytes.len() >= self.max_bytes => {
                    return Err(at(self.core.line(), None, CsvProblem::RecordTooLong(self.max_bytes)));
                }
                ReadRecordResult::OutputFull => {
                    self.bytes.resize((self.bytes.len() * 2).min(self.max_bytes), 0);
                }
                ReadRecordResult::OutputEndsFull if self.ends.len() >= self.max_bytes => {
                    return Err(at(self.core.line(), None, CsvProblem::RecordTooLong(self.max_bytes)));
                }
                ReadRecordResult::OutputEndsFull => self.ends.resize(self.ends.len() * 2, 0),
                ReadRecordResult::Record => {
                    self.fields = fields;
                    // The core counts the line feeds it has passed, this record's own among them.
                    let inside = self.bytes[..used].iter().filter(|&&b| b == b'\n').count() as u64;
                    self.line = self.core.line().saturating_sub(u64::from(past_line_feed) + inside).max(1);
                    return Ok(true);
                }
                ReadRecordResult::End => return Ok(false),
            }
        }
    }

    /// A field as it stands, white space included.
    fn exact_field(&self, index: usize) -> &[u8] {
        let start = if index == 0 { 0 } else { self.ends[index - 1] };
        &self.bytes[start..self.ends[index]]
    }

    fn field(&self, index: usize) -> &[u8] {
        self.exact_field(index).trim_ascii()
    }
}

fn lossy(field: &[u8]) -> String {
    const SHOWN: usize = 100;
    let text = String::from_utf8_lossy(&field[..field.len().min(SHOWN)]);
    let dots = if field.len() > SHOWN { "..." } else { "" };
    format!("{}{dots}", text.escape_debug())
}

/// Which field holds which column.
struct Header {
    position: [Option<usize>; Column::ALL.len()],
    fields: usize,
    ignored: Vec<String>,
}

impl Header {
    fn new(records: &Records) -> Result<Self, (Option<String>, CsvProblem)> {
        let mut header = Self { position: [None; Column::ALL.len()], fields: records.fields, ignored: Vec::new() };
        for index in 0..records.fields {
            let Some(column) = Column::from_name(records.field(index)) else {
                header.ignored.push(lossy(records.field(index)));
                continue;
            };
            if header.position[column as usize].replace(index).is_some() {
                return Err((Some(column.name().to_owned()), CsvProblem::DuplicateColumn));
            }
        }
        match Column::REQUIRED.into_iter().find(|&column| header.position[column as usize].is_none()) {
            Some(missing) => Err((None, CsvProblem::MissingColumn(missing.name()))),
            None => Ok(header),
        }
    }

    /// The field in `column`; `None` if the header doesn't have it or the field is empty.
    fn optional<'a>(&self, records: &'a Records, column: Column) -> Option<&'a [u8]> {
        self.position[column as usize].map(|index| records.field(index)).filter(|field| !field.is_empty())
    }

    fn required<'a>(&self, records: &'a Records, column: Column) -> &'a [u8] {
        self.optional(records, column).unwrap_or_default()
    }

    fn id<'a>(&self, records: &'a Records) -> &'a [u8] {
        self.position[Column::Id as usize].map(|index| records.exact_field(index)).unwrap_or_default()
    }
}

type RowError = (Option<Column>, CsvProblem);

fn number(field: &[u8]) -> Result<u64, CsvProblem> {
    let digits = !field.is_empty() && field.iter().all(u8::is_ascii_digit);
    let value = std::str::from_utf8(field).ok().filter(|_| digits).and_then(|text| text.parse().ok());
    value.ok_or_else(|| CsvProblem::NotANumber(lossy(field)))
}

fn number_in(field: &[u8], column: Column, range: std::ops::RangeInclusive<u64>) -> Result<u64, RowError> {
    let value = number(field).map_err(|problem| (Some(column), problem))?;
    match value {
        0 if *range.start() > 0 => Err((Some(column), CsvProblem::Zero)),
        _ if value > *range.end() => Err((Some(column), CsvProblem::TooLarge { value, max: *range.end() })),
        _ => Ok(value),
    }
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
    fn push(&mut self, header: &Header, records: &Records) -> Result<(), RowError> {
        if records.fields != header.fields {
            return Err((None, CsvProblem::FieldCount { expected: header.fields, found: records.fields }));
        }
        let lower = number_in(header.required(records, Column::Lower), Column::Lower, 0..=u64::MAX)?;
        let upper = number_in(header.required(records, Column::Upper), Column::Upper, 0..=u64::MAX)?;
        if upper <= lower {
            return Err((Some(Column::Upper), CsvProblem::EmptyRange { lower, upper }));
        }
        let size = number_in(header.required(records, Column::Size), Column::Size, 0..=MAX_BYTES)?;
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
        self.add_id(header.id(records)).map_err(|problem| (Some(Column::Id), problem))?;
        self.stacked = stacked;
        self.buffers.push(buffer);
        Ok(())
    }

    /// Compilers make values of no bytes that nobody reads; anything else of size 0 is a mistake.
    fn push_zero(&mut self, header: &Header, records: &Records, moments: u64) -> Result<(), RowError> {
        if moments > 1 {
            return Err((Some(Column::Size), CsvProblem::Zero));
        }
        let row = self.ids.len() as u32;
        self.add_id(header.id(records)).map_err(|problem| (Some(Column::Id), problem))?;
        self.zero_rows.push(ZeroRow { row, line: records.line });
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
        let id = std::str::from_utf8(field).map_err(|_| CsvProblem::NotUtf8(lossy(field)))?;
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
