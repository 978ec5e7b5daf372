//! Bytes that somebody works on, kept from going meanwhile.

use super::raw::Pages;
use smallvec::SmallVec;
use std::sync::Arc;

/// A part of one piece of memory.
#[derive(Debug)]
pub(super) struct Piece {
    pub(super) pages: Arc<Pages>,
    pub(super) at: usize,
    pub(super) bytes: usize,
}

/// Bytes at consecutive addresses. While it lives none of their memory goes.
#[derive(Debug, Default)]
pub(super) struct Span {
    pieces: SmallVec<[Piece; 1]>,
}

impl Span {
    /// The part of one piece.
    pub(super) fn one(pages: &Arc<Pages>, at: u64, bytes: u64) -> Option<Span> {
        let mut span = Span::default();
        span.push(pages, at, bytes)?;
        Some(span)
    }

    /// Adds what comes next. `None` if that can't be counted on this machine.
    pub(super) fn push(&mut self, pages: &Arc<Pages>, at: u64, bytes: u64) -> Option<()> {
        let (at, bytes) = (usize::try_from(at).ok()?, usize::try_from(bytes).ok()?);
        self.pieces.push(Piece { pages: Arc::clone(pages), at, bytes });
        Some(())
    }

    /// Copies all bytes from a span of the same size. False if either side may not.
    #[must_use]
    pub(super) fn copy(&self, from: &Span) -> bool {
        let mut sources = from.pieces.iter();
        let (mut source, mut read) = (sources.next(), 0);
        for piece in &self.pieces {
            let mut written = 0;
            while written < piece.bytes {
                let Some(current) = source else { return false };
                let bytes = (piece.bytes - written).min(current.bytes - read);
                if !piece.pages.copy(piece.at + written, &current.pages, current.at + read, bytes) {
                    return false;
                }
                written += bytes;
                read += bytes;
                if read == current.bytes {
                    (source, read) = (sources.next(), 0);
                }
            }
        }
        true
    }

    /// Sets all bytes. False if it may not.
    #[must_use]
    pub(super) fn fill(&self, value: u8) -> bool {
        self.pieces.iter().all(|piece| piece.pages.fill(piece.at, piece.bytes, value))
    }

    /// Copies bytes here. False if it may not, or there are more bytes than room.
    #[must_use]
    pub(super) fn write(&self, mut from: &[u8]) -> bool {
        for piece in &self.pieces {
            let (now, later) = from.split_at(piece.bytes.min(from.len()));
            if !piece.pages.write(piece.at, now) {
                return false;
            }
            from = later;
        }
        from.is_empty()
    }

    /// Copies bytes from here. False if it may not, or there are fewer bytes than wanted.
    #[must_use]
    pub(super) fn read(&self, mut to: &mut [u8]) -> bool {
        for piece in &self.pieces {
            let bytes = piece.bytes.min(to.len());
            let (now, later) = to.split_at_mut(bytes);
            if !piece.pages.read(piece.at, now) {
                return false;
            }
            to = later;
        }
        to.is_empty()
    }
}
