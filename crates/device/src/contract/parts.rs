//! Promises about the driver's pools, page-locked memory and memory between processes.

use super::core::{holds, pattern};
use super::{Case, Kind, Needs, Outcome, cases, done, ensure, free_bytes, refused, same_free};
use crate::{
    AddressRange, Attempt, Device, DevicePtr, DriverPools, HostPtr, Ipc, PageLocked, Place, StreamId, VirtualMemory,
};
use std::os::fd::AsFd;

cases! {
    DriverPools: pooled_memory_never_overlaps, pools_refuse_what_cannot_be, only_live_pooled_memory_can_be_freed,
        a_pool_reuses_in_stream_order, idle_pooled_memory_goes_back;
    PageLocked: locked_memory_is_accounted, locked_memory_that_cannot_be_is_refused;
    PageLockedAndBytes: bytes_cross_between_host_and_device;
    Ipc: an_exported_handle_can_be_imported;
}

const MIB: u64 = 1 << 20;
const STREAM: StreamId = StreamId::DEFAULT;

fn pools(device: &dyn Device) -> Result<&dyn DriverPools, String> {
    device.driver_pools().ok_or_else(|| "no driver's pool".to_owned())
}

fn locked(device: &dyn Device) -> Result<&dyn PageLocked, String> {
    device.page_locked().ok_or_else(|| "no page-locked memory".to_owned())
}

fn pooled_memory_never_overlaps(device: &dyn Device) -> Outcome {
    let pools = pools(device)?;
    let other = done("making a stream", device.create_stream())?;
    let mut ranges: Vec<AddressRange> = Vec::new();
    let mut live = 0;
    for (bytes, stream) in [(1, STREAM), (MIB, other), (40 * MIB, STREAM), (1000, other), (3 * MIB, STREAM)] {
        let range = AddressRange::new(done("alloc", pools.alloc_async(bytes, stream))?, bytes);
        ensure!(range.start.0.is_multiple_of(256), "{range} is not aligned to 256");
        if let Some(taken) = ranges.iter().find(|taken| taken.overlaps(&range)) {
            return Err(format!("{range} overlaps {taken}"));
        }
        ranges.push(range);
        live += bytes;
    }
    let state = done("asking the pool", pools.pool_state())?;
    ensure!(live <= state.live_bytes && state.live_bytes <= state.reserved_bytes, "{state:?} with {live} bytes live");
    Ok(())
}

fn pools_refuse_what_cannot_be(device: &dyn Device) -> Outcome {
    let pools = pools(device)?;
    let stream = done("making a stream", device.create_stream())?;
    let before = done("asking the pool", pools.pool_state())?;
    let attempt = |bytes, stream| Attempt::PoolAlloc { bytes, stream };
    refused("alloc of 0 bytes", pools.alloc_async(0, stream), Kind::Invalid, &attempt(0, stream))?;
    for bytes in [device.info().total_bytes.saturating_add(1), u64::MAX] {
        let due = attempt(bytes, stream);
        refused("alloc of too much", pools.alloc_async(bytes, stream), Kind::OutOfMemory, &due)?;
    }
    done("destroying a stream", device.destroy_stream(stream))?;
    refused("alloc on no stream", pools.alloc_async(8, stream), Kind::Invalid, &attempt(8, stream))?;
    let after = done("asking the pool", pools.pool_state())?;
    ensure!(before == after, "refused calls left {after:?} of {before:?}");
    Ok(())
}

fn only_live_pooled_memory_can_be_freed(device: &dyn Device) -> Outcome {
    let pools = pools(device)?;
    let ptr = done("alloc", pools.alloc_async(MIB, STREAM))?;
    let plain = done("alloc", device.alloc(MIB))?;
    let free = |what: &str, ptr| {
        refused(what, pools.free_async(ptr, STREAM), Kind::Invalid, &Attempt::PoolFree { ptr, stream: STREAM })
    };
    free("free of a pointer that was never given out", DevicePtr(3))?;
    free("free of an address inside", DevicePtr(ptr.0 + 512))?;
    free("stream-ordered free of plain memory", plain)?;
    refused("plain free of pooled memory", device.free(ptr), Kind::Invalid, &Attempt::Free { ptr })?;
    done("free", pools.free_async(ptr, STREAM))?;
    free("a second free", ptr)
}

fn a_pool_reuses_in_stream_order(device: &dyn Device) -> Outcome {
    let pools = pools(device)?;
    let bytes = device.info().total_bytes / 8;
    let mut first = None;
    for _ in 0..24 {
        let ptr = done("alloc", pools.alloc_async(bytes, STREAM))?;
        done("free", pools.free_async(ptr, STREAM))?;
        let state = done("asking the pool", pools.pool_state())?;
        let reserved = *first.get_or_insert(state.reserved_bytes);
        ensure!(state.reserved_bytes <= reserved, "reserved bytes grew from {reserved} to {state:?}");
    }
    Ok(())
}

