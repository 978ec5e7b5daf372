//! From the ground up: always the buffer that can lie lowest, a preference deciding among equals.
//!
//! This is the first descent of the exact search, without its checks, for any number of buffers. The floor under a
//! buffer is the highest end among the moments it is live at: a segment tree with range assignment gives it in
//! `O(log moments)`. Floors only rise, so a heap whose entries are checked when they come up needs no updates.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use crate::instance::{Instance, align_up};

/// Highest value over any range, where a range can be set to a value not below what it holds.
#[derive(Debug)]
struct Floors {
    leaves: usize,
    /// Highest value below the node.
    high: Vec<u64>,
    /// A value that every moment below the node has at least, set at the node itself.
    set: Vec<u64>,
}

impl Floors {
    fn new(moments: usize) -> Self {
        let leaves = moments.max(1).next_power_of_two();
        Self { leaves, high: vec![0; 2 * leaves], set: vec![0; 2 * leaves] }
    }

    fn raise(&mut self, from: u32, to: u32, value: u64) {
        let (mut left, mut right) = (from as usize + self.leaves, to as usize + self.leaves);
        let paths = (left >> 1, (right - 1) >> 1);
        while left < right {
            if left & 1 == 1 {
                self.apply(left, value);
                left += 1;
            }
            if right & 1 == 1 {
                right -= 1;
                self.apply(right, value);
            }
            left >>= 1;
            right >>= 1;
        }
        for mut node in [paths.0, paths.1] {
            while node >= 1 {
                self.high[node] = self.high[2 * node].max(self.high[2 * node + 1]).max(self.set[node]);
                node >>= 1;
            }
        }
    }

    fn apply(&mut self, node: usize, value: u64) {
        self.set[node] = self.set[node].max(value);
        self.high[node] = self.high[node].max(value);
    }

    fn max(&self, from: u32, to: u32) -> u64 {
        let (mut left, mut right) = (from as usize + self.leaves, to as usize + self.leaves);
        let mut paths = (left >> 1, (right - 1) >> 1);
        let mut highest = 0;
        while left < right {
            if left & 1 == 1 {
                highest = highest.max(self.high[left]);
                left += 1;
            }
            if right & 1 == 1 {
                right -= 1;
                highest = highest.max(self.high[right]);
            }
            left >>= 1;
            right >>= 1;
        }
        while paths.0 >= 1 {
            highest = highest.max(self.set[paths.0]).max(self.set[paths.1]);
            paths = (paths.0 >> 1, paths.1 >> 1);
        }
        highest
    }
}

/// Places all buffers, those earlier in `order` first where several can lie equally low. The instance must be plain and
/// without fixed offsets.
///
/// # Errors
/// The first buffer that would end above `limit`.
pub(crate) fn place(instance: &Instance, order: &[u32], limit: u64) -> Result<Vec<u64>, u32> {
    let mut floors = Floors::new(instance.moments);
    let mut offsets = vec![0; instance.len()];
    let mut heap: BinaryHeap<Reverse<(u64, u32)>> = (0..order.len() as u32).map(|rank| Reverse((0, rank))).collect();
    while let Some(Reverse((offset, rank))) = heap.pop() {
        let i = order[rank as usize] as usize;
        let (birth, death, size) = (instance.birth[i], instance.death[i], instance.size[i]);
        let lowest = align_up(floors.max(birth, death), instance.align[i]);
        if lowest + size > limit {
            return Err(i as u32);
        }
        if lowest > offset {
            heap.push(Reverse((lowest, rank)));
            continue;
        }
        offsets[i] = offset;
        floors.raise(birth, death, offset + size);
    }
    Ok(offsets)
}
