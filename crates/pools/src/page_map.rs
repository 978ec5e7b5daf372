//! From an address to its block, without a hash and without a lock: a radix table over pages of 2 MiB.
//!
//! An entry names the one block that begins in its page, or a node of 64 entries for parts of 32 KiB, each of which names a
//! block or a node of 64 entries for the 512-byte places in it. Large blocks so take one entry, and looking them up two
//! loads; small ones four.
//!
//! Several threads insert and remove at once, each its own blocks: entries change by compare-exchange, and an entry that
//! names a block turns into a node in one step. Whoever looks up a live block finds it whatever others do to theirs.
//! Whoever looks up another address finds nothing, or a block that begins elsewhere; the caller compares addresses.
//! Nodes are given back only by [`PageMap::compact`], while nobody inserts or removes.

use std::sync::{Mutex, PoisonError};

use crate::block::{BlockId, NIL};
use crate::sync::{AtomicU32, Ordering};
use crate::zeroed::{Zeroable, ZeroedTable};

/// Addresses from here on belong to no process.
pub(crate) const ADDRESS_END: u64 = 1 << ADDRESS_BITS;
const ADDRESS_BITS: u32 = 48;
const PAGE_BITS: u32 = 21;
const PAGES: usize = if cfg!(miri) { 1 << 20 } else { 1 << (ADDRESS_BITS - PAGE_BITS) };
/// Where the table begins under an interpreter, which has no room for all addresses.
const FIRST_PAGE: u64 = if cfg!(miri) { 1 << (40 - PAGE_BITS) } else { 0 };
const FAN: usize = 64;
/// Set in an entry that names a node.
const NODE: u32 = 1 << 31;
/// Nodes that are made at once.
const CHUNK: usize = if cfg!(miri) { 16 } else { 1024 };
/// Nodes there can be.
const MOST_NODES: usize = if cfg!(miri) { 4096 } else { 1 << 22 };

#[derive(Debug)]
struct Node([AtomicU32; FAN]);

// SAFETY:
// - it consists of atomic integers, which may be zero and need no dropping.
unsafe impl Zeroable for Node {}

/// An entry a page.
#[derive(Debug)]
struct Entry(AtomicU32);

// SAFETY:
// - as above.
unsafe impl Zeroable for Entry {}

/// See the module.
#[derive(Debug)]
pub(crate) struct PageMap {
    pages: ZeroedTable<Entry>,
    nodes: ZeroedTable<Node>,
    spare: Mutex<Spare>,
}

#[derive(Debug, Default)]
struct Spare {
    nodes: Vec<u32>,
    made: usize,
    /// Bytes of addresses that have had blocks.
    covered_bytes: u64,
}

/// There is no more room: 4 million nodes are in use, or the address is no process's.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Full;

impl PageMap {
    /// `None`: there are no addresses for the tables.
    pub(crate) fn new() -> Option<Self> {
        Some(Self { pages: ZeroedTable::new(PAGES)?, nodes: ZeroedTable::new(MOST_NODES)?, spare: Mutex::default() })
    }

    /// Whether blocks can begin in `[start, start + bytes)`.
    pub(crate) fn covers(&self, start: u64, bytes: u64) -> bool {
        self.spare.lock().unwrap_or_else(PoisonError::into_inner).covered_bytes += bytes;
        start.checked_add(bytes).is_some_and(|end| self.entry(end.saturating_sub(1)).is_some())
    }

    #[inline]
    fn entry(&self, address: u64) -> Option<&AtomicU32> {
        let page = (address >> PAGE_BITS).wrapping_sub(FIRST_PAGE);
        self.pages.get(page as usize).map(|entry| &entry.0)
    }

    #[inline]
    fn node(&self, number: u32) -> Option<&[AtomicU32; FAN]> {
        self.nodes.get(number as usize).map(|node| &node.0)
    }

    /// The block that begins at `address`, or possibly another or none where no live block does.
    #[inline]
    pub(crate) fn find(&self, address: u64) -> BlockId {
        let Some(entry) = self.entry(address) else { return NIL };
        // Pairs with the release of whoever made the entry a node.
        let mut found = entry.load(Ordering::Acquire);
        for shift in [15, 9] {
            if found & NODE == 0 {
                return found;
            }
            let Some(node) = self.node(found & !NODE) else { return NIL };
            // As above.
            found = node[(address >> shift) as usize % FAN].load(Ordering::Acquire);
        }
        found
    }

