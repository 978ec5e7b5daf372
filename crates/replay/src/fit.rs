//! First fit and best fit over one arena: the textbook allocators, made correct for several streams.
//!
//! All streams share one range of addresses that is mapped from its start as far as it was ever needed, and never
//! unmapped. A free block remembers which streams may still use it. Whoever takes it on another stream is first made to
//! wait for those that it isn't known to come after: by an earlier wait of ours, or because the host has seen the stream
//! finish. So neither the host nor a block ever waits, but streams do. The program's own waits are not followed.

use std::collections::{BTreeMap, BTreeSet};

use device::{Access, AddressRange, Device, DevicePtr, Mapping, StreamId};
use hashbrown::HashMap;
use smallvec::SmallVec;

use crate::policy::{Effects, Handle, Placement, Policy};
use crate::rounding::{GRANULE, round_up};
use records::Action;

/// Which of the holes that are large enough is taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Choice {
    /// The one at the lowest address.
    First,
    /// The smallest; the lowest of equals.
    Best,
}

/// Streams that may use a hole, each with the moment of its last free there.
type Waits = SmallVec<[(StreamId, u64); 2]>;

#[derive(Clone, Debug)]
struct Hole {
    bytes: u64,
    waits: Waits,
}

#[derive(Clone, Debug)]
struct Taken {
    address: u64,
    bytes: u64,
    requested_bytes: u64,
    stream: StreamId,
    uses: SmallVec<[StreamId; 2]>,
}

/// The arena.
#[derive(Debug)]
pub(crate) struct Fit {
    choice: Choice,
    arena: Option<AddressRange>,
    mapped_bytes: u64,
    holes: BTreeMap<u64, Hole>,
    by_size: BTreeSet<(u64, u64)>,
    taken: Vec<Taken>,
    spare: Vec<u32>,
    /// Counts frees, so that waits can be told from earlier ones.
    now: u64,
    /// When stream `.0` was last made to wait for stream `.1`.
    ordered: HashMap<(StreamId, StreamId), u64>,
    /// When the host last saw a stream finish.
    finished: HashMap<StreamId, u64>,
    /// When the host last saw all of them finish.
    all_finished: u64,
}

impl Fit {
    pub(crate) fn new(choice: Choice) -> Self {
        Self {
            choice,
            arena: None,
            mapped_bytes: 0,
            holes: BTreeMap::new(),
            by_size: BTreeSet::new(),
            taken: Vec::new(),
            spare: Vec::new(),
            now: 1,
            ordered: HashMap::new(),
            finished: HashMap::new(),
            all_finished: 0,
        }
    }

    fn find(&self, bytes: u64) -> Option<u64> {
        match self.choice {
            Choice::First => self.holes.iter().find(|(_, hole)| hole.bytes >= bytes).map(|(at, _)| *at),
            Choice::Best => self.by_size.range((bytes, 0)..).next().map(|(_, at)| *at),
        }
    }

    /// Maps as much at the end of the arena as makes a hole of `bytes` there, in whole pages.
    fn grow(&mut self, device: &dyn Device, bytes: u64, effects: &mut Effects) -> device::Result<u64> {
        let vmm = device
            .vmm()
            .ok_or_else(|| device::Error::Internal { what: "the simulated device has virtual memory".to_owned() })?;
        let page = device.info().page_bytes.unwrap_or(2 << 20);
        let arena = match self.arena {
            Some(arena) => arena,
            None => {
                let total = device.info().total_bytes.checked_next_multiple_of(page).unwrap_or(u64::MAX / page * page);
                *self.arena.insert(vmm.reserve_range(total.max(page), 0)?)
            }
        };
        let end = arena.start.0 + self.mapped_bytes;
        let last =
            self.holes.last_key_value().filter(|(at, hole)| *at + hole.bytes == end).map(|(at, h)| (*at, h.bytes));
        let missing = bytes - last.map_or(0, |(_, free)| free);
        let grown = round_up(missing, page);
        if grown > arena.bytes - self.mapped_bytes {
            // More than there are addresses for: the device says the same of its memory, in its own words.
            vmm.create_handles(grown, 1)?;
        }
        // Nothing is ever unmapped, so the handle may be as large as what is needed.
        let handles = vmm.create_handles(grown, 1)?;
        let mappings: Vec<Mapping> =
            handles.iter().map(|&handle| Mapping { at: DevicePtr(end), handle, bytes: grown }).collect();
        vmm.map(&mappings)?;
        vmm.set_access(&[AddressRange::new(DevicePtr(end), grown)], Access::ReadWrite)?;
        effects.push_handles(true, end, grown, &handles);
        effects.push(Action::SegmentMap, end, grown, StreamId::DEFAULT);
        self.mapped_bytes += grown;
        self.add_hole(end, grown, Waits::new());
        Ok(last.map_or(end, |(at, _)| at))
    }

