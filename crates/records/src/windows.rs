//! Where a request could lie, and what is in the way.

use crate::{Block, Hole, MemoryMap, Segment};

/// The `count` largest holes of a moment, largest first, of equal ones the lowest first.
pub fn largest_holes(map: &MemoryMap, count: usize) -> Vec<Hole> {
    let mut holes: Vec<Hole> = map.holes().collect();
    let by_size = |a: &Hole, b: &Hole| b.bytes.cmp(&a.bytes).then(a.address.cmp(&b.address));
    if count < holes.len() {
        if count > 0 {
            holes.select_nth_unstable_by(count - 1, by_size);
        }
        holes.truncate(count);
    }
    holes.sort_unstable_by(by_size);
    holes
}

/// A range in a segment, and the blocks that lie in it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Window {
    /// Where it begins.
    pub address: u64,
    /// How long it is.
    pub bytes: u64,
    /// Where its segment begins.
    pub segment: u64,
    /// Bytes of its segment.
    pub segment_bytes: u64,
    /// The blocks in the way, by address.
    pub blocks: Vec<Block>,
    /// Bytes they take up.
    pub blocked_bytes: u64,
}

/// The window of `bytes` in one of `segments` whose blocks take up the fewest bytes; of equal ones that with the fewest
/// blocks, then the lowest. `None` if no segment is that large.
///
/// Only windows that begin where a hole or their segment begins, or end where one ends, need a look: moving any other to
/// the next such place takes no further block in. Takes time linear in the number of blocks.
pub fn cheapest_window<'a>(segments: impl IntoIterator<Item = &'a Segment>, bytes: u64) -> Option<Window> {
    let mut best: Option<Candidate<'a>> = None;
    for segment in segments {
        if bytes == 0 || segment.bytes < bytes {
            continue;
        }
        if let Some(found) = cheapest_in(segment, bytes)
            && best.as_ref().is_none_or(|best| found.cost() < best.cost())
        {
            best = Some(found);
        }
    }
    best.map(|best| Window {
        address: best.address,
        bytes,
        segment: best.segment.address,
        segment_bytes: best.segment.bytes,
        blocks: best.segment.blocks[best.first..best.end].to_vec(),
        blocked_bytes: best.blocked_bytes,
    })
}

#[derive(Clone, Copy)]
struct Candidate<'a> {
    segment: &'a Segment,
    address: u64,
    first: usize,
    end: usize,
    blocked_bytes: u64,
}

impl Candidate<'_> {
    fn cost(&self) -> (u64, usize, u64) {
        (self.blocked_bytes, self.end - self.first, self.address)
    }
}

fn cheapest_in(segment: &Segment, bytes: u64) -> Option<Candidate<'_>> {
    let low = segment.address;
    let last = low.checked_add(segment.bytes)?.checked_sub(bytes)?;
    let blocks = &segment.blocks;
    let end_of = |block: &Block| block.address.saturating_add(block.bytes);
    // Prefix sums make the cost of a run of blocks one subtraction.
    let mut sums = Vec::with_capacity(blocks.len() + 1);
    sums.push(0_u64);
    for block in blocks {
        let sum = sums.last().copied().unwrap_or(0);
        sums.push(sum.saturating_add(block.bytes));
    }
    let at = |address: u64| {
        let first = blocks.partition_point(|block| end_of(block) <= address);
        let end = blocks.partition_point(|block| block.address < address.saturating_add(bytes));
        let end = end.max(first);
        Candidate { segment, address, first, end, blocked_bytes: sums[end] - sums[first] }
    };
    let starts = blocks.iter().map(end_of).filter(|start| *start <= last);
    let ends = blocks.iter().filter_map(|block| block.address.checked_sub(bytes)).filter(|start| *start >= low);
    [low, last].into_iter().chain(starts).chain(ends).map(at).min_by_key(Candidate::cost)
}

/// Segments that would have to be given back, and the blocks that keep them, so that the device gets `bytes`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Release {
    /// The segments, those held by the least per byte first.
    pub segments: Vec<Segment>,
    /// Bytes of them.
    pub bytes: u64,
    /// Bytes of the blocks in them.
    pub blocked_bytes: u64,
}

