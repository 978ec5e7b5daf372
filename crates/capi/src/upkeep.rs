//! What keeps an allocator in bounds: steps, trimming, budgets, the callback when memory runs out, checks, traces.

use std::ffi::{c_char, c_void};
use std::sync::Arc;

use pools::{Budget, Shortage};

use crate::allocator::{AllocatorHandle, gpumem_allocator};
use crate::boundary::{Foreign, boundary};
use crate::config::number;
use crate::last_error::Message;
use crate::status::gpumem_status;
use crate::tags::gpumem_tag_values;
use crate::version::GPUMEM_UNSET;

/// Why a request would fail. Valid only during the call that gets it.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
#[allow(non_camel_case_types)] // the C name
pub struct gpumem_shortage {
    /// The library's `sizeof(gpumem_shortage)`: at least that of the header the program was built with.
    pub struct_size: usize,
    /// All there is to say, in words.
    pub text: *const c_char,
    /// Bytes asked for.
    pub requested_bytes: u64,
    /// Alignment asked for.
    pub alignment: u64,
    /// Stream that asked.
    pub stream: u64,
    /// The largest block that the stream could have had.
    pub largest_free_bytes: u64,
    /// Bytes held from the device that nothing uses.
    pub idle_bytes: u64,
    /// Of these, what may not pass to this stream yet.
    pub idle_elsewhere_bytes: u64,
    /// Bytes freed by the host that streams may still use.
    pub pending_bytes: u64,
    /// Bytes requested and not freed.
    pub live_bytes: u64,
    /// Bytes held from the device.
    pub reserved_bytes: u64,
    /// Bytes free on the device, or `GPUMEM_UNSET`.
    pub device_free_bytes: u64,
    /// All bytes of the device.
    pub device_total_bytes: u64,
    /// The hard budget, or `GPUMEM_UNSET`.
    pub budget_bytes: u64,
    /// What the request said about itself.
    pub tag: gpumem_tag_values,
}

/// Called before a request fails, on the thread that asked and outside every lock: it may allocate, free and trim. Returns
/// 0 to let it fail, anything else to have it tried again, which ends after 16 times. It isn't called about requests that it
/// makes itself, and doesn't destroy the allocator.
#[allow(non_camel_case_types)] // the C name
pub type gpumem_out_of_memory_callback =
    Option<unsafe extern "C-unwind" fn(shortage: *const gpumem_shortage, data: *mut c_void) -> i32>;

/// Called with a callback's data once the callback is not called any more.
#[allow(non_camel_case_types)] // the C name
pub type gpumem_drop_callback = Option<unsafe extern "C" fn(data: *mut c_void)>;

/// Tells a program's function of a shortage.
fn ask(
    function: unsafe extern "C-unwind" fn(*const gpumem_shortage, *mut c_void) -> i32,
    foreign: &Foreign,
    shortage: &Shortage,
) -> bool {
    let mut text = Message::EMPTY;
    text.show(shortage);
    let told = gpumem_shortage {
        struct_size: size_of::<gpumem_shortage>(),
        text: text.as_ptr(),
        requested_bytes: shortage.requested_bytes,
        alignment: shortage.align_bytes,
        stream: shortage.stream,
        largest_free_bytes: shortage.largest_free_bytes,
        idle_bytes: shortage.idle_bytes,
        idle_elsewhere_bytes: shortage.idle_elsewhere_bytes,
        pending_bytes: shortage.pending_bytes,
        live_bytes: shortage.live_bytes,
        reserved_bytes: shortage.reserved_bytes,
        device_free_bytes: shortage.device_free_bytes.unwrap_or(GPUMEM_UNSET),
        device_total_bytes: shortage.device_total_bytes,
        budget_bytes: shortage.budget_bytes.unwrap_or(GPUMEM_UNSET),
        tag: gpumem_tag_values::from(shortage.tag),
    };
    foreign.ask(function, &told) != 0
}