    /// Says that `block` begins at `address`. `address_of` tells where a block of the table begins.
    #[inline]
    pub(crate) fn insert(&self, address: u64, block: BlockId, address_of: impl Fn(BlockId) -> u64) -> Result<(), Full> {
        let Some(entry) = self.entry(address) else { return Err(Full) };
        // The block was written before; pairs with the acquire of a lookup by another thread.
        if entry.compare_exchange(0, block, Ordering::Release, Ordering::Relaxed).is_ok() {
            return Ok(());
        }
        self.insert_below(entry, address, block, address_of)
    }

    #[cold]
    fn split_failed(&self, node: u32) {
        self.spare.lock().unwrap_or_else(PoisonError::into_inner).nodes.push(node);
    }

    fn insert_below(
        &self,
        entry: &AtomicU32,
        address: u64,
        block: BlockId,
        address_of: impl Fn(BlockId) -> u64,
    ) -> Result<(), Full> {
        let mut entry = entry;
        for shift in [15, 9] {
            let node = loop {
                // Pairs with the release of whoever made the entry a node.
                let found = entry.load(Ordering::Acquire);
                if found & NODE != 0 {
                    break found;
                }
                if found == NIL {
                    if entry.compare_exchange(NIL, block, Ordering::Release, Ordering::Relaxed).is_ok() {
                        return Ok(());
                    }
                    continue;
                }
                // Another block begins in these addresses: both go into a node.
                let number = self.take_node()?;
                let Some(node) = self.node(number) else { return Err(Full) };
                node[(address_of(found) >> shift) as usize % FAN].store(found, Ordering::Relaxed);
                // Whoever finds the node sees what is in it.
                if entry.compare_exchange(found, number | NODE, Ordering::AcqRel, Ordering::Relaxed).is_ok() {
                    break number | NODE;
                }
                node[(address_of(found) >> shift) as usize % FAN].store(NIL, Ordering::Relaxed);
                self.split_failed(number);
            };
            let Some(node) = self.node(node & !NODE) else { return Err(Full) };
            entry = &node[(address >> shift) as usize % FAN];
        }
        // A place of 512 bytes: nobody else's block begins here.
        entry.store(block, Ordering::Release);
        Ok(())
    }

    /// Says that no block begins at `address` any more, if `block` did.
    #[inline]
    pub(crate) fn remove(&self, address: u64, block: BlockId) {
        let Some(mut entry) = self.entry(address) else { return };
        for shift in [15, 9] {
            // Pairs with the release of whoever made the entry a node; on success nothing needs ordering.
            match entry.compare_exchange(block, NIL, Ordering::Relaxed, Ordering::Acquire) {
                Ok(_) => return,
                Err(found) if found & NODE != 0 => {
                    let Some(node) = self.node(found & !NODE) else { return };
                    entry = &node[(address >> shift) as usize % FAN];
                }
                Err(_) => return,
            }
        }
        let _ = entry.compare_exchange(block, NIL, Ordering::Relaxed, Ordering::Relaxed);
    }

    fn take_node(&self) -> Result<u32, Full> {
        let mut spare = self.spare.lock().unwrap_or_else(PoisonError::into_inner);
        if spare.nodes.is_empty() {
            let first = spare.made;
            let end = (first + CHUNK).min(self.nodes.len());
            spare.made = end;
            // Room for all nodes there are, so that giving back never allocates.
            spare.nodes.reserve(end);
            spare.nodes.extend((first..end).rev().map(|number| number as u32));
        }
        spare.nodes.pop().ok_or(Full)
    }

    /// How many nodes are in use.
    pub(crate) fn nodes_in_use(&self) -> usize {
        let spare = self.spare.lock().unwrap_or_else(PoisonError::into_inner);
        spare.made - spare.nodes.len()
    }

    /// Gives back nodes without blocks among the pages of `[start, start + bytes)`. Nobody may insert or remove meanwhile;
    /// lookups may go on.
    pub(crate) fn compact(&self, start: u64, bytes: u64) {
        let mut page = start >> PAGE_BITS << PAGE_BITS;
        let end = start.saturating_add(bytes);
        while page < end {
            if let Some(entry) = self.entry(page) {
                self.compact_entry(entry);
            }
            page += 1 << PAGE_BITS;
        }
    }

