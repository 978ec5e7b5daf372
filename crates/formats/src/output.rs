//! A file being written: compressed as its name asks, and in its place only once it is whole.

use std::fs::{self, File, OpenOptions};
use std::io::{self, BufWriter, Write};
use std::path::{Path, PathBuf};

use flate2::write::GzEncoder;
use ruzstd::encoding::{CompressionLevel, compress_to_vec};

use crate::{Compression, Error, Result};

/// A file being written. It appears under its name when [`finish`](Output::finish) is called; dropped before, it
/// leaves no trace, and what was there stays.
#[derive(Debug)]
pub struct Output {
    sink: Sink,
    /// Where the file is to be.
    target: PathBuf,
    /// Where it is until then; `None` for what isn't an ordinary file, as a pipe, which is written to directly.
    partial: Option<PathBuf>,
}

#[derive(Debug)]
enum Sink {
    Plain(BufWriter<File>),
    Gzip(Box<GzEncoder<BufWriter<File>>>),
    Zstd { file: BufWriter<File>, block: Vec<u8> },
}

/// Text of one zstd frame; a file is as many of them as it takes, so that no more than this is held.
const FRAME_BYTES: usize = 4 << 20;

impl Output {
    /// Begins to write the file at `path`: gzip if its name ends in `.gz`, zstd if in `.zst`, plain otherwise.
    ///
    /// # Errors
    /// The file can't be created.
    pub fn create(path: impl AsRef<Path>) -> Result<Self> {
        let path = path.as_ref();
        Self::open(path).map_err(|source| Error::Io { file: path.display().to_string(), action: "create", source })
    }

    fn open(path: &Path) -> io::Result<Self> {
        // Through links, so that a link stays one.
        let target = fs::canonicalize(path).unwrap_or_else(|_| path.to_owned());
        let (file, partial) = match fs::metadata(&target) {
            Ok(metadata) if metadata.is_dir() => return Err(io::ErrorKind::IsADirectory.into()),
            Ok(metadata) if !metadata.is_file() => (OpenOptions::new().write(true).open(&target)?, None),
            _ => create_beside(&target).map(|(file, partial)| (file, Some(partial)))?,
        };
        let file = BufWriter::with_capacity(64 << 10, file);
        let sink = match Self::compression_for(path) {
            Compression::Plain => Sink::Plain(file),
            Compression::Gzip => Sink::Gzip(Box::new(GzEncoder::new(file, flate2::Compression::default()))),
            Compression::Zstd => Sink::Zstd { file, block: Vec::new() },
        };
        Ok(Self { sink, target, partial })
    }

    /// How a file of this name is written.
    pub fn compression_for(path: &Path) -> Compression {
        match path.extension().and_then(|ending| ending.to_str()) {
            Some("gz") => Compression::Gzip,
            Some("zst") => Compression::Zstd,
            _ => Compression::Plain,
        }
    }

    /// Writes what is left and puts the file in its place.
    ///
    /// # Errors
    /// The file can't be written or renamed; what was there before stays.
    pub fn finish(mut self) -> Result<()> {
        self.close().map_err(|source| Error::Io { file: self.target.display().to_string(), action: "write", source })
    }

    fn close(&mut self) -> io::Result<()> {
        match &mut self.sink {
            Sink::Plain(file) => file.flush()?,
            Sink::Gzip(encoder) => {
                encoder.try_finish()?;
                encoder.get_mut().flush()?;
            }
            Sink::Zstd { file, block } => {
                write_frame(file, block)?;
                file.flush()?;
            }
        }
        if let Some(partial) = &self.partial {
            fs::rename(partial, &self.target)?;
            self.partial = None;
        }
        Ok(())
    }
}

impl Write for Output {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match &mut self.sink {
            Sink::Plain(file) => file.write(bytes),
            Sink::Gzip(encoder) => encoder.write(bytes),
            Sink::Zstd { file, block } => {
                let count = bytes.len().min(FRAME_BYTES - block.len());
                block.extend_from_slice(&bytes[..count]);
                let written = if block.len() == FRAME_BYTES { write_frame(file, block) } else { Ok(()) };
                written.map(|()| count)
            }
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        // Compressed data is only cut where it is full or at its end.
        match &mut self.sink {
            Sink::Plain(file) => file.flush(),
            Sink::Gzip(_) | Sink::Zstd { .. } => Ok(()),
        }
    }
}

impl Drop for Output {
    fn drop(&mut self) {
        if let Some(partial) = self.partial.take() {
            // Nothing more can be done about a file that can't be removed.
            let _ = fs::remove_file(partial);
        }
    }
}

fn write_frame(file: &mut impl Write, block: &mut Vec<u8>) -> io::Result<()> {
    file.write_all(&compress_to_vec(block.as_slice(), CompressionLevel::Fastest))?;
    block.clear();
    Ok(())
}

/// A new file beside `target` under a name of its own.
pub(crate) fn create_beside(target: &Path) -> io::Result<(File, PathBuf)> {
    let name = target.file_name().ok_or(io::ErrorKind::InvalidInput)?;
    let mut tries = 0..100_u32;
    loop {
        let number = tries.next().ok_or(io::ErrorKind::AlreadyExists)?;
        let mut partial_name = std::ffi::OsString::from(".");
        partial_name.push(name);
        partial_name.push(format!(".{}-{number}.partial", std::process::id()));
        let partial = target.with_file_name(partial_name);
        match OpenOptions::new().write(true).create_new(true).open(&partial) {
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
            result => return result.map(|file| (file, partial)),
        }
    }
}
