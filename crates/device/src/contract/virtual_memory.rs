//! Promises about addresses apart from memory.

use super::core::{holds, pattern};
use super::{Case, Kind, Needs, Outcome, cases, done, ensure, free_bytes, refused, same_free};
use crate::{Access, AddressRange, Attempt, Device, DevicePtr, HandleId, Mapping, Place, StreamId, VirtualMemory};

cases! {
    Vmm: reserved_ranges_are_aligned_and_never_overlap, addresses_come_in_pages, ranges_are_released_whole_and_empty,
        handles_take_memory, more_handles_than_fit_are_none, handles_are_mapped_whole, nothing_is_mapped_over_a_mapping,
        a_refused_batch_maps_nothing, mappings_are_unmapped_whole, a_refused_batch_unmaps_nothing,
        access_is_set_on_whole_mappings, a_handle_may_be_mapped_twice, a_released_handle_lives_while_mapped,
        a_refused_batch_releases_nothing, empty_batches_are_no_calls, mapped_memory_needs_access;
    VmmAndBytes: aliases_show_the_same_bytes, bytes_stay_with_the_handle;
}

/// The part and its page.
struct Vmm<'a> {
    vmm: &'a dyn VirtualMemory,
    page: u64,
}

impl<'a> Vmm<'a> {
    fn of(device: &'a dyn Device) -> Result<Vmm<'a>, String> {
        match (device.vmm(), device.info().page_bytes) {
            (Some(vmm), Some(page)) => Ok(Vmm { vmm, page }),
            _ => Err("no virtual memory, or no page size".to_owned()),
        }
    }

    fn reserve(&self, pages: u64) -> Result<AddressRange, String> {
        done("reserving", self.vmm.reserve_range(pages * self.page, 0))
    }

    fn create(&self, count: usize) -> Result<Vec<HandleId>, String> {
        let made = done("creating handles", self.vmm.create_handles(self.page, count))?;
        ensure_count(&made, count)?;
        Ok(made)
    }

    /// One page of the range.
    fn page(&self, range: AddressRange, page: u64) -> AddressRange {
        AddressRange::new(DevicePtr(range.start.0 + page * self.page), self.page)
    }

    fn mapping(&self, range: AddressRange, page: u64, handle: HandleId) -> Mapping {
        Mapping { at: self.page(range, page).start, handle, bytes: self.page }
    }

    /// Reserved pages with a handle on each.
    fn mapped(&self, pages: u64) -> Result<(AddressRange, Vec<HandleId>), String> {
        let range = self.reserve(pages)?;
        let handles = self.create(pages as usize)?;
        let batch: Vec<_> = (0..pages).zip(&handles).map(|(page, &handle)| self.mapping(range, page, handle)).collect();
        done("mapping", self.vmm.map(&batch))?;
        Ok((range, handles))
    }

    fn map_refused(&self, what: &str, mapping: Mapping) -> Outcome {
        refused(what, self.vmm.map(&[mapping]), Kind::Invalid, &Attempt::Map { mapping, index: 0, count: 1 })
    }

    fn unmap_refused(&self, what: &str, range: AddressRange) -> Outcome {
        refused(what, self.vmm.unmap(&[range]), Kind::Invalid, &Attempt::Unmap { range, index: 0, count: 1 })
    }
}

fn ensure_count(made: &[HandleId], count: usize) -> Outcome {
    let mut distinct = made.to_vec();
    distinct.sort_unstable();
    distinct.dedup();
    ensure!(distinct.len() == count, "{count} handles were asked for, {} different ones came", distinct.len());
    Ok(())
}

fn reserved_ranges_are_aligned_and_never_overlap(device: &dyn Device) -> Outcome {
    let Vmm { vmm, page } = Vmm::of(device)?;
    let before = free_bytes(device)?;
    let mut ranges: Vec<AddressRange> = Vec::new();
    for (pages, alignment) in [(1, 0), (7, page), (2, 64 * page), (1, 512), (300, 0)] {
        let range = done("reserving", vmm.reserve_range(pages * page, alignment))?;
        ensure!(range.bytes == pages * page, "{range} came for {} bytes", pages * page);
        let due = alignment.max(page);
        ensure!(range.start.0 != 0 && range.start.0.is_multiple_of(due), "{range} is not aligned to {due}");
        if let Some(other) = ranges.iter().find(|other| other.overlaps(&range)) {
            return Err(format!("{range} overlaps {other}"));
        }
        ranges.push(range);
    }
    same_free(device, before, "addresses were reserved")
}

fn addresses_come_in_pages(device: &dyn Device) -> Outcome {
    let Vmm { vmm, page } = Vmm::of(device)?;
    for (bytes, alignment) in [(0, 0), (page + 1, 0), (page / 2, 0), (page, 3 * page)] {
        let attempt = Attempt::ReserveRange { bytes, alignment };
        refused("reserving parts of pages", vmm.reserve_range(bytes, alignment), Kind::Invalid, &attempt)?;
    }
    let bytes = u64::MAX / page * page;
    let attempt = Attempt::ReserveRange { bytes, alignment: 0 };
    refused("reserving all addresses", vmm.reserve_range(bytes, 0), Kind::OutOfMemory, &attempt)?;
    for bytes_each in [0, page + 1] {
        let attempt = Attempt::CreateHandles { bytes_each, count: 1 };
        refused("a handle of a part of a page", vmm.create_handles(bytes_each, 1), Kind::Invalid, &attempt)?;
    }
    Ok(())
}

fn ranges_are_released_whole_and_empty(device: &dyn Device) -> Outcome {
    let v = Vmm::of(device)?;
    let (range, _) = v.mapped(2)?;
    let release =
        |what: &str, range| refused(what, v.vmm.release_range(range), Kind::Invalid, &Attempt::ReleaseRange { range });
    release("releasing what is mapped", range)?;
    done("unmapping", v.vmm.unmap(&[range]))?;
    release("releasing a part", v.page(range, 0))?;
    release("releasing from the middle", v.page(range, 1))?;
    release("releasing more", AddressRange::new(range.start, 3 * v.page))?;
    done("releasing", v.vmm.release_range(range))?;
    release("releasing again", range)
}

fn handles_take_memory(device: &dyn Device) -> Outcome {
    let v = Vmm::of(device)?;
    let before = free_bytes(device)?;
    let handles = v.create(4)?;
    let now = free_bytes(device)?;
    ensure!(now <= before - 4 * v.page, "{now} of {before} bytes are free with four pages made");
    done("releasing", v.vmm.release_handles(&handles))?;
    same_free(device, before, "the handles were released")?;
    let attempt = Attempt::ReleaseHandle { handle: handles[0], index: 0, count: 1 };
    refused("releasing again", v.vmm.release_handles(&handles[..1]), Kind::Invalid, &attempt)
}

fn more_handles_than_fit_are_none(device: &dyn Device) -> Outcome {
    let v = Vmm::of(device)?;
    let before = free_bytes(device)?;
    let half = (before / 2 / v.page).max(1) * v.page;
    let too_large = (device.info().total_bytes / v.page + 1) * v.page;
    for (bytes_each, count) in [(half, 3), (too_large, 1), (v.page, usize::MAX), (u64::MAX / v.page * v.page, 2)] {
        let attempt = Attempt::CreateHandles { bytes_each, count };
        refused("too many handles", v.vmm.create_handles(bytes_each, count), Kind::OutOfMemory, &attempt)?;
        same_free(device, before, "refused handles")?;
    }
    Ok(())
}

fn handles_are_mapped_whole(device: &dyn Device) -> Outcome {
    let v = Vmm::of(device)?;
    let range = v.reserve(4)?;
    let handle = done("creating a handle", v.vmm.create_handles(2 * v.page, 1))?[0];
    let at = range.start;
    let bytes = 2 * v.page;
    v.map_refused("mapping a part of a handle", Mapping { at, handle, bytes: v.page })?;
    v.map_refused("mapping more than a handle", Mapping { at, handle, bytes: 3 * v.page })?;
    v.map_refused("mapping no bytes", Mapping { at, handle, bytes: 0 })?;
    v.map_refused("mapping off a page", Mapping { at: DevicePtr(at.0 + 512), handle, bytes })?;
    v.map_refused("mapping over the end", Mapping { at: v.page(range, 3).start, handle, bytes })?;
    v.map_refused("mapping what isn't reserved", Mapping { at: DevicePtr(v.page), handle, bytes })?;
    let unknown = HandleId(handle.0.wrapping_add(77));
    v.map_refused("mapping an unknown handle", Mapping { at, handle: unknown, bytes })?;
    done("mapping it whole", v.vmm.map(&[Mapping { at: v.page(range, 2).start, handle, bytes }]))
}

fn nothing_is_mapped_over_a_mapping(device: &dyn Device) -> Outcome {
    let v = Vmm::of(device)?;
    let range = v.reserve(4)?;
    let handles = v.create(2)?;
    let large = done("creating a handle", v.vmm.create_handles(2 * v.page, 1))?[0];
    done("mapping", v.vmm.map(&[v.mapping(range, 1, handles[0])]))?;
    v.map_refused("mapping over a mapping", v.mapping(range, 1, handles[1]))?;
    for page in [0, 1] {
        let at = v.page(range, page).start;
        v.map_refused("mapping over a part of a mapping", Mapping { at, handle: large, bytes: 2 * v.page })?;
    }
    done("mapping beside", v.vmm.map(&[Mapping { at: v.page(range, 2).start, handle: large, bytes: 2 * v.page }]))
}

fn a_refused_batch_maps_nothing(device: &dyn Device) -> Outcome {
    let v = Vmm::of(device)?;
    let range = v.reserve(4)?;
    let handles = v.create(3)?;
    let good = [v.mapping(range, 0, handles[0]), v.mapping(range, 1, handles[1])];
    // The last one collides with the first.
    let bad = v.mapping(range, 0, handles[2]);
    let attempt = Attempt::Map { mapping: bad, index: 2, count: 3 };
    refused("a batch with a bad end", v.vmm.map(&[good[0], good[1], bad]), Kind::Invalid, &attempt)?;
    v.unmap_refused("unmapping what a refused batch would have mapped", v.page(range, 0))?;
    done("mapping the good ones", v.vmm.map(&good))
}

fn mappings_are_unmapped_whole(device: &dyn Device) -> Outcome {
    let v = Vmm::of(device)?;
    let range = v.reserve(6)?;
    let large = done("creating a handle", v.vmm.create_handles(2 * v.page, 1))?[0];
    let small = v.create(2)?;
    let first = Mapping { at: range.start, handle: large, bytes: 2 * v.page };
    done("mapping", v.vmm.map(&[first, v.mapping(range, 2, small[0]), v.mapping(range, 4, small[1])]))?;
    v.unmap_refused("unmapping the front of a mapping", v.page(range, 0))?;
    v.unmap_refused("unmapping the back of a mapping", v.page(range, 1))?;
    v.unmap_refused("unmapping over a gap", range)?;
    v.unmap_refused("unmapping a gap", v.page(range, 3))?;
    v.unmap_refused("unmapping no bytes", AddressRange::new(range.start, 0))?;
    done("unmapping two neighbours at once", v.vmm.unmap(&[AddressRange::new(range.start, 3 * v.page)]))?;
    v.unmap_refused("unmapping again", v.page(range, 2))?;
    done("unmapping the last", v.vmm.unmap(&[v.page(range, 4)]))
}

fn a_refused_batch_unmaps_nothing(device: &dyn Device) -> Outcome {
    let v = Vmm::of(device)?;
    let (range, handles) = v.mapped(2)?;
    let (first, second, nothing) = (v.page(range, 0), v.page(range, 1), AddressRange::new(DevicePtr(v.page), v.page));
    let attempt = Attempt::Unmap { range: nothing, index: 2, count: 3 };
    refused("a batch with a bad end", v.vmm.unmap(&[first, second, nothing]), Kind::Invalid, &attempt)?;
    let attempt = Attempt::Unmap { range: first, index: 1, count: 2 };
    refused("a batch with one range twice", v.vmm.unmap(&[first, first]), Kind::Invalid, &attempt)?;
    v.map_refused("mapping where a refused batch would have unmapped", v.mapping(range, 0, handles[1]))?;
    done("unmapping the good ones", v.vmm.unmap(&[second, first]))
}

fn access_is_set_on_whole_mappings(device: &dyn Device) -> Outcome {
    let v = Vmm::of(device)?;
    let range = v.reserve(4)?;
    let large = done("creating a handle", v.vmm.create_handles(2 * v.page, 1))?[0];
    done("mapping", v.vmm.map(&[Mapping { at: range.start, handle: large, bytes: 2 * v.page }]))?;
    let whole = AddressRange::new(range.start, 2 * v.page);
    let access = Access::ReadWrite;
    for (what, part) in [("a part of a mapping", v.page(range, 0)), ("more than is mapped", range)] {
        let attempt = Attempt::SetAccess { range: part, access, index: 1, count: 2 };
        refused(what, v.vmm.set_access(&[whole, part], access), Kind::Invalid, &attempt)?;
    }
    done("setting access", v.vmm.set_access(&[whole], access))
}

fn a_handle_may_be_mapped_twice(device: &dyn Device) -> Outcome {
    let v = Vmm::of(device)?;
    let before = free_bytes(device)?;
    let range = v.reserve(2)?;
    let handle = v.create(1)?[0];
    done("mapping twice", v.vmm.map(&[v.mapping(range, 0, handle), v.mapping(range, 1, handle)]))?;
    done("unmapping one", v.vmm.unmap(&[v.page(range, 0)]))?;
    done("mapping it there again", v.vmm.map(&[v.mapping(range, 0, handle)]))?;
    done("unmapping both", v.vmm.unmap(&[range]))?;
    done("releasing", v.vmm.release_handles(&[handle]))?;
    same_free(device, before, "all was given back")
}

fn a_released_handle_lives_while_mapped(device: &dyn Device) -> Outcome {
    let v = Vmm::of(device)?;
    let before = free_bytes(device)?;
    let range = v.reserve(3)?;
    let handle = v.create(1)?[0];
    done("mapping twice", v.vmm.map(&[v.mapping(range, 0, handle), v.mapping(range, 1, handle)]))?;
    done("releasing", v.vmm.release_handles(&[handle]))?;
    v.map_refused("mapping a released handle", v.mapping(range, 2, handle))?;
    let attempt = Attempt::ReleaseHandle { handle, index: 0, count: 1 };
    refused("releasing it again", v.vmm.release_handles(&[handle]), Kind::Invalid, &attempt)?;
    done("unmapping one", v.vmm.unmap(&[v.page(range, 0)]))?;
    let held = free_bytes(device)?;
    ensure!(held < before, "released memory went back while it was mapped");
    done("unmapping the other", v.vmm.unmap(&[v.page(range, 1)]))?;
    same_free(device, before, "the last mapping was gone")
}

fn a_refused_batch_releases_nothing(device: &dyn Device) -> Outcome {
    let v = Vmm::of(device)?;
    let handle = v.create(1)?[0];
    let before = free_bytes(device)?;
    let attempt = Attempt::ReleaseHandle { handle, index: 1, count: 2 };
    refused("releasing one twice", v.vmm.release_handles(&[handle, handle]), Kind::Invalid, &attempt)?;
    same_free(device, before, "a refused release")?;
    let range = v.reserve(1)?;
    done("mapping the handle", v.vmm.map(&[v.mapping(range, 0, handle)]))
}

fn empty_batches_are_no_calls(device: &dyn Device) -> Outcome {
    let Vmm { vmm, page } = Vmm::of(device)?;
    let made = done("creating no handles", vmm.create_handles(page, 0))?;
    ensure!(made.is_empty(), "{} handles came for none", made.len());
    done("releasing no handles", vmm.release_handles(&[]))?;
    done("mapping nothing", vmm.map(&[]))?;
    done("unmapping nothing", vmm.unmap(&[]))?;
    done("setting no access", vmm.set_access(&[], Access::ReadWrite))
}

fn mapped_memory_needs_access(device: &dyn Device) -> Outcome {
    let v = Vmm::of(device)?;
    let (range, _) = v.mapped(2)?;
    let (to, from) = (Place::Device(v.page(range, 0).start), Place::Device(v.page(range, 1).start));
    let (bytes, stream) = (v.page, StreamId::DEFAULT);
    let attempt = Attempt::Copy { to, from, bytes, stream };
    refused("a copy without access", device.copy(to, from, bytes, stream), Kind::Invalid, &attempt)?;
    done("setting access", v.vmm.set_access(&[range], Access::ReadWrite))?;
    done("a copy with access", device.copy(to, from, bytes, stream))?;
    done("waiting", device.synchronize_stream(stream))
}

fn aliases_show_the_same_bytes(device: &dyn Device) -> Outcome {
    let v = Vmm::of(device)?;
    let range = v.reserve(2)?;
    let handle = v.create(1)?[0];
    done("mapping twice", v.vmm.map(&[v.mapping(range, 0, handle), v.mapping(range, 1, handle)]))?;
    done("setting access", v.vmm.set_access(&[range], Access::ReadWrite))?;
    let bytes = pattern(4, v.page as usize);
    done("writing", device.write(Place::Device(range.start), &bytes))?;
    holds(device, Place::Device(v.page(range, 1).start), &bytes)
}

fn bytes_stay_with_the_handle(device: &dyn Device) -> Outcome {
    let v = Vmm::of(device)?;
    let (range, handles) = v.mapped(1)?;
    done("setting access", v.vmm.set_access(&[range], Access::ReadWrite))?;
    let bytes = pattern(5, v.page as usize);
    done("writing", device.write(Place::Device(range.start), &bytes))?;
    done("unmapping", v.vmm.unmap(&[range]))?;
    let other = v.reserve(1)?;
    done("mapping elsewhere", v.vmm.map(&[v.mapping(other, 0, handles[0])]))?;
    done("setting access", v.vmm.set_access(&[other], Access::ReadWrite))?;
    holds(device, Place::Device(other.start), &bytes)
}
