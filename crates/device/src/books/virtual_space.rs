//! Virtual memory by its books: reserved addresses, physical handles, mappings. `B` is what stands behind a handle; it is
//! dropped with it.

use super::AddressSpace;
use super::Refusal;
use super::Slab;
use crate::{Access, AddressRange, DevicePtr, HandleId, Mapping};
use smallvec::SmallVec;
use std::collections::BTreeMap;

const START: u64 = 1 << 47;
const END: u64 = 1 << 56;

#[derive(Debug)]
struct Handle<B> {
    bytes: u64,
    backing: B,
    /// Given up by the caller; lives on while mapped.
    released: bool,
    /// Where it is mapped.
    at: SmallVec<[u64; 1]>,
}

#[derive(Clone, Copy, Debug)]
struct Mapped {
    handle: u64,
    bytes: u64,
    access: Access,
}

#[derive(Debug)]
pub(crate) struct VirtualSpace<B> {
    page: u64,
    space: AddressSpace,
    reserved: BTreeMap<u64, u64>,
    handles: Slab<Handle<B>>,
    mappings: BTreeMap<u64, Mapped>,
    bytes: u64,
    /// Handles that are mapped at several addresses.
    aliased: usize,
}

impl<B> VirtualSpace<B> {
    pub(crate) fn new(page: u64) -> VirtualSpace<B> {
        VirtualSpace {
            page,
            space: AddressSpace::new(START, END),
            reserved: BTreeMap::new(),
            handles: Slab::new(),
            mappings: BTreeMap::new(),
            bytes: 0,
            aliased: 0,
        }
    }

    fn check_pages(&self, bytes: u64, what: &str) -> Result<(), Refusal> {
        if bytes == 0 || !bytes.is_multiple_of(self.page) {
            return Err(Refusal::value(format!("{what} has to be a multiple of {} bytes, and not 0", self.page)));
        }
        Ok(())
    }

    // -- addresses

    /// Whether such a range can be asked for, and the alignment it then has.
    pub(crate) fn check_reserve(&self, bytes: u64, alignment: u64) -> Result<u64, Refusal> {
        self.check_pages(bytes, "the size")?;
        if alignment != 0 && !alignment.is_power_of_two() {
            return Err(Refusal::value("the alignment has to be 0 or a power of two"));
        }
        Ok(alignment.max(self.page))
    }

    /// Reserves made-up addresses.
    pub(crate) fn reserve(&mut self, bytes: u64, alignment: u64) -> Result<AddressRange, Refusal> {
        let alignment = self.check_reserve(bytes, alignment)?;
        let start = self.space.take(bytes, alignment).ok_or(Refusal::NoAddresses {
            free_bytes: self.space.unused_bytes(),
            total_bytes: self.space.span_bytes(START),
        })?;
        self.reserved.insert(start, bytes);
        Ok(AddressRange::new(DevicePtr(start), bytes))
    }

    /// Addresses that somebody else has made up, and keeps for us.
    pub(crate) fn adopt(&mut self, range: AddressRange) {
        self.reserved.insert(range.start.0, range.bytes);
    }

    /// Whether the range can be given back.
    pub(crate) fn check_release(&self, range: AddressRange) -> Result<(), Refusal> {
        if self.reserved.get(&range.start.0) != Some(&range.bytes) {
            return Err(Refusal::value("it is not a reserved range; ranges are released whole"));
        }
        if let Some((at, _)) = self.mappings.range(range.start.0..range.end()).next() {
            return Err(Refusal::value(format!("memory is still mapped at {at:#x}; unmap it first")));
        }
        Ok(())
    }

    /// Forgets adopted addresses, which were seen to be free by [`check_release`](Self::check_release).
    pub(crate) fn disown(&mut self, range: AddressRange) {
        self.reserved.remove(&range.start.0);
    }

    /// Gives made-up addresses back.
    pub(crate) fn release_range(&mut self, range: AddressRange) -> Result<(), Refusal> {
        self.check_release(range)?;
        self.reserved.remove(&range.start.0);
        self.space.give_back(range.start.0, range.bytes);
        Ok(())
    }

