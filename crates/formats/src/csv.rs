//! What readers of CSV files share: records with the lines they stand on, headers by name, numbers.

use std::io::{self, BufRead, Read, Write};
use std::marker::PhantomData;
use std::ops::RangeInclusive;

use csv_core::ReadRecordResult;

use crate::error::{CsvError, CsvProblem};
use crate::input::Input;
use crate::{Error, Result};

/// The columns of a format that are looked at.
pub(crate) trait Column: Copy + 'static {
    /// Every one, in the order of [`Column::index`].
    const ALL: &'static [Self];
    /// Those that a header must name.
    const REQUIRED: &'static [Self];

    /// What the header calls it.
    fn name(self) -> &'static str;

    /// Its place in [`Column::ALL`].
    fn index(self) -> usize;
}

/// What is wrong with a row, and in which column if it is one column's fault.
pub(crate) type RowError<C> = (Option<C>, CsvProblem);

/// How many of `names` the first record of `head` has. Comments and empty lines before it don't count.
pub(crate) fn count_in_header(head: &[u8], names: &[&str]) -> usize {
    let lines = head.split(|&b| b == b'\n').map(<[u8]>::trim_ascii);
    let first = lines.into_iter().find(|line| !line.is_empty() && !line.starts_with(b"#")).unwrap_or_default();
    first
        .split(|&b| b == b',')
        .map(<[u8]>::trim_ascii)
        .map(|field| field.strip_prefix(b"\"").and_then(|f| f.strip_suffix(b"\"")).unwrap_or(field))
        .filter(|field| names.iter().any(|name| name.as_bytes() == *field))
        .count()
}

/// One record after the other, each in the same memory.
pub(crate) struct Records {
    file: String,
    core: csv_core::Reader,
    bytes: Vec<u8>,
    ends: Vec<usize>,
    fields: usize,
    /// Line on which the current record starts, from 1.
    line: u64,
    max_bytes: usize,
    comments: Comments,
}

impl Records {
    /// No record may be longer than `max_bytes`.
    pub(crate) fn new(file: &str, max_bytes: usize) -> Self {
        Self {
            file: file.to_owned(),
            core: csv_core::Reader::new(),
            bytes: vec![0; 1024],
            ends: vec![0; 16],
            fields: 0,
            line: 1,
            max_bytes,
            comments: Comments::default(),
        }
    }

    /// The error that says `problem` of the current record.
    pub(crate) fn error(&self, column: Option<&str>, problem: CsvProblem) -> Error {
        self.error_at(self.line, column, problem)
    }

    /// The error that says `problem` of the record on `line`.
    pub(crate) fn error_at(&self, line: u64, column: Option<&str>, problem: CsvProblem) -> Error {
        let column = column.map(str::to_owned);
        Error::Csv(Box::new(CsvError { file: self.file.clone(), line, column, problem }))
    }

    /// Line on which the current record starts, from 1.
    pub(crate) fn line(&self) -> u64 {
        self.line
    }

    /// How many fields the current record has.
    pub(crate) fn fields(&self) -> usize {
        self.fields
    }

    /// The comments passed so far, as many as are kept.
    pub(crate) fn take_comments(&mut self) -> Vec<String> {
        std::mem::take(&mut self.comments.lines)
    }

