//! What the program and the device do, as the caller of the simulation says: work, order, progress.

use super::SimDevice;
use super::state::SimStats;
use super::streams::Entry;
use crate::{AddressRange, Attempt, CallCounts, DevicePtr, FaultPlan, Result, Sequence, StreamId, Violation};

/// A range of memory that work uses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Touch {
    /// The addresses.
    pub range: AddressRange,
    /// Whether this is the first use since the range became a block of its own. Then all earlier uses of these bytes, at
    /// whatever address, have to be over or ordered before. A further use is the program's own business: the order
    /// between the streams that share a block isn't the allocator's.
    pub begins: bool,
}

impl Touch {
    /// The first use of a block.
    #[must_use]
    pub fn begin(ptr: DevicePtr, bytes: u64) -> Touch {
        Touch { range: AddressRange::new(ptr, bytes), begins: true }
    }

    /// A further use of a block, or of a part of it.
    #[must_use]
    pub fn again(ptr: DevicePtr, bytes: u64) -> Touch {
        Touch { range: AddressRange::new(ptr, bytes), begins: false }
    }
}

/// What the program does. None of it is a driver call of the allocator's, so that nothing is counted or priced.
impl SimDevice {
    /// Queues work that uses these ranges, as long as the duration model says for their bytes together. Without ranges:
    /// work on memory that nobody tracks. Returns its place in the stream's queue.
    ///
    /// # Errors
    /// Unknown stream. With [`ContractMode::Abort`](crate::ContractMode::Abort) also: bytes that other work may still
    /// use, addresses without memory.
    pub fn launch(&self, stream: StreamId, touches: &[Touch]) -> Result<Sequence> {
        self.lock().guard(&|_| Attempt::Launch { stream }, |state| {
            let place = state.place(stream)?;
            let entry = state.launch(place, touches.iter().map(|touch| (touch.range, touch.begins)))?;
            Ok(Sequence(entry.sequence))
        })
    }

    /// Work that nobody saw being queued uses these ranges too, up to now: an entry behind all that is on the stream's queue.
    /// Takes no time on the timeline, since nobody knows how long it runs. Returns its place in the queue.
    ///
    /// # Errors
    /// Unknown stream.
    pub fn use_until_now(&self, stream: StreamId, ranges: &[AddressRange]) -> Result<Sequence> {
        self.lock().guard(&|_| Attempt::Launch { stream }, |state| {
            let place = state.place(stream)?;
            Ok(Sequence(state.use_until_now(place, ranges).sequence))
        })
    }

    /// Makes `then` wait for everything queued on `first` so far, as a `wait` row says.
    ///
    /// # Errors
    /// Unknown stream.
    pub fn order(&self, first: StreamId, then: StreamId) -> Result<()> {
        self.lock().guard(&|_| Attempt::OrderStreams { first, then }, |state| {
            let (first, then) = (state.place(first)?, state.place(then)?);
            let ns = state.timeline.stream_ns(first as usize);
            let mark = state.streams.mark_here(first, ns);
            state.streams.wait(then, &mark);
            state.timeline.wait(then as usize, ns);
            Ok(())
        })
    }

    /// The host sees all work of a stream finish, as a `sync` row says. No host wait of the allocator's.
    ///
    /// # Errors
    /// Unknown stream.
    pub fn observe(&self, stream: StreamId) -> Result<()> {
        self.lock().guard(&|_| Attempt::Observe { stream }, |state| {
            let last = state.last(stream)?;
            state.observe(last);
            Ok(())
        })
    }

    /// The host sees all work of the device finish, as a `sync` row with stream -1 says.
    pub fn observe_all(&self) {
        self.lock().observe_all();
    }

    /// The host is busy with one row of a trace.
    pub fn host_row(&self) {
        self.lock().timeline.host_row();
    }
}

/// What the device does while nobody looks: work finishes, the host learns of it only by asking. Takes no time on the
/// timeline, which has its own idea of when work is done.
impl SimDevice {
    /// All work queued on the stream finishes, and what it waited for.
    ///
    /// # Errors
    /// Unknown stream.
    pub fn finish(&self, stream: StreamId) -> Result<()> {
        self.finish_up_to(stream, Sequence(u64::MAX))
    }

    /// The stream's work finishes up to and with this entry, and what that waited for. Entries that aren't queued yet
    /// don't count.
    ///
    /// # Errors
    /// Unknown stream.
    pub fn finish_up_to(&self, stream: StreamId, upto: Sequence) -> Result<()> {
        self.lock().guard(&|_| Attempt::Observe { stream }, |state| {
            let place = state.place(stream)?;
            state.streams.finish(Entry { place, sequence: upto.0 });
            Ok(())
        })
    }

    /// All work of the device finishes.
    pub fn finish_all(&self) {
        self.lock().streams.finish_all();
    }
}

/// What can be asked.
impl SimDevice {
    /// The last entry of the stream's queue.
    ///
    /// # Errors
    /// Unknown stream.
    pub fn issued(&self, stream: StreamId) -> Result<Sequence> {
        self.lock().guard(&|_| Attempt::Observe { stream }, |state| Ok(Sequence(state.last(stream)?.sequence)))
    }

    /// The last entry that has finished, without the host taking note.
    ///
    /// # Errors
    /// Unknown stream.
    pub fn finished(&self, stream: StreamId) -> Result<Sequence> {
        self.lock().guard(&|_| Attempt::Observe { stream }, |state| {
            let place = state.place(stream)?;
            Ok(Sequence(state.streams.finished(place)))
        })
    }

    /// The last entry that has finished, and the host takes note: it reads a word in its own memory that the stream writes
    /// as it goes. No driver call.
    ///
    /// # Errors
    /// Unknown stream.
    pub fn poll(&self, stream: StreamId) -> Result<Sequence> {
        self.lock().guard(&|_| Attempt::Observe { stream }, |state| {
            let place = state.place(stream)?;
            let sequence = state.streams.finished(place);
            state.streams.see_stream(Entry { place, sequence });
            Ok(Sequence(sequence))
        })
    }

    /// Calls by kind since the start.
    #[must_use]
    pub fn counts(&self) -> CallCounts {
        self.lock().counts.clone()
    }

    /// What was counted besides calls.
    #[must_use]
    pub fn stats(&self) -> SimStats {
        self.lock().stats()
    }

    /// The peak starts again from what is in use now.
    pub fn reset_peak(&self) {
        self.lock().reset_peak();
    }

    /// The first violations, 16 at most; [`SimStats::violations`] counts all.
    #[must_use]
    pub fn violations(&self) -> Vec<Violation> {
        self.lock().kept_violations()
    }

    /// Another plan of which calls fail; it counts from now on.
    pub fn set_faults(&self, faults: FaultPlan) {
        self.lock().options.faults = faults;
    }

    /// Verifies all invariants.
    ///
    /// # Errors
    /// The one that broke. A bug of this crate.
    pub fn check(&self) -> Result<()> {
        self.lock().check().map_err(|what| crate::Error::Internal { what })
    }
}
