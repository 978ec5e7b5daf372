//! What is known of each stream without a lock.
//!
//! Numbers are given out once and rows never move, so that a free reads its component with two loads. A row costs 24 bytes
//! for as long as the table lives: a million short-lived streams are 24 MB.

use std::sync::OnceLock;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

/// Rows of the first chunk; each further chunk holds twice as many as the one before.
const FIRST: u32 = 64;
/// Enough chunks for every number of 32 bits.
const CHUNKS: usize = 27;

/// One stream.
///
/// `word` holds the current component times two, plus one while work was queued that no record followed. Both live in one
/// word because a record has to change them together: whoever finds the mark gone has to find the next component too.
#[derive(Debug)]
pub(super) struct Row {
    word: AtomicU64,
    seen: AtomicU64,
    version: AtomicU64,
}

impl Row {
    fn new() -> Self {
        Self { word: AtomicU64::new(2), seen: AtomicU64::new(0), version: AtomicU64::new(0) }
    }

    /// The component that a use or free happening now gets.
    ///
    /// Why a load is enough: whoever frees has returned from the call that queued the use. If a record's driver call came
    /// before that one, then its tick did too, and the driver's own lock between the two calls makes the tick visible here.
    /// So an old component is read only where the record comes after the use, and then it covers the use.
    pub(super) fn current(&self) -> u64 {
        // Acquire: pairs with the release in `tick`.
        self.word.load(Ordering::Acquire) >> 1
    }

    /// The component current before the last tick if no work was marked since, else the current one.
    pub(super) fn marked_component(&self) -> u64 {
        // Acquire: pairs with the releases in `tick` and `mark_work`.
        let word = self.word.load(Ordering::Acquire);
        (word >> 1) - u64::from(word & 1 == 0)
    }

    /// Ends the current component and returns it: what is queued or freed from now on counts as later.
    pub(super) fn tick(&self) -> u64 {
        let mut word = self.word.load(Ordering::Relaxed);
        loop {
            // Release: pairs with the acquire in `current` and `marked_component`. Acquire: the mark that is cleared here
            // was set after its work was queued, so the driver call that follows this tick comes after that work.
            match self.word.compare_exchange_weak(word, (word | 1) + 1, Ordering::AcqRel, Ordering::Relaxed) {
                Ok(before) => return before >> 1,
                Err(now) => word = now,
            }
        }
    }

    /// Marks that work was queued.
    pub(super) fn mark_work(&self) {
        // A mark that is still there is cleared, if at all, after this load, hence by a record behind the work.
        if self.word.load(Ordering::Acquire) & 1 == 0 {
            // Release: pairs with the acquire in `tick`.
            self.word.fetch_or(1, Ordering::AcqRel);
        }
    }

    /// Up to which component the host has seen the stream finish.
    pub(super) fn seen(&self) -> u64 {
        // Acquire: pairs with the release in `see`, so that what the host does next comes after what it has seen.
        self.seen.load(Ordering::Acquire)
    }

    /// The host has seen everything up to `component` finish. True if that is news.
    pub(super) fn see(&self, component: u64) -> bool {
        // Release: pairs with the acquire in `seen`.
        self.seen.fetch_max(component, Ordering::AcqRel) < component
    }

    /// How often the stream's clock has grown.
    pub(super) fn version(&self) -> u64 {
        // Acquire: pairs with the release in `grown`.
        self.version.load(Ordering::Acquire)
    }

    /// The stream's clock has grown.
    pub(super) fn grown(&self) {
        // Release: pairs with the acquire in `version`; the clock itself was changed before, under its lock.
        self.version.fetch_add(1, Ordering::Release);
    }
}

/// All rows, by number.
#[derive(Debug)]
pub(super) struct Table {
    chunks: [OnceLock<Box<[Row]>>; CHUNKS],
    count: AtomicU32,
}

impl Table {
    pub(super) fn new() -> Self {
        Self { chunks: [const { OnceLock::new() }; CHUNKS], count: AtomicU32::new(0) }
    }

    /// How many numbers were given out.
    pub(super) fn count(&self) -> u32 {
        // Acquire: pairs with the release in `push`; rows below the count exist.
        self.count.load(Ordering::Acquire)
    }

    /// A new row's number. Callers take turns (they hold the lock of the names).
    pub(super) fn push(&self) -> u32 {
        let number = self.count.load(Ordering::Relaxed);
        let (chunk, _) = place(number);
        self.chunks[chunk].get_or_init(|| (0..u64::from(FIRST) << chunk).map(|_| Row::new()).collect());
        // Release: pairs with the acquire in `count`.
        self.count.store(number.saturating_add(1), Ordering::Release);
        number
    }

    /// The row of a number; `None` for numbers that were not given out.
    pub(super) fn get(&self, number: u32) -> Option<&Row> {
        let (chunk, index) = place(number);
        // An unused row of a chunk that exists is as a stream's on which nothing has happened: no need to look at the count.
        self.chunks.get(chunk)?.get()?.get(index)
    }
}

/// The chunk of a number, and the place in it.
fn place(number: u32) -> (usize, usize) {
    let groups = u64::from(number / FIRST) + 1;
    let chunk = groups.ilog2();
    let start = ((1_u64 << chunk) - 1) * u64::from(FIRST);
    (chunk as usize, (u64::from(number) - start) as usize)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_number_has_a_place_of_its_own() {
        let mut expected = (0, 0);
        for number in 0..5_000 {
            assert_eq!(place(number), expected, "{number}");
            expected.1 += 1;
            if expected.1 == (FIRST as usize) << expected.0 {
                expected = (expected.0 + 1, 0);
            }
        }
        let (chunk, index) = place(u32::MAX);
        assert!(chunk < CHUNKS && index < (FIRST as usize) << chunk);
    }

    #[test]
    fn a_record_ends_the_component_and_the_mark_together() {
        let row = Row::new();
        assert_eq!((row.current(), row.marked_component()), (1, 0), "nothing was ever queued");
        row.mark_work();
        row.mark_work();
        assert_eq!((row.current(), row.marked_component()), (1, 1));
        assert_eq!(row.tick(), 1);
        assert_eq!((row.current(), row.marked_component()), (2, 1));
        assert_eq!(row.tick(), 2);
        assert_eq!((row.current(), row.marked_component()), (3, 2));
        row.mark_work();
        assert_eq!((row.current(), row.marked_component()), (3, 3));
    }
}
