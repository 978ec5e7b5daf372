//! Expandable segments: addresses for everything a stream may ever need, given memory piece by piece.

use device::{Access, AddressRange, Device, DevicePtr, HandleId, Mapping, StreamId, VirtualMemory};
use records::Action;

use crate::policy::Effects;

/// A segment's place in [`Segments`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct SegmentIndex(usize);

#[derive(Debug)]
struct Segment {
    range: AddressRange,
    stream: StreamId,
    /// Size of each handle.
    unit: u64,
    handles: Vec<Option<HandleId>>,
}

/// All expandable segments.
#[derive(Debug, Default)]
pub(super) struct Segments {
    slots: Vec<Option<Segment>>,
}

fn memory(device: &dyn Device) -> device::Result<&dyn VirtualMemory> {
    device.vmm().ok_or_else(|| device::Error::Internal { what: "the simulated device has virtual memory".to_owned() })
}

impl Segments {
    /// Reserves addresses for one and an eighth of the device.
    pub(super) fn create(
        &mut self,
        device: &dyn Device,
        stream: StreamId,
        unit: u64,
    ) -> device::Result<(SegmentIndex, AddressRange)> {
        let total = device.info().total_bytes;
        let bytes = total.saturating_add(total / 8).div_ceil(unit).saturating_mul(unit);
        let range = memory(device)?.reserve_range(bytes, 0)?;
        self.slots.push(Some(Segment { range, stream, unit, handles: Vec::new() }));
        Ok((SegmentIndex(self.slots.len() - 1), range))
    }

    /// Gives memory to `bytes` from `address` on, rounded up to whole handles; says how many bytes got it.
    pub(super) fn map(
        &mut self,
        device: &dyn Device,
        index: SegmentIndex,
        address: u64,
        bytes: u64,
        effects: &mut Effects,
    ) -> device::Result<u64> {
        let Some(segment) = self.slots.get_mut(index.0).and_then(Option::as_mut) else { return Ok(0) };
        let base = segment.range.start.0;
        let first = (address - base) / segment.unit;
        let end = (address - base + bytes).div_ceil(segment.unit);
        let count = end - first;
        let vmm = memory(device)?;
        // One at a time, as the real one does: what it took before it failed counts for a moment.
        let mut handles = Vec::new();
        for _ in 0..count {
            match vmm.create_handles(segment.unit, 1) {
                Ok(created) => handles.extend(created),
                Err(error) => {
                    vmm.release_handles(&handles)?;
                    return Err(error);
                }
            }
        }
        let at = |index: u64| DevicePtr(base + index * segment.unit);
        let mappings: Vec<Mapping> = (first..end)
            .zip(&handles)
            .map(|(index, &handle)| Mapping { at: at(index), handle, bytes: segment.unit })
            .collect();
        let whole = AddressRange::new(at(first), (end - first) * segment.unit);
        vmm.map(&mappings)?;
        vmm.set_access(&[whole], Access::ReadWrite)?;
        effects.push_handles(true, whole.start.0, segment.unit, &handles);
        if segment.handles.len() < end as usize {
            segment.handles.resize(end as usize, None);
        }
        for (index, handle) in (first..end).zip(handles) {
            segment.handles[index as usize] = Some(handle);
        }
        effects.push(Action::SegmentMap, whole.start.0, whole.bytes, segment.stream);
        Ok(whole.bytes)
    }

    /// Takes the memory of whole handles inside `[address, address + bytes)`; says which range lost it.
    pub(super) fn unmap(
        &mut self,
        device: &dyn Device,
        index: SegmentIndex,
        address: u64,
        bytes: u64,
        effects: &mut Effects,
    ) -> device::Result<Option<AddressRange>> {
        let Some(segment) = self.slots.get_mut(index.0).and_then(Option::as_mut) else { return Ok(None) };
        let base = segment.range.start.0;
        let first = (address - base).div_ceil(segment.unit);
        let end = (address - base + bytes) / segment.unit;
        if first >= end {
            return Ok(None);
        }
        let vmm = memory(device)?;
        // What still runs on the stream may use the memory: the real one waits here as well.
        device.synchronize_stream(segment.stream)?;
        let range = AddressRange::new(DevicePtr(base + first * segment.unit), (end - first) * segment.unit);
        vmm.unmap(&[range])?;
        let handles: Vec<HandleId> =
            segment.handles[first as usize..end as usize].iter_mut().filter_map(Option::take).collect();
        vmm.release_handles(&handles)?;
        effects.push_handles(false, range.start.0, segment.unit, &handles);
        effects.push(Action::SegmentUnmap, range.start.0, range.bytes, segment.stream);
        Ok(Some(range))
    }

    /// Gives the addresses of a segment without memory back.
    pub(super) fn release(&mut self, device: &dyn Device, index: SegmentIndex) -> device::Result<()> {
        match self.slots.get_mut(index.0).and_then(Option::take) {
            Some(segment) => memory(device)?.release_range(segment.range),
            None => Ok(()),
        }
    }
}
