//! What can go wrong with a file, with the facts as fields.

use std::fmt::{self, Write as _};
use std::io;

use crate::blocks::BlockFault;
#[cfg(feature = "foreign")]
use crate::torch_snapshot::SnapshotError;
use crate::{Compression, Format};

/// Result of this crate.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// Why a file was refused, or could not be read or written.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The system refused.
    #[error("{file}: can't {action}: {source}")]
    Io {
        /// The file.
        file: String,
        /// What was tried: `open`, `read`, `create`, `write`.
        action: &'static str,
        /// What the system said.
        source: io::Error,
    },
    /// Nothing in it, or only white space.
    #[error("{file}: the file is empty")]
    Empty {
        /// The file.
        file: String,
    },
    /// The compressed data stops before its end.
    #[error(
        "{file}: the {compression} data is cut off after {text_bytes} bytes of text; was the file copied completely?"
    )]
    Truncated {
        /// The file.
        file: String,
        /// How it is compressed.
        compression: Compression,
        /// Bytes of text that could be read before.
        text_bytes: u64,
    },
    /// The compressed data is wrong.
    #[error("{file}: the {compression} data is damaged after {text_bytes} bytes of text: {detail}")]
    Damaged {
        /// The file.
        file: String,
        /// How it is compressed.
        compression: Compression,
        /// Bytes of text that could be read before.
        text_bytes: u64,
        /// What the decoder said.
        detail: String,
    },
    /// The text is longer than [`Limits::max_text_bytes`](crate::Limits::max_text_bytes).
    #[error("{file}: the text is longer than the limit of {limit_bytes} bytes")]
    TooLarge {
        /// The file.
        file: String,
        /// The limit.
        limit_bytes: u64,
    },
    /// The text is longer than [`Limits::max_expansion`](crate::Limits::max_expansion) allows for its compressed size.
    #[error(
        "{file}: {stored_bytes} bytes of {compression} data have become {text_bytes} bytes of text, more than {limit} \
         times as many; refused as a decompression bomb"
    )]
    Bomb {
        /// The file.
        file: String,
        /// How it is compressed.
        compression: Compression,
        /// Compressed bytes read so far.
        stored_bytes: u64,
        /// Bytes of text so far.
        text_bytes: u64,
        /// The limit.
        limit: u64,
    },
    /// Neither the first bytes nor the first line are those of a file we read.
    #[error("{file}: not recognised: {found}; gpumem reads {}", Format::LIST)]
    Unrecognised {
        /// The file.
        file: String,
        /// What it looks like.
        found: String,
    },
    /// A JSON object without a `format` field.
    #[error("{file}: JSON without a `format` field; gpumem reads {}", Format::LIST)]
    NoFormat {
        /// The file.
        file: String,
    },
    /// A JSON object whose `format` isn't one of ours, or is of another version.
    #[error("{file}: format `{found}` is unknown; gpumem reads {}", Format::LIST)]
    UnknownFormat {
        /// The file.
        file: String,
        /// What the file says.
        found: String,
    },
    /// A row or the header of a CSV file.
    #[error(transparent)]
    Csv(Box<CsvError>),
    /// JSON that is broken, or not of the shape its format asks for.
    #[error(transparent)]
    Json(Box<JsonError>),
    /// JSON of the right shape that doesn't make sense.
    #[error(transparent)]
    Invalid(Box<InvalidError>),
    /// A memory snapshot that is broken, or not of the shape that PyTorch gives it.
    #[cfg(feature = "foreign")]
    #[error(transparent)]
    Snapshot(Box<SnapshotError>),
    /// A format that this build leaves out.
    #[error("{file}: {format} is not read by this library; the gpumem command reads and converts it")]
    NotBuiltIn {
        /// The file.
        file: String,
        /// The format.
        format: Format,
    },
    /// The format to be written has no place for it.
    #[error("{format} can't carry {what}")]
    NotCarried {
        /// The format to be written.
        format: Format,
        /// What it can't carry.
        what: String,
    },
}

