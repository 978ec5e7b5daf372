//! Free space: how many pieces it lies in, and gathering it in fewer.
//!
//! At a moment with `k` live buffers, free space lies in at most `k + 1` pieces: below the lowest, between neighbours,
//! above the highest up to the peak. Each place where two live buffers touch, or one touches an end of the arena, is a
//! piece less. So, over a whole step, *fewer pieces* is the same as *more contact time*, a sum over pairs, and moving a
//! buffer changes only its own pairs: gain and loss of a move are exact and cheap. Merging moves one buffer at a time to
//! where its contact time is longest, then takes two neighbours out and puts them back in the better order, until
//! nothing gains. Contact time only rises, so this ends.

use std::collections::BTreeMap;

use lifetime::Offset;

use crate::instance::{align_up, held};
use crate::{Buffer, Problem};

/// Free space below the peak, over time.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct HoleStats {
    /// Number of pieces the free space lies in, averaged over the time from the first birth to the last death.
    pub pieces_mean: f64,
    /// Smallest, over that time, of the largest free piece, in bytes.
    pub largest_free_min_bytes: u64,
}

impl HoleStats {
    /// Not worse in either figure.
    pub fn is_no_worse_than(&self, other: &Self) -> bool {
        self.pieces_mean <= other.pieces_mean && self.largest_free_min_bytes >= other.largest_free_min_bytes
    }
}

/// Measures the free space that `offsets` leave, which must be valid (see [`verify`](crate::verify())). `O(n log n)`.
pub fn measure(problem: &Problem, offsets: &[Offset]) -> HoleStats {
    let peak = peak(problem, offsets);
    let mut changes: Vec<(u64, bool, u64, u64)> = Vec::with_capacity(2 * problem.buffers.len());
    for (buffer, offset) in problem.buffers.iter().zip(offsets) {
        for (birth, death, lo, hi) in held(buffer) {
            changes.push((birth, true, offset.0 + lo, offset.0 + hi));
            changes.push((death, false, offset.0 + lo, offset.0 + hi));
        }
    }
    changes.sort_unstable();
    let (Some(first), Some(last)) = (changes.first().map(|c| c.0), changes.last().map(|c| c.0)) else {
        return HoleStats::default();
    };
    let mut free = FreePieces::new(peak);
    let (mut weighted, mut smallest) = (0_u128, u64::MAX);
    let mut k = 0;
    while k < changes.len() {
        let at = changes[k].0;
        while let Some(&(_, takes, lo, hi)) = changes.get(k).filter(|c| c.0 == at) {
            if takes {
                free.take(lo, hi);
            } else {
                free.give(lo, hi);
            }
            k += 1;
        }
        let until = changes.get(k).map_or(at, |c| c.0);
        if until > at {
            weighted += free.count() as u128 * u128::from(until - at);
            smallest = smallest.min(free.largest());
        }
    }
    HoleStats { pieces_mean: weighted as f64 / (last - first) as f64, largest_free_min_bytes: smallest }
}

fn peak(problem: &Problem, offsets: &[Offset]) -> u64 {
    problem.buffers.iter().zip(offsets).map(|(b, o)| o.0 + b.size.0).max().unwrap_or(0)
}

/// The free pieces of an arena at one moment, by place and by size.
#[derive(Debug)]
struct FreePieces {
    by_start: BTreeMap<u64, u64>,
    by_size: BTreeMap<u64, usize>,
}

impl FreePieces {
    fn new(end: u64) -> Self {
        let mut free = Self { by_start: BTreeMap::new(), by_size: BTreeMap::new() };
        free.add(0, end);
        free
    }

    fn count(&self) -> usize {
        self.by_start.len()
    }

    fn largest(&self) -> u64 {
        self.by_size.last_key_value().map_or(0, |(&size, _)| size)
    }

    fn add(&mut self, start: u64, end: u64) {
        if start < end {
            self.by_start.insert(start, end);
            *self.by_size.entry(end - start).or_insert(0) += 1;
        }
    }

    fn remove(&mut self, start: u64) -> Option<u64> {
        let end = self.by_start.remove(&start)?;
        if let Some(count) = self.by_size.get_mut(&(end - start)) {
            *count -= 1;
            if *count == 0 {
                self.by_size.remove(&(end - start));
            }
        }
        Some(end)
    }

    fn take(&mut self, lo: u64, hi: u64) {
        let around = self.by_start.range(..=lo).next_back().map(|(&start, _)| start);
        if let Some(start) = around
            && let Some(end) = self.remove(start)
        {
            self.add(start, lo);
            self.add(hi, end);
        }
    }

    fn give(&mut self, lo: u64, hi: u64) {
        let below = self.by_start.range(..lo).next_back().filter(|(_, end)| **end == lo).map(|(&start, _)| start);
        let start = below.filter(|&start| self.remove(start).is_some()).unwrap_or(lo);
        let end = self.remove(hi).unwrap_or(hi);
        self.add(start, end);
    }
}

