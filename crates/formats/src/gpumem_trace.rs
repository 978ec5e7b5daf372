//! Our own binary trace, `gpumem-trace/1`, as far as it goes.
//!
//! A trace is written while a program runs, and programs die: what was written before is what people want to see then.
//! So a file that stops, or is damaged further down, is read up to there and known to be cut. What was written is
//! checked all the same: a row that makes no sense is refused.

use std::io::{BufRead, Write};

use records::{Operation, Row, TRACE_HEAD_BYTES, TRACE_MAGIC, TRACE_VERSION, Trace, TraceChunk, TraceDecoder};

use crate::blocks::{Blocks, Place};
use crate::error::Fault;
use crate::ids::At;
use crate::input::Input;
use crate::limits::MAX_BYTES;
use crate::{Error, Limits, Result, document};

/// Writes a trace in our own binary form. Stacks are not written; a trace that is cut stays so.
///
/// # Errors
/// The writer failed, or a name, or the comments together, have more than 4 MiB.
pub fn write_trace(trace: &Trace, out: impl Write) -> Result<()> {
    let result = records::write_trace(trace, out);
    result.map(drop).map_err(|source| Error::Io { file: trace.name.clone(), action: "write", source })
}

/// Whether a file with this `head` is a binary trace, of whatever version.
pub(crate) fn has_magic(head: &[u8]) -> bool {
    head.starts_with(&TRACE_MAGIC)
}

/// Reads what can be read. Where and why that is not all of it goes into `notes`.
pub(crate) fn read(input: &mut Input<'_>, limits: &Limits, notes: &mut Vec<String>) -> Result<Trace> {
    check_head(input)?;
    let mut trace = Trace { is_cut: true, ..Trace::default() };
    let mut reader =
        Reader { decoder: TraceDecoder::default(), blocks: Blocks::default(), raw_bytes: 0, bytes: Vec::new() };
    loop {
        let before = trace.rows.len();
        let end = reader.read_chunk(input, limits, &mut trace)?;
        reader.check_rows(input.file(), &trace, before)?;
        match end {
            None => continue,
            Some(End::Whole) => trace.is_cut = false,
            Some(End::Cut(why)) => notes.push(format!("the trace is cut after {} rows: {why}", trace.rows.len())),
        }
        if trace.name.is_empty() {
            trace.name = document::stem(input.file());
        }
        return Ok(trace);
    }
}

fn check_head(input: &mut Input<'_>) -> Result<()> {
    let mut head = Vec::new();
    let taken = take(input, TRACE_HEAD_BYTES, &mut head)?;
    let file = input.file().to_owned();
    match (taken, head[TRACE_MAGIC.len().min(head.len())..].first_chunk()) {
        (Ok(()), Some(&version)) => match u16::from_le_bytes(version) {
            TRACE_VERSION => Ok(()),
            version => Err(Error::UnknownFormat { file, found: format!("gpumem-trace/{version}") }),
        },
        _ => Err(Error::Unrecognised { file, found: "a binary trace that is cut off in its first bytes".to_owned() }),
    }
}

/// Why there are no more rows.
enum End {
    Whole,
    Cut(String),
}

struct Reader {
    decoder: TraceDecoder,
    blocks: Blocks,
    /// Bytes of all chunks so far, decompressed.
    raw_bytes: u64,
    /// What was taken from the file last.
    bytes: Vec<u8>,
}

