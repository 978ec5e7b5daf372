//! Allocators: making them, handing out blocks and taking them back.

use std::ffi::{c_char, c_void};
use std::sync::{Arc, OnceLock};

use device::{DevicePtr, StreamId};
use records::{Operation, Row};
use runtime::{Instance, OpenDevice};

use crate::boundary::{boundary, versioned};
use crate::config::{gpumem_config, resolve};
use crate::devices::{device_ptr, gpumem_device};
use crate::failure::{Failure, Result};
use crate::handles::{hand_out, handled};
use crate::status::gpumem_status;
use crate::tags::{gpumem_tag, gpumem_tag_values, tag_of};

/// An allocator on a device.
#[derive(Debug)]
#[allow(non_camel_case_types)] // the C name
pub struct gpumem_allocator {
    _opaque: (),
}

/// What a handle of an allocator stands for.
pub(crate) enum AllocatorHandle {
    /// Made by `gpumem_allocator_create`.
    Own(Instance),
    /// The process's own, which stays.
    Default(&'static Instance),
}

handled!(AllocatorHandle, gpumem_allocator, "allocator", 0xa4);

impl AllocatorHandle {
    #[inline(always)]
    pub(crate) fn instance(&self) -> &Instance {
        match self {
            Self::Own(instance) => instance,
            Self::Default(instance) => instance,
        }
    }

    #[inline(always)]
    pub(crate) fn allocator(&self) -> &pools::Allocator {
        self.instance().allocator()
    }

    /// Writes a row into the trace, if there is one, about something that only the program knows.
    pub(crate) fn trace(&self, operation: Operation, id: u64, stream: u64) {
        if let Some(trace) = self.instance().trace() {
            // Of streams beyond 63 bits there is only the number that stands for all of them.
            let stream = i64::try_from(stream).unwrap_or(Row::ALL_STREAMS);
            trace.tell(&Row { operation, id, stream, ..Row::default() });
        }
    }
}

/// The default stream of every device.
pub const GPUMEM_STREAM_DEFAULT: u64 = 0;
/// For `gpumem_allocator_free` alone: the stream that the block was asked for on, and all that were recorded as using it.
pub const GPUMEM_STREAM_HOME: u64 = 0xffff_ffff_ffff_ffff;
/// For synchronizing alone: the whole device.
pub const GPUMEM_STREAM_ALL: u64 = 0xffff_ffff_ffff_ffff;

/// One stream: not the number that stands for all of them, or for a block's own.
#[inline(always)]
pub(crate) fn one_stream(stream: u64, argument: &'static str) -> Result<StreamId> {
    if stream == GPUMEM_STREAM_ALL { Err(Failure::NotOneStream { argument }) } else { Ok(StreamId(stream)) }
}

/// What is known about a live block. Begin with `GPUMEM_BLOCK_INFO_INIT`.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
#[allow(non_camel_case_types)] // the C name
pub struct gpumem_block_info {
    /// `sizeof(gpumem_block_info)`.
    pub struct_size: usize,
    /// Bytes asked for.
    pub requested_bytes: u64,
    /// Bytes it takes up.
    pub bytes: u64,
    /// Its home stream.
    pub stream: u64,
    /// What its request said about itself.
    pub tag: gpumem_tag_values,
    /// References to it.
    pub references: u32,
    /// Always 0.
    pub reserved: u32,
}

versioned!(
    gpumem_block_info,
    [56],
    "GPUMEM_BLOCK_INFO_INIT",
    gpumem_block_info {
        struct_size: size_of::<gpumem_block_info>(),
        requested_bytes: 0,
        bytes: 0,
        stream: 0,
        tag: gpumem_tag_values { tier: 0, precision: 0, op: 0, owner: 0 },
        references: 0,
        reserved: 0,
    }
);

/// Any thread. Makes an allocator on `device`, or, if that is null, on a device of its own that `config` and the
/// environment name. `config` may be null. The device's handle may be destroyed any time.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn gpumem_allocator_create(
    device: *const gpumem_device,
    config: *const gpumem_config,
    allocator: *mut *mut gpumem_allocator,
) -> gpumem_status {
    boundary!(|caller| {
        let out = caller.pointer_out(allocator, "allocator")?;
        let configuration = resolve(caller, config)?;
        let instance = if device.is_null() {
            Instance::new(configuration)?
        } else {
            let device = caller.handle::<OpenDevice>(device, "device")?;
            Instance::on(device.clone(), configuration)?
        };
        out.set(hand_out(AllocatorHandle::Own(instance))?);
        Ok(())
    })
}

