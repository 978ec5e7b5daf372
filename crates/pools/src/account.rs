//! Bytes by tier and precision.

use crate::block::{BlockId, Blocks};
use crate::{Precision, Tier};

/// Combinations of tier and precision.
pub(crate) const KINDS: usize = Tier::ALL.len() * Precision::ALL.len();

/// Where a tag's figures are kept, from its packed form.
#[inline]
pub(crate) fn kind_of(packed_tag: u64) -> usize {
    let tier = (packed_tag & 0xff) as usize;
    let precision = (packed_tag >> 8 & 0xff) as usize;
    (tier * Precision::ALL.len() + precision).min(KINDS - 1)
}

/// What a block adds to the figures.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Weight {
    pub(crate) kind: usize,
    pub(crate) requested: u64,
    pub(crate) allocated: u64,
}

impl Weight {
    pub(crate) fn of(blocks: &Blocks, id: BlockId) -> Self {
        let block = blocks.get(id);
        Self { kind: kind_of(block.tag()), requested: block.requested(), allocated: block.bytes() }
    }
}

/// A level with its highest value and all that ever came in.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Level {
    pub(crate) current: i64,
    pub(crate) peak: i64,
    pub(crate) cumulative: u64,
}

impl Level {
    #[inline]
    pub(crate) fn add(&mut self, bytes: u64) {
        self.current += bytes as i64;
        self.cumulative += bytes;
        self.peak = self.peak.max(self.current);
    }

    #[inline]
    pub(crate) fn sub(&mut self, bytes: u64) {
        self.current -= bytes as i64;
    }

    pub(crate) fn join(&mut self, other: &Level) {
        self.current += other.current;
        self.peak += other.peak;
        self.cumulative += other.cumulative;
    }
}

/// Figures of one shard, kept under its lock.
#[derive(Clone, Debug)]
pub(crate) struct Account {
    /// Requested and not freed, by kind.
    pub(crate) kinds: Box<[Level; KINDS]>,
    /// Requested and not freed.
    pub(crate) live: Level,
    /// Handed out after rounding.
    pub(crate) allocated: Level,
    /// Handed out after rounding, or pending.
    pub(crate) active: Level,
    pub(crate) allocs: u64,
    pub(crate) frees: u64,
}

impl Default for Account {
    fn default() -> Self {
        Self {
            kinds: Box::new([Level::default(); KINDS]),
            live: Level::default(),
            allocated: Level::default(),
            active: Level::default(),
            allocs: 0,
            frees: 0,
        }
    }
}

impl Account {
    /// Host memory outside of itself.
    pub(crate) const HOST_BYTES: usize = KINDS * size_of::<Level>();

    #[inline]
    pub(crate) fn alloc(&mut self, weight: Weight) {
        self.kinds[weight.kind].add(weight.requested);
        self.live.add(weight.requested);
        self.allocated.add(weight.allocated);
        self.active.add(weight.allocated);
        self.allocs += 1;
    }

    /// The host dropped a block.
    #[inline]
    pub(crate) fn free(&mut self, weight: Weight) {
        self.kinds[weight.kind].sub(weight.requested);
        self.live.sub(weight.requested);
        self.allocated.sub(weight.allocated);
        self.frees += 1;
    }

    /// Nothing uses a dropped block any more.
    #[inline]
    pub(crate) fn settle(&mut self, bytes: u64) {
        self.active.sub(bytes);
    }

    /// Memory that was to go back to the device stays, and is waited for.
    pub(crate) fn unsettle(&mut self, bytes: u64) {
        self.active.add(bytes);
    }

    /// Adds another shard's figures. Peaks add up too: an upper bound, exact while one stream allocates.
    pub(crate) fn join(&mut self, other: &Account) {
        for (kind, theirs) in self.kinds.iter_mut().zip(other.kinds.iter()) {
            kind.join(theirs);
        }
        self.live.join(&other.live);
        self.allocated.join(&other.allocated);
        self.active.join(&other.active);
        self.allocs += other.allocs;
        self.frees += other.frees;
    }
}

/// What a magazine has not told its shard yet.
#[derive(Clone, Debug)]
pub(crate) struct Unreported {
    kinds: [i64; KINDS],
    cumulative: [u64; KINDS],
    /// Which of the above are not zero.
    touched: u64,
    live: i64,
    allocated: i64,
    allocated_cumulative: u64,
    allocs: u64,
    frees: u64,
}

const _: () = assert!(KINDS <= 64, "touched has a bit a kind");

impl Default for Unreported {
    fn default() -> Self {
        Self {
            kinds: [0; KINDS],
            cumulative: [0; KINDS],
            touched: 0,
            live: 0,
            allocated: 0,
            allocated_cumulative: 0,
            allocs: 0,
            frees: 0,
        }
    }
}

impl Unreported {
    /// Bytes by which peaks may be wrong before a magazine reports.
    const MOST_BYTES: i64 = 256 << 10;

    #[inline]
    pub(crate) fn alloc(&mut self, weight: Weight) {
        self.kinds[weight.kind] += weight.requested as i64;
        self.cumulative[weight.kind] += weight.requested;
        self.touched |= 1 << weight.kind;
        self.live += weight.requested as i64;
        self.allocated += weight.allocated as i64;
        self.allocated_cumulative += weight.allocated;
        self.allocs += 1;
    }

    #[inline]
    pub(crate) fn free(&mut self, weight: Weight) {
        self.kinds[weight.kind] -= weight.requested as i64;
        self.touched |= 1 << weight.kind;
        self.live -= weight.requested as i64;
        self.allocated -= weight.allocated as i64;
        self.frees += 1;
    }

    /// Whether there is so much that peaks would suffer. Falling below counts less: no peak is missed by it.
    #[inline]
    pub(crate) fn is_due(&self) -> bool {
        self.allocated > Self::MOST_BYTES || self.allocated < -16 * Self::MOST_BYTES
    }

    /// Bytes handed out less bytes dropped.
    pub(crate) fn allocated(&self) -> i64 {
        self.allocated
    }

    pub(crate) fn report(&mut self, account: &mut Account) {
        let mut touched = self.touched;
        while touched != 0 {
            let kind = touched.trailing_zeros() as usize;
            touched &= touched - 1;
            change(&mut account.kinds[kind], self.kinds[kind], self.cumulative[kind]);
            self.kinds[kind] = 0;
            account.live.cumulative += std::mem::take(&mut self.cumulative[kind]);
        }
        change(&mut account.live, self.live, 0);
        change(&mut account.allocated, self.allocated, self.allocated_cumulative);
        change(&mut account.active, self.allocated, self.allocated_cumulative);
        account.allocs += self.allocs;
        account.frees += self.frees;
        (self.touched, self.live, self.allocated, self.allocated_cumulative) = (0, 0, 0, 0);
        (self.allocs, self.frees) = (0, 0);
    }
}

fn change(level: &mut Level, by: i64, cumulative: u64) {
    level.current += by;
    level.cumulative += cumulative;
    level.peak = level.peak.max(level.current);
}
