//! Devices: memory, streams, events, copies.

use std::ffi::{c_char, c_void};

use device::{DevicePtr, EventId, Place, StreamId};
use runtime::OpenDevice;

use crate::boundary::{boundary, versioned};
use crate::config::{gpumem_config, resolve};
use crate::failure::Failure;
use crate::handles::{hand_out, handled};
use crate::status::gpumem_status;

/// A device that memory comes from. Made by `gpumem_device_create`, given up with `gpumem_device_destroy`; allocators
/// that were made on it keep it.
#[derive(Debug)]
#[allow(non_camel_case_types)] // the C name
pub struct gpumem_device {
    _opaque: (),
}

handled!(OpenDevice, gpumem_device, "device", 0xa1);

/// What a device is. Begin with `GPUMEM_DEVICE_INFO_INIT`.
#[derive(Clone, Copy, Debug, Default)]
#[repr(C)]
#[allow(non_camel_case_types)] // the C name
pub struct gpumem_device_info {
    /// `sizeof(gpumem_device_info)`.
    pub struct_size: usize,
    /// All bytes of memory it has.
    pub total_bytes: u64,
    /// Bytes nobody holds now, by the device's own account.
    pub free_bytes: u64,
    /// Plain memory takes a multiple of this many bytes.
    pub plain_granule_bytes: u64,
    /// Addresses of plain memory are multiples of this.
    pub plain_alignment_bytes: u64,
    /// Sizes and addresses of virtual memory are multiples of this; 0 without virtual memory.
    pub page_bytes: u64,
    /// 1 if memory keeps what is written to it; 0 for a device of addresses only.
    pub has_bytes: i32,
    /// 1 if device addresses may be read and written by the host as they are; 0 if not.
    pub is_host_accessible: i32,
}

versioned!(
    gpumem_device_info,
    [56],
    "GPUMEM_DEVICE_INFO_INIT",
    gpumem_device_info {
        struct_size: size_of::<gpumem_device_info>(),
        total_bytes: 0,
        free_bytes: 0,
        plain_granule_bytes: 0,
        plain_alignment_bytes: 0,
        page_bytes: 0,
        has_bytes: 0,
        is_host_accessible: 0,
    }
);

/// An address of the device as a program writes it.
pub(crate) fn device_ptr(pointer: *const c_void) -> DevicePtr {
    DevicePtr(pointer.addr() as u64)
}

/// Any thread. Opens a device: by `device` and `capacity_bytes` of `config`, or of the environment; null sets nothing.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn gpumem_device_create(
    config: *const gpumem_config,
    device: *mut *mut gpumem_device,
) -> gpumem_status {
    boundary!(|caller| {
        let out = caller.pointer_out(device, "device")?;
        let configuration = resolve(caller, config)?;
        out.set(hand_out(runtime::open_configured(&configuration)?)?);
        Ok(())
    })
}

/// Any thread, once for each handle. Gives the handle up; null is nothing. The device itself goes with its last user.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn gpumem_device_destroy(device: *mut gpumem_device) -> gpumem_status {
    boundary!(|caller| {
        drop(caller.take_back::<OpenDevice>(device, "device")?);
        Ok(())
    })
}

/// Any thread. What the device is and how much memory is free now.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn gpumem_device_query(
    device: *const gpumem_device,
    info: *mut gpumem_device_info,
) -> gpumem_status {
    boundary!(|caller| {
        let OpenDevice { device, kind } = caller.handle::<OpenDevice>(device, "device")?;
        caller.struct_size(info, "info")?;
        let about = device.info();
        let found = gpumem_device_info {
            struct_size: 0,
            total_bytes: about.total_bytes,
            free_bytes: device.memory()?.free_bytes,
            plain_granule_bytes: about.plain_granule_bytes,
            plain_alignment_bytes: about.plain_alignment_bytes,
            page_bytes: about.page_bytes.unwrap_or(0),
            has_bytes: about.has_bytes.into(),
            is_host_accessible: kind.is_host_accessible.into(),
        };
        caller.fill(info, found, "info")
    })
}

/// Any thread. What a person calls the device, with a closing zero.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn gpumem_device_name(
    device: *const gpumem_device,
    buffer: *mut c_char,
    capacity: usize,
    size: *mut usize,
) -> gpumem_status {
    boundary!(|caller| {
        let device = &caller.handle::<OpenDevice>(device, "device")?.device;
        caller.write_text(&device.info().name, buffer, capacity, size)
    })
}

/// Any thread. A new stream. 0 is the default stream, which every device has from the start.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn gpumem_device_stream_create(device: *const gpumem_device, stream: *mut u64) -> gpumem_status {
    boundary!(|caller| {
        let device = &caller.handle::<OpenDevice>(device, "device")?.device;
        let out = caller.out(stream, "stream")?;
        out.set(device.create_stream()?.0);
        Ok(())
    })
}

/// Any thread. Gives a stream up; work it still has runs to its end. Tell allocators with
/// `gpumem_allocator_stream_destroyed`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn gpumem_device_stream_destroy(device: *const gpumem_device, stream: u64) -> gpumem_status {
    boundary!(|caller| {
        let device = &caller.handle::<OpenDevice>(device, "device")?.device;
        Ok(device.destroy_stream(StreamId(stream))?)
    })
}

