//! Which work used which addresses last.

use super::streams::Entry;
use crate::AddressRange;
use crate::DevicePtr;
use smallvec::SmallVec;
use std::collections::BTreeMap;

/// The last entry of each stream that used a range since it became a block.
type Uses = SmallVec<[Entry; 2]>;

/// Ranges that don't overlap, with their uses. One lookup for a block that lies where one of the same size lay before.
#[derive(Debug, Default)]
pub(super) struct Touched {
    /// By start: (end, uses).
    ranges: BTreeMap<u64, (u64, Uses)>,
}

impl Touched {
    /// The uses of each range that shares bytes with `range`, from the highest address down.
    pub(super) fn overlapping(&self, range: AddressRange) -> impl Iterator<Item = (AddressRange, &[Entry])> {
        // Ranges don't overlap, so their ends are in the order of their starts: one search finds the highest.
        let below = self.ranges.range(..range.end()).rev();
        below
            .take_while(move |(_, (end, _))| *end > range.start.0)
            .map(|(&start, (end, uses))| (AddressRange::new(DevicePtr(start), end - start), uses.as_slice()))
    }

    /// The only range that shares bytes with `range`, if that can be told by one look: it begins where `range` does.
    pub(super) fn covering(&self, range: AddressRange) -> Option<(AddressRange, &[Entry])> {
        let (end, uses) = self.ranges.get(&range.start.0)?;
        (*end >= range.end()).then_some((AddressRange::new(range.start, end - range.start.0), uses.as_slice()))
    }

    /// The range becomes a block of its own, used by one entry. What lay there is forgotten: who may use the block now is
    /// ordered behind it.
    pub(super) fn begin(&mut self, range: AddressRange, entry: Entry) {
        if range.bytes == 0 {
            return;
        }
        if let Some((end, uses)) = self.ranges.get_mut(&range.start.0)
            && *end >= range.end()
        {
            // The usual cases: a block as large as the one before, or smaller.
            let before = std::mem::replace(uses, SmallVec::from_slice(&[entry]));
            let old_end = std::mem::replace(end, range.end());
            if old_end > range.end() {
                self.ranges.insert(range.end(), (old_end, before));
            }
            return;
        }
        self.forget(range);
        self.ranges.insert(range.start.0, (range.end(), SmallVec::from_slice(&[entry])));
    }

    /// The range is used once more, as part of what it belongs to.
    pub(super) fn again(&mut self, range: AddressRange, entry: Entry) {
        if range.bytes == 0 {
            return;
        }
        if let Some((end, uses)) = self.ranges.get_mut(&range.start.0)
            && *end == range.end()
        {
            add(uses, entry);
            return;
        }
        self.split(range.start.0);
        self.split(range.end());
        let mut gap_from = range.start.0;
        let mut gaps: SmallVec<[(u64, u64); 2]> = SmallVec::new();
        for (&start, (end, uses)) in self.ranges.range_mut(range.start.0..range.end()) {
            if start > gap_from {
                gaps.push((gap_from, start));
            }
            gap_from = *end;
            add(uses, entry);
        }
        if gap_from < range.end() {
            gaps.push((gap_from, range.end()));
        }
        for (start, end) in gaps {
            self.ranges.insert(start, (end, SmallVec::from_slice(&[entry])));
        }
    }

    /// Nobody uses these addresses any more.
    pub(super) fn forget(&mut self, range: AddressRange) {
        if range.bytes == 0 {
            return;
        }
        let overlapping: SmallVec<[u64; 4]> = self.overlapping(range).map(|(known, _)| known.start.0).collect();
        for start in overlapping {
            let Some((end, uses)) = self.ranges.remove(&start) else { continue };
            if end > range.end() {
                self.ranges.insert(range.end(), (end, uses.clone()));
            }
            if start < range.start.0 {
                self.ranges.insert(start, (range.start.0, uses));
            }
        }
    }

    /// Makes `at` a border between ranges.
    fn split(&mut self, at: u64) {
        let Some((_, (end, uses))) = self.ranges.range_mut(..at).next_back() else { return };
        if *end > at {
            let behind = (*end, uses.clone());
            *end = at;
            self.ranges.insert(at, behind);
        }
    }

    /// Names the invariant that doesn't hold.
    pub(super) fn check(&self) -> Result<(), String> {
        let mut last = 0;
        for (&start, (end, uses)) in &self.ranges {
            if start < last || *end <= start || uses.is_empty() {
                return Err(format!("uses of [{start:#x}, {end:#x}) overlap others or are none"));
            }
            last = *end;
        }
        Ok(())
    }
}

fn add(uses: &mut Uses, entry: Entry) {
    match uses.iter_mut().find(|known| known.place == entry.place) {
        Some(known) => known.sequence = known.sequence.max(entry.sequence),
        None => uses.push(entry),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn range(start: u64, end: u64) -> AddressRange {
        AddressRange::new(DevicePtr(start), end - start)
    }

    fn entry(place: u32, sequence: u64) -> Entry {
        Entry { place, sequence }
    }

    /// Start, end, and (stream, entry) of each use.
    type Known = (u64, u64, Vec<(u32, u64)>);

    fn all(touched: &Touched) -> Vec<Known> {
        let known = touched.overlapping(range(0, 1_000));
        let mut known: Vec<Known> =
            known.map(|(r, uses)| (r.start.0, r.end(), uses.iter().map(|e| (e.place, e.sequence)).collect())).collect();
        known.reverse();
        known
    }

    #[test]
    fn a_new_block_cuts_what_lay_there() {
        let mut touched = Touched::default();
        touched.begin(range(0, 100), entry(0, 1));
        touched.begin(range(40, 60), entry(1, 1));
        assert_eq!(touched.check(), Ok(()));
        assert_eq!(all(&touched), [(0, 40, vec![(0, 1)]), (40, 60, vec![(1, 1)]), (60, 100, vec![(0, 1)])]);
        touched.begin(range(20, 120), entry(0, 2));
        assert_eq!(all(&touched), [(0, 20, vec![(0, 1)]), (20, 120, vec![(0, 2)])]);
    }

    #[test]
    fn a_further_use_adds_to_all_it_covers_and_fills_gaps() {
        let mut touched = Touched::default();
        touched.begin(range(10, 20), entry(0, 1));
        touched.begin(range(30, 40), entry(0, 2));
        touched.again(range(15, 50), entry(1, 7));
        assert_eq!(
            all(&touched),
            [
                (10, 15, vec![(0, 1)]),
                (15, 20, vec![(0, 1), (1, 7)]),
                (20, 30, vec![(1, 7)]),
                (30, 40, vec![(0, 2), (1, 7)]),
                (40, 50, vec![(1, 7)])
            ]
        );
        assert_eq!(touched.check(), Ok(()));
        touched.again(range(30, 40), entry(1, 9));
        assert_eq!(touched.overlapping(range(35, 36)).next().map(|(_, uses)| uses.len()), Some(2));
        touched.forget(range(0, 45));
        assert_eq!(all(&touched), [(45, 50, vec![(1, 7)])]);
    }
}
