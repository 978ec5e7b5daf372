//! What RMM's logging resource adaptor writes: `Thread,Time,Action,Pointer,Size,Stream`.
//!
//! RMM has changed how it spells things: pointers and streams come with and without `0x`, null as `(nil)`, threads as
//! numbers of the system or of the library. `docs/formats.md` has the rules.

use hashbrown::HashMap;
use records::{Operation, Row, Trace};

use crate::blocks::{Blocks, Place};
use crate::csv::{self, Header, Records, RowError, lossy, number};
use crate::error::CsvProblem;
use crate::input::Input;
use crate::limits::MAX_BYTES;
use crate::{Error, Limits, Result, document};

/// The columns that are looked at.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Column {
    Thread,
    Time,
    Action,
    Pointer,
    Size,
    Stream,
}

impl csv::Column for Column {
    const ALL: &'static [Self] = &[Self::Thread, Self::Time, Self::Action, Self::Pointer, Self::Size, Self::Stream];
    const REQUIRED: &'static [Self] = &[Self::Action, Self::Pointer, Self::Size];

    fn name(self) -> &'static str {
        match self {
            Self::Thread => "Thread",
            Self::Time => "Time",
            Self::Action => "Action",
            Self::Pointer => "Pointer",
            Self::Size => "Size",
            Self::Stream => "Stream",
        }
    }

    fn index(self) -> usize {
        self as usize
    }
}

const DAY_NS: u64 = 24 * 60 * 60 * 1_000_000_000;

/// Whether the first record of `head` is such a log's header.
pub(crate) fn has_header(head: &[u8]) -> bool {
    csv::count_in_header(head, &["Action", "Pointer"]) >= 2
}

/// Reads all rows. What a person should know of the file goes into `notes`.
pub(crate) fn read(input: &mut Input<'_>, limits: &Limits, notes: &mut Vec<String>) -> Result<Trace> {
    let file = input.file().to_owned();
    let mut records = Records::new(&file, limits.max_record_bytes);
    if !records.advance(input)? {
        return Err(Error::Empty { file });
    }
    let header: Header<Column> = Header::new(&records)?;
    let mut log = Log::default();
    while records.advance(input)? {
        log.push(&header, &records)
            .map_err(|(column, problem)| records.error(column.map(csv::Column::name), problem))?;
    }
    let mut trace = Trace { name: document::stem(&file), rows: log.rows, ..Trace::default() };
    if trace.rows.is_empty() {
        return Err(records.error(None, CsvProblem::NoRows));
    }
    trace.comments = records.take_comments();
    trace.number_streams();
    header.note_ignored(notes);
    Ok(trace)
}

/// The rows so far.
#[derive(Default)]
struct Log {
    rows: Vec<Row>,
    /// By address.
    blocks: Blocks,
    /// The id of the block that has or had an address.
    ids: HashMap<u64, u64>,
    next_id: u64,
    /// Threads whose numbers don't fit.
    threads: HashMap<u64, u32>,
    /// Of the last row that had a time of day.
    last_time_ns: Option<u64>,
}

impl Log {
    fn push(&mut self, header: &Header<Column>, records: &Records) -> Result<(), RowError<Column>> {
        header.check_count(records)?;
        if self.rows.len() >= u32::MAX as usize {
            return Err((None, CsvProblem::TooManyRows(u64::from(u32::MAX))));
        }
        let operation = operation(header.required(records, Column::Action))?;
        let pointer = header.required(records, Column::Pointer);
        let address =
            address(pointer).ok_or_else(|| (Some(Column::Pointer), CsvProblem::NotAnAddress(lossy(pointer))))?;
        let bytes = header.number_in(records, Column::Size, 0..=MAX_BYTES)?;
        let stream = header.optional(records, Column::Stream).unwrap_or(b"0");
        let mut row = Row {
            operation,
            bytes,
            // Numbered below, whatever it is.
            stream: address_of_stream(stream)? as i64,
            thread: self.thread(header.optional(records, Column::Thread).unwrap_or(b"0"))?,
            time_ns: self.time(header.optional(records, Column::Time).unwrap_or(b"0"))?,
            ..Row::default()
        };
        // A request of no bytes gets no memory, and every one of them gets the same none.
        if address == 0 && operation != Operation::OutOfMemory {
            return Ok(());
        }
        let of_block = |fault: crate::BlockFault| {
            let column = fault.pick(Column::Pointer, Column::Size);
            (Some(column), CsvProblem::Pointer { pointer: lossy(pointer), fault })
        };
        let place = Place::Line(records.line());
        self.blocks.follow(&Row { id: address, ..row }, place).map_err(of_block)?;
        row.id = match operation {
            Operation::Alloc => {
                self.next_id += 1;
                self.ids.insert(address, self.next_id - 1);
                self.next_id - 1
            }
            Operation::Free => self.ids.get(&address).copied().unwrap_or_default(),
            _ => 0,
        };
        self.rows.push(row);
        Ok(())
    }

