//! Reading.

use records::{NameId, Operation, Row, Trace};

use super::{Column, FREE_REQUESTED};
use crate::blocks::{Blocks, Place};
use crate::csv::{self, Header, Records, RowError, lossy, number, number_in};
use crate::error::CsvProblem;
use crate::input::Input;
use crate::limits::MAX_BYTES;
use crate::{Error, Limits, Result, document};

/// Whether the first record of `head` is a header of this format and of no other.
pub(crate) fn has_header(head: &[u8]) -> bool {
    let has = |name| csv::count_in_header(head, &[name]) > 0;
    has("op") && has("id") && !has("lower") && !has("upper")
}

/// Reads all rows. What a person should know of the file goes into `notes`.
pub(crate) fn read(input: &mut Input<'_>, limits: &Limits, notes: &mut Vec<String>) -> Result<Trace> {
    let file = input.file().to_owned();
    let mut records = Records::new(&file, limits.max_record_bytes);
    if !records.advance(input)? {
        return Err(Error::Empty { file });
    }
    let header: Header<Column> = Header::new(&records)?;
    let mut rows = Rows { trace: Trace { name: document::stem(&file), ..Trace::default() }, ..Rows::default() };
    while records.advance(input)? {
        rows.push(&header, &records)
            .map_err(|(column, problem)| records.error(column.map(csv::Column::name), problem))?;
    }
    let Rows { mut trace, .. } = rows;
    if trace.rows.is_empty() {
        return Err(records.error(None, CsvProblem::NoRows));
    }
    trace.comments = records.take_comments();
    header.note_ignored(notes);
    Ok(trace)
}

/// The rows so far.
#[derive(Default)]
struct Rows {
    trace: Trace,
    blocks: Blocks,
    /// Rows tend to have the tag of the row before them.
    last_tag: NameId,
}

impl Rows {
    fn push(&mut self, header: &Header<Column>, records: &Records) -> Result<(), RowError<Column>> {
        header.check_count(records)?;
        if self.trace.rows.len() >= u32::MAX as usize {
            return Err((None, CsvProblem::TooManyRows(u64::from(u32::MAX))));
        }
        let (operation, is_request) = operation(header.required(records, Column::Op))?;
        let field = |column| header.optional(records, column);
        let u32_in = |column| match field(column) {
            Some(field) => number_in(field, column, 0..=u64::from(u32::MAX)).map(|number| number as u32),
            None => Ok(0),
        };
        let (id, word) = id(operation, header.required(records, Column::Id))?;
        let bytes = match field(Column::Bytes) {
            None if operation != Operation::Alloc => 0,
            field => number_in(field.unwrap_or_default(), Column::Bytes, 0..=MAX_BYTES)?,
        };
        let mut row = Row {
            operation,
            id,
            bytes,
            stream: stream(operation, field(Column::Stream))?,
            device: u32_in(Column::Device)?,
            thread: u32_in(Column::Thread)?,
            time_ns: time(header, records)?,
            ..Row::default()
        };
        let tag = header.exact(records, Column::Tag);
        row.tag = self.tag(tag, word)?;
        self.follow(&mut row, is_request, Place::Line(records.line()))?;
        self.trace.rows.push(row);
        Ok(())
    }

    /// The tag, after the word that stands for the id of a step or mark if there is one.
    fn tag(&mut self, field: &[u8], word: Option<&str>) -> Result<NameId, RowError<Column>> {
        let tag = csv::text(field).map_err(|problem| (Some(Column::Tag), problem))?;
        let Some(word) = word else {
            if self.trace.names.get(self.last_tag) != tag {
                self.last_tag = self.trace.names.intern(tag);
            }
            return Ok(self.last_tag);
        };
        Ok(match tag {
            "" => self.trace.names.intern(word),
            tag => self.trace.names.intern(&format!("{word} {tag}")),
        })
    }

    /// Checks what the row does to its block; of a `free` it depends on the block which one it is.
    fn follow(&mut self, row: &mut Row, is_request: bool, place: Place) -> Result<(), RowError<Column>> {
        let result = match row.operation {
            Operation::Free if is_request => self.blocks.request_free(row.id, place),
            Operation::Free => self.blocks.free(row.id, place).map(|operation| row.operation = operation),
            _ => self.blocks.follow(row, place),
        };
        result.map_err(|fault| (Some(fault.pick(Column::Id, Column::Bytes)), CsvProblem::Block(fault)))
    }
}

/// The operation, and whether it is a free that will be followed by its `free`.
fn operation(field: &[u8]) -> Result<(Operation, bool), RowError<Column>> {
    if field == FREE_REQUESTED.as_bytes() {
        return Ok((Operation::Free, true));
    }
    let known = Operation::ALL.into_iter().find(|operation| operation.name().as_bytes() == field);
    match known {
        Some(operation) => Ok((operation, false)),
        None => {
            let names: Vec<&str> = Operation::ALL.iter().map(|known| known.name()).chain([FREE_REQUESTED]).collect();
            let problem = CsvProblem::UnknownOperation { word: lossy(field), known: names.join(", ") };
            Err((Some(Column::Op), problem))
        }
    }
}

/// What the `id` of a row stands for, as a number; and the word it is, if it is one.
fn id(operation: Operation, field: &[u8]) -> Result<(u64, Option<&str>), RowError<Column>> {
    use Operation as Op;
    let id = match operation {
        Op::Wait => number_in(field, Column::Id, 0..=i64::MAX as u64)?,
        Op::Work | Op::Sync | Op::OutOfMemory | Op::Snapshot if field.is_empty() => 0,
        Op::SegmentAlloc | Op::SegmentFree => match field.strip_prefix(b"s") {
            Some(digits) => {
                csv::hexadecimal(digits).ok_or_else(|| (Some(Column::Id), CsvProblem::NotAnAddress(lossy(field))))?
            }
            None => number_in(field, Column::Id, 0..=u64::MAX)?,
        },
        Op::Step | Op::Mark => {
            let word = csv::text(field).map_err(|problem| (Some(Column::Id), problem))?;
            let first = field.split(u8::is_ascii_whitespace).next().unwrap_or_default();
            let id = number(first).unwrap_or(0);
            let is_number = word.is_empty() || number(field).is_ok();
            return Ok((id, Some(word).filter(|_| !is_number)));
        }
        _ => number_in(field, Column::Id, 0..=u64::MAX)?,
    };
    Ok((id, None))
}

fn stream(operation: Operation, field: Option<&[u8]>) -> Result<i64, RowError<Column>> {
    match field {
        None => Ok(0),
        Some(b"-1") if operation == Operation::Sync => Ok(Row::ALL_STREAMS),
        Some(field) => match number(field).ok().and_then(|number| i64::try_from(number).ok()) {
            Some(stream) => Ok(stream),
            None => Err((Some(Column::Stream), CsvProblem::NotAStream(lossy(field)))),
        },
    }
}

/// The row's time in ns; 0 if it has none.
fn time(header: &Header<Column>, records: &Records) -> Result<u64, RowError<Column>> {
    if let Some(field) = header.optional(records, Column::TimeNs) {
        return number_in(field, Column::TimeNs, 0..=u64::MAX);
    }
    match header.optional(records, Column::TimeUs) {
        None => Ok(0),
        Some(field) => csv::decimal(field, 3).ok_or_else(|| (Some(Column::TimeUs), CsvProblem::NotATime(lossy(field)))),
    }
}