/// Any thread. Whether all work queued on the stream so far has finished: 1 or 0.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn gpumem_device_stream_query(
    device: *const gpumem_device,
    stream: u64,
    is_finished: *mut i32,
) -> gpumem_status {
    boundary!(|caller| {
        let device = &caller.handle::<OpenDevice>(device, "device")?.device;
        let out = caller.out(is_finished, "is_finished")?;
        out.set(device.query_stream(StreamId(stream))?.into());
        Ok(())
    })
}

/// Any thread. Waits until all work queued on the stream so far has finished.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn gpumem_device_stream_synchronize(device: *const gpumem_device, stream: u64) -> gpumem_status {
    boundary!(|caller| {
        let device = &caller.handle::<OpenDevice>(device, "device")?.device;
        Ok(device.synchronize_stream(StreamId(stream))?)
    })
}

/// Any thread. A new event. Until it is recorded it counts as having happened.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn gpumem_device_event_create(device: *const gpumem_device, event: *mut u64) -> gpumem_status {
    boundary!(|caller| {
        let device = &caller.handle::<OpenDevice>(device, "device")?.device;
        let out = caller.out(event, "event")?;
        out.set(device.create_event()?.0);
        Ok(())
    })
}

/// Any thread. Gives an event up. Waits that were queued for it hold. Tell allocators with
/// `gpumem_allocator_event_destroyed`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn gpumem_device_event_destroy(device: *const gpumem_device, event: u64) -> gpumem_status {
    boundary!(|caller| {
        let device = &caller.handle::<OpenDevice>(device, "device")?.device;
        Ok(device.destroy_event(EventId(event))?)
    })
}

/// Any thread. Puts the event behind all work queued on the stream so far.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn gpumem_device_event_record(
    device: *const gpumem_device,
    event: u64,
    stream: u64,
) -> gpumem_status {
    boundary!(|caller| {
        let device = &caller.handle::<OpenDevice>(device, "device")?.device;
        Ok(device.record_event(EventId(event), StreamId(stream))?)
    })
}

/// Any thread. Whether the event's last record has happened: 1 or 0.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn gpumem_device_event_query(
    device: *const gpumem_device,
    event: u64,
    has_happened: *mut i32,
) -> gpumem_status {
    boundary!(|caller| {
        let device = &caller.handle::<OpenDevice>(device, "device")?.device;
        let out = caller.out(has_happened, "has_happened")?;
        out.set(device.query_event(EventId(event))?.into());
        Ok(())
    })
}

/// Any thread. Waits until the event's last record has happened.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn gpumem_device_event_synchronize(device: *const gpumem_device, event: u64) -> gpumem_status {
    boundary!(|caller| {
        let device = &caller.handle::<OpenDevice>(device, "device")?.device;
        Ok(device.synchronize_event(EventId(event))?)
    })
}

/// Any thread. Work queued on `stream` from now on starts only once the event's last record has happened.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn gpumem_device_event_wait(
    device: *const gpumem_device,
    event: u64,
    stream: u64,
) -> gpumem_status {
    boundary!(|caller| {
        let device = &caller.handle::<OpenDevice>(device, "device")?.device;
        Ok(device.wait_event(StreamId(stream), EventId(event))?)
    })
}

/// Any thread. Waits until all streams have finished.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn gpumem_device_synchronize(device: *const gpumem_device) -> gpumem_status {
    boundary!(|caller| {
        let device = &caller.handle::<OpenDevice>(device, "device")?.device;
        Ok(device.synchronize()?)
    })
}

/// Any thread. Copies `bytes` bytes between two places on the device, which don't overlap, in order of the stream.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn gpumem_device_copy(
    device: *const gpumem_device,
    to: *mut c_void,
    from: *const c_void,
    bytes: u64,
    stream: u64,
) -> gpumem_status {
    boundary!(|caller| {
        let device = &caller.handle::<OpenDevice>(device, "device")?.device;
        let (to, from) = (Place::Device(device_ptr(to)), Place::Device(device_ptr(from)));
        Ok(device.copy(to, from, bytes, StreamId(stream))?)
    })
}

/// Any thread. Copies the host's bytes to the device before it returns, in no stream's order: the caller sees to it that
/// no work uses the place.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn gpumem_device_write(
    device: *const gpumem_device,
    to: *mut c_void,
    from: *const c_void,
    bytes: usize,
) -> gpumem_status {
    boundary!(|caller| {
        let device = &caller.handle::<OpenDevice>(device, "device")?.device;
        let from = caller.list(from.cast::<u8>(), bytes, "from")?;
        Ok(device.write(Place::Device(device_ptr(to)), from)?)
    })
}

/// Any thread. Copies from the device to the host's bytes before it returns, in no stream's order.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn gpumem_device_read(
    device: *const gpumem_device,
    from: *const c_void,
    to: *mut c_void,
    bytes: usize,
) -> gpumem_status {
    boundary!(|caller| {
        let device = &caller.handle::<OpenDevice>(device, "device")?.device;
        let place = Place::Device(device_ptr(from));
        caller.fill_bytes(to.cast::<u8>(), bytes, "to", |to| device.read(place, to).map_err(Failure::from))
    })
}
