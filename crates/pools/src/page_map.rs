//! From an address to its block, without a hash and without a lock: a radix table over stretches of 256 KiB.
//!
//! An entry names the one block that begins in its stretch, or a node of 64 entries for parts of 4 KiB, each of which names a block
//! or a leaf of 8 entries for the 512-byte places in it. Large blocks so take one entry, medium ones two, and looking one up
//! touches as many cache lines.
//!
//! Several threads insert and remove at once, each its own blocks: entries change by compare-exchange, and an entry that
//! names a block is marked as busy, which keeps that block from going, while the block is put into the node that takes its
//! place; whoever meets such an entry waits. Whoever looks up a live block finds it whatever others do to theirs.
//! Whoever looks up another address finds nothing, or a block that begins elsewhere; the caller compares addresses.
//! Nodes are given back only by [`PageMap::compact`], while nobody inserts or removes.

use std::sync::Mutex;

use crate::block::{BlockId, NIL};
use crate::sync::{AtomicU32, Ordering, locked, pause};
use crate::zeroed::{Zeroable, ZeroedTable};

/// Addresses from here on belong to no process.
pub(crate) const ADDRESS_END: u64 = 1 << ADDRESS_BITS;
const ADDRESS_BITS: u32 = 48;
const STRETCH_BITS: u32 = 18;
/// The table takes addresses for all of them, and memory for those in use: 4 bytes for 256 KiB.
const STRETCHES: usize = if cfg!(loom) {
    2
} else if cfg!(miri) {
    1 << 14
} else {
    1 << (ADDRESS_BITS - STRETCH_BITS)
};
/// Where the table begins under an interpreter or a checker, which have no room for all addresses.
const FIRST_STRETCH: u64 = if cfg!(any(miri, loom)) { 1 << (40 - STRETCH_BITS) } else { 0 };
/// Entries of the two kinds of nodes, and the lowest bit of an address that they look at.
const FANS: [usize; 2] = [64, 8];
const SHIFTS: [u32; 2] = [12, 9];
/// Set in an entry that names a node.
const NODE: u32 = 1 << 31;
/// Set too while the block that was there before is on its way into the node. No node has such a number.
const BUSY: u32 = 1 << 30;
/// Nodes that are made at once.
const CHUNK: usize = if cfg!(loom) {
    2
} else if cfg!(miri) {
    16
} else {
    1024
};
/// Nodes of each kind there can be.
const MOST_NODES: usize = if cfg!(loom) {
    2
} else if cfg!(miri) {
    4096
} else {
    1 << 22
};

#[derive(Debug)]
#[cfg_attr(loom, derive(Default))]
struct Entry(AtomicU32);

// SAFETY:
// - it is an atomic integer, which may be zero and needs no dropping.
unsafe impl Zeroable for Entry {}

/// See the module.
#[derive(Debug)]
pub(crate) struct PageMap {
    stretches: ZeroedTable<Entry>,
    /// Nodes and leaves, entry by entry.
    levels: [ZeroedTable<Entry>; 2],
    spare: Mutex<Spare>,
}

#[derive(Debug, Default)]
struct Spare {
    nodes: [Vec<u32>; 2],
    made: [usize; 2],
    /// Bytes of addresses that have had blocks.
    covered_bytes: u64,
}

/// There is no more room: 4 million nodes are in use, or the address is no process's.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Full;

impl PageMap {
    /// `None`: there are no addresses for the tables.
    pub(crate) fn new() -> Option<Self> {
        let level = |level: usize| ZeroedTable::new(MOST_NODES * FANS[level]);
        Some(Self { stretches: ZeroedTable::new(STRETCHES)?, levels: [level(0)?, level(1)?], spare: Mutex::default() })
    }

    /// Whether blocks can begin in `[start, start + bytes)`.
    pub(crate) fn covers(&self, start: u64, bytes: u64) -> bool {
        locked(&self.spare).covered_bytes += bytes;
        start.checked_add(bytes).is_some_and(|end| self.entry(end.saturating_sub(1)).is_some())
    }

