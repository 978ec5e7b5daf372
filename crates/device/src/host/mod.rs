//! The host device: real memory of this process, and streams that real threads serve.

mod blocks;
mod engine;
mod file;
mod limits;
mod memory;
mod options;
mod parts;
mod queues;
#[allow(unsafe_code)] // the only place: mapping memory, and copying through raw pointers
mod raw;
mod span;

pub use options::{Completion, HostOptions};

use crate::books::Refusal;
use crate::error::codes;
use crate::{
    Attempt, Device, DeviceInfo, DevicePtr, Error, EventId, Failure, Ipc, MemoryState, PageLocked, Place, Result,
    StreamId, VirtualMemory,
};
use engine::{Engine, Stop};
use memory::{Broken, Memory};
use queues::Work;
use span::Span;
use std::fmt;
use std::process;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread;

/// A device made of the host's memory: what gpumem runs on where there is no GPU.
///
/// # What it promises
/// - What [`Device`] does, with real bytes. A [`DevicePtr`] of this device is an address of this process, so programs
///   may also touch the memory directly; they see to the order themselves. Bytes never touched read as zero.
/// - Streams run beside the host and beside each other; events happen once the work before them is done.
/// - Copies, writes and reads are checked: all their bytes have to be live memory, mapped and accessible, when they are
///   queued. Memory that queued work uses doesn't go: [`free`](Device::free) waits for it, unmapping it and changing
///   its access are refused.
/// - A limit of the system that stands in the way is named: `RLIMIT_AS`, `RLIMIT_NOFILE`, `RLIMIT_MEMLOCK`,
///   `RLIMIT_NPROC`, `vm.max_map_count`.
/// - Dropping it finishes its work and ends its threads. When the process exits nothing is torn down. In a forked child
///   every call is refused, and dropping it does nothing: the threads are the parent's.
///
/// # What it costs
/// Memory is taken from the system as it is touched, so a capacity beyond the machine's costs nothing until then; what
/// is touched and isn't there ends the process, as with any overcommitted memory. Plain memory is one mapping an
/// allocation. Handles are parts of one sparse file; neighbours whose parts follow each other share a mapping. The
/// device starts a thread when work is queued that nothing else can do, and at most
/// [`threads`](HostOptions::threads). A call asks the system for the process id, to notice a fork.
#[derive(Debug)]
pub struct HostDevice {
    info: DeviceInfo,
    /// The process it was opened in.
    process: u32,
    has_page_locked: bool,
    exports_handles: bool,
    inner: Arc<Inner>,
}

struct Inner {
    memory: Mutex<Memory>,
    engine: Arc<Engine>,
}

impl fmt::Debug for Inner {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Inner").finish_non_exhaustive()
    }
}

/// Most threads, unless options say otherwise: they are for streams side by side, and copies soon fill the memory's
/// bandwidth.
const MOST_THREADS: usize = 4;

impl HostDevice {
    /// A device without any memory taken, with the default stream and no thread.
    ///
    /// # Errors
    /// A granule or page that isn't a power of two, below the system's page or above 2^40 bytes; a capacity beyond 2^56
    /// bytes; no file for the handles (`RLIMIT_NOFILE`).
    pub fn new(options: HostOptions) -> Result<HostDevice> {
        let refuse =
            |reason| Err(Error::InvalidValue(Box::new(Failure::new(Attempt::Open, codes::INVALID_VALUE, reason))));
        let is_page = |bytes: u64| bytes.is_power_of_two() && bytes >= limits::system_page() && bytes <= 1 << 40;
        if !is_page(options.plain_granule_bytes) || !options.page_bytes.is_none_or(is_page) {
            return refuse("granule and page have to be powers of two, from the system's page up to 2^40 bytes");
        }
        // Whole granules of half of what there is: the other half is for the program itself.
        let share = || limits::memory_bytes() / 2 / (2 << 20) * (2 << 20);
        let capacity = options.capacity_bytes.unwrap_or_else(share);
        if capacity > 1 << 56 {
            return refuse("the capacity of a host device ends at 2^56 bytes");
        }
        let locked = options.page_locked_limit_bytes.unwrap_or_else(share);
        let memory = Memory::new(&options, capacity, locked);
        let memory = memory.map_err(|refusal| refusal.into_error(&|_| Attempt::Open, 0, capacity, capacity))?;
        let processors = || thread::available_parallelism().map_or(1, usize::from).min(MOST_THREADS);
        let threads = if options.threads == 0 { processors() } else { options.threads };
        let mut info = DeviceInfo::new(options.name, capacity);
        info.plain_granule_bytes = options.plain_granule_bytes;
        info.plain_alignment_bytes = options.plain_granule_bytes;
        info.page_bytes = options.page_bytes;
        Ok(HostDevice {
            info,
            process: process::id(),
            has_page_locked: locked > 0,
            exports_handles: options.exports_handles && options.page_bytes.is_some(),
            inner: Arc::new(Inner {
                memory: Mutex::new(memory),
                engine: Arc::new(Engine::new(options.completion, threads)),
            }),
        })
    }