/// Neighbours looked at before merging stops, however much is left to gain: about a second.
const NEIGHBOUR_LIMIT: u64 = 12_000_000;

/// Moves buffers so that free space lies in fewer pieces. The peak doesn't rise, fixed buffers stay, and neither figure
/// of [`HoleStats`] gets worse. Returns the figures afterwards.
pub fn merge(problem: &Problem, offsets: &mut [Offset]) -> HoleStats {
    let before = measure(problem, offsets);
    let mut merger = Merger::new(problem, offsets);
    let mut best = before;
    // Exchanges cost several times a move and gain less, so they wait until no single move gains. Each pass is kept only
    // if the largest free piece didn't suffer for the number of pieces.
    let mut with_exchanges = false;
    while merger.neighbours < NEIGHBOUR_LIMIT {
        let moved = merger.pass(with_exchanges);
        let now: Vec<Offset> = merger.offsets.iter().map(|&o| Offset(o)).collect();
        let stats = measure(problem, &now);
        if !stats.is_no_worse_than(&best) || peak(problem, &now) > merger.peak {
            break;
        }
        offsets.copy_from_slice(&now);
        best = stats;
        if !moved && with_exchanges {
            break;
        }
        with_exchanges = !moved;
    }
    best
}

/// A buffer in the way of another, or beside it.
#[derive(Clone, Copy, Debug)]
struct Neighbour {
    number: u32,
    start: u64,
    end: u64,
    /// How long both are live, in the problem's time.
    together: u64,
}

struct Merger<'a> {
    buffers: &'a [Buffer],
    offsets: Vec<u64>,
    peak: u64,
    can_move: Vec<bool>,
    /// Numbers by birth; in blocks of [`BLOCK`], each with its last death, so that the past is skipped.
    by_birth: Vec<u32>,
    last_death: Vec<u64>,
    /// Neighbours gathered so far.
    neighbours: u64,
}

/// What is live together with a buffer.
#[derive(Debug, Default)]
struct Around {
    by_start: Vec<Neighbour>,
    /// End and time together of each, by end.
    by_end: Vec<(u64, u64)>,
}

impl Around {
    fn new(mut neighbours: Vec<Neighbour>) -> Self {
        neighbours.sort_unstable_by_key(|n| (n.start, n.number));
        let mut by_end: Vec<_> = neighbours.iter().map(|n| (n.end, n.together)).collect();
        by_end.sort_unstable();
        Self { by_start: neighbours, by_end }
    }

    /// How long the bytes from `start` to `end` touch one of them, below and above.
    fn contact(&self, start: u64, end: u64) -> u128 {
        let from = self.by_end.partition_point(|n| n.0 < start);
        let below = self.by_end[from..].iter().take_while(|n| n.0 == start).map(|n| u128::from(n.1));
        let from = self.by_start.partition_point(|n| n.start < end);
        let above = self.by_start[from..].iter().take_while(|n| n.start == end).map(|n| u128::from(n.together));
        below.chain(above).sum()
    }
}

const BLOCK: usize = 256;

impl<'a> Merger<'a> {
    fn new(problem: &'a Problem, offsets: &[Offset]) -> Self {
        let buffers = problem.buffers.as_slice();
        let mut by_birth: Vec<u32> = (0..buffers.len() as u32).collect();
        by_birth.sort_unstable_by_key(|&i| buffers[i as usize].range.birth);
        let last = |block: &[u32]| block.iter().map(|&i| buffers[i as usize].range.death.0).max().unwrap_or(0);
        let last_death = by_birth.chunks(BLOCK).map(last).collect();
        // Buffers with gaps share their bytes at times, and separated ones have neighbours that time doesn't show: both
        // stay where they are, the former with all their bytes.
        let mut can_move: Vec<bool> = buffers.iter().map(|b| b.fixed.is_none() && b.gaps.is_empty()).collect();
        for &(a, b) in &problem.separations {
            can_move[a as usize] = false;
            can_move[b as usize] = false;
        }
        Self {
            buffers,
            offsets: offsets.iter().map(|o| o.0).collect(),
            peak: peak(problem, offsets),
            can_move,
            by_birth,
            last_death,
            neighbours: 0,
        }
    }

    /// Tries every buffer once, from the lowest up; says whether any moved.
    fn pass(&mut self, with_exchanges: bool) -> bool {
        let mut order: Vec<u32> = (0..self.buffers.len() as u32).filter(|&i| self.can_move[i as usize]).collect();
        order.sort_unstable_by_key(|&i| (self.offsets[i as usize], i));
        let mut moved = false;
        for i in order {
            if self.neighbours >= NEIGHBOUR_LIMIT {
                break;
            }
            moved |= self.improve(i as usize, with_exchanges);
        }
        moved
    }