    /// Goes to the next record; false when there is none.
    pub(crate) fn advance(&mut self, input: &mut Input<'_>) -> Result<bool> {
        self.pass_comments(input)?;
        let (mut used, mut fields) = (0, 0);
        loop {
            let chunk = fill(input)?;
            let (result, taken, written, ended) =
                self.core.read_record(chunk, &mut self.bytes[used..], &mut self.ends[fields..]);
            let past_line_feed = taken > 0 && chunk[taken - 1] == b'\n';
            input.consume(taken);
            used += written;
            fields += ended;
            match result {
                ReadRecordResult::InputEmpty => {}
                ReadRecordResult::OutputFull if self.bytes.len() >= self.max_bytes => {
                    let problem = CsvProblem::RecordTooLong(self.max_bytes);
                    return Err(self.error_at(self.core.line(), None, problem));
                }
                ReadRecordResult::OutputFull => {
                    self.bytes.resize((self.bytes.len() * 2).min(self.max_bytes), 0);
                }
                ReadRecordResult::OutputEndsFull if self.ends.len() >= self.max_bytes => {
                    let problem = CsvProblem::RecordTooLong(self.max_bytes);
                    return Err(self.error_at(self.core.line(), None, problem));
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

    /// Steps over line ends and comments before a record. The core could do that too, but doesn't hand comments out.
    fn pass_comments(&mut self, input: &mut Input<'_>) -> Result<()> {
        loop {
            let chunk = fill(input)?;
            let ends = chunk.iter().take_while(|&&b| b == b'\n' || b == b'\r').count();
            let line_feeds = chunk[..ends].iter().filter(|&&b| b == b'\n').count() as u64;
            let next = chunk.get(ends).copied();
            let chunk_is_over = ends == chunk.len();
            self.core.set_line(self.core.line() + line_feeds);
            input.consume(ends);
            if next == Some(b'#') {
                self.comments.read(input)?;
            } else if ends == 0 || !chunk_is_over {
                return Ok(());
            }
        }
    }

    /// A field as it stands, white space included.
    pub(crate) fn exact_field(&self, index: usize) -> &[u8] {
        let start = if index == 0 { 0 } else { self.ends[index - 1] };
        &self.bytes[start..self.ends[index]]
    }

    /// A field without the white space around it.
    pub(crate) fn field(&self, index: usize) -> &[u8] {
        self.exact_field(index).trim_ascii()
    }
}

/// What the input holds next; empty at its end.
fn fill<'a>(input: &'a mut Input<'_>) -> Result<&'a [u8]> {
    // Twice, since a borrow that is returned can't be given up on the other path.
    match input.fill_buf() {
        Ok(_) => Ok(input.fill_buf().unwrap_or_default()),
        Err(source) => {
            let file = input.file().to_owned();
            Err(input.failure().unwrap_or(Error::Io { file, action: "read", source }))
        }
    }
}

/// Comment lines, the first ones of them.
#[derive(Default)]
struct Comments {
    lines: Vec<String>,
    bytes: usize,
}

impl Comments {
    /// Text kept of one line.
    const LINE_BYTES: u64 = 4 << 10;
    /// Text kept of all lines together.
    const ALL_BYTES: usize = 64 << 10;

    /// Reads a comment up to the end of its line, which is left.
    fn read(&mut self, input: &mut Input<'_>) -> Result<()> {
        let mut text = Vec::new();
        let mut is_whole = false;
        while !is_whole {
            let chunk = fill(input)?;
            let end = chunk.iter().position(|&b| b == b'\n');
            is_whole = end.is_some() || chunk.is_empty();
            let part = &chunk[..end.unwrap_or(chunk.len())];
            // A vector takes what is left of its share; reading from a slice can't fail.
            let left = Self::LINE_BYTES.saturating_sub(text.len() as u64);
            let _ = part.take(left).read_to_end(&mut text);
            let taken = part.len();
            input.consume(taken);
        }
        let text = String::from_utf8_lossy(&text);
        let text = text.strip_prefix('#').unwrap_or(&text);
        let text = text.strip_prefix(' ').unwrap_or(text).trim_ascii_end();
        self.bytes += text.len() + size_of::<String>();
        if self.bytes <= Self::ALL_BYTES {
            self.lines.push(text.to_owned());
        }
        Ok(())
    }
}

/// A field as it may stand in a message.
pub(crate) fn lossy(field: &[u8]) -> String {
    const SHOWN: usize = 100;
    let text = String::from_utf8_lossy(&field[..field.len().min(SHOWN)]);
    let dots = if field.len() > SHOWN { "..." } else { "" };
    format!("{}{dots}", text.escape_debug())
}

/// A field as text.
pub(crate) fn text(field: &[u8]) -> Result<&str, CsvProblem> {
    std::str::from_utf8(field).map_err(|_| CsvProblem::NotUtf8(lossy(field)))
}

/// Which field holds which column.
pub(crate) struct Header<C> {
    position: Vec<Option<usize>>,
    fields: usize,
    /// Columns that aren't looked at.
    pub(crate) ignored: Vec<String>,
    columns: PhantomData<C>,
}

impl<C: Column> Header<C> {
    /// Takes the current record as a header.
    pub(crate) fn new(records: &Records) -> Result<Self> {
        let mut header = Self {
            position: vec![None; C::ALL.len()],
            fields: records.fields(),
            ignored: Vec::new(),
            columns: PhantomData,
        };
        for index in 0..records.fields() {
            let field = records.field(index);
            let Some(&column) = C::ALL.iter().find(|column| column.name().as_bytes() == field) else {
                header.ignored.push(lossy(field));
                continue;
            };
            if header.position[column.index()].replace(index).is_some() {
                return Err(records.error(Some(column.name()), CsvProblem::DuplicateColumn));
            }
        }
        match C::REQUIRED.iter().find(|&&column| !header.has(column)) {
            Some(missing) => {
                let required = C::REQUIRED.iter().map(|column| column.name()).collect();
                Err(records.error(None, CsvProblem::MissingColumn { column: missing.name(), required }))
            }
            None => Ok(header),
        }
    }

    /// Tells a person which columns were not looked at: a mistyped name must not cost somebody a day.
    pub(crate) fn note_ignored(&self, notes: &mut Vec<String>) {
        if !self.ignored.is_empty() {
            notes.push(format!("columns not looked at: {}", self.ignored.join(", ")));
        }
    }

    /// Whether the header names `column`.
    pub(crate) fn has(&self, column: C) -> bool {
        self.position[column.index()].is_some()
    }

    /// Whether the current record has as many fields as the header.
    pub(crate) fn check_count(&self, records: &Records) -> Result<(), RowError<C>> {
        match records.fields() {
            found if found == self.fields => Ok(()),
            found => Err((None, CsvProblem::FieldCount { expected: self.fields, found })),
        }
    }

    /// The field in `column`; `None` if the header doesn't have it or the field is empty.
    pub(crate) fn optional<'a>(&self, records: &'a Records, column: C) -> Option<&'a [u8]> {
        self.position[column.index()].map(|index| records.field(index)).filter(|field| !field.is_empty())
    }

    /// The field in `column`; empty where there is none.
    pub(crate) fn required<'a>(&self, records: &'a Records, column: C) -> &'a [u8] {
        self.optional(records, column).unwrap_or_default()
    }