    // -- work besides copies

    /// Sets `bytes` bytes to `value`, in order of the stream.
    ///
    /// # Errors
    /// As a copy to the place.
    pub fn fill(&self, to: Place, value: u8, bytes: u64, stream: StreamId) -> Result<()> {
        self.call(Attempt::Launch { stream }, || {
            let to = self.enter()?.span(to, bytes, true)?;
            self.inner.engine.push(stream, Work::Fill { to, value })
        })
    }

    /// Runs work in order of the stream, on a thread of the device. It may touch the device's memory by address; what
    /// it touches isn't known to the device, so the caller keeps it. It may call the device, but not wait for it: others'
    /// work may need the thread. If it panics the device is lost.
    ///
    /// # Errors
    /// No such stream; no thread can be started.
    pub fn launch(&self, stream: StreamId, work: impl FnOnce() + Send + 'static) -> Result<()> {
        self.call(Attempt::Launch { stream }, || self.inner.engine.push(stream, Work::Launch(Box::new(work))))
    }

    // -- for tests: what a manual device does

    /// Lets all work queued on the stream so far be done, and what that waits for, and waits until it is.
    ///
    /// # Errors
    /// No such stream.
    pub fn finish(&self, stream: StreamId) -> Result<()> {
        self.observe(stream, |engine| engine.with(|queues| queues.last(stream.0)))
    }

    /// Lets the next entry of the stream be done, and what that waits for, and waits until it is. Work is one entry, and
    /// so is each record and each wait for something that hadn't happened.
    ///
    /// # Errors
    /// No such stream.
    pub fn finish_next(&self, stream: StreamId) -> Result<()> {
        self.observe(stream, |engine| engine.with(|queues| queues.next(stream.0)))
    }

    fn observe(
        &self,
        stream: StreamId,
        find: impl FnOnce(&Engine) -> std::result::Result<queues::Mark, Stop>,
    ) -> Result<()> {
        self.call(Attempt::Observe { stream }, || {
            let mark = find(&self.inner.engine)?;
            self.inner.engine.wait(mark)
        })
    }

    /// Verifies all invariants of the books.
    ///
    /// # Errors
    /// The one that broke: a bug of this crate. A forked child.
    pub fn check(&self) -> Result<()> {
        self.call(Attempt::MemoryInfo, || {
            let memory = self.enter()?.check();
            memory.map_err(|what| Stop::Lost(Box::new(Error::Internal { what })))?;
            let queues = self.inner.engine.with(|queues| Ok(queues.check()))?;
            queues.map_err(|what| Stop::Lost(Box::new(Error::Internal { what })))
        })
    }

    // -- calls