    #[inline]
    fn entry(&self, address: u64) -> Option<&AtomicU32> {
        let stretch = (address >> STRETCH_BITS).wrapping_sub(FIRST_STRETCH);
        self.stretches.get(stretch as usize).map(|entry| &entry.0)
    }

    /// The entry for an address in the node that `found` in `entry` names. Waits while the entry is busy.
    #[inline(always)]
    fn below(&self, level: usize, entry: &AtomicU32, found: u32, address: u64) -> Option<&AtomicU32> {
        let place = (address >> SHIFTS[level]) as usize % FANS[level];
        match self.levels[level].get((found & !NODE) as usize * FANS[level] + place) {
            Some(below) => Some(&below.0),
            // Busy: the number is beyond all nodes.
            None => self.below_busy(level, entry, place),
        }
    }

    #[cold]
    fn below_busy(&self, level: usize, entry: &AtomicU32, place: usize) -> Option<&AtomicU32> {
        let mut spins = 0_u32;
        loop {
            // Pairs with the release of whoever ends the busy time.
            let found = entry.load(Ordering::Acquire);
            if found & BUSY == 0 || found & NODE == 0 {
                let number = (found & NODE != 0).then_some((found & !NODE) as usize)?;
                return self.levels[level].get(number * FANS[level] + place).map(|below| &below.0);
            }
            spins = spins.saturating_add(1);
            pause(spins > 64);
        }
    }

    /// The block that begins at `address`, or possibly another or none where no live block does.
    #[inline]
    pub(crate) fn find(&self, address: u64) -> BlockId {
        let Some(entry) = self.entry(address) else { return NIL };
        // Pairs with the release of whoever made the entry a node.
        let found = entry.load(Ordering::Acquire);
        if found & NODE == 0 {
            return found;
        }
        let Some(entry) = self.below(0, entry, found, address) else { return NIL };
        // As above.
        let found = entry.load(Ordering::Acquire);
        if found & NODE == 0 {
            return found;
        }
        self.below(1, entry, found, address).map_or(NIL, |entry| entry.load(Ordering::Relaxed))
    }

    /// Says that `block` begins at `address`, unless it is said already. `address_of` tells where a block of the table
    /// begins. `is_alone`: nobody else inserts or removes meanwhile, which saves a locked instruction.
    #[inline]
    pub(crate) fn insert(
        &self,
        address: u64,
        block: BlockId,
        is_alone: bool,
        address_of: impl Fn(BlockId) -> u64,
    ) -> Result<(), Full> {
        let Some(entry) = self.entry(address) else { return Err(Full) };
        let found = entry.load(Ordering::Relaxed);
        if found == block {
            return Ok(());
        }
        // The block was written before; pairs with the acquire of a lookup by another thread.
        if found == NIL && change(entry, NIL, block, is_alone) {
            return Ok(());
        }
        self.insert_below(entry, address, block, address_of)
    }

    fn insert_below(
        &self,
        entry: &AtomicU32,
        address: u64,
        block: BlockId,
        address_of: impl Fn(BlockId) -> u64,
    ) -> Result<(), Full> {
        let mut entry = entry;
        for level in 0..2 {
            let node = loop {
                // Pairs with the release of whoever made the entry a node.
                let found = entry.load(Ordering::Acquire);
                if found & NODE != 0 {
                    break found;
                }
                if found == block {
                    return Ok(());
                }
                if found == NIL {
                    if change(entry, NIL, block, false) {
                        return Ok(());
                    }
                    continue;
                }
                // Another block begins in these addresses: both go into a node. Until it has, that block can't be removed, so
                // that it is where it says. (Otherwise its number may have come back meanwhile, for a block elsewhere in
                // these addresses, and that one would be put where the first one was.)
                let number = self.take_node(level)?;
                // Acquire: the block's address was written before it was inserted.
                if entry.compare_exchange(found, number | NODE | BUSY, Ordering::Acquire, Ordering::Relaxed).is_err() {
                    self.put_node(level, number);
                    continue;
                }
                let place = (address_of(found) >> SHIFTS[level]) as usize % FANS[level];
                if let Some(other) = self.levels[level].get(number as usize * FANS[level] + place) {
                    other.0.store(found, Ordering::Relaxed);
                }
                // Release: whoever finds the node sees what is in it.
                entry.store(number | NODE, Ordering::Release);
                break number | NODE;
            };
            let Some(below) = self.below(level, entry, node, address) else { return Err(Full) };
            entry = below;
        }
        // A place of 512 bytes: nobody else's block begins here.
        entry.store(block, Ordering::Release);
        Ok(())
    }

