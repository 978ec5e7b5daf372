//! Memory from the device and back: segments of plain memory, or handles mapped into one range of addresses.
//!
//! Growth is a transaction: everything is created, mapped and made accessible before the arena hears of it, and undone in
//! reverse if a step fails. No lock is held during driver calls.

use std::sync::{Arc, Mutex};

use device::{Access, AddressRange, Device, DevicePtr, HandleId, Mapping};

use crate::arena::{Arena, Withdrawn};
use crate::block::{GRANULE, Kind};
use crate::page_map::ADDRESS_END;
use crate::settings::{Backing, Settings};
use crate::shard::{Shard, Waits};
use crate::span::{Mapped, Source, Zone};
use crate::sync::locked;
use crate::sync::{AtomicU64, Ordering};
use crate::{Error, Result};

/// Physical pieces, largest first: few calls for much memory, and small ones where little is missing.
const HANDLE_CLASSES: [u64; 3] = [256 << 20, 32 << 20, 2 << 20];

/// Figures about memory held from the device.
#[derive(Debug, Default)]
pub(crate) struct Held {
    pub(crate) bytes: AtomicU64,
    pub(crate) peak: AtomicU64,
    pub(crate) cumulative: AtomicU64,
    pub(crate) grown: AtomicU64,
    pub(crate) released: AtomicU64,
    pub(crate) failed: AtomicU64,
    pub(crate) driver_calls: AtomicU64,
    pub(crate) handles: AtomicU64,
    pub(crate) segments: AtomicU64,
}

/// See the module.
pub(crate) struct Supply {
    pub(crate) device: Arc<dyn Device>,
    /// One for each end of the arena, where memory is mapped: temporary and cyclic blocks, persistent ones.
    zones: Option<[Mutex<Zone>; 2]>,
    unit: u64,
    hard: AtomicU64,
    pub(crate) soft: AtomicU64,
    pub(crate) held: Held,
    /// What the device would not take back: it is offered again, and counts as held until then.
    left_over: Mutex<Vec<LeftOver>>,
}

/// Memory on its way back to the device, by how far it has come.
#[derive(Debug)]
enum LeftOver {
    /// A reservation of plain memory.
    Plain { ptr: DevicePtr, bytes: u64 },
    /// Handles mapped into a zone.
    Mapped { at: u64, bytes: u64, zone: usize, handles: Vec<HandleId> },
    /// Handles that are mapped nowhere.
    Handles { bytes: u64, handles: Vec<HandleId> },
}

/// Which zone a pool's memory lies in.
fn zone_of(pool: u16) -> usize {
    usize::from(pool == crate::pool::PERSISTENT)
}

/// Memory that was added.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Grown {
    /// Where its blocks begin.
    pub(crate) base: u64,
    /// Bytes of blocks.
    pub(crate) bytes: u64,
    /// Bytes held for them.
    held: u64,
}

/// Why nothing was added.
#[derive(Debug)]
pub(crate) enum Refusal {
    /// The budget doesn't allow it.
    Budget,
    /// The device is out of memory, or addresses are.
    Full(Option<device::Error>),
    /// Something else went wrong.
    Other(Error),
}

impl Supply {
    pub(crate) fn new(device: Arc<dyn Device>, settings: &Settings) -> Result<Self> {
        let info = device.info().clone();
        let wants_range = match settings.backing {
            Backing::Auto => device.vmm().is_some(),
            Backing::Segments => false,
            Backing::Range => true,
        };
        let unit = match (wants_range, info.page_bytes) {
            (true, Some(page)) => settings.segment_bytes.max(page).next_multiple_of(page),
            // What the device rounds up to counts against budgets.
            _ => settings.segment_bytes.next_multiple_of(info.plain_granule_bytes.max(1)),
        };
        let zones = match (wants_range, device.vmm()) {
            (false, _) => None,
            (true, None) => {
                return Err(Error::Unsupported {
                    what: "backing = range",
                    problem: "this device has no virtual memory; use segments",
                });
            }
            (true, Some(vmm)) => {
                // Room for all memory at either end, and for gaps. A device may have none at all.
                let bytes = info.total_bytes.max(1).saturating_mul(2).next_multiple_of(unit.max(HANDLE_CLASSES[0]));
                let reserve =
                    || vmm.reserve_range(bytes, unit.next_power_of_two()).map(|range| Mutex::new(Zone::new(range)));
                let first = reserve()?;
                match reserve() {
                    Ok(second) => Some([first, second]),
                    Err(error) => {
                        // Best effort: the first error is the one to tell.
                        let range = locked(&first).range;
                        let _ = vmm.release_range(range);
                        return Err(error.into());
                    }
                }
            }
        };
        Ok(Self {
            device,
            zones,
            unit,
            hard: AtomicU64::new(settings.budget.hard_bytes.unwrap_or(u64::MAX)),
            soft: AtomicU64::new(settings.budget.soft_bytes.unwrap_or(u64::MAX)),
            held: Held::default(),
            left_over: Mutex::default(),
        })
    }