    /// The memory of a device that isn't lost.
    fn enter(&self) -> std::result::Result<MutexGuard<'_, Memory>, Stop> {
        self.inner.engine.check()?;
        Ok(self.books())
    }

    fn books(&self) -> MutexGuard<'_, Memory> {
        // No code of others runs under the lock, and each change is whole before the next thing that could panic.
        self.inner.memory.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn is_here(&self) -> bool {
        process::id() == self.process
    }

    fn call<T>(&self, attempt: Attempt, body: impl FnOnce() -> std::result::Result<T, Stop>) -> Result<T> {
        self.batch(|_| attempt, body)
    }

    /// A call; `attempt` says what its entry number `index` is.
    fn batch<T>(
        &self,
        attempt: impl Fn(usize) -> Attempt,
        body: impl FnOnce() -> std::result::Result<T, Stop>,
    ) -> Result<T> {
        if !self.is_here() {
            // A lock may be held by a thread that isn't here.
            let reason = format!("the device was opened by process {}, which forked; open one here", self.process);
            return Err(Error::Forked(Box::new(Failure::new(attempt(0), codes::ILLEGAL_STATE, reason))));
        }
        body().map_err(|stop| match stop {
            Stop::Refused(refusal) => {
                let MemoryState { free_bytes, total_bytes } = self.books().state();
                refusal.into_error(&attempt, 0, free_bytes, total_bytes)
            }
            Stop::Lost(error) => *error,
        })
    }

    /// A batch on mapped memory that may be left half done.
    fn mapping_batch(
        &self,
        attempt: impl Fn(usize) -> Attempt,
        body: impl FnOnce(&mut Memory) -> std::result::Result<(), Broken>,
    ) -> Result<()> {
        let mut lost = false;
        let result = self.batch(attempt, || {
            let mut memory = self.enter()?;
            body(&mut memory).map_err(|broken| match broken {
                Broken::Refused(refusal) => Stop::Refused(refusal),
                Broken::Lost(refusal) => {
                    lost = true;
                    Stop::Refused(refusal)
                }
            })
        });
        match result {
            Err(error) if lost => {
                let error = as_lost(error);
                self.inner.engine.lose(Box::new(error.clone()));
                Err(error)
            }
            other => other,
        }
    }

    /// Both ends of a copy.
    fn ends(&self, to: Place, from: Place, bytes: u64) -> std::result::Result<(Span, Span), Stop> {
        let memory = self.enter()?;
        let ends = (memory.span(to, bytes, true)?, memory.span(from, bytes, false)?);
        drop(memory);
        let (Place::Device(crate::DevicePtr(at)) | Place::Host(crate::HostPtr(at))) = to;
        let (Place::Device(crate::DevicePtr(source)) | Place::Host(crate::HostPtr(source))) = from;
        if at.abs_diff(source) < bytes {
            return Err(Refusal::value("the two places overlap").into());
        }
        Ok(ends)
    }
}

/// The same failure, of a device that is lost by it.
fn as_lost(error: Error) -> Error {
    match error.failure() {
        Some(failure) => Error::Device(Box::new(failure.clone().with_sticky(true))),
        None => error,
    }
}

impl Drop for HostDevice {
    fn drop(&mut self) {
        if self.is_here() {
            self.inner.engine.close();
        } else {
            // The memory is the parent's too, and a lock of it may be held by a thread that isn't here: leave all of it.
            std::mem::forget(Arc::clone(&self.inner));
        }
    }
}

impl Device for HostDevice {
    fn info(&self) -> &DeviceInfo {
        &self.info
    }

    fn memory(&self) -> Result<MemoryState> {
        self.call(Attempt::MemoryInfo, || Ok(self.enter()?.state()))
    }

    fn alloc(&self, bytes: u64) -> Result<DevicePtr> {
        self.call(Attempt::Alloc { bytes }, || Ok(self.enter()?.alloc(bytes)?))
    }

    fn free(&self, ptr: DevicePtr) -> Result<()> {
        self.call(Attempt::Free { ptr }, || {
            // From here on nobody else finds it.
            let pages = self.enter()?.plain.take(ptr.0);
            let pages = pages.ok_or_else(|| Refusal::value("no allocation that is still live begins there"))?;
            if let Err(stop) = self.inner.engine.wait_for_all() {
                self.books().plain.put_back(pages);
                return Err(stop);
            }
            let bytes = pages.bytes();
            match Arc::try_unwrap(pages) {
                // Many bytes take long to go: not under the lock, unless it takes more than one try.
                Ok(mut pages) => match pages.unmap() {
                    Ok(()) => self.books().plain.gone(bytes),
                    Err(_) => self.books().give_back(pages)?,
                },
                // Somebody else is just queueing work on it: the memory goes after that work.
                Err(_) => self.books().plain.gone(bytes),
            }
            Ok(())
        })
    }

