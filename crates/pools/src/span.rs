//! Runs of neighbouring blocks, and where their memory comes from.

use std::collections::BTreeMap;

use device::{AddressRange, DevicePtr, HandleId};

use crate::block::BlockId;

/// A piece of physical memory where it is mapped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Mapped {
    pub(crate) at: u64,
    pub(crate) bytes: u64,
    pub(crate) handle: HandleId,
}

/// Where a span's memory comes from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Source {
    /// One reservation of plain memory: what the device returned, and how much of it is held.
    Plain { ptr: DevicePtr, bytes: u64 },
    /// Handles mapped one behind the other, by address.
    Handles(Vec<Mapped>),
}

/// A run of neighbouring blocks: no two of its bytes belong to two spans. The first block of a span stays its first as long
/// as the span lives: blocks join and split to the right.
#[derive(Clone, Debug)]
pub(crate) struct Span {
    pub(crate) base: u64,
    pub(crate) bytes: u64,
    pub(crate) first: BlockId,
    /// A block without bytes that ends the run.
    pub(crate) fence: BlockId,
    pub(crate) pool: u16,
    pub(crate) source: Source,
}

impl Span {
    pub(crate) fn end(&self) -> u64 {
        self.base + self.bytes
    }

    pub(crate) fn reserved_bytes(&self) -> u64 {
        match &self.source {
            Source::Plain { bytes, .. } => *bytes,
            Source::Handles(handles) => handles.iter().map(|mapped| mapped.bytes).sum(),
        }
    }
}

/// Spans by address.
pub(crate) type Spans = BTreeMap<u64, Span>;

/// The span that holds an address.
pub(crate) fn span_of(spans: &Spans, address: u64) -> Option<&Span> {
    spans.range(..=address).next_back().map(|(_, span)| span).filter(|span| address < span.end())
}

/// Addresses without memory yet, of one end of the arena.
#[derive(Clone, Debug)]
pub(crate) struct Zone {
    pub(crate) range: AddressRange,
    /// Addresses from here on were never given out, or came back.
    pub(crate) next: u64,
    /// Addresses below `next` that came back, or whose growth failed.
    pub(crate) gaps: Vec<(u64, u64)>,
}

impl Zone {
    pub(crate) fn new(range: AddressRange) -> Self {
        Self { range, next: range.start.0, gaps: Vec::new() }
    }

    /// Addresses for `bytes` more, behind `after` if they are free. `None`: there are none.
    pub(crate) fn take(&mut self, bytes: u64, after: Option<u64>) -> Option<u64> {
        if let Some(after) = after.filter(|after| *after != self.next) {
            let gap = self.gaps.iter().position(|(at, room)| *at == after && *room >= bytes)?;
            return Some(self.cut(gap, bytes));
        }
        if after.is_none()
            && let Some(gap) = self.gaps.iter().position(|(_, room)| *room >= bytes)
        {
            return Some(self.cut(gap, bytes));
        }
        let end = self.next.checked_add(bytes).filter(|end| *end <= self.range.end())?;
        Some(std::mem::replace(&mut self.next, end))
    }

    fn cut(&mut self, gap: usize, bytes: u64) -> u64 {
        let (at, room) = self.gaps[gap];
        if room == bytes {
            self.gaps.swap_remove(gap);
        } else {
            self.gaps[gap] = (at + bytes, room - bytes);
        }
        at
    }

    /// Takes addresses back.
    pub(crate) fn put(&mut self, at: u64, bytes: u64) {
        let (mut at, mut bytes) = (at, bytes);
        while let Some(touching) = self.gaps.iter().position(|(gap, room)| gap + room == at || at + bytes == *gap) {
            let (gap, room) = self.gaps.swap_remove(touching);
            at = at.min(gap);
            bytes += room;
        }
        if at + bytes == self.next {
            self.next = at;
        } else {
            self.gaps.push((at, bytes));
        }
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    #[test]
    fn addresses_that_come_back_join_and_are_given_again() {
        let mut zone = Zone::new(AddressRange::new(DevicePtr(1000), 100));
        let a = zone.take(10, None).unwrap();
        let b = zone.take(20, Some(a + 10)).unwrap();
        let c = zone.take(30, None).unwrap();
        assert_eq!((a, b, c), (1000, 1010, 1030));
        assert_eq!(zone.take(41, None), None);
        zone.put(a, 10);
        zone.put(b, 20);
        assert_eq!(zone.gaps, [(1000, 30)]);
        assert_eq!(zone.take(5, Some(1010)), None, "no gap begins there");
        assert_eq!(zone.take(30, None), Some(1000));
        zone.put(c, 30);
        zone.put(a, 30);
        assert_eq!((zone.next, zone.gaps.len()), (1000, 0));
    }
}
