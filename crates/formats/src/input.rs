//! A file as a stream of text: decompressed as it is read, counted, and stopped at a limit.

use std::cell::{Cell, RefCell};
use std::fmt;
use std::io::{self, BufRead, BufReader, Cursor, Read};
use std::rc::Rc;

use flate2::bufread::MultiGzDecoder;
use ruzstd::decoding::FrameDecoder;
use ruzstd::decoding::errors::{FrameDecoderError, ReadFrameHeaderError};

use crate::{Error, Limits};

/// How a file is compressed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Compression {
    /// Not at all.
    Plain,
    /// gzip, recognised by the bytes `1f 8b`.
    Gzip,
    /// zstd, recognised by the bytes `28 b5 2f fd`.
    Zstd,
}

impl Compression {
    /// `plain`, `gzip` or `zstd`.
    pub fn name(self) -> &'static str {
        match self {
            Self::Plain => "plain",
            Self::Gzip => "gzip",
            Self::Zstd => "zstd",
        }
    }

    /// What the first bytes of a file say.
    pub(crate) fn of(magic: &[u8]) -> Self {
        if magic.starts_with(&[0x1f, 0x8b]) {
            Self::Gzip
        } else if magic.starts_with(&[0x28, 0xb5, 0x2f, 0xfd]) {
            Self::Zstd
        } else {
            Self::Plain
        }
    }
}

impl fmt::Display for Compression {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// What the innermost reader saw; the decoder in between hides it.
#[derive(Default)]
struct Stored {
    bytes: Cell<u64>,
    error: RefCell<Option<io::Error>>,
}

struct StoredReader<R> {
    inner: R,
    stored: Rc<Stored>,
}

impl<R: Read> Read for StoredReader<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        loop {
            match self.inner.read(buffer) {
                Ok(count) => {
                    self.stored.bytes.set(self.stored.bytes.get() + count as u64);
                    return Ok(count);
                }
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => {
                    let copy = io::Error::from(error.kind());
                    *self.stored.error.borrow_mut() = Some(error);
                    return Err(copy);
                }
            }
        }
    }
}

/// All frames of a zstd file, one after the other, each with its checksum compared.
struct ZstdReader<R> {
    source: R,
    frame: FrameDecoder,
    in_frame: bool,
    /// Bytes of the current frame handed on.
    frame_bytes: u64,
}

impl<R: BufRead> ZstdReader<R> {
    fn new(source: R) -> Self {
        Self { source, frame: FrameDecoder::new(), in_frame: false, frame_bytes: 0 }
    }

    /// Starts the next frame; false at the end of the file.
    fn start_frame(&mut self) -> io::Result<bool> {
        while !self.source.fill_buf()?.is_empty() {
            match self.frame.init(&mut self.source) {
                Ok(()) => {
                    (self.in_frame, self.frame_bytes) = (true, 0);
                    return Ok(true);
                }
                Err(FrameDecoderError::ReadFrameHeaderError(ReadFrameHeaderError::SkipFrame { length, .. })) => {
                    let skipped = io::copy(&mut (&mut self.source).take(u64::from(length)), &mut io::sink())?;
                    if skipped < u64::from(length) {
                        return Err(io::ErrorKind::UnexpectedEof.into());
                    }
                }
                Err(error) => return Err(io::Error::other(error)),
            }
        }
        Ok(false)
    }
}

impl<R: BufRead> Read for ZstdReader<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        use ruzstd::decoding::BlockDecodingStrategy::UptoBlocks;
        if buffer.is_empty() {
            return Ok(0);
        }
        loop {
            if !self.in_frame && !self.start_frame()? {
                return Ok(0);
            }
            while self.frame.can_collect() == 0 && !self.frame.is_finished() {
                self.frame.decode_blocks(&mut self.source, UptoBlocks(1)).map_err(io::Error::other)?;
            }
            let count = self.frame.read(buffer)?;
            self.frame_bytes += count as u64;
            if count > 0 {
                return Ok(count);
            }
            self.in_frame = false;
            let stated = self.frame.content_size();
            if stated != 0 && stated != self.frame_bytes {
                return Err(io::Error::other(format!("a frame that claims {stated} bytes has {}", self.frame_bytes)));
            }
            if let Some(stated) = self.frame.get_checksum_from_data()
                && self.frame.get_calculated_checksum().is_some_and(|counted| counted != stated)
            {
                return Err(io::Error::other("the checksum is wrong"));
            }
        }
    }
}