    fn improve(&mut self, i: usize, with_exchanges: bool) -> bool {
        let around = self.gather(i);
        let now = self.contact(i, self.offsets[i], &around);
        let life = self.buffers[i].range.half_steps();
        let mut moved = false;
        // Contact on both sides all the time can't be bettered.
        if now < 2 * u128::from(life) {
            let (place, contact) = self.best_place(i, &around);
            if contact > now {
                self.offsets[i] = place;
                moved = true;
            } else if with_exchanges {
                moved = self.exchange(i, now, &around);
            }
        }
        moved
    }

    /// Takes `i` and a neighbour out and puts them back, the neighbour first, each where its contact is longest; keeps it
    /// if both together gained.
    fn exchange(&mut self, i: usize, contact_of_i: u128, around: &Around) -> bool {
        let (start, end) = (self.offsets[i], self.offsets[i] + self.buffers[i].size.0);
        // Those a hole away or less: what lies next to `i` in space, at some moment.
        let mut beside: Vec<Neighbour> = Vec::new();
        let above = around.by_start.iter().filter(|n| n.start >= end).min_by_key(|n| (n.start, n.number));
        let below = around.by_start.iter().filter(|n| n.end <= start).max_by_key(|n| (n.end, n.number));
        beside.extend(above.into_iter().chain(below));
        for other in beside {
            let j = other.number as usize;
            if !self.can_move[j] {
                continue;
            }
            let others_now = self.gather(j);
            let before = contact_of_i + self.contact(j, self.offsets[j], &others_now) - self.contact_between(i, j);
            let (old_i, old_j) = (self.offsets[i], self.offsets[j]);
            let without_i =
                Around::new(others_now.by_start.iter().copied().filter(|n| n.number as usize != i).collect());
            let (place_j, contact_j) = self.best_place(j, &without_i);
            self.offsets[j] = place_j;
            let moved = self.gather(i);
            let (place_i, contact_i) = self.best_place(i, &moved);
            if contact_i > 0 && contact_j + contact_i > before {
                self.offsets[i] = place_i;
                return true;
            }
            (self.offsets[i], self.offsets[j]) = (old_i, old_j);
        }
        false
    }

    /// All buffers live together with `i`, by start.
    fn gather(&mut self, i: usize) -> Around {
        let mut around = Vec::new();
        let range = self.buffers[i].range;
        let until = self.by_birth.partition_point(|&j| self.buffers[j as usize].range.birth < range.death);
        for (block, numbers) in self.by_birth[..until].chunks(BLOCK).enumerate() {
            if self.last_death[block] <= range.birth.0 {
                continue;
            }
            for &number in numbers {
                let j = number as usize;
                let other = &self.buffers[j];
                if other.range.death > range.birth && j != i {
                    let together = other.range.death.min(range.death).0 - other.range.birth.max(range.birth).0;
                    let start = self.offsets[j];
                    around.push(Neighbour { number, start, end: start + other.size.0, together });
                }
            }
        }
        self.neighbours += (around.len() + until / BLOCK) as u64 + 1;
        Around::new(around)
    }

    /// How long buffer `i` at `place` touches something, below and above.
    fn contact(&self, i: usize, place: u64, around: &Around) -> u128 {
        let end = place + self.buffers[i].size.0;
        let life = u128::from(self.buffers[i].range.half_steps());
        let sides = u128::from(place == 0) + u128::from(end == self.peak);
        around.contact(place, end) + sides * life
    }

    /// How long `i` and `j` touch each other where they are.
    fn contact_between(&self, i: usize, j: usize) -> u128 {
        let (a, b) = (&self.buffers[i], &self.buffers[j]);
        let touch = self.offsets[i] + a.size.0 == self.offsets[j] || self.offsets[j] + b.size.0 == self.offsets[i];
        let together = a.range.death.min(b.range.death).0.saturating_sub(a.range.birth.max(b.range.birth).0);
        if touch { u128::from(together) } else { 0 }
    }

    /// Where among its neighbours `i` has the longest contact, the lowest of several, and how long; 0 if it has no place
    /// below the peak. Each hole is tried at its lower and its upper end.
    fn best_place(&self, i: usize, around: &Around) -> (u64, u128) {
        let (size, align) = (self.buffers[i].size.0, self.buffers[i].alignment);
        let mut best = (self.offsets[i], 0);
        let mut top = 0;
        let ends = around.by_start.iter().map(|n| (n.start, n.end)).chain([(self.peak, self.peak)]);
        for (start, end) in ends {
            let low = align_up(top, align);
            if low + size <= start {
                let high = (start - size) / align * align;
                for place in [low, high] {
                    let contact = self.contact(i, place, around);
                    if contact > best.1 {
                        best = (place, contact);
                    }
                }
            }
            top = top.max(end);
        }
        best
    }
}