    fn create_stream(&self) -> Result<StreamId> {
        self.call(Attempt::CreateStream, || self.inner.engine.with(|queues| Ok(StreamId(queues.create_stream()))))
    }

    fn destroy_stream(&self, stream: StreamId) -> Result<()> {
        self.call(Attempt::DestroyStream { stream }, || {
            if stream == StreamId::DEFAULT {
                return Err(Refusal::value("the default stream stays").into());
            }
            self.inner.engine.with(|queues| queues.destroy_stream(stream.0))
        })
    }

    fn query_stream(&self, stream: StreamId) -> Result<bool> {
        self.call(Attempt::QueryStream { stream }, || {
            self.inner.engine.with(|queues| Ok(queues.is_done(queues.last(stream.0)?)))
        })
    }

    fn synchronize_stream(&self, stream: StreamId) -> Result<()> {
        self.call(Attempt::SynchronizeStream { stream }, || {
            let last = self.inner.engine.with(|queues| queues.last(stream.0))?;
            self.inner.engine.wait(last)
        })
    }

    fn create_event(&self) -> Result<EventId> {
        self.call(Attempt::CreateEvent, || self.inner.engine.with(|queues| Ok(EventId(queues.create_event()))))
    }

    fn destroy_event(&self, event: EventId) -> Result<()> {
        self.call(Attempt::DestroyEvent { event }, || self.inner.engine.with(|queues| queues.destroy_event(event.0)))
    }

    fn record_event(&self, event: EventId, stream: StreamId) -> Result<()> {
        self.call(Attempt::RecordEvent { event, stream }, || {
            self.inner.engine.queue(stream, false, |queues| queues.record(event.0, stream.0))
        })
    }

    fn query_event(&self, event: EventId) -> Result<bool> {
        self.call(Attempt::QueryEvent { event }, || {
            self.inner.engine.with(|queues| Ok(queues.mark(event.0)?.is_none_or(|mark| queues.is_done(mark))))
        })
    }

    fn synchronize_event(&self, event: EventId) -> Result<()> {
        self.call(Attempt::SynchronizeEvent { event }, || {
            match self.inner.engine.with(|queues| queues.mark(event.0))? {
                Some(mark) => self.inner.engine.wait(mark),
                None => Ok(()),
            }
        })
    }

    fn wait_event(&self, stream: StreamId, event: EventId) -> Result<()> {
        self.call(Attempt::WaitEvent { stream, event }, || {
            self.inner.engine.queue(stream, false, |queues| queues.wait(stream.0, event.0))
        })
    }

    fn synchronize(&self) -> Result<()> {
        self.call(Attempt::Synchronize, || self.inner.engine.wait_for_all())
    }

    fn copy(&self, to: Place, from: Place, bytes: u64, stream: StreamId) -> Result<()> {
        self.call(Attempt::Copy { to, from, bytes, stream }, || {
            let (to, from) = self.ends(to, from, bytes)?;
            self.inner.engine.push(stream, Work::Copy { to, from })
        })
    }

    fn write(&self, to: Place, from: &[u8]) -> Result<()> {
        let bytes = from.len() as u64;
        self.call(Attempt::Write { to, bytes }, || {
            let span = self.enter()?.span(to, bytes, true)?;
            if span.write(from) { Ok(()) } else { Err(Refusal::value("its memory may not be written").into()) }
        })
    }

    fn read(&self, from: Place, to: &mut [u8]) -> Result<()> {
        let bytes = to.len() as u64;
        self.call(Attempt::Read { from, bytes }, || {
            let span = self.enter()?.span(from, bytes, false)?;
            if span.read(to) { Ok(()) } else { Err(Refusal::value("its memory may not be read").into()) }
        })
    }

    fn vmm(&self) -> Option<&dyn VirtualMemory> {
        self.info.page_bytes.map(|_| self as &dyn VirtualMemory)
    }

    fn page_locked(&self) -> Option<&dyn PageLocked> {
        self.has_page_locked.then_some(self as &dyn PageLocked)
    }

    fn ipc(&self) -> Option<&dyn Ipc> {
        self.exports_handles.then_some(self as &dyn Ipc)
    }
}
