//! Events of our own, for streams of which the program says too little.
//!
//! A block that another stream used waits until the program makes its home stream wait for that one, or synchronizes. Programs that
//! do neither would keep it for ever. So a mark is recorded on such a stream, once, when a request finds nothing; later
//! requests ask whether it has happened. A free never makes one.

use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};

use device::{Device, EventId, StreamId};
use hashbrown::HashMap;

use crate::arena::locked;
use crate::clocks::Clocks;

/// Keys of our own events among the program's, which are addresses or small numbers.
const KEYS: u64 = 0xffff_0000_0000_0000;

/// An event of ours that was recorded and not seen to happen yet.
#[derive(Debug)]
struct Mark {
    event: EventId,
    key: u64,
    stream: u32,
}

/// See the module.
#[derive(Debug, Default)]
pub(super) struct Marks {
    open: Mutex<Vec<Mark>>,
    idle: Mutex<Vec<(EventId, u64)>>,
    next_key: AtomicU64,
    names: Mutex<HashMap<u32, StreamId>>,
    pub(super) recorded: AtomicU64,
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

    /// What a stream is called, if it is known.
    pub(super) fn known_name(&self, stream: u32) -> Option<StreamId> {
        locked(&self.names).get(&stream).copied()
    }

    /// All known names.
    pub(super) fn names(&self) -> Vec<(u32, StreamId)> {
        locked(&self.names).iter().map(|(stream, id)| (*stream, *id)).collect()
    }

    pub(super) fn forget_name(&self, stream: u32) {
        locked(&self.names).remove(&stream);
    }

    /// Marks where a stream is now, unless it has an open mark. What the device refuses is left for another time: only
    /// memory is lost by it.
    pub(super) fn record(&self, device: &dyn Device, clocks: &Clocks, stream: u32) {
        if locked(&self.open).iter().any(|mark| mark.stream == stream) {
            return;
        }
        let Some(name) = self.known_name(stream) else { return };
        let idle = locked(&self.idle).pop();
        let (event, key) = match idle {
            Some(idle) => idle,
            None => match device.create_event() {
                Ok(event) => (event, KEYS + self.next_key.fetch_add(1, Ordering::Relaxed)),
                Err(_) => return,
            },
        };
        let notice = clocks.begin_record(key, stream);
        if device.record_event(event, name).is_ok() {
            clocks.commit(notice);
            self.recorded.fetch_add(1, Ordering::Relaxed);
            locked(&self.open).push(Mark { event, key, stream });
        } else {
            drop(notice);
            locked(&self.idle).push((event, key));
        }
    }

    /// Asks which marks have happened.
    pub(super) fn poll(&self, device: &dyn Device, clocks: &Clocks) {
        let mut open = std::mem::take(&mut *locked(&self.open));
        open.retain(|mark| {
            let notice = clocks.begin_event_synchronize(mark.key);
            let happened = matches!(device.query_event(mark.event), Ok(true));
            if happened {
                clocks.commit(notice);
                locked(&self.idle).push((mark.event, mark.key));
            }
            !happened
        });
        locked(&self.open).append(&mut open);
    }

    pub(super) fn is_idle(&self) -> bool {
        locked(&self.open).is_empty()
    }

    pub(super) fn close(&self, device: &dyn Device) {
        let open = std::mem::take(&mut *locked(&self.open));
        let idle = std::mem::take(&mut *locked(&self.idle));
        for event in open.iter().map(|mark| mark.event).chain(idle.iter().map(|(event, _)| *event)) {
            // The device may be gone already; then its events are too.
            let _ = device.destroy_event(event);
        }
    }
}
