//! Giving memory back: when asked, when too much is idle, and when it is in too many pieces.

use std::sync::Arc;

use records::Action;

use super::{Allocator, Shared};
use crate::arena::Withdrawn;
use crate::latency::now_ns;
use crate::shard::Shard;
use crate::supply::Grown;
use crate::sync::locked;
use crate::{Result, fork};

/// Keeps tidying up from going on for ever: after a step that tidied up, fragmentation has to fall below half the trigger,
/// or a request to fail, before it is done again.
#[derive(Debug, Default)]
pub(super) struct Hysteresis {
    /// Memory was taken since the last step's end.
    grew: bool,
    /// A request failed since.
    failed: bool,
    /// Tidied up, and fragmentation hasn't fallen since.
    is_spent: bool,
    pub(super) runs: u64,
}

impl Hysteresis {
    pub(super) fn note_failure(&mut self) {
        self.failed = true;
    }

    pub(super) fn note_growth(&mut self) {
        self.grew = true;
    }

    /// Whether a step that ends with this fragmentation tidies up.
    fn is_due(&mut self, percent: f64, trigger: f64) -> bool {
        if percent < trigger / 2.0 {
            self.is_spent = false;
        }
        let wanted = self.failed || (self.grew && !self.is_spent);
        (self.failed, self.grew) = (false, false);
        let due = wanted && percent >= trigger;
        if due {
            self.is_spent = true;
            self.runs += 1;
        }
        due
    }
}

impl Allocator {
    /// Gives idle memory back to the device until at most `keep_bytes` are held, or nothing more is idle. Returns the
    /// bytes given back. May wait for the device: what it may still be working on can't go.
    ///
    /// # Errors
    /// [`Error::Forked`](crate::Error::Forked), and what the device says; what it refuses stays usable.
    pub fn trim(&self, keep_bytes: u64) -> Result<u64> {
        self.0.check_process()?;
        self.0.trim(keep_bytes)
    }

    /// A step has ended: guards are checked, and memory is given back where more than the cached
    /// limit is idle, or where it lies in too many pieces and a request failed or memory was taken in this step.
    ///
    /// # Errors
    /// [`Error::Forked`](crate::Error::Forked); [`Error::Guard`](crate::Error::Guard) if a block was written beyond its
    /// end; what the device says.
    pub fn step(&self) -> Result<()> {
        let shared = &*self.0;
        shared.check_process()?;
        shared.update_most_idle();
        shared.tell(records::Event { action: Action::Step, time_ns: now_ns(), ..records::Event::default() });
        shared.arena.compact();
        shared.tidy_up()?;
        if shared.settings.guard { shared.check_all_guards() } else { Ok(()) }
    }
}

impl Shared {
    pub(super) fn note_growth(&self, shard: &Shard, grown: Grown) {
        locked(&self.hysteresis).note_growth();
        self.update_most_idle();
        self.tell_of_memory(true, grown.base, grown.bytes, self.marks.name(shard.stream).0);
    }

    /// Memory came or is about to go.
    fn tell_of_memory(&self, comes: bool, address: u64, bytes: u64, stream: u64) {
        let action = match (self.supply.is_range(), comes) {
            (false, true) => Action::SegmentAlloc,
            (false, false) => Action::SegmentFree,
            (true, true) => Action::SegmentMap,
            (true, false) => Action::SegmentUnmap,
        };
        self.tell(records::Event { action, address, bytes, stream, time_ns: now_ns(), ..records::Event::default() });
    }

    pub(super) fn trim(&self, keep_bytes: u64) -> Result<u64> {
        self.arena.flush(None);
        self.marks.poll(&*self.supply.device, &self.arena.clocks);
        for shard in self.arena.shards(None) {
            self.arena.review(&shard);
        }
        let excess = self.supply.reserved().saturating_sub(keep_bytes);
        if excess == 0 {
            return Ok(0);
        }
        let mut went = self.release_idle(excess)?;
        if went < excess && self.supply.reserved() > keep_bytes {
            // What is left may be mapped memory whose uses nobody has seen finish.
            self.see_all_finish()?;
            went += self.release_idle(excess - went)?;
        }
        Ok(went)
    }

