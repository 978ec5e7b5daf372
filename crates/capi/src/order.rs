//! What the program does with streams and events, so that blocks can follow its own order (docs/order.md).
//!
//! The one-call forms are for right after the driver's call succeeded, with nobody else queueing on that stream in
//! between. The exact forms begin a notice before the call, and commit it once the call succeeded or drop it.

use std::sync::Mutex;

use device::StreamId;
use pools::Notice;
use records::Operation;

use crate::allocator::{AllocatorHandle, GPUMEM_STREAM_ALL, gpumem_allocator, one_stream};
use crate::boundary::boundary;
use crate::failure::Result;
use crate::handles::{hand_out, handled};
use crate::status::gpumem_status;

/// A call of the driver that is under way.
#[derive(Debug)]
#[allow(non_camel_case_types)] // the C name
pub struct gpumem_notice {
    _opaque: (),
}

/// What a handle of a notice stands for. Never locked twice: only taking it back looks inside.
pub(crate) struct NoticeHandle(Mutex<Notice>);

handled!(NoticeHandle, gpumem_notice, "notice", 0xa6);

fn stream_if_one(stream: u64) -> Option<StreamId> {
    (stream != GPUMEM_STREAM_ALL).then_some(StreamId(stream))
}

/// Any thread. `by` was made to wait for all that `of` has queued, by whatever calls.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn gpumem_allocator_stream_waited(
    allocator: *const gpumem_allocator,
    of: u64,
    by: u64,
) -> gpumem_status {
    boundary!(|caller| {
        let handle = caller.handle::<AllocatorHandle>(allocator, "allocator")?;
        handle.allocator().stream_wait(one_stream(of, "of")?, one_stream(by, "by")?)?;
        handle.trace(Operation::Wait, of, by);
        Ok(())
    })
}

/// Any thread. An event was recorded on a stream. Events are known by a number of the program's choice, such as their
/// handle.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn gpumem_allocator_event_recorded(
    allocator: *const gpumem_allocator,
    event: u64,
    stream: u64,
) -> gpumem_status {
    boundary!(|caller| {
        let allocator = caller.handle::<AllocatorHandle>(allocator, "allocator")?.allocator();
        Ok(allocator.event_record(event, one_stream(stream, "stream")?)?)
    })
}

/// Any thread. A stream was made to wait for an event.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn gpumem_allocator_event_waited(
    allocator: *const gpumem_allocator,
    event: u64,
    stream: u64,
) -> gpumem_status {
    boundary!(|caller| {
        let allocator = caller.handle::<AllocatorHandle>(allocator, "allocator")?.allocator();
        Ok(allocator.event_wait(event, one_stream(stream, "stream")?)?)
    })
}

/// Any thread. The host waited for an event, or asked and heard that it has happened.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn gpumem_allocator_event_synchronized(
    allocator: *const gpumem_allocator,
    event: u64,
) -> gpumem_status {
    boundary!(|caller| {
        let allocator = caller.handle::<AllocatorHandle>(allocator, "allocator")?.allocator();
        Ok(allocator.event_synchronized(event)?)
    })
}

/// Any thread. An event is about to be destroyed, or was changed in a way that no other call here says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn gpumem_allocator_event_destroyed(
    allocator: *const gpumem_allocator,
    event: u64,
) -> gpumem_status {
    boundary!(|caller| {
        let allocator = caller.handle::<AllocatorHandle>(allocator, "allocator")?.allocator();
        Ok(allocator.event_destroyed(event)?)
    })
}

/// Any thread. A stream is about to be destroyed; its number may come back for another one.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn gpumem_allocator_stream_destroyed(
    allocator: *const gpumem_allocator,
    stream: u64,
) -> gpumem_status {
    boundary!(|caller| {
        let allocator = caller.handle::<AllocatorHandle>(allocator, "allocator")?.allocator();
        Ok(allocator.stream_destroyed(one_stream(stream, "stream")?)?)
    })
}

/// Any thread. The host waited for a stream, or for all with `GPUMEM_STREAM_ALL`, or asked and heard that it is finished.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn gpumem_allocator_synchronized(
    allocator: *const gpumem_allocator,
    stream: u64,
) -> gpumem_status {
    boundary!(|caller| {
        let handle = caller.handle::<AllocatorHandle>(allocator, "allocator")?;
        handle.allocator().synchronized(stream_if_one(stream))?;
        handle.trace(Operation::Sync, 0, stream);
        Ok(())
    })
}