/// Why the text ended early.
enum Stop {
    Io(io::Error),
    Truncated,
    Damaged(String),
    TooLarge,
    Bomb { stored_bytes: u64 },
}

struct TextReader<'a> {
    decoder: Box<dyn Read + 'a>,
    stored: Rc<Stored>,
    compression: Compression,
    max_text_bytes: u64,
    max_expansion: u64,
    text_bytes: u64,
    stop: Option<Stop>,
}

impl TextReader<'_> {
    fn classify(&self, error: &io::Error) -> Stop {
        if let Some(error) = self.stored.error.borrow_mut().take() {
            return Stop::Io(error);
        }
        let mut cause: Option<&(dyn std::error::Error + 'static)> = Some(error);
        while let Some(this) = cause {
            if this.downcast_ref::<io::Error>().is_some_and(|e| e.kind() == io::ErrorKind::UnexpectedEof) {
                return Stop::Truncated;
            }
            cause = match this.downcast_ref::<io::Error>().and_then(io::Error::get_ref) {
                Some(inner) => Some(inner),
                None => this.source(),
            };
        }
        Stop::Damaged(error.to_string())
    }

    fn over_a_limit(&self) -> Option<Stop> {
        if self.text_bytes > self.max_text_bytes {
            return Some(Stop::TooLarge);
        }
        let stored_bytes = self.stored.bytes.get();
        let compressed = self.compression != Compression::Plain;
        let allowed = stored_bytes.saturating_mul(self.max_expansion).max(Limits::FREE_TEXT_BYTES);
        (compressed && self.max_expansion > 0 && self.text_bytes > allowed).then_some(Stop::Bomb { stored_bytes })
    }
}

impl Read for TextReader<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        if self.stop.is_some() {
            return Err(io::ErrorKind::InvalidData.into());
        }
        let stop = match self.decoder.read(buffer) {
            Ok(count) => {
                self.text_bytes += count as u64;
                match self.over_a_limit() {
                    None => return Ok(count),
                    Some(stop) => stop,
                }
            }
            Err(error) => self.classify(&error),
        };
        self.stop = Some(stop);
        Err(io::ErrorKind::InvalidData.into())
    }
}

/// A file's text. Reads like any stream; what stopped it early, if anything did, is told by [`Input::failure`].
pub(crate) struct Input<'a> {
    file: String,
    reader: BufReader<io::Chain<Cursor<Vec<u8>>, TextReader<'a>>>,
    at_end: bool,
}

impl<'a> Input<'a> {
    /// How much of the text is looked at to recognise it.
    const HEAD_BYTES: u64 = 64 << 10;

