//! Our own binary trace, `gpumem-trace/1`: written row by row, in pieces that can be read whatever became of the rest.
//!
//! A file is a head and then chunks, each compressed by itself, with its length and checksum before it. What is in a
//! chunk is the matter of `trace_columns`. The reader of files is in `formats`; here is only what undoes a chunk, next to
//! what makes it.

use std::io::{self, Write};

use flate2::{Compress, Compression, Crc, Decompress, FlushCompress, FlushDecompress, Status};

use crate::trace_columns::{Decoder, Encoder, put_number, take_number};
use crate::{NameId, Names, Row, Trace};

/// What a binary trace begins with. The first byte is in no text, the last one is damaged by what changes line ends.
pub const TRACE_MAGIC: [u8; 8] = *b"\x89GPUMEM\n";

/// The version of the format that is written, and the newest that is read.
pub const TRACE_VERSION: u16 = 1;

/// Bytes of a binary trace before its first chunk: [`TRACE_MAGIC`], [`TRACE_VERSION`] and two bytes that are 0.
pub const TRACE_HEAD_BYTES: usize = 12;

/// Rows of a chunk. Enough for columns to repeat, and what is lost when a process dies before it flushes.
const CHUNK_ROWS: usize = 8192;

/// Text of names after which a chunk is written, however few rows it has.
const CHUNK_TEXT_BYTES: usize = 1 << 20;

/// Longest name or comment.
const MAX_TEXT_BYTES: usize = 4 << 20;

/// Most bytes of a chunk before and after compression: nobody has to hold more because a file says so.
const MAX_CHUNK_BYTES: usize = 16 << 20;

/// Most names that come with a chunk. Each has two bytes at least, so [`CHUNK_TEXT_BYTES`] can't hold more.
const MAX_CHUNK_NAMES: u64 = 1 << 20;

/// Most comments.
const MAX_COMMENTS: usize = 1 << 16;

/// What a chunk holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    /// The trace's name and comments.
    About = 1,
    /// Names and rows.
    Rows = 2,
    /// Nothing: the trace is whole.
    End = 3,
}

/// What stands before the bytes of a chunk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TraceChunk {
    kind: Kind,
    stored_bytes: u32,
    raw_bytes: u32,
    checksum: u32,
}

impl TraceChunk {
    /// Bytes it takes in the file.
    pub const BYTES: usize = 13;

    /// Takes it from the file; `None` if no chunk begins so.
    pub fn from_bytes(bytes: [u8; Self::BYTES]) -> Option<Self> {
        let [kind, a, b, c, d, e, f, g, h, i, j, k, l] = bytes;
        let kind = [Kind::About, Kind::Rows, Kind::End].into_iter().find(|known| *known as u8 == kind)?;
        let [stored_bytes, raw_bytes, checksum] = [[a, b, c, d], [e, f, g, h], [i, j, k, l]].map(u32::from_le_bytes);
        let is_bounded = stored_bytes.max(raw_bytes) as usize <= MAX_CHUNK_BYTES;
        is_bounded.then_some(Self { kind, stored_bytes, raw_bytes, checksum })
    }

    fn to_bytes(self) -> [u8; Self::BYTES] {
        let [a, b, c, d] = self.stored_bytes.to_le_bytes();
        let [e, f, g, h] = self.raw_bytes.to_le_bytes();
        let [i, j, k, l] = self.checksum.to_le_bytes();
        [self.kind as u8, a, b, c, d, e, f, g, h, i, j, k, l]
    }

    /// The checksum of the chunk's head and of what is `stored`.
    fn checksum_of(self, stored: &[u8]) -> u32 {
        let mut crc = Crc::new();
        crc.update(&Self { checksum: 0, ..self }.to_bytes());
        crc.update(stored);
        crc.sum()
    }

    /// Bytes that follow it in the file, at most 16 MiB.
    pub fn stored_bytes(&self) -> usize {
        self.stored_bytes as usize
    }

    /// Bytes that these become, at most 16 MiB.
    pub fn raw_bytes(&self) -> usize {
        self.raw_bytes as usize
    }

    /// Whether it says that the trace is whole.
    pub fn is_end(&self) -> bool {
        self.kind == Kind::End
    }
}

