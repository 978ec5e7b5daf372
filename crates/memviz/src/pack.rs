//! Data of a page, packed: columns of fixed-width numbers split into byte planes, deflated, in base 64.
//!
//! Equal bytes of neighbouring numbers lie side by side in a plane, which is what deflate is good at; the page reads
//! the planes back without parsing. Base 64 has no character that could end a script element, whatever the names are.

use std::io::{self, Write};

use flate2::{Compression, write::DeflateEncoder};

/// Collects columns and texts, in the order in which the page reads them.
pub(crate) struct Packer<W: Write> {
    deflate: DeflateEncoder<Base64<W>>,
}

impl<W: Write> Packer<W> {
    /// Packs into `out`.
    pub(crate) fn new(out: W) -> Self {
        Self { deflate: DeflateEncoder::new(Base64 { out, rest: [0; 3], held: 0 }, Compression::new(6)) }
    }

    /// A column of 64-bit numbers: eight planes, the lowest byte first.
    pub(crate) fn wide(&mut self, values: impl Iterator<Item = u64> + Clone) -> io::Result<()> {
        self.planes(values.map(u64::to_le_bytes))
    }

    /// A column of 32-bit numbers: four planes, the lowest byte first.
    pub(crate) fn narrow(&mut self, values: impl Iterator<Item = u32> + Clone) -> io::Result<()> {
        self.planes(values.map(u32::to_le_bytes))
    }

    /// Bytes as they are.
    pub(crate) fn raw(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.deflate.write_all(bytes)
    }

    /// Writes what is left and hands back the writer.
    pub(crate) fn finish(self) -> io::Result<W> {
        self.deflate.finish()?.finish()
    }

    fn planes<const N: usize>(&mut self, values: impl Iterator<Item = [u8; N]> + Clone) -> io::Result<()> {
        let mut buffer = [0; 4096];
        for plane in 0..N {
            let mut filled = 0;
            for value in values.clone() {
                buffer[filled] = value[plane];
                filled += 1;
                if filled == buffer.len() {
                    self.deflate.write_all(&buffer)?;
                    filled = 0;
                }
            }
            self.deflate.write_all(&buffer[..filled])?;
        }
        Ok(())
    }
}

const ALPHABET: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

/// Base 64 as in RFC 4648, section 4, padded.
struct Base64<W: Write> {
    out: W,
    /// Bytes that don't make a group of three yet.
    rest: [u8; 3],
    held: usize,
}

fn group(bytes: [u8; 3]) -> [u8; 4] {
    let word = u32::from_be_bytes([0, bytes[0], bytes[1], bytes[2]]);
    [18, 12, 6, 0].map(|shift| ALPHABET[(word >> shift & 63) as usize])
}

impl<W: Write> Base64<W> {
    fn finish(mut self) -> io::Result<W> {
        if self.held > 0 {
            self.rest[self.held..].fill(0);
            let mut text = group(self.rest);
            text[self.held + 1..].fill(b'=');
            self.out.write_all(&text)?;
        }
        Ok(self.out)
    }
}

impl<W: Write> Write for Base64<W> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let mut text = Vec::with_capacity(bytes.len() / 3 * 4 + 8);
        for &byte in bytes {
            self.rest[self.held] = byte;
            self.held += 1;
            if self.held == 3 {
                text.extend_from_slice(&group(self.rest));
                self.held = 0;
            }
        }
        self.out.write_all(&text)?;
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        self.out.flush()
    }
}

/// `bytes` in base 64.
pub(crate) fn base64(bytes: &[u8]) -> String {
    let mut text = String::with_capacity(bytes.len().div_ceil(3) * 4);
    for chunk in bytes.chunks(3) {
        let mut three = [0; 3];
        three[..chunk.len()].copy_from_slice(chunk);
        let four = group(three);
        text.extend(four[..=chunk.len()].iter().map(|&c| char::from(c)));
        text.extend(std::iter::repeat_n('=', 3 - chunk.len()));
    }
    text
}

#[cfg(test)]
#[allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]
pub(crate) mod tests {
    use std::io::Read;

    use super::*;

    /// The inverse of [`base64`].
    pub(crate) fn from_base64(text: &str) -> Vec<u8> {
        let mut bytes = Vec::new();
        for four in text.as_bytes().chunks(4) {
            let digits: Vec<u32> = four
                .iter()
                .filter(|&&c| c != b'=')
                .map(|c| ALPHABET.iter().position(|a| a == c).unwrap() as u32)
                .collect();
            let word = digits.iter().enumerate().fold(0, |word, (i, d)| word | d << (18 - 6 * i));
            bytes.extend_from_slice(&word.to_be_bytes()[1..digits.len()]);
        }
        bytes
    }

    #[test]
    fn base64_is_the_usual_one() {
        // Test vectors of RFC 4648, section 10.
        for (plain, text) in [
            ("", ""),
            ("f", "Zg=="),
            ("fo", "Zm8="),
            ("foo", "Zm9v"),
            ("foob", "Zm9vYg=="),
            ("fooba", "Zm9vYmE="),
            ("foobar", "Zm9vYmFy"),
        ] {
            assert_eq!(base64(plain.as_bytes()), text);
            assert_eq!(from_base64(text), plain.as_bytes());
        }
    }

    #[test]
    fn packed_columns_come_back_as_they_were() {
        let wide = [0, u64::MAX, 1 << 53 | 1, 77];
        let mut packer = Packer::new(Vec::new());
        packer.wide(wide.into_iter()).unwrap();
        packer.narrow([7, u32::MAX].into_iter()).unwrap();
        packer.raw("</script>".as_bytes()).unwrap();
        let text = String::from_utf8(packer.finish().unwrap()).unwrap();
        assert!(text.bytes().all(|c| ALPHABET.contains(&c) || c == b'='));
        let mut plain = Vec::new();
        flate2::read::DeflateDecoder::new(&from_base64(&text)[..]).read_to_end(&mut plain).unwrap();
        assert_eq!(plain.len(), 4 * 8 + 2 * 4 + 9);
        for (i, value) in wide.into_iter().enumerate() {
            let bytes: Vec<u8> = (0..8).map(|plane| plain[plane * 4 + i]).collect();
            assert_eq!(u64::from_le_bytes(bytes.try_into().unwrap()), value);
        }
        assert_eq!(&plain[40..], b"</script>");
    }
}
