//! Plain values as a pickle of protocol 4.

use std::io::{self, Write};

use super::opcodes as op;

/// Items between a MARK and its APPENDS. As many as Python writes; readers in browsers fail at a million.
const BATCH: usize = 1000;

/// Where in the memo something is; `None` until it was written.
pub(super) type Place = Option<u32>;

/// A pickle being written.
pub(super) struct Pickle<W> {
    out: W,
    /// Entries of the memo.
    count: u32,
}

impl<W: Write> Pickle<W> {
    /// Begins.
    pub(super) fn new(mut out: W) -> io::Result<Self> {
        out.write_all(&[op::PROTO, 4])?;
        Ok(Self { out, count: 0 })
    }

    /// Ends.
    pub(super) fn stop(mut self) -> io::Result<()> {
        self.out.write_all(&[op::STOP])?;
        self.out.flush()
    }

    pub(super) fn int(&mut self, number: u64) -> io::Result<()> {
        let bytes = number.to_le_bytes();
        match number {
            0..=0xff => self.out.write_all(&[op::BININT1, bytes[0]]),
            0x100..=0xffff => self.out.write_all(&[op::BININT2, bytes[0], bytes[1]]),
            0x1_0000..=0x7fff_ffff => self.out.write_all(&[op::BININT, bytes[0], bytes[1], bytes[2], bytes[3]]),
            _ => {
                // One bit more than the number has, as its highest is the sign.
                let count = (64 - number.leading_zeros() as usize) / 8 + 1;
                let mut long = [0; 11];
                (long[0], long[1]) = (op::LONG1, count as u8);
                long[2..10].copy_from_slice(&bytes);
                self.out.write_all(&long[..2 + count])
            }
        }
    }

    pub(super) fn negative(&mut self, number: i64) -> io::Result<()> {
        self.out.write_all(&[op::LONG1, 8])?;
        self.out.write_all(&number.to_le_bytes())
    }

    pub(super) fn float(&mut self, number: f64) -> io::Result<()> {
        self.out.write_all(&[op::BINFLOAT])?;
        self.out.write_all(&number.to_be_bytes())
    }

    pub(super) fn truth(&mut self, is: bool) -> io::Result<()> {
        self.out.write_all(&[if is { op::NEWTRUE } else { op::NEWFALSE }])
    }

    pub(super) fn none(&mut self) -> io::Result<()> {
        self.out.write_all(&[op::NONE])
    }

    /// A text that stands in one place.
    pub(super) fn text(&mut self, text: &str) -> io::Result<()> {
        match (u8::try_from(text.len()), u32::try_from(text.len())) {
            (Ok(count), _) => self.out.write_all(&[op::SHORT_BINUNICODE, count])?,
            (_, Ok(count)) => {
                self.out.write_all(&[op::BINUNICODE])?;
                self.out.write_all(&count.to_le_bytes())?;
            }
            _ => {
                self.out.write_all(&[op::BINUNICODE8])?;
                self.out.write_all(&(text.len() as u64).to_le_bytes())?;
            }
        }
        self.out.write_all(text.as_bytes())
    }

    /// A text that may have been written before.
    pub(super) fn shared_text(&mut self, place: &mut Place, text: &str) -> io::Result<()> {
        if self.again(*place)? {
            return Ok(());
        }
        self.text(text)?;
        *place = self.memoize()?;
        Ok(())
    }

    /// Writes what is at `place`; false if nothing is.
    pub(super) fn again(&mut self, place: Place) -> io::Result<bool> {
        match (place, place.map(u8::try_from)) {
            (Some(_), Some(Ok(index))) => self.out.write_all(&[op::BINGET, index])?,
            (Some(index), _) => {
                let [a, b, c, d] = index.to_le_bytes();
                self.out.write_all(&[op::LONG_BINGET, a, b, c, d])?;
            }
            _ => return Ok(false),
        }
        Ok(true)
    }

    /// Keeps what was written last for later; a memo that is full keeps no more.
    pub(super) fn memoize(&mut self) -> io::Result<Place> {
        let Some(next) = self.count.checked_add(1) else { return Ok(None) };
        self.out.write_all(&[op::MEMOIZE])?;
        let place = self.count;
        self.count = next;
        Ok(Some(place))
    }

    /// A list, each item of it written by `each`.
    pub(super) fn list<T>(
        &mut self,
        items: impl IntoIterator<Item = T>,
        mut each: impl FnMut(&mut Self, T) -> io::Result<()>,
    ) -> io::Result<()> {
        self.out.write_all(&[op::EMPTY_LIST])?;
        let mut in_batch = 0;
        for item in items {
            if in_batch == 0 {
                self.out.write_all(&[op::MARK])?;
            }
            each(self, item)?;
            in_batch += 1;
            if in_batch == BATCH {
                self.out.write_all(&[op::APPENDS])?;
                in_batch = 0;
            }
        }
        if in_batch > 0 {
            self.out.write_all(&[op::APPENDS])?;
        }
        Ok(())
    }

    /// A dict; `fill` writes keys and values by turns.
    pub(super) fn dict(&mut self, fill: impl FnOnce(&mut Self) -> io::Result<()>) -> io::Result<()> {
        self.out.write_all(&[op::EMPTY_DICT, op::MARK])?;
        fill(self)?;
        self.out.write_all(&[op::SETITEMS])
    }

    /// A pair of what `fill` writes.
    pub(super) fn pair(&mut self, fill: impl FnOnce(&mut Self) -> io::Result<()>) -> io::Result<()> {
        fill(self)?;
        self.out.write_all(&[op::TUPLE2])
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]
mod tests {
    use super::*;

    fn written(write: impl FnOnce(&mut Pickle<&mut Vec<u8>>) -> io::Result<()>) -> Vec<u8> {
        let mut bytes = Vec::new();
        let mut pickle = Pickle::new(&mut bytes).unwrap();
        write(&mut pickle).unwrap();
        pickle.stop().unwrap();
        bytes[2..bytes.len() - 1].to_vec()
    }

    #[test]
    fn numbers_take_as_few_bytes_as_their_sign_allows() {
        assert_eq!(written(|pickle| pickle.int(255)), [b'K', 255]);
        assert_eq!(written(|pickle| pickle.int(256)), [b'M', 0, 1]);
        assert_eq!(written(|pickle| pickle.int(0x7fff_ffff)), [b'J', 0xff, 0xff, 0xff, 0x7f]);
        assert_eq!(written(|pickle| pickle.int(0x8000_0000)), [0x8a, 5, 0, 0, 0, 0x80, 0]);
        assert_eq!(written(|pickle| pickle.int(0x7f_ffff_ffff)), [0x8a, 5, 0xff, 0xff, 0xff, 0xff, 0x7f]);
        assert_eq!(written(|pickle| pickle.int(u64::MAX)), [0x8a, 9, 255, 255, 255, 255, 255, 255, 255, 255, 0]);
    }

    #[test]
    fn lists_are_written_in_batches() {
        let bytes = written(|pickle| pickle.list(0..2001, |pickle, _| pickle.none()));
        assert_eq!(bytes.iter().filter(|byte| **byte == op::APPENDS).count(), 3);
        assert_eq!(bytes.iter().filter(|byte| **byte == op::NONE).count(), 2001);
        assert_eq!(written(|pickle| pickle.list(0..0, |pickle, _: u8| pickle.none())), [b']']);
    }
}