/// Writes a trace row by row.
///
/// Rows are held until a chunk is full; [`flush`](TraceWriter::flush) hands out what there is. A file that was never
/// finished reads as far as the last chunk that is whole, and is known to be cut. Stacks are not written.
///
/// After an error nothing more is written: a chunk behind a torn one could not be found.
///
/// # Example
/// ```
/// use records::{Operation, Row, TraceWriter};
///
/// let mut writer = TraceWriter::new(Vec::new(), "tiny", &[])?;
/// let tag = writer.intern("conv1")?;
/// writer.push(&Row { operation: Operation::Alloc, id: 1, bytes: 4096, tag, ..Row::default() })?;
/// let file = writer.finish()?;
/// assert!(file.starts_with(&records::TRACE_MAGIC));
/// # Ok::<(), std::io::Error>(())
/// ```
#[derive(Debug)]
pub struct TraceWriter<W: Write> {
    out: W,
    names: Names,
    /// How many of `names` are in the file.
    written_names: usize,
    /// Bytes of those that aren't.
    waiting_text_bytes: usize,
    rows: Vec<Row>,
    encoder: Encoder,
    compress: Compress,
    raw: Vec<u8>,
    stored: Vec<u8>,
    written_bytes: u64,
    is_broken: bool,
}

impl<W: Write> TraceWriter<W> {
    /// Begins a trace called `name`.
    ///
    /// # Errors
    /// The writer failed, or the name and the comments have more than 4 MiB, or the comments are more than 65 536.
    pub fn new(out: W, name: &str, comments: &[String]) -> io::Result<Self> {
        if comments.len() > MAX_COMMENTS {
            let message = format!("a trace takes {MAX_COMMENTS} comments and not {}", comments.len());
            return Err(io::Error::new(io::ErrorKind::InvalidInput, message));
        }
        let mut writer = Self {
            out,
            names: Names::default(),
            written_names: 0,
            waiting_text_bytes: 0,
            rows: Vec::new(),
            encoder: Encoder::default(),
            compress: Compress::new(Compression::new(6), false),
            raw: Vec::new(),
            stored: Vec::new(),
            written_bytes: 0,
            is_broken: false,
        };
        put_number(1 + comments.len() as u64, &mut writer.raw);
        for text in std::iter::once(name).chain(comments.iter().map(String::as_str)) {
            check_text(text, writer.raw.len())?;
            put_text(text, &mut writer.raw);
        }
        let mut head = TRACE_MAGIC.to_vec();
        head.extend(TRACE_VERSION.to_le_bytes());
        head.extend([0, 0]);
        writer.put(&head)?;
        writer.write_chunk(Kind::About)?;
        Ok(writer)
    }

    /// The id by which rows name `name`. It goes into the file with the next chunk.
    ///
    /// # Errors
    /// The name has more than 4 MiB.
    pub fn intern(&mut self, name: &str) -> io::Result<NameId> {
        check_text(name, 0)?;
        let before = self.names.len();
        let id = self.names.intern(name);
        if self.names.len() > before {
            self.waiting_text_bytes += name.len() + 1;
            if self.waiting_text_bytes >= CHUNK_TEXT_BYTES {
                self.write_rows()?;
            }
        }
        Ok(id)
    }

    /// Appends a row. A tag that [`intern`](TraceWriter::intern) didn't give is taken as none.
    ///
    /// # Errors
    /// The writer failed, now or before.
    pub fn push(&mut self, row: &Row) -> io::Result<()> {
        let tag = if row.tag.0 as usize <= self.names.len() { row.tag } else { NameId::EMPTY };
        self.rows.push(Row { tag, ..*row });
        if self.rows.len() >= CHUNK_ROWS { self.write_rows() } else { Ok(()) }
    }

    /// Writes what is held, so that nothing of it can be lost with the process.
    ///
    /// # Errors
    /// The writer failed, now or before.
    pub fn flush(&mut self) -> io::Result<()> {
        self.write_rows()?;
        self.out.flush()
    }

    /// Writes what is held and marks the trace as whole.
    ///
    /// # Errors
    /// The writer failed, now or before.
    pub fn finish(mut self) -> io::Result<W> {
        self.write_rows()?;
        self.write_chunk(Kind::End)?;
        self.out.flush()?;
        Ok(self.out)
    }

    /// Bytes written so far.
    pub fn written_bytes(&self) -> u64 {
        self.written_bytes
    }

    fn write_rows(&mut self) -> io::Result<()> {
        if self.rows.is_empty() && self.written_names == self.names.len() {
            return if self.is_broken { Err(broken()) } else { Ok(()) };
        }
        put_number((self.names.len() - self.written_names) as u64, &mut self.raw);
        for (_, name) in self.names.iter().skip(self.written_names) {
            put_text(name, &mut self.raw);
        }
        self.encoder.encode(&self.rows, &mut self.raw);
        self.rows.clear();
        (self.written_names, self.waiting_text_bytes) = (self.names.len(), 0);
        self.write_chunk(Kind::Rows)
    }