/// A place in a CSV file and what is wrong there.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CsvError {
    /// The file.
    pub file: String,
    /// The line, from 1; for a record over several lines, the first of them.
    pub line: u64,
    /// The column's name, if it is one column's fault.
    pub column: Option<String>,
    /// What is wrong.
    pub problem: CsvProblem,
}

impl std::error::Error for CsvError {}

impl fmt::Display for CsvError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: line {}: ", self.file, self.line)?;
        if let Some(column) = &self.column {
            write!(f, "column `{column}`: ")?;
        }
        self.problem.fmt(f)
    }
}

/// What is wrong with a row or a header.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum CsvProblem {
    /// A column that every file must have.
    #[error("the header has no column `{column}`; it must name {}", in_words(.required))]
    MissingColumn {
        /// The first one that is missing.
        column: &'static str,
        /// All that must be there.
        required: Vec<&'static str>,
    },
    /// The header names a column twice.
    #[error("the header names the column twice")]
    DuplicateColumn,
    /// A header and nothing below it.
    #[error("there are no rows below the header")]
    NoRows,
    /// A row with more or fewer fields than the header.
    #[error("the row has {found} fields and the header {expected}")]
    FieldCount {
        /// Columns of the header.
        expected: usize,
        /// Fields of the row.
        found: usize,
    },
    /// A number was expected.
    #[error("`{0}` is not a whole number from 0 to 2^64 - 1")]
    NotANumber(String),
    /// The identifier is not UTF-8.
    #[error("`{0}` is not UTF-8 text")]
    NotUtf8(String),
    /// `upper <= lower`.
    #[error("upper {upper} is not above lower {lower}, so the live range is empty")]
    EmptyRange {
        /// First moment.
        lower: u64,
        /// The moment after the last.
        upper: u64,
    },
    /// A size, alignment or other number that must be at least 1.
    #[error("must be at least 1")]
    Zero,
    /// A number over its limit.
    #[error("{value} is above the limit of {max}")]
    TooLarge {
        /// The number.
        value: u64,
        /// The limit.
        max: u64,
    },
    /// An identifier used before.
    #[error("identifier `{id}` is already that of row {first_row}")]
    DuplicateId {
        /// The identifier.
        id: String,
        /// The row that has it, from 1, the header not counted.
        first_row: usize,
    },
    /// Everything above everything else would be out of reach; see [`SUM_LIMIT`](crate::SUM_LIMIT).
    #[error("the sizes up to this row, with alignment and fixed offsets, add up to 2^63 bytes or more")]
    SumOverflow,
    /// A fixed offset whose buffer ends beyond 64 bits.
    #[error("offset {offset} plus size {size} is more than 2^64 - 1")]
    EndOverflow {
        /// The offset.
        offset: u64,
        /// The size.
        size: u64,
    },
    /// A fixed offset that contradicts the alignment.
    #[error("offset {offset} is not a multiple of the alignment {alignment}")]
    Misaligned {
        /// The offset.
        offset: u64,
        /// The alignment.
        alignment: u64,
    },
    /// A gap that can't be.
    #[error("gap `{gap}`: {fault}")]
    Gap {
        /// As written in the file.
        gap: String,
        /// Why.
        fault: GapFault,
    },
    /// A row of a trace that says what nobody knows.
    #[error("`{word}` is not an operation; known are {known}")]
    UnknownOperation {
        /// What the row says.
        word: String,
        /// What it could say.
        known: String,
    },
    /// A stream was expected.
    #[error(
        "`{0}` is not a stream, which is a whole number from 0 to 2^63 - 1; only a `sync` may say -1 for all of them"
    )]
    NotAStream(String),
    /// An address was expected.
    #[error("`{0}` is not an address")]
    NotAnAddress(String),
    /// A time was expected.
    #[error("`{0}` is not a time")]
    NotATime(String),
    /// A row that does to a block what can't be done to it.
    #[error("{0}")]
    Block(BlockFault),
    /// The same, of a block that is known by its address.
    #[error("pointer {pointer}: {fault}")]
    Pointer {
        /// As written in the file.
        pointer: String,
        /// What is wrong; its block is the address.
        fault: BlockFault,
    },
    /// A record longer than [`Limits::max_record_bytes`](crate::Limits::max_record_bytes), as an unclosed quote makes.
    #[error("the record is longer than {0} bytes; is a quote never closed?")]
    RecordTooLong(usize),
    /// More rows than can be numbered.
    #[error("more than {0} rows")]
    TooManyRows(u64),
}

