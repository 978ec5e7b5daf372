//! What a trace says of itself, whatever the policy: live, rounded, held.

use std::collections::BTreeMap;

use smallvec::SmallVec;

use crate::rounding::{GRANULE, round_up};

/// A block of the trace.
#[derive(Clone, Debug)]
struct Block {
    bytes: u64,
    home: i64,
    /// Streams other than its own that use it, each with its last use: how often the host had seen it finish by then.
    uses: SmallVec<[(i64, u64); 2]>,
}

/// The highest sums of a trace, in bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct LivePeaks {
    pub(crate) live: u64,
    pub(crate) rounded: u64,
    pub(crate) live_plus_held: u64,
}

/// The sums of a trace at a moment, and their peaks.
#[derive(Clone, Debug, Default)]
pub(crate) struct Live {
    blocks: Vec<Option<Block>>,
    live: u64,
    rounded: u64,
    held: u64,
    pub(crate) peaks: LivePeaks,
    /// How often the host has seen each stream finish.
    seen: BTreeMap<i64, u64>,
    /// How often it has seen all of them finish.
    all_seen: u64,
    /// Dropped blocks by the streams that they wait for: number of a held block.
    waiting: BTreeMap<i64, Vec<u32>>,
    /// Held blocks: bytes, and how many streams are still to be seen.
    held_blocks: Vec<(u64, u32)>,
}

impl Live {
    pub(crate) fn alloc(&mut self, slot: usize, bytes: u64, home: i64) {
        if self.blocks.len() <= slot {
            self.blocks.resize(slot + 1, None);
        }
        self.blocks[slot] = Some(Block { bytes, home, uses: SmallVec::new() });
        self.live = self.live.saturating_add(bytes);
        self.rounded = self.rounded.saturating_add(round_up(bytes, GRANULE));
        let peaks = &mut self.peaks;
        peaks.live = peaks.live.max(self.live);
        peaks.rounded = peaks.rounded.max(self.rounded);
        peaks.live_plus_held = peaks.live_plus_held.max(self.live.saturating_add(self.held));
    }

    pub(crate) fn record_use(&mut self, slot: usize, stream: i64) {
        let now = self.times_seen(stream);
        let Some(block) = self.blocks.get_mut(slot).and_then(Option::as_mut) else { return };
        if block.home == stream {
            return;
        }
        match block.uses.iter_mut().find(|known| known.0 == stream) {
            Some(known) => known.1 = now,
            None => block.uses.push((stream, now)),
        }
    }

    fn times_seen(&self, stream: i64) -> u64 {
        self.seen.get(&stream).copied().unwrap_or(0) + self.all_seen
    }

    pub(crate) fn free(&mut self, slot: usize) {
        let Some(block) = self.blocks.get_mut(slot).and_then(Option::take) else { return };
        self.live -= block.bytes;
        self.rounded -= round_up(block.bytes, GRANULE);
        // A use that was seen to finish before the block was dropped holds nothing.
        let unseen = block.uses.iter().filter(|(stream, then)| self.times_seen(*stream) == *then);
        let unseen: SmallVec<[i64; 2]> = unseen.map(|(stream, _)| *stream).collect();
        if unseen.is_empty() {
            return;
        }
        let held = self.held_blocks.len() as u32;
        self.held_blocks.push((block.bytes, unseen.len() as u32));
        self.held = self.held.saturating_add(block.bytes);
        for stream in unseen {
            self.waiting.entry(stream).or_default().push(held);
        }
    }

    /// The host has seen a stream finish, or all of them.
    pub(crate) fn synchronized(&mut self, stream: Option<i64>) {
        let seen: Vec<u32> = match stream {
            Some(stream) => {
                *self.seen.entry(stream).or_insert(0) += 1;
                self.waiting.remove(&stream).unwrap_or_default()
            }
            None => {
                self.all_seen += 1;
                std::mem::take(&mut self.waiting).into_values().flatten().collect()
            }
        };
        for held in seen {
            let (bytes, streams) = &mut self.held_blocks[held as usize];
            *streams -= 1;
            if *streams == 0 {
                self.held -= *bytes;
            }
        }
        if self.waiting.is_empty() {
            self.held_blocks.clear();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_dropped_block_is_held_until_each_stream_that_used_it_was_seen() {
        let mut live = Live::default();
        live.alloc(0, 100, 0);
        live.record_use(0, 0);
        live.record_use(0, 1);
        live.record_use(0, 2);
        live.free(0);
        assert_eq!((live.live, live.held), (0, 100));
        live.synchronized(Some(1));
        assert_eq!(live.held, 100);
        live.alloc(0, 50, 0);
        assert_eq!(live.peaks.live_plus_held, 150);
        live.synchronized(Some(2));
        assert_eq!(live.held, 0);
        live.free(0);
        assert_eq!((live.held, live.peaks.live, live.peaks.rounded), (0, 100, 512));
    }

    #[test]
    fn a_use_that_was_seen_to_finish_before_the_free_holds_nothing() {
        let mut live = Live::default();
        live.alloc(0, 100, 0);
        live.record_use(0, 1);
        live.synchronized(Some(1));
        live.free(0);
        assert_eq!(live.held, 0);
        live.alloc(0, 100, 0);
        live.record_use(0, 1);
        live.synchronized(None);
        live.record_use(0, 1);
        live.free(0);
        assert_eq!(live.held, 100);
    }
}