    /// Writes what is in `raw` as a chunk.
    fn write_chunk(&mut self, kind: Kind) -> io::Result<()> {
        self.stored.clear();
        if kind != Kind::End {
            self.compress.reset();
            // What deflate can't shrink it grows by five bytes in 16 KiB, and by a few at the end.
            self.stored.reserve(self.raw.len() + self.raw.len() / 1024 + 64);
            let status = self.compress.compress_vec(&self.raw, &mut self.stored, FlushCompress::Finish);
            if !matches!(status, Ok(Status::StreamEnd)) {
                self.is_broken = true;
                return Err(io::Error::other("a chunk of a trace can't be compressed"));
            }
        }
        let (Ok(stored_bytes), Ok(raw_bytes)) = (u32::try_from(self.stored.len()), u32::try_from(self.raw.len()))
        else {
            return Err(io::Error::other("a chunk of a trace is too long"));
        };
        let chunk = TraceChunk { kind, stored_bytes, raw_bytes, checksum: 0 };
        let checksum = chunk.checksum_of(&self.stored);
        self.raw.clear();
        self.put(&TraceChunk { checksum, ..chunk }.to_bytes())?;
        let stored = std::mem::take(&mut self.stored);
        let result = self.put(&stored);
        self.stored = stored;
        result
    }

    fn put(&mut self, bytes: &[u8]) -> io::Result<()> {
        if self.is_broken {
            return Err(broken());
        }
        let result = self.out.write_all(bytes);
        match result {
            Ok(()) => self.written_bytes += bytes.len() as u64,
            Err(_) => self.is_broken = true,
        }
        result
    }
}

/// Writes all of `trace`. One that is cut stays so.
///
/// # Errors
/// The writer failed, or a name has more than 4 MiB.
pub fn write_trace<W: Write>(trace: &Trace, out: W) -> io::Result<W> {
    let mut writer = TraceWriter::new(out, &trace.name, &trace.comments)?;
    for (_, name) in trace.names.iter() {
        writer.intern(name)?;
    }
    for row in &trace.rows {
        writer.push(row)?;
    }
    if trace.is_cut {
        writer.flush()?;
        return Ok(writer.out);
    }
    writer.finish()
}

fn broken() -> io::Error {
    io::Error::other("an earlier write of this trace failed")
}

fn check_text(text: &str, before: usize) -> io::Result<()> {
    if before + text.len() <= MAX_TEXT_BYTES {
        return Ok(());
    }
    let message = format!("a text of {} bytes is too long for a trace, which takes {MAX_TEXT_BYTES}", text.len());
    Err(io::Error::new(io::ErrorKind::InvalidInput, message))
}

fn put_text(text: &str, out: &mut Vec<u8>) {
    put_number(text.len() as u64, out);
    out.extend_from_slice(text.as_bytes());
}

fn take_text<'a>(from: &mut &'a [u8]) -> Option<&'a str> {
    let length = usize::try_from(take_number(from)?).ok()?;
    std::str::from_utf8(from.split_off(..length)?).ok()
}

/// Undoes chunks, one after the other.
#[derive(Debug)]
pub struct TraceDecoder {
    decoder: Decoder,
    decompress: Decompress,
}

impl Default for TraceDecoder {
    fn default() -> Self {
        Self { decoder: Decoder::default(), decompress: Decompress::new(false) }
    }
}