    // -- handles

    /// What `count` handles take from the device.
    pub(crate) fn size_of(&self, bytes_each: u64, count: usize) -> Result<u64, Refusal> {
        self.check_pages(bytes_each, "the size of a handle")?;
        u64::try_from(count).ok().and_then(|count| bytes_each.checked_mul(count)).ok_or(Refusal::NoRoom)
    }

    /// `bytes_each` and `count` were seen to fit the device. `back` makes what stands behind each handle.
    pub(crate) fn create(
        &mut self,
        bytes_each: u64,
        count: usize,
        mut back: impl FnMut() -> Result<B, Refusal>,
    ) -> Result<Vec<HandleId>, Refusal> {
        let mut made = Vec::with_capacity(count.min(1 << 16));
        for _ in 0..count {
            match back().and_then(|backing| self.add(bytes_each, backing)) {
                Ok(id) => made.push(id),
                Err(refusal) => {
                    for id in made {
                        self.bytes -= bytes_each;
                        self.handles.remove(id.0);
                    }
                    return Err(refusal);
                }
            }
        }
        Ok(made)
    }

    /// One more handle.
    pub(crate) fn add(&mut self, bytes: u64, backing: B) -> Result<HandleId, Refusal> {
        let handle = Handle { bytes, backing, released: false, at: SmallVec::new() };
        let id = self.handles.insert(handle).ok_or(Refusal::TooMany("all ids of handles are taken"))?;
        self.bytes += bytes;
        Ok(HandleId(id))
    }

    /// What stands behind a handle that wasn't released.
    pub(crate) fn backing(&self, id: HandleId) -> Result<&B, Refusal> {
        self.handle(id).map(|handle| &handle.backing)
    }

    fn handle(&self, id: HandleId) -> Result<&Handle<B>, Refusal> {
        self.handles.get(id.0).filter(|handle| !handle.released).ok_or(Refusal::Id("there is no such handle"))
    }

    /// What stands behind the mapping that begins at this address, its handle released or not.
    pub(crate) fn backing_at(&self, at: u64) -> Option<&B> {
        let handle = self.mappings.get(&at)?.handle;
        self.handles.get(handle).map(|handle| &handle.backing)
    }

    pub(crate) fn release(&mut self, handles: &[HandleId]) -> Result<(), Refusal> {
        for (index, &id) in handles.iter().enumerate() {
            if let Err(refusal) = self.handle(id) {
                self.unrelease(&handles[..index]);
                return Err(refusal.at(index));
            }
            if let Some(handle) = self.handles.get_mut(id.0) {
                handle.released = true;
            }
        }
        for &id in handles {
            self.drop_if_unused(id.0);
        }
        Ok(())
    }

    fn unrelease(&mut self, handles: &[HandleId]) {
        for id in handles {
            if let Some(handle) = self.handles.get_mut(id.0) {
                handle.released = false;
            }
        }
    }

    fn drop_if_unused(&mut self, id: u64) {
        if self.handles.get(id).is_some_and(|handle| handle.released && handle.at.is_empty())
            && let Some(handle) = self.handles.remove(id)
        {
            self.bytes -= handle.bytes;
        }
    }

    // -- mappings

    pub(crate) fn map(&mut self, mappings: &[Mapping]) -> Result<(), Refusal> {
        for (index, mapping) in mappings.iter().enumerate() {
            if let Err(refusal) = self.map_one(mapping) {
                for mapping in mappings[..index].iter().rev() {
                    self.unmap_one(mapping.at.0);
                }
                return Err(refusal.at(index));
            }
        }
        Ok(())
    }