/// Names of columns as a sentence lists them.
fn in_words(names: &[&str]) -> String {
    let mut text = String::new();
    for (index, name) in names.iter().enumerate() {
        let mark = match index {
            0 => "",
            _ if index + 1 == names.len() => " and ",
            _ => ", ",
        };
        text.extend([mark, "`", name, "`"]);
    }
    text
}

/// What is wrong with a gap.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum GapFault {
    /// Not `lower-upper` or `lower-upper@from:to`.
    #[error("expected `lower-upper` or `lower-upper@from:to`")]
    Syntax,
    /// Its range is empty.
    #[error("its range is empty")]
    Empty,
    /// It reaches out of the live range.
    #[error("it reaches out of the live range")]
    Outside,
    /// It starts before the one before it ends.
    #[error("it starts before the gap before it ends")]
    OutOfOrder,
    /// The bytes it keeps are none, or beyond the size.
    #[error("the bytes it keeps are not a part of the buffer")]
    Kept,
}

/// A place in a JSON file and what is wrong there.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct JsonError {
    /// The file.
    pub file: String,
    /// The line, from 1.
    pub line: usize,
    /// The column, from 1.
    pub column: usize,
    /// The value, as in `nodes[17].inputs[2]`; empty at the top.
    pub place: String,
    /// What the parser said.
    pub problem: String,
}

impl std::error::Error for JsonError {}

impl fmt::Display for JsonError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: line {}, column {}: ", self.file, self.line, self.column)?;
        if !self.place.is_empty() {
            write!(f, "{}: ", self.place)?;
        }
        Tame::new(f).write_str(&self.problem)
    }
}

/// A value of a JSON file that doesn't make sense.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct InvalidError {
    /// The file.
    pub file: String,
    /// The value, as in `nodes[17].inputs[2]`.
    pub place: String,
    /// What it belongs to, as in ``op `matmul` ``; empty if it has no name.
    pub name: String,
    /// What is wrong.
    pub fault: Fault,
}

impl std::error::Error for InvalidError {}

impl fmt::Display for InvalidError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.file, self.place)?;
        if !self.name.is_empty() {
            write!(Tame::new(f), " ({})", self.name)?;
        }
        write!(Tame::new(f), ": {}", self.fault)
    }
}

/// Writes text that a file brought so that a terminal can't be harmed by it: control characters as escapes, and not
/// more than a screenful.
pub(crate) struct Tame<'a, 'f> {
    out: &'a mut fmt::Formatter<'f>,
    left: usize,
}

impl<'a, 'f> Tame<'a, 'f> {
    const CHARS: usize = 1000;

    pub(crate) fn new(out: &'a mut fmt::Formatter<'f>) -> Self {
        Self { out, left: Self::CHARS }
    }
}

impl fmt::Write for Tame<'_, '_> {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        for c in text.chars() {
            match self.left {
                0 => return Ok(()),
                1 => self.out.write_str("...")?,
                _ if c.is_control() => write!(self.out, "{}", c.escape_default())?,
                _ => self.out.write_char(c)?,
            }
            self.left -= 1;
        }
        Ok(())
    }
}

/// `text` as it may stand in a message.
pub(crate) fn tame(text: &str) -> String {
    struct Text<'a>(&'a str);

    impl fmt::Display for Text<'_> {
        fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            Tame::new(f).write_str(self.0)
        }
    }

    Text(text).to_string()
}

