//! Memory from the device and back: segments of plain memory, or handles mapped into one range of addresses.
//!
//! Growth is a transaction: everything is created, mapped and made accessible before the arena hears of it, and undone in
//! reverse if a step fails. No lock is held during driver calls.

use std::sync::{Arc, Mutex};

use device::{Access, AddressRange, Device, DevicePtr, Mapping};

use crate::arena::{Arena, Withdrawn, locked};
use crate::block::{GRANULE, Kind};
use crate::page_map::ADDRESS_END;
use crate::settings::{Backing, Settings};
use crate::shard::{Shard, Waits};
use crate::span::{Mapped, Source, Zone};
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
}

/// Which zone a pool's memory lies in.
fn zone_of(pool: u16) -> usize {
    usize::from(pool == crate::pool::PERSISTENT)
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
            _ => settings.segment_bytes,
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
                // Room for all memory at either end, and for gaps.
                let bytes = info.total_bytes.saturating_mul(2).next_multiple_of(unit.max(HANDLE_CLASSES[0]));
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
        match charged {
            Ok(before) => {
                self.held.peak.fetch_max(before + bytes, Ordering::Relaxed);
                true
            }
            Err(_) => false,
        }
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
    ) -> std::result::Result<(), Refusal> {
        let bytes = bytes.checked_add(align - GRANULE).ok_or(Refusal::Full(None))?;
        let grown = match &self.zones {
            Some(zones) => self.grow_range(arena, shard, &zones[zone_of(shard.pool)], bytes),
            None => self.grow_segment(arena, shard, bytes),
        };
        match grown {
            Ok(added) => {
                self.held.cumulative.fetch_add(added, Ordering::Relaxed);
                self.held.grown.fetch_add(1, Ordering::Relaxed);
                Ok(())
            }
            Err(refusal) => {
                self.held.failed.fetch_add(1, Ordering::Relaxed);
                Err(refusal)
            }
        }
    }

    fn grow_segment(&self, arena: &Arena, shard: &Shard, bytes: u64) -> std::result::Result<u64, Refusal> {
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
                Ok(asked)
            }
            Err(error) => {
                self.called();
                match self.device.free(ptr) {
                    Ok(()) => self.discharge(asked),
                    // The device keeps it, so it stays counted.
                    Err(error) => return Err(Refusal::Other(error.into())),
                }
                Err(Refusal::Other(error))
            }
        }
    }

    fn grow_range(
        &self,
        arena: &Arena,
        shard: &Shard,
        zone: &Mutex<Zone>,
        bytes: u64,
    ) -> std::result::Result<u64, Refusal> {
        let Some(vmm) = self.device.vmm() else { return Err(Refusal::Full(None)) };
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
        let mapped = self.map(vmm, at, added).map_err(|error| {
            self.discharge(added);
            locked(zone).put(at, added);
            refusal(error)
        })?;
        self.held.handles.fetch_add(mapped.len() as u64, Ordering::Relaxed);
        if let Err(error) = arena.publish(shard, at, added, Source::Handles(mapped.clone()), Waits::new()) {
            self.unmap(at, added, &mapped, zone).map_err(|error| Refusal::Other(error.into()))?;
            return Err(Refusal::Other(error));
        }
        Ok(added)
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

    fn map(&self, vmm: &dyn device::VirtualMemory, at: u64, bytes: u64) -> device::Result<Vec<Mapped>> {
        let mut mapped: Vec<Mapped> = Vec::new();
        let undo = |mapped: &[Mapped]| {
            let handles: Vec<_> = mapped.iter().map(|mapped| mapped.handle).collect();
            self.called();
            // The first error is the one to tell.
            let _ = vmm.release_handles(&handles);
        };
        let mut left = bytes;
        let mut next = at;
        for class in HANDLE_CLASSES.into_iter().chain([self.unit]) {
            if class % self.unit != 0 {
                continue;
            }
            let count = (left / class) as usize;
            if count == 0 {
                continue;
            }
            self.called();
            match vmm.create_handles(class, count) {
                Ok(handles) => {
                    for handle in handles {
                        mapped.push(Mapped { at: next, bytes: class, handle });
                        next += class;
                        left -= class;
                    }
                }
                Err(error) => {
                    undo(&mapped);
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
            undo(&mapped);
            return Err(error);
        }
        let range = AddressRange::new(DevicePtr(at), bytes);
        self.called();
        if let Err(error) = vmm.set_access(&[range], Access::ReadWrite) {
            self.called();
            // If that fails too the addresses stay taken, which costs addresses and no bytes.
            let _ = vmm.unmap(&[range]);
            undo(&mapped);
            return Err(error);
        }
        Ok(mapped)
    }

    fn unmap(&self, at: u64, bytes: u64, mapped: &[Mapped], zone: &Mutex<Zone>) -> device::Result<()> {
        let Some(vmm) = self.device.vmm() else { return Ok(()) };
        self.called();
        vmm.unmap(&[AddressRange::new(DevicePtr(at), bytes)])?;
        let handles: Vec<_> = mapped.iter().map(|mapped| mapped.handle).collect();
        self.called();
        vmm.release_handles(&handles)?;
        self.held.handles.fetch_sub(handles.len() as u64, Ordering::Relaxed);
        self.discharge(bytes);
        locked(zone).put(at, bytes);
        Ok(())
    }

    /// Gives memory back that was taken out of the arena. What the device refuses to take goes back into the arena, to
    /// `heir`. Returns the bytes that went, and the first refusal.
    pub(crate) fn release(
        &self,
        arena: &Arena,
        withdrawn: Vec<Withdrawn>,
        heir: &dyn Fn(u16) -> Result<Arc<Shard>>,
    ) -> (u64, Option<Error>) {
        let mut bytes = 0;
        let mut refused = None;
        for piece in withdrawn {
            let went = match &piece.source {
                Source::Plain { ptr, bytes } => {
                    self.called();
                    self.device.free(*ptr).map(|()| {
                        self.discharge(*bytes);
                        self.held.segments.fetch_sub(1, Ordering::Relaxed);
                        *bytes
                    })
                }
                Source::Handles(handles) => match &self.zones {
                    Some(zones) => {
                        self.unmap(piece.base, piece.bytes, handles, &zones[zone_of(piece.pool)]).map(|()| piece.bytes)
                    }
                    None => Ok(0),
                },
            };
            match went {
                Ok(went) => {
                    self.held.released.fetch_add(1, Ordering::Relaxed);
                    bytes += went;
                }
                Err(error) => {
                    refused.get_or_insert(Error::Device(error));
                    // A shard of the same pool takes it, once whatever is queued now is over. If even that fails the
                    // bytes stay held and unused.
                    let streams = arena.clocks.streams().into_iter();
                    let waits = streams.map(|stream| (stream, arena.clocks.current(stream))).collect();
                    let back = heir(piece.pool)
                        .and_then(|shard| arena.publish(&shard, piece.base, piece.bytes, piece.source, waits));
                    if let Err(error) = back {
                        refused.get_or_insert(error);
                    }
                }
            }
        }
        (bytes, refused)
    }

    /// Gives back what a span held when the allocator ends.
    pub(crate) fn drop_span(&self, piece: &Withdrawn) {
        // What a device refuses at the end nobody can use: there is nobody to tell.
        match &piece.source {
            Source::Plain { ptr, .. } => {
                let _ = self.device.free(*ptr);
            }
            Source::Handles(handles) => {
                if let Some(zones) = &self.zones {
                    let _ = self.unmap(piece.base, piece.bytes, handles, &zones[zone_of(piece.pool)]);
                }
            }
        }
    }

    /// Gives the addresses back. Everything has been unmapped.
    pub(crate) fn close(&self) {
        if let (Some(zones), Some(vmm)) = (&self.zones, self.device.vmm()) {
            for zone in zones {
                // Addresses with memory in them are refused; then they stay until the process ends.
                let range = locked(zone).range;
                let _ = vmm.release_range(range);
            }
        }
    }
}

fn refusal(error: device::Error) -> Refusal {
    if error.is_out_of_memory() { Refusal::Full(Some(error)) } else { Refusal::Other(error.into()) }
}