    fn map_one(&mut self, mapping: &Mapping) -> Result<(), Refusal> {
        let range = mapping.range();
        let handle = self.handle(mapping.handle)?;
        if handle.bytes != mapping.bytes {
            return Err(Refusal::value(format!("the handle has {} bytes, and is mapped whole", handle.bytes)));
        }
        if !range.start.0.is_multiple_of(self.page) {
            return Err(Refusal::value(format!("the address has to be a multiple of {} bytes", self.page)));
        }
        let reserved = self.reserved.range(..=range.start.0).next_back();
        if reserved.is_none_or(|(&start, &bytes)| range.end() > start.saturating_add(bytes)) {
            return Err(Refusal::value("it does not lie in one reserved range"));
        }
        if let Some(taken) = self.overlapping(range).next() {
            return Err(Refusal::value(format!("memory is mapped there already, at {taken}")));
        }
        if let Some(handle) = self.handles.get_mut(mapping.handle.0) {
            handle.at.push(range.start.0);
            self.aliased += usize::from(handle.at.len() == 2);
        }
        let mapped = Mapped { handle: mapping.handle.0, bytes: mapping.bytes, access: Access::None };
        self.mappings.insert(range.start.0, mapped);
        Ok(())
    }

    /// Takes away the mapping that begins here. The handle stays, even if released and unused.
    fn unmap_one(&mut self, at: u64) -> Option<Mapped> {
        let mapped = self.mappings.remove(&at)?;
        if let Some(handle) = self.handles.get_mut(mapped.handle) {
            if let Some(index) = handle.at.iter().rposition(|address| *address == at) {
                handle.at.remove(index);
            }
            self.aliased -= usize::from(handle.at.len() == 1);
        }
        Some(mapped)
    }

    /// How many mappings the ranges touch, and how many bytes the ranges have.
    pub(crate) fn size_of_ranges(&self, ranges: &[AddressRange]) -> (u64, u64) {
        ranges.iter().fold((0, 0), |(mappings, bytes), &range| {
            (mappings + self.overlapping(range).count() as u64, bytes.saturating_add(range.bytes))
        })
    }

    /// Checks that each range covers whole mappings and none twice.
    pub(crate) fn check_unmap(&self, ranges: &[AddressRange]) -> Result<(), Refusal> {
        self.check_access(ranges)?;
        let mut sorted: SmallVec<[(AddressRange, usize); 8]> =
            ranges.iter().enumerate().map(|(index, &range)| (range, index)).collect();
        sorted.sort_unstable();
        for pair in sorted.windows(2) {
            if pair[0].0.overlaps(&pair[1].0) {
                let index = pair[0].1.max(pair[1].1);
                return Err(Refusal::value("the batch has these addresses twice").at(index));
            }
        }
        Ok(())
    }

    /// Ranges were seen to be right by [`check_unmap`](Self::check_unmap).
    pub(crate) fn unmap(&mut self, ranges: &[AddressRange]) {
        for range in ranges {
            while let Some((&at, _)) = self.mappings.range(range.start.0..range.end()).next() {
                if let Some(mapped) = self.unmap_one(at) {
                    self.drop_if_unused(mapped.handle);
                }
            }
        }
    }

    /// Checks that each range covers whole mappings.
    pub(crate) fn check_access(&self, ranges: &[AddressRange]) -> Result<(), Refusal> {
        ranges
            .iter()
            .enumerate()
            .try_for_each(|(index, &range)| self.check_whole(range).map_err(|refusal| refusal.at(index)))
    }

    pub(crate) fn set_access(&mut self, ranges: &[AddressRange], access: Access) -> Result<(), Refusal> {
        self.check_access(ranges)?;
        for range in ranges {
            for (_, mapped) in self.mappings.range_mut(range.start.0..range.end()) {
                mapped.access = access;
            }
        }
        Ok(())
    }

    /// The range covers whole mappings without a gap.
    fn check_whole(&self, range: AddressRange) -> Result<(), Refusal> {
        self.check_pages(range.bytes, "the size")?;
        let mut next = range.start.0;
        for (&at, mapped) in self.mappings.range(range.start.0..range.end()) {
            if at != next {
                break;
            }
            next = at.saturating_add(mapped.bytes);
        }
        if next == range.end() {
            return Ok(());
        }
        Err(Refusal::value(if next > range.end() {
            "it ends inside a mapping; mappings are taken whole"
        } else if self.overlapping(AddressRange::new(DevicePtr(next), 1)).next().is_some() {
            "it begins inside a mapping; mappings are taken whole"
        } else {
            "nothing is mapped in a part of it"
        }))
    }