    /// A thread's number; those of the C library, which are addresses, are counted from above.
    fn thread(&mut self, field: &[u8]) -> Result<u32, RowError<Column>> {
        let thread = number(field).map_err(|problem| (Some(Column::Thread), problem))?;
        let next = u32::MAX - self.threads.len() as u32;
        Ok(u32::try_from(thread).unwrap_or_else(|_| *self.threads.entry(thread).or_insert(next)))
    }

    /// Time of day, counted on over midnights; or seconds.
    fn time(&mut self, field: &[u8]) -> Result<u64, RowError<Column>> {
        let not_a_time = || (Some(Column::Time), CsvProblem::NotATime(lossy(field)));
        let time_ns = time_of_day(field).or_else(|| csv::decimal(field, 9)).ok_or_else(not_a_time)?;
        if !field.contains(&b':') {
            return Ok(time_ns);
        }
        // The day that brings it closest to the row before: threads may write a little late, even over midnight.
        let last_ns = self.last_time_ns.unwrap_or(time_ns);
        let today_ns = (last_ns / DAY_NS * DAY_NS).checked_add(time_ns).ok_or_else(not_a_time)?;
        let time_ns = if today_ns.saturating_add(DAY_NS / 2) < last_ns {
            today_ns.checked_add(DAY_NS).ok_or_else(not_a_time)?
        } else if today_ns > last_ns.saturating_add(DAY_NS / 2) {
            today_ns.saturating_sub(DAY_NS)
        } else {
            today_ns
        };
        self.last_time_ns = Some(time_ns);
        Ok(time_ns)
    }
}

fn operation(field: &[u8]) -> Result<Operation, RowError<Column>> {
    match field {
        b"allocate" => Ok(Operation::Alloc),
        b"free" | b"deallocate" => Ok(Operation::Free),
        b"allocate failure" => Ok(Operation::OutOfMemory),
        _ => {
            let known = "allocate, free, deallocate, allocate failure".to_owned();
            Err((Some(Column::Action), CsvProblem::UnknownOperation { word: lossy(field), known }))
        }
    }
}

/// A pointer as programs print it.
fn address(field: &[u8]) -> Option<u64> {
    match field {
        b"(nil)" | b"(null)" => Some(0),
        field => csv::hexadecimal(field.strip_prefix(b"0x").unwrap_or(field)),
    }
}

fn address_of_stream(field: &[u8]) -> Result<u64, RowError<Column>> {
    address(field).ok_or_else(|| (Some(Column::Stream), CsvProblem::NotAnAddress(lossy(field))))
}

/// `HH:MM:SS` with or without a fraction, in ns since midnight.
fn time_of_day(field: &[u8]) -> Option<u64> {
    let mut parts = field.splitn(3, |&b| b == b':');
    let (hours, minutes, rest) = (number(parts.next()?).ok()?, number(parts.next()?).ok()?, parts.next()?);
    // A minute may have a leap second.
    let in_a_minute = csv::decimal(rest, 9).filter(|&ns| ns < 61_000_000_000)?;
    (hours < 24 && minutes < 60).then(|| (hours * 60 + minutes) * 60_000_000_000 + in_a_minute)
}