/// Any thread. Who is asked before a request fails, in place of whoever was. `drop` may be null. With a null `callback`
/// nobody is asked, and `data` and `drop` say nothing.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn gpumem_allocator_on_out_of_memory(
    allocator: *const gpumem_allocator,
    callback: gpumem_out_of_memory_callback,
    data: *mut c_void,
    drop: gpumem_drop_callback,
) -> gpumem_status {
    boundary!(|caller| {
        let allocator = caller.handle::<AllocatorHandle>(allocator, "allocator")?.allocator();
        let callback = callback.map(|function| {
            let foreign = caller.foreign(data, drop);
            Arc::new(move |shortage: &Shortage| ask(function, &foreign, shortage)) as pools::OutOfMemoryCallback
        });
        allocator.on_out_of_memory(callback);
        Ok(())
    })
}

/// Any thread. A step of the program has ended: guards are checked, and memory is given back where too much is idle or
/// where it lies in too many pieces.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn gpumem_allocator_step(allocator: *const gpumem_allocator) -> gpumem_status {
    boundary!(|caller| { Ok(caller.handle::<AllocatorHandle>(allocator, "allocator")?.allocator().step()?) })
}

/// Any thread. Gives idle memory back to the device until at most `keep_bytes` are held, or nothing more is idle. How much
/// went is written to `released_bytes`, unless that is null.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn gpumem_allocator_trim(
    allocator: *const gpumem_allocator,
    keep_bytes: u64,
    released_bytes: *mut u64,
) -> gpumem_status {
    boundary!(|caller| {
        let out = caller.out_if_wanted(released_bytes, "released_bytes")?;
        let released = caller.handle::<AllocatorHandle>(allocator, "allocator")?.allocator().trim(keep_bytes)?;
        if let Some(out) = out {
            out.set(released);
        }
        Ok(())
    })
}

/// Any thread. Most bytes held from the device, and bytes above which idle memory is given back first; 0 or
/// `GPUMEM_UNSET` is no bound.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn gpumem_allocator_budget_set(
    allocator: *const gpumem_allocator,
    hard_bytes: u64,
    soft_bytes: u64,
) -> gpumem_status {
    boundary!(|caller| {
        let allocator = caller.handle::<AllocatorHandle>(allocator, "allocator")?.allocator();
        Ok(allocator.set_budget(Budget { hard_bytes: number(hard_bytes), soft_bytes: number(soft_bytes) })?)
    })
}

/// Any thread. Verifies every invariant of the allocator's own state. A broken one, `GPUMEM_STATUS_INTERNAL`, is a bug.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn gpumem_allocator_check(allocator: *const gpumem_allocator) -> gpumem_status {
    boundary!(|caller| { Ok(caller.handle::<AllocatorHandle>(allocator, "allocator")?.allocator().check()?) })
}

/// Any thread. Looks whether bytes around live blocks were written; waits for the device. Needs the setting `guard`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn gpumem_allocator_check_guards(allocator: *const gpumem_allocator) -> gpumem_status {
    boundary!(|caller| { Ok(caller.handle::<AllocatorHandle>(allocator, "allocator")?.allocator().check_guards()?) })
}

/// Any thread. Writes all requests from now on to a file in the form gpumem-trace/1, in place of an earlier trace, which
/// is finished; an error in that is returned, and the new one is on all the same. Uses, waits of streams,
/// synchronizations and work are written as they are told. Requests take longer meanwhile.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn gpumem_allocator_trace_start(
    allocator: *const gpumem_allocator,
    path: *const c_char,
) -> gpumem_status {
    boundary!(|caller| {
        let handle = caller.handle::<AllocatorHandle>(allocator, "allocator")?;
        Ok(handle.instance().start_trace(caller.text(path, "path")?)?)
    })
}

/// Any thread. Ends the trace and finishes its file; says if some of it couldn't be written. Without a trace nothing
/// happens.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn gpumem_allocator_trace_stop(allocator: *const gpumem_allocator) -> gpumem_status {
    boundary!(|caller| { Ok(caller.handle::<AllocatorHandle>(allocator, "allocator")?.instance().stop_trace()?) })
}
