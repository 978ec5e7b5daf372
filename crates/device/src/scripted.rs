//! A device for tests: does what another does, writes down every call, and fails where the test says.

use crate::error::codes;
use crate::{
    Access, AddressRange, Attempt, Device, DeviceInfo, DevicePtr, DriverPools, Error, EventId, Failure, FaultPlan,
    HandleId, HostPtr, Mapping, MemoryState, PageLocked, Place, PoolState, Result, StreamId, VirtualMemory,
};
use std::sync::{Mutex, MutexGuard, PoisonError};

/// Wraps a device. Calls that the script strikes don't reach it; all others do. Has the parts that the wrapped device
/// has, but for memory between processes.
#[derive(Debug)]
pub struct Scripted<D> {
    inner: D,
    script: Mutex<Script>,
}

#[derive(Debug, Default)]
struct Script {
    faults: FaultPlan,
    log: Vec<Attempt>,
    lost: Option<Error>,
}

impl<D: Device> Scripted<D> {
    /// A device that fails where `faults` say.
    pub fn new(inner: D, faults: FaultPlan) -> Scripted<D> {
        Scripted { inner, script: Mutex::new(Script { faults, ..Script::default() }) }
    }

    /// The wrapped device.
    pub fn inner(&self) -> &D {
        &self.inner
    }

    /// Another script; it counts from now on.
    pub fn set_faults(&self, faults: FaultPlan) {
        self.script().faults = faults;
    }

    /// The calls made since the last time this was asked, struck ones among them. A batch is one call; it stands there
    /// with its first entry.
    pub fn take_log(&self) -> Vec<Attempt> {
        std::mem::take(&mut self.script().log)
    }

    fn script(&self) -> MutexGuard<'_, Script> {
        self.script.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Writes the call down, and fails it if the script says so. A batch without entries is no call.
    fn step(&self, attempt: Option<Attempt>) -> Result<()> {
        let Some(attempt) = attempt else { return Ok(()) };
        let mut script = self.script();
        script.log.push(attempt);
        if let Some(lost) = &script.lost {
            return Err(lost.clone());
        }
        let Some(fault) = attempt.call().and_then(|call| script.faults.next(call)) else { return Ok(()) };
        let error = fault.error(attempt, 0, self.inner.info().total_bytes);
        if error.is_sticky() {
            script.lost = Some(error.clone());
        }
        Err(error)
    }
}

/// What a part that the wrapped device lacks answers; nobody gets to ask, since the wrapper lacks it too.
fn lacking(attempt: Attempt) -> Error {
    Error::Unsupported(Box::new(Failure::new(attempt, codes::NOT_SUPPORTED, "the device has no such part")))
}

impl<D: Device> Device for Scripted<D> {
    fn info(&self) -> &DeviceInfo {
        self.inner.info()
    }

    fn memory(&self) -> Result<MemoryState> {
        self.step(Some(Attempt::MemoryInfo))?;
        self.inner.memory()
    }

    fn alloc(&self, bytes: u64) -> Result<DevicePtr> {
        self.step(Some(Attempt::Alloc { bytes }))?;
        self.inner.alloc(bytes)
    }

    fn free(&self, ptr: DevicePtr) -> Result<()> {
        self.step(Some(Attempt::Free { ptr }))?;
        self.inner.free(ptr)
    }

    fn create_stream(&self) -> Result<StreamId> {
        self.step(Some(Attempt::CreateStream))?;
        self.inner.create_stream()
    }

    fn destroy_stream(&self, stream: StreamId) -> Result<()> {
        self.step(Some(Attempt::DestroyStream { stream }))?;
        self.inner.destroy_stream(stream)
    }

    fn query_stream(&self, stream: StreamId) -> Result<bool> {
        self.step(Some(Attempt::QueryStream { stream }))?;
        self.inner.query_stream(stream)
    }

    fn synchronize_stream(&self, stream: StreamId) -> Result<()> {
        self.step(Some(Attempt::SynchronizeStream { stream }))?;
        self.inner.synchronize_stream(stream)
    }