/// Any thread. The process's own allocator, which all parts of the program share: made at the first call from the
/// environment's settings. Can't be destroyed.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn gpumem_allocator_default(allocator: *mut *mut gpumem_allocator) -> gpumem_status {
    /// The handle, as a number, since pointers don't go between threads.
    static HANDLE: OnceLock<usize> = OnceLock::new();
    boundary!(|caller| {
        let out = caller.pointer_out(allocator, "allocator")?;
        let instance = runtime::default_instance()?;
        let handle = match HANDLE.get() {
            Some(handle) => *handle,
            None => {
                let made: *mut gpumem_allocator = hand_out(AllocatorHandle::Default(instance))?;
                // A second one that two threads made at once is as good, and stays as well.
                *HANDLE.get_or_init(|| made.addr())
            }
        };
        out.set(std::ptr::without_provenance_mut(handle));
        Ok(())
    })
}

/// Any thread, once for each handle. Gives the allocator up with all its blocks; null is nothing. Work that still uses
/// its blocks has to be over. A trace that is on is finished; an error in that is returned, and the allocator is gone all
/// the same.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn gpumem_allocator_destroy(allocator: *mut gpumem_allocator) -> gpumem_status {
    boundary!(|caller| {
        if allocator.is_null() {
            return Ok(());
        }
        if let AllocatorHandle::Default(_) = caller.handle::<AllocatorHandle>(allocator, "allocator")? {
            return Err(Failure::DefaultStays);
        }
        match caller.take_back::<AllocatorHandle>(allocator, "allocator")? {
            // A child of a fork gives up its copy; the trace is the parent's.
            Some(handle) => match handle.instance().stop_trace() {
                Err(runtime::Error::Pools(error)) if matches!(*error, pools::Error::Forked) => Ok(()),
                stopped => Ok(stopped?),
            },
            None => Ok(()),
        }
    })
}

/// Any thread. A handle of the device that the allocator is on; to be destroyed like any other.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn gpumem_allocator_device(
    allocator: *const gpumem_allocator,
    device: *mut *mut gpumem_device,
) -> gpumem_status {
    boundary!(|caller| {
        let out = caller.pointer_out(device, "device")?;
        let handle = caller.handle::<AllocatorHandle>(allocator, "allocator")?;
        let OpenDevice { device, kind } = handle.instance().device();
        out.set(hand_out(OpenDevice { device: Arc::clone(device), kind })?);
        Ok(())
    })
}

/// Any thread. Memory of at least `bytes` bytes for work that is queued on `stream` from now on, tagged with the thread's
/// current tag. `alignment` is a power of two; 0 means 512, as anything below does. A request for 0 bytes gets an address
/// of its own. `GPUMEM_STATUS_OUT_OF_MEMORY` comes once nothing helped, the callback included; the last error then says
/// who holds what.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn gpumem_allocator_alloc(
    allocator: *const gpumem_allocator,
    bytes: u64,
    alignment: u64,
    stream: u64,
    block: *mut *mut c_void,
) -> gpumem_status {
    boundary!(|caller| {
        let out = caller.pointer_out(block, "block")?;
        let allocator = caller.handle::<AllocatorHandle>(allocator, "allocator")?.allocator();
        out.set(pointer(allocator.alloc(bytes, alignment, one_stream(stream, "stream")?)?));
        Ok(())
    })
}

/// An address of the device as a program has it.
#[inline(always)]
fn pointer(address: DevicePtr) -> *mut c_void {
    // Of a device whose memory the host can use, the program's own pointer: it was given to nobody else.
    std::ptr::with_exposed_provenance_mut(address.0 as usize)
}

/// Any thread. The same with a tag for this request alone; null is the thread's current one.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn gpumem_allocator_alloc_tagged(
    allocator: *const gpumem_allocator,
    bytes: u64,
    alignment: u64,
    stream: u64,
    tag: *const gpumem_tag,
    block: *mut *mut c_void,
) -> gpumem_status {
    /// The tag is in force on the thread while this lives, so that a trace sees it too.
    struct InForce(bool);
    impl Drop for InForce {
        fn drop(&mut self) {
            if self.0 {
                pools::tag_pop();
            }
        }
    }
    boundary!(|caller| {
        let out = caller.pointer_out(block, "block")?;
        let allocator = caller.handle::<AllocatorHandle>(allocator, "allocator")?.allocator();
        let tag = if tag.is_null() { None } else { Some(tag_of(&caller.versioned(tag, "tag")?.values)?) };
        let stream = one_stream(stream, "stream")?;
        let _in_force = InForce(tag.is_some());
        let address = match tag {
            None => allocator.alloc(bytes, alignment, stream)?,
            Some(tag) => {
                pools::tag_push(tag);
                // Said once more: so deep in tags that one more is refused, the request still has its own.
                allocator.alloc_tagged(bytes, alignment, stream, tag)?
            }
        };
        out.set(pointer(address));
        Ok(())
    })
}

