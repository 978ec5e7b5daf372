//! Made-up addresses.

use hashbrown::HashMap;

/// Hands out addresses of a span: what was given back last of the same size, else what was never used.
#[derive(Debug)]
pub(crate) struct AddressSpace {
    next: u64,
    end: u64,
    again: HashMap<u64, Vec<u64>>,
}

impl AddressSpace {
    pub(crate) fn new(start: u64, end: u64) -> AddressSpace {
        AddressSpace { next: start, end, again: HashMap::new() }
    }

    /// `alignment` is a power of two.
    pub(crate) fn take(&mut self, bytes: u64, alignment: u64) -> Option<u64> {
        if let Some(free) = self.again.get_mut(&bytes)
            && let Some(at) = free.iter().rposition(|start| start.is_multiple_of(alignment))
        {
            return Some(free.remove(at));
        }
        let start = self.next.checked_next_multiple_of(alignment)?;
        let end = start.checked_add(bytes).filter(|end| *end <= self.end)?;
        self.next = end;
        Some(start)
    }

    pub(crate) fn give_back(&mut self, start: u64, bytes: u64) {
        self.again.entry(bytes).or_default().push(start);
    }

    /// Bytes that were never used.
    pub(crate) fn unused_bytes(&self) -> u64 {
        self.end - self.next
    }

    pub(crate) fn span_bytes(&self, start: u64) -> u64 {
        self.end - start
    }
}