    fn compact_entry(&self, entry: &AtomicU32) {
        let found = entry.load(Ordering::Relaxed);
        let Some(node) = (found & NODE != 0).then(|| self.node(found & !NODE)).flatten() else { return };
        let mut is_empty = true;
        for below in node {
            self.compact_entry(below);
            is_empty &= below.load(Ordering::Relaxed) == NIL;
        }
        if is_empty {
            entry.store(NIL, Ordering::Relaxed);
            self.spare.lock().unwrap_or_else(PoisonError::into_inner).nodes.push(found & !NODE);
        }
    }

    /// Bytes of host memory held, about.
    pub(crate) fn host_bytes(&self) -> u64 {
        let spare = self.spare.lock().unwrap_or_else(PoisonError::into_inner);
        let pages = spare.covered_bytes.div_ceil(1 << PAGE_BITS) * size_of::<Entry>() as u64;
        pages + (spare.made * size_of::<Node>() + spare.nodes.capacity() * size_of::<u32>()) as u64
    }
}

#[cfg(all(test, not(loom)))]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;
    use std::collections::BTreeMap;
    use std::sync::atomic::AtomicU64;

    /// Blocks' addresses, which the table asks for when two share a page.
    struct Addresses(Vec<AtomicU64>);

    impl Addresses {
        fn new(count: usize) -> Self {
            Self((0..count).map(|_| AtomicU64::new(0)).collect())
        }

        fn of(&self, block: BlockId) -> u64 {
            self.0[block as usize].load(Ordering::Relaxed)
        }
    }

    #[test]
    fn each_block_is_found_where_it_begins_and_nowhere_else() {
        let map = PageMap::new().unwrap();
        let addresses = Addresses::new(2000);
        let mut expected = BTreeMap::new();
        let mut random = 88172645463325252_u64;
        for round in 0..20_000_u32 {
            random ^= random << 13;
            random ^= random >> 7;
            random ^= random << 17;
            let block = 1 + round % 1999;
            if let Some(old) = expected.iter().find(|(_, b)| **b == block).map(|(a, _)| *a) {
                map.remove(old, block);
                expected.remove(&old);
                continue;
            }
            let reach = if random.is_multiple_of(3) { 1 << 30 } else { 4 << 20 };
            let address = (1 << 40) + random / 8 % reach / 512 * 512;
            if expected.contains_key(&address) {
                continue;
            }
            addresses.0[block as usize].store(address, Ordering::Relaxed);
            map.insert(address, block, |b| addresses.of(b)).unwrap();
            expected.insert(address, block);
            if round.is_multiple_of(4096) {
                map.compact(1 << 40, 1 << 30);
            }
        }
        for (address, block) in &expected {
            assert_eq!(map.find(*address), *block);
        }
        for (address, block) in expected {
            map.remove(address, block);
            assert_ne!(map.find(address), block);
        }
        map.compact(1 << 40, 1 << 30);
        assert_eq!(map.nodes_in_use(), 0);
    }

    #[test]
    fn addresses_that_no_process_has_are_found_empty() {
        let map = PageMap::new().unwrap();
        for address in [0, 512, ADDRESS_END, u64::MAX] {
            assert_eq!(map.find(address), NIL);
        }
        assert_eq!(map.insert(u64::MAX, 1, |_| 0), Err(Full));
    }

    #[test]
    fn threads_that_share_pages_keep_their_blocks() {
        let map = PageMap::new().unwrap();
        let addresses = Addresses::new(4096);
        let rounds = if cfg!(miri) { 2 } else { 300 };
        std::thread::scope(|scope| {
            for thread in 0..4_u64 {
                let (map, addresses) = (&map, &addresses);
                scope.spawn(move || {
                    for round in 0..rounds {
                        for number in 0..64_u64 {
                            let block = (1 + thread + 4 * number) as u32;
                            let address =
                                (1 << 40) + (number * (97 + round) % 64 * 4 + thread) * 512 * (1 + round % 80);
                            addresses.0[block as usize].store(address, Ordering::Relaxed);
                            if round % 80 == 0 || (number * (97 + round)) % 64 == number {
                                map.insert(address, block, |b| addresses.of(b)).unwrap();
                                assert_eq!(map.find(address), block);
                                map.remove(address, block);
                            }
                        }
                    }
                });
            }
        });
        for page in 0..32 {
            assert_eq!(map.find((1 << 40) + page * (2 << 20)), NIL);
        }
    }
}
