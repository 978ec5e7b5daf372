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

use std::sync::{Mutex, OnceLock, PoisonError};

use crate::block::{BlockId, NIL};
use crate::sync::{AtomicU32, Ordering};

/// Addresses from here on belong to no process.
pub(crate) const ADDRESS_END: u64 = 1 << ADDRESS_BITS;
const ADDRESS_BITS: u32 = 48;
const PAGE_BITS: u32 = 21;
const LEAF_BITS: u32 = 13;
const ROOTS: usize = 1 << (ADDRESS_BITS - PAGE_BITS - LEAF_BITS);
const LEAF: usize = 1 << LEAF_BITS;
const FAN: usize = 64;
/// Set in an entry that names a node.
const NODE: u32 = 1 << 31;
const CHUNK: usize = if cfg!(miri) { 16 } else { 1024 };
const CHUNKS: usize = 4096;

type Node = [AtomicU32; FAN];

/// See the module.
#[derive(Debug)]
pub(crate) struct PageMap {
    /// For each 16 GiB of addresses a leaf with an entry a page.
    roots: Box<[OnceLock<Box<[AtomicU32]>>]>,
    nodes: Box<[OnceLock<Box<[Node]>>]>,
    spare: Mutex<Spare>,
}

#[derive(Debug, Default)]
struct Spare {
    nodes: Vec<u32>,
    chunks: usize,
    leaves: usize,
}

/// There is no more room for nodes: 4 million of them are in use.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Full;

impl PageMap {
    pub(crate) fn new() -> Self {
        Self {
            roots: (0..ROOTS).map(|_| OnceLock::new()).collect(),
            nodes: (0..CHUNKS).map(|_| OnceLock::new()).collect(),
            spare: Mutex::default(),
        }
    }

    /// Makes room for blocks that begin in `[start, start + bytes)`.
    pub(crate) fn cover(&self, start: u64, bytes: u64) {
        let last = start.saturating_add(bytes.max(1) - 1).min(ADDRESS_END - 1);
        for root in start >> (PAGE_BITS + LEAF_BITS)..=last >> (PAGE_BITS + LEAF_BITS) {
            if let Some(leaf) = self.roots.get(root as usize)
                && leaf.get().is_none()
            {
                leaf.get_or_init(|| (0..LEAF).map(|_| AtomicU32::new(0)).collect());
                self.spare.lock().unwrap_or_else(PoisonError::into_inner).leaves += 1;
            }
        }
    }

    #[inline]
    fn entry(&self, address: u64) -> Option<&AtomicU32> {
        let page = address >> PAGE_BITS;
        let leaf = self.roots.get((page >> LEAF_BITS) as usize)?.get()?;
        leaf.get(page as usize & (LEAF - 1))
    }

    #[inline]
    fn node(&self, number: u32) -> Option<&Node> {
        self.nodes.get(number as usize / CHUNK)?.get()?.get(number as usize % CHUNK)
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
            let index = spare.chunks;
            let chunk = self.nodes.get(index).ok_or(Full)?;
            chunk.get_or_init(|| (0..CHUNK).map(|_| Node::from([const { AtomicU32::new(0) }; FAN])).collect());
            spare.chunks += 1;
            let first = index * CHUNK;
            spare.nodes.reserve((index + 1) * CHUNK);
            spare.nodes.extend((first..first + CHUNK).rev().map(|number| number as u32));
        }
        spare.nodes.pop().ok_or(Full)
    }

    /// How many nodes are in use.
    pub(crate) fn nodes_in_use(&self) -> usize {
        let spare = self.spare.lock().unwrap_or_else(PoisonError::into_inner);
        spare.chunks * CHUNK - spare.nodes.len()
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

    /// Bytes of host memory held.
    pub(crate) fn host_bytes(&self) -> u64 {
        let spare = self.spare.lock().unwrap_or_else(PoisonError::into_inner);
        (spare.chunks * CHUNK * size_of::<Node>()
            + spare.leaves * LEAF * 4
            + spare.nodes.capacity() * 4
            + ROOTS * size_of::<OnceLock<Box<[AtomicU32]>>>()) as u64
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
        let map = PageMap::new();
        let addresses = Addresses::new(2000);
        map.cover(1 << 40, 1 << 30);
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
        let map = PageMap::new();
        for address in [0, 512, ADDRESS_END, u64::MAX] {
            assert_eq!(map.find(address), NIL);
        }
        assert_eq!(map.insert(u64::MAX, 1, |_| 0), Err(Full));
    }

    #[test]
    fn threads_that_share_pages_keep_their_blocks() {
        let map = PageMap::new();
        map.cover(1 << 40, 64 << 20);
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