    /// Waits for the device.
    pub(super) fn see_all_finish(&self) -> Result<()> {
        let notice = self.arena.begin_synchronize_device();
        self.supply.device.synchronize()?;
        self.arena.commit(notice);
        for shard in self.arena.shards(None) {
            self.arena.review(&shard);
        }
        Ok(())
    }

    /// Gives back about `bytes` bytes of memory that nothing uses: whole segments, whose release waits for the device by
    /// itself, and the ends of ranges as far as the host has seen their uses finish.
    pub(super) fn release_idle(&self, bytes: u64) -> Result<u64> {
        self.give_back(self.arena.withdraw(bytes))
    }

    fn give_back(&self, withdrawn: Vec<Withdrawn>) -> Result<u64> {
        if withdrawn.is_empty() {
            return Ok(self.supply.offer_left_over());
        }
        for piece in &withdrawn {
            self.forget_poison(piece.base, piece.bytes);
            self.tell_of_memory(false, piece.base, piece.bytes, 0);
        }
        let heir = |pool: u16| -> Result<Arc<Shard>> {
            let stream = self.resolve(device::StreamId::DEFAULT);
            self.arena.shard_of(stream, pool)
        };
        let returned = |base, bytes| self.tell_of_memory(true, base, bytes, 0);
        let (bytes, refused) = self.supply.release(&self.arena, withdrawn, &heir, &returned);
        self.update_most_idle();
        match refused {
            Some(error) => Err(error),
            None => Ok(bytes),
        }
    }

    fn tidy_up(&self) -> Result<()> {
        let (mut free, mut active) = (0, 0);
        self.arena.for_each_shard(|shard| {
            let inner = shard.inner.lock();
            free += inner.free_bytes;
            active += inner.account.active.current;
        });
        let idle = self.supply.reserved().saturating_sub(active.max(0) as u64);
        let total = self.supply.device.info().total_bytes;
        let limit = (u128::from(total) * u128::from(self.settings.cached_limit_percent) / 100) as u64;
        if idle > limit {
            self.release_idle(idle - limit)?;
        }
        if free < self.settings.defragment_floor_bytes {
            return Ok(());
        }
        // As it is now: some may have gone just before.
        let (largest, free) = self.free_figures();
        if free < self.settings.defragment_floor_bytes {
            return Ok(());
        }
        let percent = records::fragmentation_percent(largest, free);
        if locked(&self.hysteresis).is_due(percent, f64::from(self.settings.defragment_percent)) {
            // Small pieces go back to the device; the next requests fit what they need.
            self.arena.flush(None);
            self.release_idle(free)?;
        }
        Ok(())
    }

    /// The largest free block and all free bytes.
    pub(super) fn free_figures(&self) -> (u64, u64) {
        let blocks = &self.arena.tables.blocks;
        self.arena.shards(None).iter().fold((0, 0), |(largest, free), shard| {
            let inner = shard.inner.lock();
            (largest.max(inner.bins().largest(blocks)), free + inner.free_bytes)
        })
    }

    /// Ends the allocator: everything goes back to the device, live or not.
    pub(super) fn close(&self) {
        debug_assert_eq!(self.forks, fork::forks());
        for set in self.arena.sets() {
            self.arena.remove_set(&set);
        }
        self.arena.close();
        let device = &*self.supply.device;
        // A device that is gone refuses everything; then there is nothing to give back either.
        // Asked twice: one that fails once and works again would keep everything.
        let has_finished = device.synchronize().is_ok() || device.synchronize().is_ok();
        if has_finished && self.settings.guard {
            self.report_guards();
        }
        self.marks.close(device);
        let spans = std::mem::take(&mut *locked(&self.arena.spans));
        if !has_finished && self.supply.is_range() {
            return;
        }
        for span in spans.into_values() {
            let (pool, base, bytes) = (span.pool, span.base, span.bytes);
            self.supply.drop_span(&Withdrawn { pool, base, bytes, source: span.source });
        }
        self.supply.close();
    }
}
