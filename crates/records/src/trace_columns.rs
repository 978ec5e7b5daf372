//! Rows as columns of small numbers, and back: what is inside the chunks of our binary trace.
//!
//! Neighbouring rows that say the same kind of thing look alike, so each column is taken by operation: first the values
//! of all rows that allocate, then of all that free, and so on, each group in the order of its rows. An id is the
//! difference to the id before it in its group (of an `alloc` to the next one up), a time the difference to the row
//! before it, a size its place among the sizes seen so far. What these come to is mostly small and repeats, which is what
//! a compressor is good at. `docs/formats.md` has the layout byte by byte.

use hashbrown::HashMap;

use crate::{NameId, Operation, Row, StackId};

/// Most rows of a chunk.
pub(crate) const MAX_CHUNK_ROWS: usize = 1 << 16;

/// Sizes that are numbered; those that come later are written out.
const MAX_SIZES: usize = 1 << 16;

const OPERATIONS: usize = Operation::ALL.len();

/// What the values of a row are differences to. Both sides keep one, through all chunks of a file.
#[derive(Clone, Debug, Default)]
struct Before {
    /// The last id of each operation.
    ids: [u64; OPERATIONS],
    time_ns: u64,
}

impl Before {
    /// The id that needs no difference.
    fn expected_id(&self, operation: usize) -> u64 {
        // Programs that number their blocks give the next number to the next block.
        self.ids[operation].wrapping_add(u64::from(operation == 0))
    }
}

/// The number of an operation in files. New ones go at the end of [`Operation::ALL`].
fn code(operation: Operation) -> usize {
    Operation::ALL.iter().position(|&known| known == operation).unwrap_or_default()
}

/// The places of rows by operation, each operation's in order.
fn grouped(codes: &[u8]) -> Vec<u32> {
    let mut places: Vec<u32> = (0..codes.len() as u32).collect();
    places.sort_by_key(|&place| codes[place as usize]);
    places
}

/// Differences of either sign as small numbers: 0, -1, 1, -2, ...
fn fold(difference: i64) -> u64 {
    ((difference << 1) ^ (difference >> 63)) as u64
}

fn unfold(folded: u64) -> i64 {
    (folded >> 1) as i64 ^ -((folded & 1) as i64)
}

/// Appends `number` in groups of seven bits, lowest first; the top bit of a byte says that another follows.
pub(crate) fn put_number(mut number: u64, out: &mut Vec<u8>) {
    while number >= 0x80 {
        out.push(number as u8 | 0x80);
        number >>= 7;
    }
    out.push(number as u8);
}

/// Takes what [`put_number`] put; `None` if it isn't there or has more than 64 bits.
pub(crate) fn take_number(from: &mut &[u8]) -> Option<u64> {
    let mut number = 0;
    for shift in (0..64).step_by(7) {
        let (&byte, rest) = from.split_first()?;
        *from = rest;
        let bits = u64::from(byte & 0x7f);
        // The tenth byte has room for one bit.
        if shift == 63 && bits > 1 {
            return None;
        }
        number |= bits << shift;
        if byte & 0x80 == 0 {
            return Some(number);
        }
    }
    None
}

/// Rows to columns.
#[derive(Debug, Default)]
pub(crate) struct Encoder {
    before: Before,
    sizes: HashMap<u64, u32>,
}

impl Encoder {
    /// Appends `rows`, at most [`MAX_CHUNK_ROWS`], to `out`. Stacks are left out.
    pub(crate) fn encode(&mut self, rows: &[Row], out: &mut Vec<u8>) {
        put_number(rows.len() as u64, out);
        let codes: Vec<u8> = rows.iter().map(|row| code(row.operation) as u8).collect();
        out.extend_from_slice(&codes);
        let places = grouped(&codes);
        let in_groups = || places.iter().map(|&place| &rows[place as usize]);
        for row in in_groups() {
            let operation = code(row.operation);
            put_number(fold(row.id.wrapping_sub(self.before.expected_id(operation)) as i64), out);
            self.before.ids[operation] = row.id;
        }
        for row in in_groups() {
            self.put_size(row.bytes, out);
        }
        in_groups().for_each(|row| put_number(fold(row.stream), out));
        in_groups().for_each(|row| put_number(u64::from(row.device), out));
        in_groups().for_each(|row| put_number(u64::from(row.thread), out));
        in_groups().for_each(|row| put_number(u64::from(row.tag.0), out));
        for &place in &places {
            let before = (place as usize).checked_sub(1).map_or(self.before.time_ns, |before| rows[before].time_ns);
            put_number(fold(rows[place as usize].time_ns.wrapping_sub(before) as i64), out);
        }
        if let Some(last) = rows.last() {
            self.before.time_ns = last.time_ns;
        }
    }

    /// One more than the place of a size that was seen; 0 and the size itself if it wasn't.
    fn put_size(&mut self, bytes: u64, out: &mut Vec<u8>) {
        if let Some(&place) = self.sizes.get(&bytes) {
            return put_number(u64::from(place) + 1, out);
        }
        put_number(0, out);
        put_number(bytes, out);
        if self.sizes.len() < MAX_SIZES {
            self.sizes.insert(bytes, self.sizes.len() as u32);
        }
    }
}

