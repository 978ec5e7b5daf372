//! Events of our own, for streams of which the program says too little.
//!
//! A block that another stream used waits until the program makes its home stream wait for that one, or synchronizes. Programs that
//! do neither would keep it for ever. So a mark is recorded on such a stream, once, when a request finds nothing; later
//! requests ask whether it has happened. A free never makes one.

use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};

use device::{Device, EventId, StreamId};
use hashbrown::HashMap;

use crate::clocks::{Clocks, Notice};
use crate::sync::locked;

/// An event of ours that was recorded and not seen to happen yet.
#[derive(Debug)]
struct Mark {
    event: EventId,
    /// What is known once it has happened. The clocks know nothing of our events, whose numbers may be the program's too.
    notice: Notice,
    stream: u32,
}

/// See the module.
#[derive(Debug, Default)]
pub(super) struct Marks {
    open: Mutex<Vec<Mark>>,
    idle: Mutex<Vec<EventId>>,
    names: Mutex<HashMap<u32, StreamId>>,
    /// Streams that calls of ours name at this moment.
    named: Mutex<Vec<u32>>,
    pub(super) recorded: AtomicU64,
}

/// While it lives, a call names a stream.
struct Named<'a> {
    named: &'a Mutex<Vec<u32>>,
    stream: u32,
}

impl Drop for Named<'_> {
    fn drop(&mut self) {
        let mut named = locked(self.named);
        if let Some(at) = named.iter().position(|stream| *stream == self.stream) {
            named.swap_remove(at);
        }
    }
}

impl Marks {
    /// Remembers what a stream is called.
    pub(super) fn note_name(&self, stream: u32, id: StreamId) {
        locked(&self.names).insert(stream, id);
    }

    /// What a stream is called; the default stream if it never asked for anything.
    pub(super) fn name(&self, stream: u32) -> StreamId {
        locked(&self.names).get(&stream).copied().unwrap_or(StreamId::DEFAULT)
    }

    /// Makes a call that names a stream, if its name is known: the stream isn't destroyed before it has returned.
    pub(super) fn with_name<R>(&self, stream: u32, call: impl FnOnce(StreamId) -> R) -> Option<R> {
        let names = locked(&self.names);
        let name = names.get(&stream).copied()?;
        locked(&self.named).push(stream);
        drop(names);
        let _named = Named { named: &self.named, stream };
        Some(call(name))
    }

    /// All known names.
    pub(super) fn names(&self) -> Vec<(u32, StreamId)> {
        locked(&self.names).iter().map(|(stream, id)| (*stream, *id)).collect()
    }

    /// Returns once no call of ours names the stream any more: its name may be another one's from then on.
    pub(super) fn forget_name(&self, stream: u32) {
        locked(&self.names).remove(&stream);
        while locked(&self.named).contains(&stream) {
            std::thread::yield_now();
        }
    }

    /// Marks where a stream is now, unless it has an open mark. What the device refuses is left for another time: only
    /// memory is lost by it.
    pub(super) fn record(&self, device: &dyn Device, clocks: &Clocks, stream: u32) {
        if !locked(&self.open).iter().any(|mark| mark.stream == stream) {
            self.record_another(device, clocks, stream);
        }
    }

    /// The same of a stream that has an open mark too, which stands for less.
    pub(super) fn record_another(&self, device: &dyn Device, clocks: &Clocks, stream: u32) {
        self.with_name(stream, |name| {
            let idle = locked(&self.idle).pop();
            let event = match idle {
                Some(idle) => idle,
                None => match device.create_event() {
                    Ok(event) => event,
                    Err(_) => return,
                },
            };
            // Nobody else knows the event: that it has happened says the same as a synchronization that began here.
            let notice = clocks.begin_synchronize(stream);
            if device.record_event(event, name).is_ok() {
                self.recorded.fetch_add(1, Ordering::Relaxed);
                locked(&self.open).push(Mark { event, notice, stream });
            } else {
                locked(&self.idle).push(event);
            }
        });
    }

    /// Asks which marks have happened.
    pub(super) fn poll(&self, device: &dyn Device, clocks: &Clocks) {
        let open = std::mem::take(&mut *locked(&self.open));
        for mark in open {
            if matches!(device.query_event(mark.event), Ok(true)) {
                clocks.commit(mark.notice);
                locked(&self.idle).push(mark.event);
            } else {
                locked(&self.open).push(mark);
            }
        }
    }

    pub(super) fn is_idle(&self) -> bool {
        locked(&self.open).is_empty()
    }

    pub(super) fn close(&self, device: &dyn Device) {
        let open = std::mem::take(&mut *locked(&self.open));
        let idle = std::mem::take(&mut *locked(&self.idle));
        for event in open.into_iter().map(|mark| mark.event).chain(idle) {
            // The device may be gone already; then its events are too.
            let _ = device.destroy_event(event);
        }
    }
}