/// Any thread. Work was queued on a stream. Only matters where the setting `sees_all_work` is on.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn gpumem_allocator_work_queued(
    allocator: *const gpumem_allocator,
    stream: u64,
) -> gpumem_status {
    boundary!(|caller| {
        let handle = caller.handle::<AllocatorHandle>(allocator, "allocator")?;
        handle.allocator().work_queued(one_stream(stream, "stream")?)?;
        handle.trace(Operation::Work, 0, stream);
        Ok(())
    })
}

fn begin(
    allocator: *const gpumem_allocator,
    notice: *mut *mut gpumem_notice,
    begin: impl FnOnce(&pools::Allocator) -> Result<Notice>,
) -> gpumem_status {
    boundary!(|caller| {
        let out = caller.pointer_out(notice, "notice")?;
        let allocator = caller.handle::<AllocatorHandle>(allocator, "allocator")?.allocator();
        out.set(hand_out(NoticeHandle(Mutex::new(begin(allocator)?)))?);
        Ok(())
    })
}

/// Any thread. Before an event is recorded on a stream.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn gpumem_notice_record(
    allocator: *const gpumem_allocator,
    event: u64,
    stream: u64,
    notice: *mut *mut gpumem_notice,
) -> gpumem_status {
    begin(allocator, notice, |allocator| Ok(allocator.begin_record(event, one_stream(stream, "stream")?)?))
}

/// Any thread. Before an event is recorded in a way that says nothing of order: in a capture, or by a form of record that
/// has no function here. Afterwards the event stands for nothing, whether the call succeeds or not.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn gpumem_notice_unmodelled_record(
    allocator: *const gpumem_allocator,
    event: u64,
    notice: *mut *mut gpumem_notice,
) -> gpumem_status {
    begin(allocator, notice, |allocator| Ok(allocator.begin_unmodelled_record(event)?))
}

/// Any thread. Before a stream is made to wait for an event.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn gpumem_notice_wait(
    allocator: *const gpumem_allocator,
    event: u64,
    stream: u64,
    notice: *mut *mut gpumem_notice,
) -> gpumem_status {
    begin(allocator, notice, |allocator| Ok(allocator.begin_wait(event, one_stream(stream, "stream")?)?))
}

/// Any thread. Before `by` is made to wait for all that `of` has queued.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn gpumem_notice_stream_wait(
    allocator: *const gpumem_allocator,
    of: u64,
    by: u64,
    notice: *mut *mut gpumem_notice,
) -> gpumem_status {
    begin(allocator, notice, |allocator| Ok(allocator.begin_stream_wait(one_stream(of, "of")?, one_stream(by, "by")?)?))
}

/// Any thread. Before the host waits for an event, or asks whether it has happened.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn gpumem_notice_event_synchronize(
    allocator: *const gpumem_allocator,
    event: u64,
    notice: *mut *mut gpumem_notice,
) -> gpumem_status {
    begin(allocator, notice, |allocator| Ok(allocator.begin_event_synchronize(event)?))
}

/// Any thread. Before the host waits for a stream, or for all with `GPUMEM_STREAM_ALL`, or asks whether it is finished.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn gpumem_notice_synchronize(
    allocator: *const gpumem_allocator,
    stream: u64,
    notice: *mut *mut gpumem_notice,
) -> gpumem_status {
    begin(allocator, notice, |allocator| Ok(allocator.begin_synchronize(stream_if_one(stream))?))
}

/// Any thread. The driver's call succeeded. The notice is gone afterwards, also if this fails; null is nothing.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn gpumem_notice_commit(
    allocator: *const gpumem_allocator,
    notice: *mut gpumem_notice,
) -> gpumem_status {
    boundary!(|caller| {
        let taken = caller.take_back::<NoticeHandle>(notice, "notice")?;
        let allocator = caller.handle::<AllocatorHandle>(allocator, "allocator")?.allocator();
        let Some(taken) = taken else { return Ok(()) };
        let notice = taken.0.into_inner().unwrap_or_else(std::sync::PoisonError::into_inner);
        Ok(allocator.commit(notice)?)
    })
}

/// Any thread. The driver's call failed or wasn't made: nothing is learned of it. Null is nothing.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn gpumem_notice_drop(notice: *mut gpumem_notice) -> gpumem_status {
    boundary!(|caller| {
        drop(caller.take_back::<NoticeHandle>(notice, "notice")?);
        Ok(())
    })
}