    /// Opens `source` and reads the head of its text.
    pub(crate) fn open(file: String, source: impl Read + 'a, limits: &Limits) -> Result<Self, Error> {
        let stored = Rc::new(Stored::default());
        let mut source = StoredReader { inner: source, stored: Rc::clone(&stored) };
        let mut magic = Vec::with_capacity(4);
        if let Err(copy) = (&mut source).take(4).read_to_end(&mut magic) {
            let source = stored.error.borrow_mut().take().unwrap_or(copy);
            return Err(Error::Io { file, action: "read", source });
        }
        let compression = Compression::of(&magic);
        let source = BufReader::with_capacity(64 << 10, Cursor::new(magic).chain(source));
        let decoder: Box<dyn Read + 'a> = match compression {
            Compression::Plain => Box::new(source),
            Compression::Gzip => Box::new(MultiGzDecoder::new(source)),
            Compression::Zstd => Box::new(ZstdReader::new(source)),
        };
        let text = TextReader {
            decoder,
            stored,
            compression,
            max_text_bytes: limits.max_text_bytes,
            max_expansion: limits.max_expansion,
            text_bytes: 0,
            stop: None,
        };
        let mut input = Self {
            file,
            reader: BufReader::with_capacity(64 << 10, Cursor::new(Vec::new()).chain(text)),
            at_end: false,
        };
        input.read_ahead(Self::HEAD_BYTES)?;
        Ok(input)
    }

    /// Takes up to `count` more bytes into [`Input::head`]. Only before anything has been read.
    fn read_ahead(&mut self, count: u64) -> Result<(), Error> {
        let (head, text) = self.reader.get_mut().get_mut();
        let before = head.get_ref().len();
        let result = text.take(count).read_to_end(head.get_mut());
        self.at_end = ((head.get_ref().len() - before) as u64) < count;
        match result {
            Ok(_) => Ok(()),
            Err(copy) => {
                Err(self.failure().unwrap_or(Error::Io { file: self.file.clone(), action: "read", source: copy }))
            }
        }
    }

    /// Takes the whole text into [`Input::head`]. Only before anything has been read.
    pub(crate) fn read_all(&mut self) -> Result<(), Error> {
        if self.at_end { Ok(()) } else { self.read_ahead(u64::MAX) }
    }

    /// The beginning of the text, at least 64 KiB where it has that many. Only before anything has been read.
    pub(crate) fn head(&self) -> &[u8] {
        self.reader.get_ref().get_ref().0.get_ref()
    }

    /// Whether [`Input::head`] is the whole text.
    pub(crate) fn head_is_all(&self) -> bool {
        self.at_end
    }

    /// The text from where it was stepped over to, after [`Input::read_all`].
    pub(crate) fn text(&self) -> &[u8] {
        let head = &self.reader.get_ref().get_ref().0;
        &head.get_ref()[head.position() as usize..]
    }

    /// Steps over the first `count` bytes of the text.
    pub(crate) fn skip(&mut self, count: usize) {
        self.reader.get_mut().get_mut().0.set_position(count as u64);
    }

    /// The file's name, for messages.
    pub(crate) fn file(&self) -> &str {
        &self.file
    }

    /// How it is compressed.
    pub(crate) fn compression(&self) -> Compression {
        self.reader.get_ref().get_ref().1.compression
    }

    /// Bytes of the file read so far.
    pub(crate) fn stored_bytes(&self) -> u64 {
        self.reader.get_ref().get_ref().1.stored.bytes.get()
    }

    /// Bytes of text read so far.
    pub(crate) fn text_bytes(&self) -> u64 {
        self.reader.get_ref().get_ref().1.text_bytes
    }

    /// What stopped the text early; `None` if a parser's error is the text's own fault.
    pub(crate) fn failure(&mut self) -> Option<Error> {
        let file = self.file.clone();
        let limit_bytes = self.reader.get_ref().get_ref().1.max_text_bytes;
        let text = self.reader.get_mut().get_mut().1;
        let (compression, text_bytes) = (text.compression, text.text_bytes);
        Some(match text.stop.take()? {
            Stop::Io(source) => Error::Io { file, action: "read", source },
            Stop::Truncated => Error::Truncated { file, compression, text_bytes },
            Stop::Damaged(detail) => Error::Damaged { file, compression, text_bytes, detail },
            Stop::TooLarge => Error::TooLarge { file, limit_bytes },
            Stop::Bomb { stored_bytes } => {
                Error::Bomb { file, compression, stored_bytes, text_bytes, limit: text.max_expansion }
            }
        })
    }
}

impl Read for Input<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        self.reader.read(buffer)
    }
}

impl BufRead for Input<'_> {
    fn fill_buf(&mut self) -> io::Result<&[u8]> {
        self.reader.fill_buf()
    }

    fn consume(&mut self, count: usize) {
        self.reader.consume(count);
    }
}