/// What doesn't make sense.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Fault {
    /// A reference to something the file doesn't have.
    #[error("there is no {what} `{id}`")]
    Dangling {
        /// `tensor`, `op`, `node`, `stream` or `event`.
        what: &'static str,
        /// As written in the file.
        id: String,
    },
    /// A reference to something that comes later but has to come before.
    #[error("{what} `{id}` stands later in the file")]
    NotYet {
        /// `node`.
        what: &'static str,
        /// As written in the file.
        id: String,
    },
    /// An identifier used before.
    #[error("{what} `{id}` is already {first}")]
    Duplicate {
        /// `tensor`, `op`, `node`, `stream`, `event`, `placement` or `parameter`.
        what: &'static str,
        /// As written in the file.
        id: String,
        /// The place that has it.
        first: String,
    },
    /// Tensors that are each an alias of the next.
    #[error("its aliases form a cycle: {}", .names.join(" -> "))]
    AliasCycle {
        /// Their names, the first one again at the end.
        names: Vec<String>,
    },
    /// An in-place pair whose tensors aren't an input and an output of the op.
    #[error("tensor `{tensor}` is not an {role} of the op")]
    NotOfOp {
        /// `input` or `output`.
        role: &'static str,
        /// The tensor's name.
        tensor: String,
    },
    /// Death not after birth.
    #[error("death {death} is not after birth {birth}, so the live range is empty")]
    EmptyRange {
        /// First moment.
        birth: u64,
        /// The moment after the last.
        death: u64,
    },
    /// A death after the end of the step.
    #[error("death {death} is after the end {end}")]
    AfterEnd {
        /// The death.
        death: u64,
        /// The end.
        end: u64,
    },
    /// A number that must be at least 1.
    #[error("must be at least 1")]
    Zero,
    /// A number over its limit.
    #[error("{value} is above the limit of {max}")]
    TooLarge {
        /// The number.
        value: u64,
        /// The limit.
        max: u64,
    },
    /// An alignment that must be a power of two.
    #[error("{0} is not a power of two")]
    NotPowerOfTwo(u64),
    /// The size is absent and can't be worked out.
    #[error("the size of a tensor of type `{dtype}` can't be worked out from its shape; give `bytes`")]
    NoSize {
        /// The type.
        dtype: &'static str,
    },
    /// A tensor's size from its shape is beyond 64 bits.
    #[error("{0} come to more than 2^64 - 1 bytes")]
    SizeOverflow(&'static str),
    /// All sizes together are out of reach; see [`SUM_LIMIT`](crate::SUM_LIMIT).
    #[error("{0} come to 2^63 bytes or more")]
    SumOverflow(&'static str),
    /// A buffer that ends beyond 64 bits.
    #[error("offset {offset} plus {bytes} bytes is more than 2^64 - 1")]
    EndOverflow {
        /// The offset.
        offset: u64,
        /// The size.
        bytes: u64,
    },
    /// A gap that can't be.
    #[error("{0}")]
    Gap(GapFault),
    /// A pair that isn't two placements, the smaller first, after the pair before it.
    #[error("({0}, {1}) is not a pair of two placements, smaller first, sorted, each once")]
    BadPair(u64, u64),
    /// An order that names an op twice, or one beyond its own length.
    #[error("{0} does not fit an order, which names every op from 0 up once")]
    BadOrder(u64),
    /// A tuple whose outputs are not what its inputs bring.
    #[error("the inputs bring {found} values and the node lists {listed} outputs")]
    LeafCount {
        /// Outputs listed.
        listed: usize,
        /// Values of the inputs.
        found: usize,
    },
    /// A `get-tuple-element` that finds nothing of its type in the tuple.
    #[error("no value of `{from}` has this type and shape")]
    NoSuchLeaf {
        /// The tuple.
        from: String,
    },
    /// A stream of a trace that can't be.
    #[error("{0} is not a stream; only a `sync` may say -1 for all of them")]
    NotAStream(i64),
    /// A row that does to a block what can't be done to it.
    #[error("{0}")]
    Block(BlockFault),
    /// More of something than can be numbered or held.
    #[error("more than {limit} {what}")]
    TooMany {
        /// Of what.
        what: &'static str,
        /// The limit.
        limit: u64,
    },
}
