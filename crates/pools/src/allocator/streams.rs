//! What the program does with streams and events, as it tells us.
//!
//! Each call comes in two forms. The one-call form is made right after the driver call succeeded, by a caller that lets
//! nobody queue work on that stream in between. The exact form begins before the driver call and is committed when it
//! succeeded; a notice that is dropped credits nothing.

use device::StreamId;

use super::{Allocator, Shared};
use crate::clocks::Notice;
use crate::{Result, fork};

impl Allocator {
    /// `by` was made to wait for all that `of` had queued.
    ///
    /// # Errors
    /// [`Error::Forked`](crate::Error::Forked), as every call here.
    pub fn stream_wait(&self, of: StreamId, by: StreamId) -> Result<()> {
        let shared = self.told()?;
        shared.arena.clocks.stream_wait(shared.resolve(of), shared.resolve(by));
        Ok(())
    }

    /// An event was recorded on a stream. Events are known by a number of the caller's choice, such as their handle.
    ///
    /// # Errors
    /// As [`stream_wait`](Self::stream_wait).
    pub fn event_record(&self, event: u64, stream: StreamId) -> Result<()> {
        let shared = self.told()?;
        shared.arena.clocks.event_record(event, shared.resolve(stream));
        Ok(())
    }

    /// A stream was made to wait for an event.
    ///
    /// # Errors
    /// As [`stream_wait`](Self::stream_wait).
    pub fn event_wait(&self, event: u64, stream: StreamId) -> Result<()> {
        let shared = self.told()?;
        shared.arena.clocks.event_wait(event, shared.resolve(stream));
        Ok(())
    }

    /// The host waited for an event, or asked and heard that it has happened.
    ///
    /// # Errors
    /// As [`stream_wait`](Self::stream_wait).
    pub fn event_synchronized(&self, event: u64) -> Result<()> {
        self.told()?.arena.clocks.event_synchronized(event);
        Ok(())
    }

    /// An event is about to be destroyed, or was changed in a way that no other call here says.
    ///
    /// # Errors
    /// As [`stream_wait`](Self::stream_wait).
    pub fn event_destroyed(&self, event: u64) -> Result<()> {
        self.told()?.arena.clocks.event_emptied(event);
        Ok(())
    }

    /// A stream is about to be destroyed. Its number may come back for another stream afterwards. Where blocks wait for
    /// its work an event of ours is recorded on it first.
    ///
    /// # Errors
    /// As [`stream_wait`](Self::stream_wait).
    pub fn stream_destroyed(&self, stream: StreamId) -> Result<()> {
        let shared = self.told()?;
        let Some(number) = shared.arena.clocks.known(stream) else { return Ok(()) };
        let shards = shared.arena.shards(None);
        for shard in shards.iter().filter(|shard| shard.stream == number) {
            shared.arena.flush(Some(shard.number));
        }
        let is_waited_for = shards.iter().any(|shard| {
            let inner = shard.inner.lock();
            (shard.stream == number && inner.free_bytes > 0)
                || inner.pending.iter().any(|pending| pending.waits.iter().any(|(of, _)| *of == number))
        });
        if is_waited_for {
            shared.marks.record_another(&*shared.supply.device, &shared.arena.clocks, number);
        }
        shared.arena.clocks.stream_destroyed(stream);
        shared.marks.forget_name(number);
        Ok(())
    }

    /// The host has seen a stream finish all that was queued on it, or with `None` the whole device.
    ///
    /// # Errors
    /// As [`stream_wait`](Self::stream_wait).
    pub fn synchronized(&self, stream: Option<StreamId>) -> Result<()> {
        let shared = self.told()?;
        match stream {
            Some(stream) => shared.arena.clocks.synchronized(shared.resolve(stream)),
            None => shared.arena.commit(shared.arena.begin_synchronize_device()),
        }
        Ok(())
    }

    /// Work was queued on a stream. Only matters where `sees_all_work` is set.
    ///
    /// # Errors
    /// As [`stream_wait`](Self::stream_wait).
    pub fn work_queued(&self, stream: StreamId) -> Result<()> {
        let shared = self.told()?;
        shared.arena.clocks.work_queued(shared.resolve(stream));
        Ok(())
    }

    /// Before an event is recorded on a stream.
    ///
    /// # Errors
    /// As [`stream_wait`](Self::stream_wait).
    pub fn begin_record(&self, event: u64, stream: StreamId) -> Result<Notice> {
        let shared = self.told()?;
        Ok(shared.arena.clocks.begin_record(event, shared.resolve(stream)))
    }

    /// Before a stream is made to wait for an event.
    ///
    /// # Errors
    /// As [`stream_wait`](Self::stream_wait).
    pub fn begin_wait(&self, event: u64, stream: StreamId) -> Result<Notice> {
        let shared = self.told()?;
        Ok(shared.arena.clocks.begin_wait(event, shared.resolve(stream)))
    }

    /// Before `by` is made to wait for all that `of` has queued, by whatever calls.
    ///
    /// # Errors
    /// As [`stream_wait`](Self::stream_wait).
    pub fn begin_stream_wait(&self, of: StreamId, by: StreamId) -> Result<Notice> {
        let shared = self.told()?;
        Ok(shared.arena.clocks.begin_stream_wait(shared.resolve(of), shared.resolve(by)))
    }

    /// Before the host waits for an event, or asks whether it has happened.
    ///
    /// # Errors
    /// As [`stream_wait`](Self::stream_wait).
    pub fn begin_event_synchronize(&self, event: u64) -> Result<Notice> {
        Ok(self.told()?.arena.clocks.begin_event_synchronize(event))
    }

    /// Before the host waits for a stream, or asks whether it has finished; with `None` for the whole device.
    ///
    /// # Errors
    /// As [`stream_wait`](Self::stream_wait).
    pub fn begin_synchronize(&self, stream: Option<StreamId>) -> Result<Notice> {
        let shared = self.told()?;
        Ok(match stream {
            Some(stream) => shared.arena.clocks.begin_synchronize(shared.resolve(stream)),
            None => shared.arena.begin_synchronize_device(),
        })
    }

    /// The driver call succeeded (and a query said yes).
    ///
    /// # Errors
    /// As [`stream_wait`](Self::stream_wait).
    pub fn commit(&self, notice: Notice) -> Result<()> {
        self.told()?.arena.commit(notice);
        Ok(())
    }

    /// Before an event is recorded in a way that says nothing of order: in a capture, or by a form of record that isn't modelled.
    /// Afterwards the event stands for nothing, whether the call succeeds or not.
    ///
    /// # Errors
    /// As [`stream_wait`](Self::stream_wait).
    pub fn begin_unmodelled_record(&self, event: u64) -> Result<Notice> {
        Ok(self.told()?.arena.clocks.begin_unmodelled_record(event))
    }

    fn told(&self) -> Result<&Shared> {
        self.0.check_process()?;
        debug_assert_eq!(self.0.forks, fork::forks());
        Ok(&self.0)
    }
}