    /// The field in `column` as it stands, white space included.
    pub(crate) fn exact<'a>(&self, records: &'a Records, column: C) -> &'a [u8] {
        self.position[column.index()].map(|index| records.exact_field(index)).unwrap_or_default()
    }

    /// The number in `column`.
    pub(crate) fn number_in(
        &self,
        records: &Records,
        column: C,
        range: RangeInclusive<u64>,
    ) -> Result<u64, RowError<C>> {
        number_in(self.required(records, column), column, range)
    }
}

/// A whole number in decimal digits.
pub(crate) fn number(field: &[u8]) -> Result<u64, CsvProblem> {
    let digits = !field.is_empty() && field.iter().all(u8::is_ascii_digit);
    let value = std::str::from_utf8(field).ok().filter(|_| digits).and_then(|text| text.parse().ok());
    value.ok_or_else(|| CsvProblem::NotANumber(lossy(field)))
}

/// An address without a prefix.
pub(crate) fn hexadecimal(digits: &[u8]) -> Option<u64> {
    let digits = std::str::from_utf8(digits).ok().filter(|text| text.bytes().all(|b| b.is_ascii_hexdigit()))?;
    u64::from_str_radix(digits, 16).ok()
}

/// A decimal number with at most `places` digits after its point, times ten to the `places`; digits beyond those are cut
/// off.
pub(crate) fn decimal(field: &[u8], places: usize) -> Option<u64> {
    let (whole, fraction) = match field.iter().position(|&b| b == b'.') {
        Some(point) => (&field[..point], &field[point + 1..]),
        None => (field, &b"0"[..]),
    };
    if fraction.is_empty() || !fraction.iter().all(u8::is_ascii_digit) {
        return None;
    }
    let digits = (0..places).map(|place| fraction.get(place).map_or(0, |digit| u64::from(digit - b'0')));
    digits.into_iter().try_fold(number(whole).ok()?, |sum, digit| sum.checked_mul(10)?.checked_add(digit))
}

/// The number in `field`, which belongs to `column`.
pub(crate) fn number_in<C>(field: &[u8], column: C, range: RangeInclusive<u64>) -> Result<u64, RowError<C>> {
    let value = match number(field) {
        Ok(value) => value,
        Err(problem) => return Err((Some(column), problem)),
    };
    match value {
        0 if *range.start() > 0 => Err((Some(column), CsvProblem::Zero)),
        _ if value > *range.end() => Err((Some(column), CsvProblem::TooLarge { value, max: *range.end() })),
        _ => Ok(value),
    }
}

/// In quotes where it would not come back otherwise.
pub(crate) fn write_text(text: &str, out: &mut impl Write) -> io::Result<()> {
    let plain = !text.contains([',', '"', '\n', '\r']) && !text.starts_with('#');
    if plain { out.write_all(text.as_bytes()) } else { write!(out, "\"{}\"", text.replace('"', "\"\"")) }
}