    /// The mappings that share a byte with the range, in order.
    pub(crate) fn overlapping(&self, range: AddressRange) -> impl Iterator<Item = AddressRange> {
        let before = self.mappings.range(..range.start.0).next_back();
        let before = before.filter(|(at, mapped)| at.saturating_add(mapped.bytes) > range.start.0);
        before
            .into_iter()
            .chain(self.mappings.range(range.start.0..range.end()))
            .map(|(&at, mapped)| AddressRange::new(DevicePtr(at), mapped.bytes))
    }

    // -- for those who watch uses

    /// The first address of the range that may not be accessed; `None` if all of it may.
    pub(crate) fn first_inaccessible(&self, range: AddressRange) -> Option<u64> {
        let mut next = range.start.0;
        let before = self.mappings.range(..=range.start.0).next_back();
        if let Some((&at, mapped)) = before
            && mapped.access != Access::None
        {
            next = next.max(at.saturating_add(mapped.bytes));
        }
        if next >= range.end() {
            return None;
        }
        for (&at, mapped) in self.mappings.range(next..range.end()) {
            if at != next || mapped.access == Access::None {
                break;
            }
            next = at.saturating_add(mapped.bytes);
        }
        (next < range.end()).then_some(next)
    }

    /// Other addresses at which the memory behind `range` is mapped as well.
    pub(crate) fn aliases(&self, range: AddressRange) -> SmallVec<[AddressRange; 2]> {
        let mut found = SmallVec::new();
        if self.aliased == 0 {
            return found;
        }
        for mapping in self.overlapping(range) {
            let Some(handle) = self.mappings.get(&mapping.start.0).and_then(|mapped| self.handles.get(mapped.handle))
            else {
                continue;
            };
            let from = range.start.0.max(mapping.start.0) - mapping.start.0;
            let upto = range.end().min(mapping.end()) - mapping.start.0;
            for &at in handle.at.iter().filter(|at| **at != mapping.start.0) {
                found.push(AddressRange::new(DevicePtr(at + from), upto - from));
            }
        }
        found
    }

    /// The mapping that begins at this address, and what work may do with it.
    pub(crate) fn mapping(&self, at: u64) -> Option<(Mapping, Access)> {
        let mapped = self.mappings.get(&at)?;
        let mapping = Mapping { at: DevicePtr(at), handle: HandleId(mapped.handle), bytes: mapped.bytes };
        Some((mapping, mapped.access))
    }

    /// Physical bytes that handles hold, mapped or not.
    pub(crate) fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Names the invariant that doesn't hold.
    pub(crate) fn check(&self) -> Result<(), String> {
        let mut held = 0;
        let mut aliased = 0;
        let mut places = 0;
        for (id, handle) in self.handles.iter() {
            held += handle.bytes;
            aliased += usize::from(handle.at.len() > 1);
            places += handle.at.len();
            if handle.released && handle.at.is_empty() {
                return Err(format!("handle {id} is released and unmapped, and still held"));
            }
            for at in &handle.at {
                if self.mappings.get(at).is_none_or(|mapped| mapped.handle != id || mapped.bytes != handle.bytes) {
                    return Err(format!("handle {id} is not mapped at {at:#x} as it says"));
                }
            }
        }
        if held != self.bytes || aliased != self.aliased || places != self.mappings.len() {
            return Err(format!(
                "handles hold {held} bytes, {aliased} are aliased, {places} places; the books say {}, {} and {}",
                self.bytes,
                self.aliased,
                self.mappings.len()
            ));
        }
        let mut last = 0;
        for (&at, mapped) in &self.mappings {
            let end = at + mapped.bytes;
            let home = self.reserved.range(..=at).next_back();
            if at < last || home.is_none_or(|(&start, &bytes)| end > start + bytes) {
                return Err(format!("the mapping at {at:#x} overlaps another or leaves its reserved range"));
            }
            last = end;
        }
        Ok(())
    }
}