/// Segments that together have `bytes`, chosen so that few bytes of blocks lie in them: the ones with the smallest part
/// in use first, then what turned out not to be needed is put back. Not always the very fewest bytes: that is a knapsack.
/// `None` if all of them together have less.
pub fn cheapest_release<'a>(segments: impl IntoIterator<Item = &'a Segment>, bytes: u64) -> Option<Release> {
    let in_use = |segment: &Segment| segment.blocks.iter().fold(0_u64, |sum, b| sum.saturating_add(b.bytes));
    let mut sorted: Vec<(u64, &Segment)> =
        segments.into_iter().filter(|s| s.bytes > 0).map(|segment| (in_use(segment), segment)).collect();
    sorted.sort_unstable_by(|(a_used, a), (b_used, b)| {
        let a_share = u128::from(*a_used) * u128::from(b.bytes);
        let b_share = u128::from(*b_used) * u128::from(a.bytes);
        a_share.cmp(&b_share).then(b.bytes.cmp(&a.bytes)).then(a.address.cmp(&b.address))
    });
    let mut taken: Vec<(u64, &Segment)> = Vec::new();
    let mut total = 0_u64;
    for (used, segment) in sorted {
        if total >= bytes {
            break;
        }
        total = total.saturating_add(segment.bytes);
        taken.push((used, segment));
    }
    if total < bytes {
        return None;
    }
    // The dearest first.
    let mut kept = Vec::new();
    taken.sort_unstable_by(|(a, x), (b, y)| b.cmp(a).then(x.address.cmp(&y.address)));
    for (used, segment) in taken {
        if used > 0 && total - segment.bytes >= bytes {
            total -= segment.bytes;
        } else {
            kept.push((used, segment));
        }
    }
    kept.reverse();
    let blocked_bytes = kept.iter().fold(0_u64, |sum, (used, _)| sum.saturating_add(*used));
    Some(Release { segments: kept.into_iter().map(|(_, s)| s.clone()).collect(), bytes: total, blocked_bytes })
}

#[cfg(test)]
#[allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]
mod tests {
    use super::*;

    fn segment(address: u64, bytes: u64, blocks: &[(u64, u64)]) -> Segment {
        let blocks = blocks.iter().map(|&(at, bytes)| Block {
            address: address + at,
            bytes,
            requested_bytes: bytes,
            ..Block::default()
        });
        Segment { address, bytes, blocks: blocks.collect(), ..Segment::default() }
    }

    /// Fewest bytes of blocks that any window meets, trying every place.
    fn by_trying(segments: &[Segment], bytes: u64) -> Option<u64> {
        let mut best = None;
        for s in segments.iter().filter(|s| s.bytes >= bytes) {
            for at in s.address..=s.address + s.bytes - bytes {
                let hit = s.blocks.iter().filter(|b| b.address < at + bytes && b.address + b.bytes > at);
                let cost: u64 = hit.map(|b| b.bytes).sum();
                best = Some(best.map_or(cost, |best: u64| best.min(cost)));
            }
        }
        best
    }

    #[test]
    fn no_window_meets_fewer_bytes_than_the_cheapest() {
        let mut state = 9_u64;
        let mut random = |below: u64| {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            (state >> 33) % below
        };
        for round in 0..300 {
            let mut segments = Vec::new();
            for index in 0..3 {
                let bytes = 20 + random(40);
                let mut blocks = Vec::new();
                let mut at = random(6);
                loop {
                    let length = 1 + random(9);
                    if at + length > bytes {
                        break;
                    }
                    blocks.push((at, length));
                    at += length + random(7);
                }
                segments.push(segment(1000 * (index + 1), bytes, &blocks));
            }
            let wanted = 1 + random(55);
            let found = cheapest_window(&segments, wanted);
            assert_eq!(found.as_ref().map(|w| w.blocked_bytes), by_trying(&segments, wanted), "round {round}");
            if let Some(window) = found {
                let end = window.address + window.bytes;
                let inside = window.blocks.iter().all(|b| b.address < end && b.address + b.bytes > window.address);
                assert!(inside && end <= window.segment + window.segment_bytes, "{window:?}");
                assert_eq!(window.blocks.iter().map(|b| b.bytes).sum::<u64>(), window.blocked_bytes);
            }
        }
    }

    #[test]
    fn segments_that_little_keeps_are_given_back_first() {
        let segments = [
            segment(0, 100, &[(0, 90)]),
            segment(1000, 100, &[(50, 1)]),
            segment(2000, 60, &[]),
            segment(3000, 100, &[(50, 2)]),
        ];
        let release = cheapest_release(&segments, 150).unwrap();
        assert_eq!((release.bytes, release.blocked_bytes), (160, 1));
        assert_eq!(release.segments.iter().map(|s| s.address).collect::<Vec<_>>(), [2000, 1000]);
        assert_eq!(cheapest_release(&segments, 361), None);
        assert_eq!(cheapest_release(&segments, 0).unwrap().segments, []);
        // What comes first isn't always needed in the end.
        let segments = [segment(0, 10, &[(0, 1)]), segment(100, 100, &[(0, 11)])];
        assert_eq!(cheapest_release(&segments, 100).unwrap().blocked_bytes, 11);
    }
}