/// Columns to rows.
#[derive(Debug, Default)]
pub(crate) struct Decoder {
    before: Before,
    sizes: Vec<u64>,
}

impl Decoder {
    /// Takes the rows of a chunk from `from`; `None` if they aren't what an [`Encoder`] writes, or name a string beyond
    /// the first `names`.
    pub(crate) fn decode(&mut self, from: &mut &[u8], names: usize) -> Option<Vec<Row>> {
        let count = usize::try_from(take_number(from)?).ok().filter(|&count| count <= MAX_CHUNK_ROWS)?;
        let codes = from.split_off(..count)?;
        let mut rows = Vec::with_capacity(count);
        for &code in codes {
            let operation = *Operation::ALL.get(usize::from(code))?;
            rows.push(Row { operation, stack: StackId::EMPTY, ..Row::default() });
        }
        let places = grouped(codes);
        for &place in &places {
            let operation = usize::from(codes[place as usize]);
            let id = self.before.expected_id(operation).wrapping_add(unfold(take_number(from)?) as u64);
            self.before.ids[operation] = id;
            rows[place as usize].id = id;
        }
        for &place in &places {
            rows[place as usize].bytes = self.take_size(from)?;
        }
        for &place in &places {
            rows[place as usize].stream = unfold(take_number(from)?);
        }
        for &place in &places {
            rows[place as usize].device = take_u32(from)?;
        }
        for &place in &places {
            rows[place as usize].thread = take_u32(from)?;
        }
        for &place in &places {
            let tag = take_u32(from)?;
            rows[place as usize].tag = (tag as usize <= names).then_some(NameId(tag))?;
        }
        for &place in &places {
            rows[place as usize].time_ns = unfold(take_number(from)?) as u64;
        }
        for row in &mut rows {
            row.time_ns = self.before.time_ns.wrapping_add(row.time_ns);
            self.before.time_ns = row.time_ns;
        }
        Some(rows)
    }

    fn take_size(&mut self, from: &mut &[u8]) -> Option<u64> {
        if let Some(place) = take_number(from)?.checked_sub(1) {
            return self.sizes.get(usize::try_from(place).ok()?).copied();
        }
        let bytes = take_number(from)?;
        if self.sizes.len() < MAX_SIZES {
            self.sizes.push(bytes);
        }
        Some(bytes)
    }
}

fn take_u32(from: &mut &[u8]) -> Option<u32> {
    u32::try_from(take_number(from)?).ok()
}

#[cfg(test)]
#[allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]
mod tests {
    use super::*;

    #[test]
    fn numbers_of_every_length_come_back_and_longer_ones_are_refused() {
        for number in [0, 1, 127, 128, 16_383, 16_384, u64::from(u32::MAX), u64::MAX / 2, u64::MAX] {
            let mut bytes = Vec::new();
            put_number(number, &mut bytes);
            let mut from = bytes.as_slice();
            assert_eq!((take_number(&mut from), from.len()), (Some(number), 0));
            assert_eq!(take_number(&mut &bytes[..bytes.len() - 1]), None);
            assert_eq!(fold(unfold(number)), number);
        }
        assert_eq!(take_number(&mut &[0xff; 11][..]), None);
        let mut too_large = [0xff_u8; 10];
        too_large[9] = 2;
        assert_eq!(take_number(&mut &too_large[..]), None);
        assert_eq!([fold(0), fold(-1), fold(1), fold(i64::MIN)], [0, 1, 2, u64::MAX]);
    }

    #[test]
    fn rows_come_back_through_several_chunks() {
        let rows: Vec<Row> = (0..500_u64)
            .map(|i| Row {
                operation: Operation::ALL[(i * 7 % 13) as usize],
                id: i.wrapping_mul(i).wrapping_sub(5),
                bytes: (i % 9) << (i % 60),
                stream: i as i64 - 100,
                device: i as u32 % 3,
                thread: u32::MAX - i as u32,
                tag: NameId(i as u32 % 5),
                stack: StackId::EMPTY,
                time_ns: (u64::MAX - i * 1000).wrapping_add((i % 3) * 5000),
            })
            .collect();
        let (mut encoder, mut decoder) = (Encoder::default(), Decoder::default());
        for part in rows.chunks(37) {
            let mut bytes = Vec::new();
            encoder.encode(part, &mut bytes);
            let mut from = bytes.as_slice();
            assert_eq!(decoder.decode(&mut from, 4).unwrap(), part);
            assert!(from.is_empty());
        }
        let mut bytes = Vec::new();
        Encoder::default().encode(&rows[..9], &mut bytes);
        assert!(Decoder::default().decode(&mut bytes.as_slice(), 3).is_none(), "a name that isn't there");
        for length in 0..bytes.len() {
            assert!(Decoder::default().decode(&mut &bytes[..length], 4).is_none(), "{length}");
        }
    }
}