    fn create_event(&self) -> Result<EventId> {
        self.step(Some(Attempt::CreateEvent))?;
        self.inner.create_event()
    }

    fn destroy_event(&self, event: EventId) -> Result<()> {
        self.step(Some(Attempt::DestroyEvent { event }))?;
        self.inner.destroy_event(event)
    }

    fn record_event(&self, event: EventId, stream: StreamId) -> Result<()> {
        self.step(Some(Attempt::RecordEvent { event, stream }))?;
        self.inner.record_event(event, stream)
    }

    fn query_event(&self, event: EventId) -> Result<bool> {
        self.step(Some(Attempt::QueryEvent { event }))?;
        self.inner.query_event(event)
    }

    fn synchronize_event(&self, event: EventId) -> Result<()> {
        self.step(Some(Attempt::SynchronizeEvent { event }))?;
        self.inner.synchronize_event(event)
    }

    fn wait_event(&self, stream: StreamId, event: EventId) -> Result<()> {
        self.step(Some(Attempt::WaitEvent { stream, event }))?;
        self.inner.wait_event(stream, event)
    }

    fn synchronize(&self) -> Result<()> {
        self.step(Some(Attempt::Synchronize))?;
        self.inner.synchronize()
    }

    fn copy(&self, to: Place, from: Place, bytes: u64, stream: StreamId) -> Result<()> {
        self.step(Some(Attempt::Copy { to, from, bytes, stream }))?;
        self.inner.copy(to, from, bytes, stream)
    }

    fn write(&self, to: Place, from: &[u8]) -> Result<()> {
        self.step(Some(Attempt::Write { to, bytes: from.len() as u64 }))?;
        self.inner.write(to, from)
    }

    fn read(&self, from: Place, to: &mut [u8]) -> Result<()> {
        self.step(Some(Attempt::Read { from, bytes: to.len() as u64 }))?;
        self.inner.read(from, to)
    }

    fn vmm(&self) -> Option<&dyn VirtualMemory> {
        self.inner.vmm().map(|_| self as &dyn VirtualMemory)
    }

    fn driver_pools(&self) -> Option<&dyn DriverPools> {
        self.inner.driver_pools().map(|_| self as &dyn DriverPools)
    }

    fn page_locked(&self) -> Option<&dyn PageLocked> {
        self.inner.page_locked().map(|_| self as &dyn PageLocked)
    }
}

impl<D: Device> Scripted<D> {
    fn inner_vmm(&self, attempt: Option<Attempt>) -> Result<&dyn VirtualMemory> {
        self.step(attempt)?;
        self.inner.vmm().ok_or_else(|| lacking(attempt.unwrap_or(Attempt::Open)))
    }

    fn inner_pools(&self, attempt: Attempt) -> Result<&dyn DriverPools> {
        self.step(Some(attempt))?;
        self.inner.driver_pools().ok_or_else(|| lacking(attempt))
    }

    fn inner_locked(&self, attempt: Attempt) -> Result<&dyn PageLocked> {
        self.step(Some(attempt))?;
        self.inner.page_locked().ok_or_else(|| lacking(attempt))
    }
}

impl<D: Device> VirtualMemory for Scripted<D> {
    fn reserve_range(&self, bytes: u64, alignment: u64) -> Result<AddressRange> {
        self.inner_vmm(Some(Attempt::ReserveRange { bytes, alignment }))?.reserve_range(bytes, alignment)
    }

    fn release_range(&self, range: AddressRange) -> Result<()> {
        self.inner_vmm(Some(Attempt::ReleaseRange { range }))?.release_range(range)
    }

    fn create_handles(&self, bytes_each: u64, count: usize) -> Result<Vec<HandleId>> {
        let attempt = (count > 0).then_some(Attempt::CreateHandles { bytes_each, count });
        self.inner_vmm(attempt)?.create_handles(bytes_each, count)
    }