impl Reader {
    /// Reads the next chunk; `Some` if it is the last one that can be read.
    fn read_chunk(&mut self, input: &mut Input<'_>, limits: &Limits, trace: &mut Trace) -> Result<Option<End>> {
        let cut = |why: &str| Ok(Some(End::Cut(why.to_owned())));
        if let Err(why) = take(input, TraceChunk::BYTES, &mut self.bytes)? {
            return cut(&why);
        }
        let Some(chunk) = self.bytes.first_chunk().and_then(|head| TraceChunk::from_bytes(*head)) else {
            return cut("what follows is not a chunk");
        };
        self.raw_bytes += chunk.raw_bytes() as u64;
        self.check_limits(input, limits, chunk.stored_bytes())?;
        if let Err(why) = take(input, chunk.stored_bytes(), &mut self.bytes)? {
            return cut(&why);
        }
        match self.decoder.decode(&chunk, &self.bytes, trace) {
            Ok(()) if chunk.is_end() => Ok(Some(End::Whole)),
            Ok(()) => Ok(None),
            Err(why) => cut(&format!("the next chunk is damaged, {why}")),
        }
    }

    /// Chunks are compressed data of their own, so the limits on that hold here too.
    fn check_limits(&self, input: &Input<'_>, limits: &Limits, stored_bytes: usize) -> Result<()> {
        let file = || input.file().to_owned();
        if self.raw_bytes > limits.max_text_bytes {
            return Err(Error::TooLarge { file: file(), limit_bytes: limits.max_text_bytes });
        }
        // What is buffered was read, but the chunk may reach beyond that.
        let stored_bytes = input.stored_bytes() + stored_bytes as u64;
        let allowed = stored_bytes.saturating_mul(limits.max_expansion).max(Limits::FREE_TEXT_BYTES);
        if limits.max_expansion > 0 && self.raw_bytes > allowed {
            return Err(Error::Bomb {
                file: file(),
                compression: input.compression(),
                stored_bytes,
                text_bytes: self.raw_bytes,
                limit: limits.max_expansion,
            });
        }
        Ok(())
    }

    /// Checks the rows from `first` on.
    fn check_rows(&mut self, file: &str, trace: &Trace, first: usize) -> Result<()> {
        for (row, index) in trace.rows[first..].iter().zip(first..) {
            self.check_row(row, Place::Row(index as u64)).map_err(|(field, fault)| {
                At { file }.fault(format!("rows[{index}].{field}"), row.operation.name(), fault)
            })?;
        }
        Ok(())
    }

    fn check_row(&mut self, row: &Row, place: Place) -> Result<(), (&'static str, Fault)> {
        if row.bytes > MAX_BYTES {
            return Err(("bytes", Fault::TooLarge { value: row.bytes, max: MAX_BYTES }));
        }
        let is_stream = row.stream >= 0 || row.stream == Row::ALL_STREAMS && row.operation == Operation::Sync;
        if !is_stream {
            return Err(("stream", Fault::NotAStream(row.stream)));
        }
        if row.operation == Operation::Wait && row.id > i64::MAX as u64 {
            return Err(("id", Fault::TooLarge { value: row.id, max: i64::MAX as u64 }));
        }
        self.blocks.follow(row, place).map_err(|fault| (fault.pick("id", "bytes"), Fault::Block(fault)))
    }
}

/// Takes the next `count` bytes into `buffer`, which grows with what is there; the inner error says in words that the
/// file stops before.
fn take(input: &mut Input<'_>, count: usize, buffer: &mut Vec<u8>) -> Result<Result<(), String>> {
    buffer.clear();
    while buffer.len() < count {
        let part = match input.fill_buf() {
            Ok([]) if buffer.is_empty() => {
                return Ok(Err("the file stops there, before its end was marked".to_owned()));
            }
            Ok([]) => return Ok(Err("the file stops in the middle of a chunk".to_owned())),
            Ok(bytes) => &bytes[..bytes.len().min(count - buffer.len())],
            Err(source) => {
                let file = input.file().to_owned();
                return match input.failure() {
                    // What stops around the trace stops the trace.
                    Some(error @ (Error::Truncated { .. } | Error::Damaged { .. })) => Ok(Err(error.to_string())),
                    Some(error) => Err(error),
                    None => Err(Error::Io { file, action: "read", source }),
                };
            }
        };
        buffer.extend_from_slice(part);
        let taken = part.len();
        input.consume(taken);
    }
    Ok(Ok(()))
}