    /// Says that no block begins at `address` any more, if `block` did. `is_alone` as for [`insert`](Self::insert).
    #[inline]
    pub(crate) fn remove(&self, address: u64, block: BlockId, is_alone: bool) {
        let Some(mut entry) = self.entry(address) else { return };
        for level in 0..2 {
            // Pairs with the release of whoever made the entry a node.
            let mut found = entry.load(Ordering::Acquire);
            if found == block {
                if change(entry, block, NIL, is_alone) {
                    return;
                }
                // It became a node at this moment.
                found = entry.load(Ordering::Acquire);
            }
            if found & NODE == 0 {
                return;
            }
            let Some(below) = self.below(level, entry, found, address) else { return };
            entry = below;
        }
        // A place of 512 bytes: nobody else's block begins here.
        if entry.load(Ordering::Relaxed) == block {
            entry.store(NIL, Ordering::Relaxed);
        }
    }

    fn take_node(&self, level: usize) -> Result<u32, Full> {
        let mut spare = locked(&self.spare);
        if spare.nodes[level].is_empty() {
            let first = spare.made[level];
            let end = (first + CHUNK).min(self.levels[level].len() / FANS[level]);
            spare.made[level] = end;
            // Room for all nodes there are, so that giving back never allocates.
            spare.nodes[level].reserve(end);
            spare.nodes[level].extend((first..end).rev().map(|number| number as u32));
        }
        spare.nodes[level].pop().ok_or(Full)
    }

    fn put_node(&self, level: usize, node: u32) {
        locked(&self.spare).nodes[level].push(node & !NODE);
    }

    /// How many nodes are in use.
    pub(crate) fn nodes_in_use(&self) -> usize {
        let spare = locked(&self.spare);
        (0..2).map(|level| spare.made[level] - spare.nodes[level].len()).sum()
    }

    /// Gives back nodes without blocks among the stretches of `[start, start + bytes)`. Nobody may insert or remove
    /// meanwhile; lookups may go on.
    pub(crate) fn compact(&self, start: u64, bytes: u64) {
        let mut at = start >> STRETCH_BITS << STRETCH_BITS;
        let end = start.saturating_add(bytes);
        while at < end {
            if let Some(entry) = self.entry(at) {
                self.compact_entry(0, entry);
            }
            at += 1 << STRETCH_BITS;
        }
    }

    fn compact_entry(&self, level: usize, entry: &AtomicU32) {
        let found = entry.load(Ordering::Relaxed);
        if level == FANS.len() || found & NODE == 0 {
            return;
        }
        let first = (found & !NODE) as usize * FANS[level];
        let Some(node) = self.levels[level].get(first..first + FANS[level]) else { return };
        let mut is_empty = true;
        for below in node {
            self.compact_entry(level + 1, &below.0);
            is_empty &= below.0.load(Ordering::Relaxed) == NIL;
        }
        if is_empty {
            entry.store(NIL, Ordering::Relaxed);
            self.put_node(level, found);
        }
    }

    /// Bytes of host memory held, about.
    pub(crate) fn host_bytes(&self) -> u64 {
        let spare = locked(&self.spare);
        let entry = size_of::<Entry>() as u64;
        let nodes = (0..2).map(|level| spare.made[level] * FANS[level] + spare.nodes[level].capacity());
        spare.covered_bytes.div_ceil(1 << STRETCH_BITS) * entry + nodes.sum::<usize>() as u64 * entry
    }
}