    pub(crate) fn set_hard(&self, bytes: Option<u64>) {
        self.hard.store(bytes.unwrap_or(u64::MAX), Ordering::Relaxed);
    }

    pub(crate) fn hard(&self) -> Option<u64> {
        Some(self.hard.load(Ordering::Relaxed)).filter(|bytes| *bytes != u64::MAX)
    }

    pub(crate) fn reserved(&self) -> u64 {
        self.held.bytes.load(Ordering::Relaxed)
    }

    pub(crate) fn is_range(&self) -> bool {
        self.zones.is_some()
    }

    /// Counts bytes before they are taken, if the budget allows them.
    fn charge(&self, bytes: u64) -> bool {
        let hard = self.hard.load(Ordering::Relaxed);
        let charged = self.held.bytes.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |held| {
            held.checked_add(bytes).filter(|after| *after <= hard)
        });
        charged.is_ok()
    }

    fn discharge(&self, bytes: u64) {
        self.held.bytes.fetch_sub(bytes, Ordering::Relaxed);
    }

    fn called(&self) {
        self.held.driver_calls.fetch_add(1, Ordering::Relaxed);
    }

    /// Takes memory from the device so that a shard has a free block of `bytes`, aligned to `align`.
    pub(crate) fn grow(
        &self,
        arena: &Arena,
        shard: &Shard,
        bytes: u64,
        align: u64,
    ) -> std::result::Result<Grown, Refusal> {
        self.offer_left_over();
        let bytes = bytes.checked_add(align - GRANULE).ok_or(Refusal::Full(None))?;
        let grown = match &self.zones {
            Some(zones) => self.grow_range(arena, shard, zones, bytes),
            None => self.grow_segment(arena, shard, bytes),
        };
        match grown {
            Ok(grown) => {
                // Only what was had counts: a refused request raises no peak.
                self.held.peak.fetch_max(self.reserved(), Ordering::Relaxed);
                self.held.cumulative.fetch_add(grown.held, Ordering::Relaxed);
                self.held.grown.fetch_add(1, Ordering::Relaxed);
                Ok(grown)
            }
            Err(refusal) => {
                self.held.failed.fetch_add(1, Ordering::Relaxed);
                Err(refusal)
            }
        }
    }

    fn grow_segment(&self, arena: &Arena, shard: &Shard, bytes: u64) -> std::result::Result<Grown, Refusal> {
        // Addresses may begin between granules.
        let misaligned = self.device.info().plain_alignment_bytes < GRANULE;
        let asked = bytes.checked_add(if misaligned { GRANULE } else { 0 }).ok_or(Refusal::Full(None))?;
        let asked = asked.checked_next_multiple_of(self.unit).ok_or(Refusal::Full(None))?;
        if !self.charge(asked) {
            return Err(Refusal::Budget);
        }
        self.called();
        let ptr = self.device.alloc(asked).map_err(|error| {
            self.discharge(asked);
            refusal(error)
        })?;
        let base = ptr.0.next_multiple_of(GRANULE);
        let end = ptr.0.saturating_add(asked) / GRANULE * GRANULE;
        let source = Source::Plain { ptr, bytes: asked };
        let published = if end > ADDRESS_END {
            Err(Error::TooMany { what: "address", most: ADDRESS_END })
        } else {
            arena.publish(shard, base, end - base, source, Waits::new())
        };
        match published {
            Ok(()) => {
                self.held.segments.fetch_add(1, Ordering::Relaxed);
                Ok(Grown { base, bytes: end - base, held: asked })
            }
            Err(error) => {
                self.held.segments.fetch_add(1, Ordering::Relaxed);
                // The first error is the one to tell.
                let _ = self.hand_back(LeftOver::Plain { ptr, bytes: asked });
                Err(Refusal::Other(error))
            }
        }
    }

    fn grow_range(
        &self,
        arena: &Arena,
        shard: &Shard,
        zones: &[Mutex<Zone>; 2],
        bytes: u64,
    ) -> std::result::Result<Grown, Refusal> {
        let Some(vmm) = self.device.vmm() else { return Err(Refusal::Full(None)) };
        let zone = &zones[zone_of(shard.pool)];
        // What is free at the end already counts, if this shard owns it.
        let (tail, end) = self.tail(arena, shard, zone);
        let whole = bytes.checked_next_multiple_of(self.unit).ok_or(Refusal::Full(None))?;
        let missing = bytes.saturating_sub(tail).max(1).next_multiple_of(self.unit);
        let placed = {
            let mut zone = locked(zone);
            let behind = end.and_then(|end| zone.take(missing, Some(end)).map(|at| (at, missing)));
            behind.or_else(|| zone.take(whole, None).map(|at| (at, whole)))
        };
        let Some((at, added)) = placed else { return Err(Refusal::Full(None)) };
        if !self.charge(added) {
            locked(zone).put(at, added);
            return Err(Refusal::Budget);
        }
        let mapped = self.map(vmm, zone_of(shard.pool), zone, at, added).map_err(refusal)?;
        let handles = || mapped.iter().map(|mapped| mapped.handle).collect();
        if let Err(error) = arena.publish(shard, at, added, Source::Handles(mapped.clone()), Waits::new()) {
            let back = LeftOver::Mapped { at, bytes: added, zone: zone_of(shard.pool), handles: handles() };
            // The first error is the one to tell.
            let _ = self.hand_back(back);
            return Err(Refusal::Other(error));
        }
        Ok(Grown { base: at, bytes: added, held: added })
    }

    /// Free bytes of a shard at the end of its zone, and where that end is.
    fn tail(&self, arena: &Arena, shard: &Shard, zone: &Mutex<Zone>) -> (u64, Option<u64>) {
        let end = locked(zone).next;
        let spans = locked(&arena.spans);
        let last = spans.range(..end).next_back().map(|(_, span)| span).filter(|span| span.end() == end);
        let Some(span) = last.filter(|span| span.pool == shard.pool) else { return (0, None) };
        // The shard's lock keeps its own blocks still; another's block is seen not to be its own.
        let _inner = shard.inner.lock();
        let block = arena.tables.blocks.get(arena.tables.blocks.get(span.fence).prev());
        let is_own = block.kind() == Kind::Free && block.shard() == shard.number;
        (if is_own { block.bytes() } else { 0 }, Some(end))
    }

    /// Puts memory at addresses of a zone, which are charged for. If a step fails, what was done is undone, and addresses
    /// and bytes are given up.
    fn map(
        &self,
        vmm: &dyn device::VirtualMemory,
        zone_number: usize,
        zone: &Mutex<Zone>,
        at: u64,
        bytes: u64,
    ) -> device::Result<Vec<Mapped>> {
        let mut mapped: Vec<Mapped> = Vec::new();
        let mut next = at;
        let handles = |mapped: &[Mapped]| mapped.iter().map(|mapped| mapped.handle).collect();
        for class in HANDLE_CLASSES.into_iter().chain([self.unit]) {
            let left = at + bytes - next;
            let count = (left / class) as usize;
            if class % self.unit != 0 || count == 0 {
                continue;
            }
            self.called();
            match vmm.create_handles(class, count) {
                Ok(created) => {
                    self.held.handles.fetch_add(created.len() as u64, Ordering::Relaxed);
                    for handle in created {
                        mapped.push(Mapped { at: next, bytes: class, handle });
                        next += class;
                    }
                }
                Err(error) => {
                    locked(zone).put(at, bytes);
                    self.discharge(left);
                    // The first error is the one to tell.
                    let _ = self.hand_back(LeftOver::Handles { bytes: next - at, handles: handles(&mapped) });
                    return Err(error);
                }
            }
        }
        let mappings: Vec<Mapping> = mapped
            .iter()
            .map(|mapped| Mapping { at: DevicePtr(mapped.at), handle: mapped.handle, bytes: mapped.bytes })
            .collect();
        self.called();
        if let Err(error) = vmm.map(&mappings) {
            locked(zone).put(at, bytes);
            let _ = self.hand_back(LeftOver::Handles { bytes, handles: handles(&mapped) });
            return Err(error);
        }
        self.called();
        if let Err(error) = vmm.set_access(&[AddressRange::new(DevicePtr(at), bytes)], Access::ReadWrite) {
            let _ = self.hand_back(LeftOver::Mapped { at, bytes, zone: zone_number, handles: handles(&mapped) });
            return Err(error);
        }
        Ok(mapped)
    }

    /// Gives memory back to the device as far as it takes it. What it refuses is kept to be offered again; its addresses
    /// are not used again until they are unmapped.
    fn hand_back(&self, memory: LeftOver) -> device::Result<()> {
        let (rest, result) = self.try_hand_back(memory);
        if let Some(rest) = rest {
            locked(&self.left_over).push(rest);
        }
        result
    }

    /// What is left of it, and the refusal.
    fn try_hand_back(&self, memory: LeftOver) -> (Option<LeftOver>, device::Result<()>) {
        let vmm = self.device.vmm();
        match memory {
            LeftOver::Plain { ptr, bytes } => {
                self.called();
                if let Err(error) = self.device.free(ptr) {
                    return (Some(memory), Err(error));
                }
                self.discharge(bytes);
                self.held.segments.fetch_sub(1, Ordering::Relaxed);
                (None, Ok(()))
            }
            LeftOver::Mapped { at, bytes, zone, ref handles } => {
                self.called();
                if let Some(Err(error)) = vmm.map(|vmm| vmm.unmap(&[AddressRange::new(DevicePtr(at), bytes)])) {
                    return (Some(memory), Err(error));
                }
                if let Some(zones) = &self.zones {
                    locked(&zones[zone]).put(at, bytes);
                }
                self.try_hand_back(LeftOver::Handles { bytes, handles: handles.clone() })
            }
            LeftOver::Handles { bytes, ref handles } => {
                if handles.is_empty() {
                    return (None, Ok(()));
                }
                self.called();
                if let Some(Err(error)) = vmm.map(|vmm| vmm.release_handles(handles)) {
                    return (Some(memory), Err(error));
                }
                self.held.handles.fetch_sub(handles.len() as u64, Ordering::Relaxed);
                self.discharge(bytes);
                (None, Ok(()))
            }
        }
    }

    /// Offers the device once more what it refused before. Returns the bytes that went.
    pub(crate) fn offer_left_over(&self) -> u64 {
        let all = std::mem::take(&mut *locked(&self.left_over));
        if all.is_empty() {
            return 0;
        }
        let before = self.reserved();
        for memory in all {
            // It stays on the list.
            let _ = self.hand_back(memory);
        }
        before.saturating_sub(self.reserved())
    }

    /// Gives memory back that was taken out of the arena. What the device refuses to take goes back into the arena, to
    /// `heir`, and `returned` is told where it lies. Returns the bytes that went, and the first refusal.
    pub(crate) fn release(
        &self,
        arena: &Arena,
        withdrawn: Vec<Withdrawn>,
        heir: &dyn Fn(u16) -> Result<Arc<Shard>>,
        returned: &dyn Fn(u64, u64),
    ) -> (u64, Option<Error>) {
        let mut bytes = self.offer_left_over();
        let mut refused = None;
        for piece in withdrawn {
            let held = piece.held_bytes();
            let (rest, result) = self.try_hand_back(self.leaving(&piece));
            if let Err(error) = result {
                refused.get_or_insert(Error::Device(error));
            }
            match rest {
                None => {
                    self.held.released.fetch_add(1, Ordering::Relaxed);
                    bytes += held;
                }
                // Its addresses have no memory any more: it can't be used again.
                Some(rest @ LeftOver::Handles { .. }) => locked(&self.left_over).push(rest),
                Some(LeftOver::Plain { .. } | LeftOver::Mapped { .. }) => {
                    // A shard of the same pool takes it, once whatever is queued now is over. If even that fails the
                    // bytes stay held and unused.
                    let waits = arena.clocks.unseen().collect();
                    let (base, bytes) = (piece.base, piece.bytes);
                    let back = heir(piece.pool).and_then(|shard| {
                        arena.publish(&shard, base, bytes, piece.source, waits)?;
                        returned(base, bytes);
                        Ok(())
                    });
                    if let Err(error) = back {
                        refused.get_or_insert(error);
                    }
                }
            }
        }
        (bytes, refused)
    }

    fn leaving(&self, piece: &Withdrawn) -> LeftOver {
        match &piece.source {
            Source::Plain { ptr, bytes } => LeftOver::Plain { ptr: *ptr, bytes: *bytes },
            Source::Handles(handles) => LeftOver::Mapped {
                at: piece.base,
                bytes: piece.bytes,
                zone: zone_of(piece.pool),
                handles: handles.iter().map(|mapped| mapped.handle).collect(),
            },
        }
    }

    /// Gives back what a span held when the allocator ends.
    pub(crate) fn drop_span(&self, piece: &Withdrawn) {
        // Offered once more at the end. What a device refuses then nobody can use, and there is nobody to tell.
        let _ = self.hand_back(self.leaving(piece));
    }

    /// Gives the addresses back. Everything has been unmapped.
    pub(crate) fn close(&self) {
        self.offer_left_over();
        if let (Some(zones), Some(vmm)) = (&self.zones, self.device.vmm()) {
            for zone in zones {
                // Addresses with memory in them are refused; then they stay until the process ends.
                let range = locked(zone).range;
                if vmm.release_range(range).is_err() {
                    let _ = vmm.release_range(range);
                }
            }
        }
    }
}

fn refusal(error: device::Error) -> Refusal {
    if error.is_out_of_memory() { Refusal::Full(Some(error)) } else { Refusal::Other(error.into()) }
}