impl TraceDecoder {
    /// Adds what is in a chunk to `trace`. The rows are as they were written: whether they are sound is for the caller
    /// to say. No row is added by a chunk that is refused.
    ///
    /// # Errors
    /// What is wrong with the chunk, in words. No chunk after it can be undone.
    pub fn decode(&mut self, chunk: &TraceChunk, stored: &[u8], trace: &mut Trace) -> Result<(), &'static str> {
        if chunk.stored_bytes() != stored.len() {
            return Err("its length is wrong");
        }
        if chunk.checksum_of(stored) != chunk.checksum {
            return Err("its checksum is wrong");
        }
        let raw = if chunk.is_end() { Vec::new() } else { self.inflate(chunk, stored)? };
        let mut from = raw.as_slice();
        match chunk.kind {
            Kind::About => take_about(&mut from, trace).ok_or("its name or comments are wrong")?,
            Kind::Rows => self.take_rows(&mut from, trace).ok_or("its rows are wrong")?,
            Kind::End if chunk.raw_bytes != 0 || !stored.is_empty() => return Err("the end has something in it"),
            Kind::End => {}
        }
        if from.is_empty() { Ok(()) } else { Err("there is more in it than there should be") }
    }

    fn inflate(&mut self, chunk: &TraceChunk, stored: &[u8]) -> Result<Vec<u8>, &'static str> {
        let mut raw = Vec::with_capacity(chunk.raw_bytes());
        self.decompress.reset(false);
        let status = self.decompress.decompress_vec(stored, &mut raw, FlushDecompress::Finish);
        let is_whole = self.decompress.total_in() == stored.len() as u64 && raw.len() == chunk.raw_bytes();
        if matches!(status, Ok(Status::StreamEnd)) && is_whole { Ok(raw) } else { Err("its compressed data is wrong") }
    }

    fn take_rows(&mut self, from: &mut &[u8], trace: &mut Trace) -> Option<()> {
        let mut names = Vec::new();
        let count = take_number(from).filter(|&count| count <= MAX_CHUNK_NAMES)?;
        for _ in 0..count {
            names.push(take_text(from).filter(|name| !name.is_empty())?);
        }
        let rows = self.decoder.decode(from, trace.names.len() + names.len())?;
        if !from.is_empty() {
            return None;
        }
        let expected = trace.names.len() + names.len();
        for name in names {
            trace.names.intern(name);
        }
        // A name that was there already would shift the ids of those after it.
        if trace.names.len() != expected {
            return None;
        }
        trace.rows.extend_from_slice(&rows);
        Some(())
    }
}

fn take_about(from: &mut &[u8], trace: &mut Trace) -> Option<()> {
    let count = take_number(from)?.checked_sub(1).filter(|&count| count <= MAX_COMMENTS as u64)?;
    let name = take_text(from)?.to_owned();
    let mut comments = Vec::new();
    for _ in 0..count {
        comments.push(take_text(from)?.to_owned());
    }
    (trace.name, trace.comments) = (name, comments);
    Some(())
}

#[cfg(test)]
#[allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]
mod tests {
    use super::*;
    use crate::Operation;

    /// Takes `left` bytes and then no more.
    struct Full {
        left: usize,
    }

    impl Write for Full {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            let count = bytes.len().min(self.left);
            self.left -= count;
            if count == 0 { Err(io::ErrorKind::StorageFull.into()) } else { Ok(count) }
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    fn row(id: u64) -> Row {
        Row { operation: Operation::Alloc, id, bytes: id % 7, ..Row::default() }
    }

    #[test]
    fn a_full_disk_is_an_error_now_and_ever_after() {
        for left in [0, 5, 12, 30, 60, 200] {
            let mut writer = match TraceWriter::new(Full { left }, "x", &[]) {
                Ok(writer) => writer,
                Err(error) => {
                    assert_eq!(error.kind(), io::ErrorKind::StorageFull);
                    continue;
                }
            };
            let mut failed = 0;
            for id in 0..100_000_u64 {
                failed += u32::from(writer.push(&row(id.wrapping_mul(0x9e37_79b9_7f4a_7c15))).is_err());
            }
            assert!(failed > 0, "{left}");
            assert!(writer.flush().is_err() && writer.flush().is_err());
            assert!(writer.finish().is_err());
        }
    }

    #[test]
    fn texts_that_no_chunk_could_hold_are_refused() {
        let long = "x".repeat(MAX_TEXT_BYTES + 1);
        assert!(TraceWriter::new(Vec::new(), &long, &[]).is_err());
        assert!(TraceWriter::new(Vec::new(), "x", &vec![long[..MAX_TEXT_BYTES / 2].to_owned(); 3]).is_err());
        let mut writer = TraceWriter::new(Vec::new(), "x", &[]).unwrap();
        assert!(writer.intern(&long).is_err());
        assert_eq!(writer.intern(&long[1..]).unwrap(), NameId(1));
        assert_eq!(writer.intern("short").unwrap(), NameId(2));
        writer.finish().unwrap();
    }

    #[test]
    fn what_is_flushed_is_in_the_file_at_once() {
        let mut writer = TraceWriter::new(Vec::new(), "x", &[]).unwrap();
        let before = writer.written_bytes();
        writer.push(&row(1)).unwrap();
        assert_eq!(writer.written_bytes(), before);
        writer.flush().unwrap();
        assert!(writer.written_bytes() > before);
        assert_eq!(writer.written_bytes(), writer.out.len() as u64);
    }
}