    fn release_handles(&self, handles: &[HandleId]) -> Result<()> {
        let count = handles.len();
        let attempt = handles.first().map(|&handle| Attempt::ReleaseHandle { handle, index: 0, count });
        self.inner_vmm(attempt)?.release_handles(handles)
    }

    fn map(&self, mappings: &[Mapping]) -> Result<()> {
        let count = mappings.len();
        let attempt = mappings.first().map(|&mapping| Attempt::Map { mapping, index: 0, count });
        self.inner_vmm(attempt)?.map(mappings)
    }

    fn unmap(&self, ranges: &[AddressRange]) -> Result<()> {
        let count = ranges.len();
        let attempt = ranges.first().map(|&range| Attempt::Unmap { range, index: 0, count });
        self.inner_vmm(attempt)?.unmap(ranges)
    }

    fn set_access(&self, ranges: &[AddressRange], access: Access) -> Result<()> {
        let count = ranges.len();
        let attempt = ranges.first().map(|&range| Attempt::SetAccess { range, access, index: 0, count });
        self.inner_vmm(attempt)?.set_access(ranges, access)
    }
}

impl<D: Device> DriverPools for Scripted<D> {
    fn alloc_async(&self, bytes: u64, stream: StreamId) -> Result<DevicePtr> {
        self.inner_pools(Attempt::PoolAlloc { bytes, stream })?.alloc_async(bytes, stream)
    }

    fn free_async(&self, ptr: DevicePtr, stream: StreamId) -> Result<()> {
        self.inner_pools(Attempt::PoolFree { ptr, stream })?.free_async(ptr, stream)
    }

    fn trim(&self, keep_bytes: u64) -> Result<()> {
        self.inner_pools(Attempt::PoolTrim { keep_bytes })?.trim(keep_bytes)
    }

    fn pool_state(&self) -> Result<PoolState> {
        match self.inner.driver_pools() {
            Some(pools) => pools.pool_state(),
            None => Err(lacking(Attempt::Open)),
        }
    }
}

impl<D: Device> PageLocked for Scripted<D> {
    fn alloc_host(&self, bytes: u64) -> Result<HostPtr> {
        self.inner_locked(Attempt::HostAlloc { bytes })?.alloc_host(bytes)
    }

    fn free_host(&self, ptr: HostPtr) -> Result<()> {
        self.inner_locked(Attempt::HostFree { ptr })?.free_host(ptr)
    }

    fn locked_bytes(&self) -> u64 {
        self.inner.page_locked().map_or(0, PageLocked::locked_bytes)
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;
    use crate::{DriverCall, Fault, SimDevice, SimOptions, When};

    #[test]
    fn struck_calls_are_written_down_and_do_not_reach_the_device() {
        let device = Scripted::new(SimDevice::new(SimOptions::default()).unwrap(), FaultPlan::default());
        device.set_faults(FaultPlan::new([Fault::out_of_memory(DriverCall::Alloc, When::Nth(2))]));
        let ptr = device.alloc(5).unwrap();
        assert!(device.alloc(6).unwrap_err().is_out_of_memory());
        device.free(ptr).unwrap();
        device.vmm().unwrap().map(&[]).unwrap();
        let log = device.take_log();
        assert_eq!(log, [Attempt::Alloc { bytes: 5 }, Attempt::Alloc { bytes: 6 }, Attempt::Free { ptr }]);
        assert_eq!(device.inner().counts().of(DriverCall::Alloc).calls, 1);
        assert!(device.take_log().is_empty());
    }

    #[test]
    fn a_sticky_failure_loses_the_device() {
        let lost = Fault::out_of_memory(DriverCall::EventQuery, When::Nth(1)).sticky();
        let device = Scripted::new(SimDevice::new(SimOptions::default()).unwrap(), FaultPlan::new([lost]));
        let event = device.create_event().unwrap();
        let error = device.query_event(event).unwrap_err();
        assert_eq!(device.synchronize().unwrap_err(), error);
    }
}