fn idle_pooled_memory_goes_back(device: &dyn Device) -> Outcome {
    let pools = pools(device)?;
    let before = free_bytes(device)?;
    let reserved = done("asking the pool", pools.pool_state())?.reserved_bytes;
    let kept = done("alloc", pools.alloc_async(MIB, STREAM))?;
    let idle = done("alloc", pools.alloc_async(100 * MIB, STREAM))?;
    done("free", pools.free_async(idle, STREAM))?;
    done("waiting", device.synchronize())?;
    done("trimming", pools.trim(0))?;
    let state = done("asking the pool", pools.pool_state())?;
    ensure!(state.live_bytes >= MIB, "{state:?} with 1 MiB live");
    ensure!(state.reserved_bytes < 100 * MIB, "{state:?} after trimming");
    done("free", pools.free_async(kept, STREAM))?;
    done("waiting", device.synchronize())?;
    done("trimming", pools.trim(0))?;
    let state = done("asking the pool", pools.pool_state())?;
    ensure!(state.reserved_bytes <= reserved, "{state:?} with nothing live");
    same_free(device, before, "the pool was trimmed")
}

fn locked_memory_is_accounted(device: &dyn Device) -> Outcome {
    let locked = locked(device)?;
    let before = locked.locked_bytes();
    let (one, two) = (done("alloc", locked.alloc_host(5000))?, done("alloc", locked.alloc_host(MIB))?);
    ensure!(one.0 + 5000 <= two.0 || two.0 + MIB <= one.0, "{one} and {two} overlap");
    let now = locked.locked_bytes();
    ensure!(now >= before + 5000 + MIB, "{now} bytes are locked, {before} were before");
    done("free", locked.free_host(one))?;
    done("free", locked.free_host(two))?;
    ensure!(locked.locked_bytes() == before, "{} bytes stay locked", locked.locked_bytes());
    refused("a second free", locked.free_host(one), Kind::Invalid, &Attempt::HostFree { ptr: one })
}

fn locked_memory_that_cannot_be_is_refused(device: &dyn Device) -> Outcome {
    let locked = locked(device)?;
    let before = locked.locked_bytes();
    refused("alloc of 0 bytes", locked.alloc_host(0), Kind::Invalid, &Attempt::HostAlloc { bytes: 0 })?;
    let bytes = u64::MAX - 4095;
    refused("alloc of too much", locked.alloc_host(bytes), Kind::OutOfMemory, &Attempt::HostAlloc { bytes })?;
    let ptr = HostPtr(1);
    refused("free of nothing", locked.free_host(ptr), Kind::Invalid, &Attempt::HostFree { ptr })?;
    ensure!(locked.locked_bytes() == before, "refused calls left {} bytes locked", locked.locked_bytes());
    // A copy needs it to be there, too.
    let (to, from) = (Place::Device(done("alloc", device.alloc(4096))?), Place::Host(ptr));
    let attempt = Attempt::Copy { to, from, bytes: 4096, stream: STREAM };
    refused("a copy from nowhere", device.copy(to, from, 4096, STREAM), Kind::Invalid, &attempt)
}

fn bytes_cross_between_host_and_device(device: &dyn Device) -> Outcome {
    let locked = locked(device)?;
    let host: Vec<Place> =
        (0..2).map(|_| done("alloc", locked.alloc_host(MIB)).map(Place::Host)).collect::<Result<_, _>>()?;
    let there = Place::Device(done("alloc", device.alloc(MIB))?);
    let bytes = pattern(6, MIB as usize);
    done("writing", device.write(host[0], &bytes))?;
    done("a copy to the device", device.copy(there, host[0], MIB, STREAM))?;
    done("a copy to the host", device.copy(host[1], there, MIB, STREAM))?;
    done("waiting", device.synchronize_stream(STREAM))?;
    holds(device, host[1], &bytes)
}

fn an_exported_handle_can_be_imported(device: &dyn Device) -> Outcome {
    let (Some(vmm), Some(ipc), Some(page)) = (device.vmm(), device.ipc(), device.info().page_bytes) else {
        return Err("no virtual memory or nothing between processes".to_owned());
    };
    import_own(vmm, ipc, page)
}

fn import_own(vmm: &dyn VirtualMemory, ipc: &dyn Ipc, page: u64) -> Outcome {
    let handle = done("creating a handle", vmm.create_handles(page, 1))?[0];
    let descriptor = done("exporting", ipc.export(handle))?;
    let imported = done("importing", ipc.import(descriptor.as_fd(), page))?;
    ensure!(imported != handle, "an imported handle has the id of the exported one");
    done("releasing both", vmm.release_handles(&[handle, imported]))
}
