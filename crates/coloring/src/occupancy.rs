//! Which bytes are taken at which moments, so that room for a buffer is found without looking at its neighbours one by
//! one.
//!
//! A segment tree over the moments. Each node keeps two sets of byte ranges, joined where they touch: `cover`, taken at
//! every moment of the node by buffers that span it, and `any`, taken at some moment of the node. What stands in the way
//! of a buffer is then the union of `any` over the nodes its live range is made of and of `cover` over the nodes above
//! them: a few dozen sorted lists, which are short because a good plan leaves few holes. Finding room costs
//! `O(log(moments) * holes looked at)`, placing `O(log(moments) * length of a list)`, whatever the number of conflicts.

use smallvec::SmallVec;

use crate::instance::{FREE, Instance, align_up};

/// Byte ranges `(start, end)`, sorted, apart from each other.
type Ranges = Vec<(u64, u64)>;

/// How a place is chosen among the holes that are large enough.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Fit {
    /// The lowest offset.
    Lowest,
    /// The smallest hole, the lowest of several.
    Best,
}

/// See the module's page.
#[derive(Debug, Default)]
pub(crate) struct Occupancy {
    leaves: usize,
    any: Vec<Ranges>,
    cover: Vec<Ranges>,
}

impl Occupancy {
    /// Nothing is taken at any of `moments` moments.
    pub(crate) fn new(moments: usize) -> Self {
        let leaves = moments.max(1).next_power_of_two();
        Self { leaves, any: vec![Ranges::new(); 2 * leaves], cover: vec![Ranges::new(); 2 * leaves] }
    }

    /// Takes the bytes of buffer `i` at `offset`.
    pub(crate) fn take(&mut self, instance: &Instance, i: usize, offset: u64) {
        for piece in instance.pieces_of(i) {
            let (lo, hi) = (offset + piece.lo, offset + piece.hi);
            for (node, is_whole) in nodes(self.leaves, piece.birth, piece.death) {
                if is_whole {
                    insert(&mut self.cover[node], lo, hi);
                }
                insert(&mut self.any[node], lo, hi);
            }
        }
    }

    /// Where buffer `i` can go, given all that was taken; `offsets` are needed only for separated buffers, [`FREE`]
    /// standing for one that has no place yet.
    pub(crate) fn room<'a>(&'a self, instance: &Instance, i: usize, offsets: &[u64]) -> Room<'a> {
        let mut lists = SmallVec::new();
        for piece in instance.pieces_of(i) {
            for (node, is_whole) in nodes(self.leaves, piece.birth, piece.death) {
                let ranges = if is_whole { &self.any[node] } else { &self.cover[node] };
                if !ranges.is_empty() {
                    lists.push(Obstacles { ranges, next: 0, lo: piece.lo, hi: piece.hi });
                }
            }
        }
        let mut separated: Ranges = Vec::new();
        for &j in instance.separated_from(i) {
            let (j, offset) = (j as usize, offsets[j as usize]);
            if offset != FREE {
                insert(&mut separated, offset, offset + instance.size[j]);
            }
        }
        Room { lists, separated, next_separated: 0, align: instance.align[i], size: instance.size[i] }
    }
}

/// One sorted list of taken ranges in the way of one piece of a buffer.
#[derive(Debug)]
struct Obstacles<'a> {
    ranges: &'a [(u64, u64)],
    /// First range not known to end before the piece.
    next: usize,
    /// The piece's bytes, from the buffer's start.
    lo: u64,
    hi: u64,
}

/// The places a buffer can take, asked for in rising order.
#[derive(Debug)]
pub(crate) struct Room<'a> {
    lists: SmallVec<[Obstacles<'a>; 32]>,
    separated: Ranges,
    next_separated: usize,
    align: u64,
    size: u64,
}

impl Room<'_> {
    /// The lowest offset from `from` on at which nothing is in the way. Calls must not go back.
    pub(crate) fn lowest(&mut self, from: u64) -> u64 {
        let mut offset = align_up(from, self.align);
        let count = self.lists.len() + 1;
        let (mut agreed, mut k) = (0, 0);
        while agreed < count {
            let blocked = match self.lists.get_mut(k) {
                Some(list) => pass(list.ranges, &mut list.next, list.lo, list.hi, offset),
                None => pass(&self.separated, &mut self.next_separated, 0, self.size, offset),
            };
            match blocked {
                Some(end) => {
                    // The next range of the same list may be in the way now, so it is asked again.
                    offset = align_up(end, self.align);
                    agreed = 0;
                    continue;
                }
                None => agreed += 1,
            }
            k = if k + 1 == count { 0 } else { k + 1 };
        }
        offset
    }

    /// How far the buffer could rise from `offset`, which [`lowest`](Self::lowest) has just returned, until something is
    /// in its way; `u64::MAX` if nothing is.
    pub(crate) fn slack(&self, offset: u64) -> u64 {
        let above = |ranges: &[(u64, u64)], next: usize, hi| ranges.get(next).map_or(u64::MAX, |r| r.0 - hi - offset);
        let lists = self.lists.iter().map(|list| above(list.ranges, list.next, list.hi)).min().unwrap_or(u64::MAX);
        lists.min(above(&self.separated, self.next_separated, self.size))
    }

    /// The place that `fit` chooses.
    pub(crate) fn choose(&mut self, fit: Fit) -> u64 {
        let mut offset = self.lowest(0);
        if fit == Fit::Lowest {
            return offset;
        }
        let (mut best, mut tightest) = (offset, self.slack(offset));
        loop {
            let slack = self.slack(offset);
            if slack < tightest {
                (best, tightest) = (offset, slack);
            }
            if slack == u64::MAX || tightest == 0 {
                return best;
            }
            offset = self.lowest(offset + slack + 1);
        }
    }
}