/// Any thread, also another one than asked for it. Drops a block; of one with several references, one of them. Null is
/// nothing. Its memory goes to other requests once all work that may use it is over: with `GPUMEM_STREAM_HOME` what its
/// home stream and all recorded users have queued so far; with a stream what that has queued so far (and recorded
/// users), as with cudaFreeAsync. Makes no driver call.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn gpumem_allocator_free(
    allocator: *const gpumem_allocator,
    block: *mut c_void,
    stream: u64,
) -> gpumem_status {
    boundary!(|caller| {
        let allocator = caller.handle::<AllocatorHandle>(allocator, "allocator")?.allocator();
        if block.is_null() {
            return Ok(());
        }
        let stream = (stream != GPUMEM_STREAM_HOME).then_some(StreamId(stream));
        Ok(allocator.free(device_ptr(block), stream)?)
    })
}

/// Any thread. Says that work of `stream` also uses a block: all of it that is queued by the time of the free.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn gpumem_allocator_record_use(
    allocator: *const gpumem_allocator,
    block: *mut c_void,
    stream: u64,
) -> gpumem_status {
    boundary!(|caller| {
        let handle = caller.handle::<AllocatorHandle>(allocator, "allocator")?;
        let address = device_ptr(block);
        handle.allocator().record_use(address, one_stream(stream, "stream")?)?;
        handle.trace(Operation::Use, address.0, stream);
        Ok(())
    })
}

/// Any thread. Says that work of `stream` that was queued so far is the last that uses the block, of a stream that was
/// recorded as using it.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn gpumem_allocator_use_done(
    allocator: *const gpumem_allocator,
    block: *mut c_void,
    stream: u64,
) -> gpumem_status {
    boundary!(|caller| {
        let allocator = caller.handle::<AllocatorHandle>(allocator, "allocator")?.allocator();
        Ok(allocator.use_done(device_ptr(block), one_stream(stream, "stream")?)?)
    })
}

/// Any thread. Adds a reference to a block. How many there are then is written to `references`, unless that is null.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn gpumem_allocator_retain(
    allocator: *const gpumem_allocator,
    block: *mut c_void,
    references: *mut u32,
) -> gpumem_status {
    count(allocator, block, references, pools::Allocator::retain)
}

/// Any thread. Takes a reference away; with the last one the block is dropped, as by `gpumem_allocator_free` with
/// `GPUMEM_STREAM_HOME`. How many are left is written to `references`, unless that is null.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn gpumem_allocator_release(
    allocator: *const gpumem_allocator,
    block: *mut c_void,
    references: *mut u32,
) -> gpumem_status {
    count(allocator, block, references, pools::Allocator::release)
}

fn count(
    allocator: *const gpumem_allocator,
    block: *mut c_void,
    references: *mut u32,
    change: fn(&pools::Allocator, DevicePtr) -> pools::Result<u32>,
) -> gpumem_status {
    boundary!(|caller| {
        let out = caller.out_if_wanted(references, "references")?;
        let allocator = caller.handle::<AllocatorHandle>(allocator, "allocator")?.allocator();
        let references = change(allocator, device_ptr(block))?;
        if let Some(out) = out {
            out.set(references);
        }
        Ok(())
    })
}

/// Any thread. What is known about a live block.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn gpumem_allocator_block(
    allocator: *const gpumem_allocator,
    block: *const c_void,
    info: *mut gpumem_block_info,
) -> gpumem_status {
    boundary!(|caller| {
        let allocator = caller.handle::<AllocatorHandle>(allocator, "allocator")?.allocator();
        caller.struct_size(info, "info")?;
        let found = allocator.block(device_ptr(block))?;
        let found = gpumem_block_info {
            struct_size: 0,
            requested_bytes: found.requested_bytes,
            bytes: found.bytes,
            stream: found.stream.0,
            tag: gpumem_tag_values::from(found.tag),
            references: found.references,
            reserved: 0,
        };
        caller.fill(info, found, "info")
    })
}

/// Any thread. The allocator's settings as `gpumem_config_settings` writes them.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn gpumem_allocator_settings(
    allocator: *const gpumem_allocator,
    buffer: *mut c_char,
    capacity: usize,
    size: *mut usize,
) -> gpumem_status {
    boundary!(|caller| {
        let handle = caller.handle::<AllocatorHandle>(allocator, "allocator")?;
        caller.write_text(&handle.instance().configuration().to_json(), buffer, capacity, size)
    })
}
