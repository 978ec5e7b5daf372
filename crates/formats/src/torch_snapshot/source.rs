//! The bytes of a pickle, with the place of each.

use std::io::Read;

use super::problem::SnapshotProblem as Problem;
use crate::input::Input;

/// Reads a text piece by piece and counts.
pub(super) struct Source<'i, 'a> {
    input: &'i mut Input<'a>,
    buffer: Vec<u8>,
    at: usize,
    end: usize,
    /// Bytes before the buffer.
    before: u64,
}

impl<'i, 'a> Source<'i, 'a> {
    pub(super) fn new(input: &'i mut Input<'a>) -> Self {
        Self { input, buffer: vec![0; 256 << 10], at: 0, end: 0, before: 0 }
    }

    /// How many bytes were taken.
    pub(super) fn offset(&self) -> u64 {
        self.before + self.at as u64
    }

    /// Gets at least one more byte. What stopped the input, if it wasn't its end, is kept by the input.
    #[cold]
    fn refill(&mut self) -> Result<(), Problem> {
        self.before += self.end as u64;
        (self.at, self.end) = (0, 0);
        match self.input.read(&mut self.buffer) {
            Ok(count) if count > 0 => {
                self.end = count;
                Ok(())
            }
            _ => Err(Problem::CutOff),
        }
    }

    pub(super) fn byte(&mut self) -> Result<u8, Problem> {
        if self.at == self.end {
            self.refill()?;
        }
        let byte = self.buffer[self.at];
        self.at += 1;
        Ok(byte)
    }

    pub(super) fn array<const N: usize>(&mut self) -> Result<[u8; N], Problem> {
        if let Some(bytes) = self.buffer[self.at..self.end].first_chunk::<N>() {
            self.at += N;
            return Ok(*bytes);
        }
        let mut bytes = [0; N];
        for byte in &mut bytes {
            *byte = self.byte()?;
        }
        Ok(bytes)
    }

    /// The next `count` bytes; `apart` holds them where they don't lie together. Grows with what is there, not with
    /// what is claimed.
    pub(super) fn slice<'s>(&'s mut self, count: u64, apart: &'s mut Vec<u8>) -> Result<&'s [u8], Problem> {
        if let Ok(count) = usize::try_from(count)
            && count <= self.end - self.at
        {
            let start = self.at;
            self.at += count;
            return Ok(&self.buffer[start..self.at]);
        }
        apart.clear();
        self.each_piece(count, |piece| apart.extend_from_slice(piece))?;
        Ok(apart)
    }

    /// Steps over the next `count` bytes.
    pub(super) fn skip(&mut self, count: u64) -> Result<(), Problem> {
        self.each_piece(count, |_| {})
    }

    fn each_piece(&mut self, mut count: u64, mut take: impl FnMut(&[u8])) -> Result<(), Problem> {
        while count > 0 {
            if self.at == self.end {
                self.refill()?;
            }
            let piece = ((self.end - self.at) as u64).min(count);
            let start = self.at;
            self.at += piece as usize;
            take(&self.buffer[start..self.at]);
            count -= piece;
        }
        Ok(())
    }

    /// Goes to the end of the text, so that damage in what is left is seen; gives how much was left.
    pub(super) fn drain(&mut self) -> u64 {
        let start = self.offset();
        loop {
            self.at = self.end;
            if self.refill().is_err() {
                return self.offset() - start;
            }
        }
    }
}