/// Moves `next` to the first range that ends above the piece's first byte at `offset`; if that range is in the way,
/// returns the lowest offset that clears it.
fn pass(ranges: &[(u64, u64)], next: &mut usize, lo: u64, hi: u64, offset: u64) -> Option<u64> {
    let from = offset + lo;
    // Most calls move by none or one; a long way is halved.
    let mut step = 1;
    while *next + step <= ranges.len() && ranges[*next + step - 1].1 <= from {
        step *= 2;
    }
    if step > 1 {
        let low = *next + step / 2;
        let high = (*next + step - 1).min(ranges.len());
        *next = low + ranges[low..high].partition_point(|r| r.1 <= from);
    }
    ranges.get(*next).filter(|r| r.0 < offset + hi).map(|r| r.1 - lo)
}

/// Adds `[lo, hi)` to a set of ranges, joining what it touches or overlaps.
fn insert(ranges: &mut Ranges, lo: u64, hi: u64) {
    let from = ranges.partition_point(|r| r.1 < lo);
    let to = from + ranges[from..].partition_point(|r| r.0 <= hi);
    if from == to {
        ranges.insert(from, (lo, hi));
        return;
    }
    let joined = (lo.min(ranges[from].0), hi.max(ranges[to - 1].1));
    ranges[from] = joined;
    ranges.drain(from + 1..to);
}

/// The nodes a live range is made of (`true`), and those above them (`false`), each once.
fn nodes(leaves: usize, birth: u32, death: u32) -> SmallVec<[(usize, bool); 64]> {
    let mut found = SmallVec::new();
    let (mut left, mut right) = (birth as usize + leaves, death as usize + leaves);
    let (mut first, mut last) = (left, right - 1);
    // On each level, what lies strictly between the two paths is whole; the paths themselves are above a whole node as
    // soon as the range doesn't fill them.
    let mut width = 1;
    while first >= 1 {
        if left < right && left & 1 == 1 {
            found.push((left, true));
            left += 1;
        }
        if left < right && right & 1 == 1 {
            right -= 1;
            found.push((right, true));
        }
        for node in [first, last] {
            let from = (node * width) % (leaves.max(1));
            let fills = from >= birth as usize && from + width <= death as usize;
            if !fills {
                found.push((node, false));
            }
            if first == last {
                break;
            }
        }
        left >>= 1;
        right >>= 1;
        first >>= 1;
        last >>= 1;
        width <<= 1;
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn nodes_of_a_range_are_whole_exactly_where_it_fills_them() {
        for leaves in [1_usize, 2, 4, 8, 16] {
            for birth in 0..leaves {
                for death in birth + 1..=leaves {
                    let found = nodes(leaves, birth as u32, death as u32);
                    let span = |node: usize| {
                        let width = leaves >> node.ilog2();
                        let from = node * width - leaves;
                        from..from + width
                    };
                    let whole: Vec<usize> = found.iter().filter(|n| n.1).flat_map(|n| span(n.0)).collect();
                    let mut sorted = whole.clone();
                    sorted.sort_unstable();
                    assert_eq!(sorted, (birth..death).collect::<Vec<_>>(), "{leaves} {birth} {death}");
                    let mut above: Vec<usize> = found.iter().filter(|n| !n.1).map(|n| n.0).collect();
                    let mut expected: Vec<usize> = (1..2 * leaves)
                        .filter(|&node| {
                            let s = span(node);
                            s.start < death && birth < s.end && !(birth <= s.start && s.end <= death)
                        })
                        .collect();
                    above.sort_unstable();
                    expected.sort_unstable();
                    assert_eq!(above, expected, "{leaves} {birth} {death}");
                }
            }
        }
    }

    proptest! {
        #[test]
        fn inserted_ranges_stay_sorted_apart_and_cover_the_same_bytes(
            parts in prop::collection::vec((0_u64..60, 1_u64..9), 0..30)
        ) {
            let mut ranges = Ranges::new();
            let mut bytes = [false; 80];
            for (lo, len) in parts {
                insert(&mut ranges, lo, lo + len);
                bytes[lo as usize..(lo + len) as usize].fill(true);
            }
            prop_assert!(ranges.windows(2).all(|w| w[0].1 < w[1].0));
            for (at, &taken) in bytes.iter().enumerate() {
                let at = at as u64;
                prop_assert_eq!(ranges.iter().any(|r| r.0 <= at && at < r.1), taken);
            }
        }
    }
}