    fn remove_hole(&mut self, address: u64) -> Option<Hole> {
        let hole = self.holes.remove(&address)?;
        self.by_size.remove(&(hole.bytes, address));
        Some(hole)
    }

    fn insert_hole(&mut self, address: u64, hole: Hole) {
        self.by_size.insert((hole.bytes, address));
        self.holes.insert(address, hole);
    }

    /// Makes `[address, address + bytes)` free, joined with the holes it touches.
    fn add_hole(&mut self, address: u64, bytes: u64, waits: Waits) {
        let (mut address, mut hole) = (address, Hole { bytes, waits });
        let below = self.holes.range(..address).next_back().filter(|(at, below)| *at + below.bytes == address);
        if let Some(at) = below.map(|(at, _)| *at)
            && let Some(below) = self.remove_hole(at)
        {
            address = at;
            hole.bytes += below.bytes;
            join(&mut hole.waits, below.waits);
        }
        if let Some(above) = self.remove_hole(address + hole.bytes) {
            hole.bytes += above.bytes;
            join(&mut hole.waits, above.waits);
        }
        hole.waits.retain(|(stream, free)| !self.has_finished(*stream, *free));
        self.insert_hole(address, hole);
    }

    fn has_finished(&self, stream: StreamId, free: u64) -> bool {
        self.all_finished >= free || self.finished.get(&stream).is_some_and(|finished| *finished >= free)
    }
}

fn join(waits: &mut Waits, others: Waits) {
    for (stream, free) in others {
        match waits.iter_mut().find(|wait| wait.0 == stream) {
            Some(wait) => wait.1 = wait.1.max(free),
            None => waits.push((stream, free)),
        }
    }
}

impl Policy for Fit {
    fn alloc(
        &mut self,
        device: &dyn Device,
        bytes: u64,
        stream: StreamId,
        effects: &mut Effects,
    ) -> device::Result<Placement> {
        let rounded = round_up(bytes, GRANULE);
        let address = match self.find(rounded) {
            Some(address) => address,
            None => self.grow(device, rounded, effects)?,
        };
        let Some(mut hole) = self.remove_hole(address) else {
            return Err(device::Error::Internal { what: format!("a hole at {address:#x}") });
        };
        for &(other, free) in &hole.waits {
            let is_ordered = self.ordered.get(&(stream, other)).is_some_and(|ordered| *ordered >= free);
            if other == stream || is_ordered || self.has_finished(other, free) {
                continue;
            }
            device.order_streams(other, stream)?;
            self.ordered.insert((stream, other), self.now);
            effects.waits.push(other);
        }
        if hole.bytes > rounded {
            hole.bytes -= rounded;
            self.insert_hole(address + rounded, hole);
        }
        let taken = Taken { address, bytes: rounded, requested_bytes: bytes, stream, uses: SmallVec::new() };
        let index = match self.spare.pop() {
            Some(index) => {
                self.taken[index as usize] = taken;
                index
            }
            None => {
                self.taken.push(taken);
                (self.taken.len() - 1) as u32
            }
        };
        Ok(Placement { handle: Handle(index), address })
    }

    fn free(&mut self, _device: &dyn Device, handle: Handle, effects: &mut Effects) -> device::Result<()> {
        let taken = self.taken[handle.0 as usize].clone();
        self.spare.push(handle.0);
        self.now += 1;
        let waits = std::iter::once(taken.stream).chain(taken.uses).map(|stream| (stream, self.now)).collect();
        effects.push(Action::FreeCompleted, taken.address, taken.requested_bytes, taken.stream);
        self.add_hole(taken.address, taken.bytes, waits);
        Ok(())
    }

    fn record_use(&mut self, handle: Handle, stream: StreamId) -> device::Result<()> {
        let taken = &mut self.taken[handle.0 as usize];
        if taken.stream != stream && !taken.uses.contains(&stream) {
            taken.uses.push(stream);
        }
        Ok(())
    }

    fn synchronized(&mut self, stream: Option<StreamId>) -> device::Result<()> {
        match stream {
            Some(stream) => {
                self.finished.insert(stream, self.now);
            }
            None => self.all_finished = self.now,
        }
        Ok(())
    }
}