/// Changes an entry in one step if it is still `from`. Release: what the entry names was written before.
#[inline]
fn change(entry: &AtomicU32, from: u32, to: u32, is_alone: bool) -> bool {
    if is_alone {
        entry.store(to, Ordering::Release);
        return true;
    }
    entry.compare_exchange(from, to, Ordering::Release, Ordering::Relaxed).is_ok()
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
        for round in 0..if cfg!(miri) { 300 } else { 20_000_u32 } {
            random ^= random << 13;
            random ^= random >> 7;
            random ^= random << 17;
            let block = 1 + round % 1999;
            if let Some(old) = expected.iter().find(|(_, b)| **b == block).map(|(a, _)| *a) {
                map.remove(old, block, false);
                expected.remove(&old);
                continue;
            }
            let reach = if random.is_multiple_of(3) { 1 << 30 } else { 4 << 20 };
            let address = (1 << 40) + random / 8 % reach / 512 * 512;
            if expected.contains_key(&address) {
                continue;
            }
            addresses.0[block as usize].store(address, Ordering::Relaxed);
            map.insert(address, block, false, |b| addresses.of(b)).unwrap();
            expected.insert(address, block);
            if round.is_multiple_of(4096) {
                map.compact(1 << 40, 1 << 30);
            }
        }
        for (address, block) in &expected {
            assert_eq!(map.find(*address), *block);
        }
        for (address, block) in expected {
            map.remove(address, block, false);
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
        assert_eq!(map.insert(u64::MAX, 1, false, |_| 0), Err(Full));
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
                                map.insert(address, block, false, |b| addresses.of(b)).unwrap();
                                assert_eq!(map.find(address), block);
                                map.remove(address, block, false);
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

/// All interleavings of few steps, by loom.
#[cfg(all(test, loom))]
#[allow(clippy::unwrap_used)]
mod loom_tests {
    use std::sync::Arc;

    use super::*;
    use crate::sync::AtomicU64;

    const BASE: u64 = 1 << 40;
    const PART: u64 = 1 << SHIFTS[0];

    /// Block 1 goes, and its number comes back for another place of the same stretch, while block 2 comes.
    #[test]
    fn loom_a_number_that_comes_back_in_the_same_stretch_is_found_while_another_block_comes() {
        loom::model(|| {
            let map = Arc::new(PageMap::new().unwrap());
            let first = Arc::new(AtomicU64::new(BASE));
            let address_of = |first: &AtomicU64, block| match block {
                1 => first.load(Ordering::Relaxed),
                _ => BASE + 2 * PART,
            };
            map.insert(BASE, 1, false, |block| address_of(&first, block)).unwrap();
            let thread = {
                let (map, first) = (Arc::clone(&map), Arc::clone(&first));
                loom::thread::spawn(move || {
                    map.insert(BASE + 2 * PART, 2, false, |block| address_of(&first, block)).unwrap();
                    assert_eq!(map.find(BASE + 2 * PART), 2);
                })
            };
            map.remove(BASE, 1, false);
            first.store(BASE + PART, Ordering::Relaxed);
            map.insert(BASE + PART, 1, false, |block| address_of(&first, block)).unwrap();
            assert_eq!(map.find(BASE + PART), 1);
            thread.join().unwrap();
            assert_eq!(map.find(BASE + PART), 1);
            assert_eq!(map.find(BASE + 2 * PART), 2);
        });
    }

    /// Whoever looks up a live block finds it while its entry becomes a node and others come and go.
    #[test]
    fn loom_a_live_block_is_found_while_its_entry_becomes_a_node() {
        loom::model(|| {
            let map = Arc::new(PageMap::new().unwrap());
            let address_of = |block: BlockId| BASE + u64::from(block) * PART;
            map.insert(address_of(1), 1, false, address_of).unwrap();
            let thread = {
                let map = Arc::clone(&map);
                loom::thread::spawn(move || {
                    map.insert(address_of(2), 2, false, address_of).unwrap();
                    map.remove(address_of(2), 2, false);
                })
            };
            assert_eq!(map.find(address_of(1)), 1);
            map.remove(address_of(1), 1, false);
            assert_ne!(map.find(address_of(1)), 1);
            thread.join().unwrap();
            assert_eq!((map.find(address_of(1)), map.find(address_of(2))), (NIL, NIL));
        });
    }
}
