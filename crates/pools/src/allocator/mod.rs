//! The allocator: what is public of this crate, and the order in which the parts are asked.

mod alloc;
mod check;
mod free;
mod guard;
mod maintenance;
mod marks;
mod shortage;
mod slow;
mod snapshot;
mod statistics;
mod streams;

pub use guard::{GuardCallback, GuardFinding, GuardReport};
pub use snapshot::{BlockInfo, Snapshot, SnapshotBlock, SnapshotSpan};
pub use statistics::{LevelFigures, OpPoolFigures, OrderFigures, SlowFigures, Statistics};

use std::fmt;
use std::sync::{Arc, Mutex, RwLock};

use device::{Device, StreamId};
use smallvec::SmallVec;

use crate::arena::Arena;
use crate::clocks::{ClockSettings, Clocks};
use crate::latency::Latency;
use crate::pool::{self, Pools};
use crate::settings::{Budget, Settings};
use crate::shard::Shard;
use crate::supply::{Refusal, Supply};
use crate::sync::locked;
use crate::sync::{AtomicBool, AtomicU64, Ordering};
use crate::threads::Asker;
use crate::traits::{OutOfMemoryCallback, Reclaim};
use crate::{Error, Result, fork};

use guard::Guards;
use maintenance::Hysteresis;
use marks::Marks;
use slow::SlowCounts;

/// Hands out device memory: one arena for all streams of one device. See the crate's page. Cloning makes another name for
/// the same allocator; it ends with its last name, and all its memory goes back to the device then.
#[derive(Clone)]
pub struct Allocator(Arc<Shared>);

/// What all names of an allocator share.
struct Shared {
    /// No other allocator of this process has it.
    id: u64,
    forks: u32,
    settings: Settings,
    arena: Arc<Arena>,
    supply: Supply,
    pools: Pools,
    /// Whether nothing stands between a small request and a magazine.
    is_plain: AtomicBool,
    /// There may be memory that no stream has used yet.
    has_fresh: AtomicBool,
    /// Idle bytes that one set of magazines may hold.
    most_idle_bytes: AtomicU64,
    latencies: Latencies,
    counts: SlowCounts,
    marks: Marks,
    guards: Guards,
    hysteresis: Mutex<Hysteresis>,
    callback: Mutex<Option<OutOfMemoryCallback>>,
    reclaim: Mutex<Option<Arc<dyn Reclaim>>>,
    /// Operators' pools that some thread is taking memory for.
    being_made: Mutex<SmallVec<[u16; 4]>>,
    sink: RwLock<Option<Arc<dyn records::Sink>>>,
}

/// How long calls took. Hits are sampled, the slow path is always measured.
#[derive(Default)]
struct Latencies {
    alloc_hits: Latency,
    alloc_slow: Latency,
    free_hits: Latency,
    free_slow: Latency,
}

impl fmt::Debug for Allocator {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Allocator")
            .field("device", &self.0.supply.device.info().name)
            .field("reserved_bytes", &self.0.supply.reserved())
            .finish_non_exhaustive()
    }
}

impl Allocator {
    /// An allocator on a device.
    ///
    /// # Errors
    /// [`Error::BadSetting`], [`Error::Unsupported`], and what the device says to the first memory taken from it.
    pub fn new(device: Arc<dyn Device>, settings: Settings) -> Result<Self> {
        static NEXT: std::sync::atomic::AtomicU64 = std::sync::atomic::AtomicU64::new(1);
        settings.check()?;
        if settings.guard && !device.info().has_bytes {
            return Err(Error::Unsupported { what: "guard = on", problem: "this device keeps no bytes" });
        }
        fork::watch();
        crate::asymmetric::prepare();
        let clocks = Clocks::new(ClockSettings { sees_all_work: settings.sees_all_work, ..ClockSettings::default() });
        let supply = Supply::new(device, &settings)?;
        let pools = Pools::new(&settings);
        let initial_bytes = settings.initial_bytes;
        let shared = Shared {
            id: NEXT.fetch_add(1, std::sync::atomic::Ordering::Relaxed),
            forks: fork::forks(),
            arena: Arc::new(Arena::new(clocks, settings.hand_over)?),
            supply,
            pools,
            is_plain: AtomicBool::new(false),
            has_fresh: AtomicBool::new(initial_bytes > 0),
            most_idle_bytes: AtomicU64::new(0),
            latencies: Latencies::default(),
            counts: SlowCounts::default(),
            marks: Marks::default(),
            guards: Guards::default(),
            hysteresis: Mutex::default(),
            callback: Mutex::default(),
            reclaim: Mutex::default(),
            being_made: Mutex::default(),
            sink: RwLock::default(),
            settings,
        };
        let allocator = Self(Arc::new(shared));
        allocator.set_sink(None);
        if initial_bytes > 0 {
            let shard = allocator.0.arena.shard_of(allocator.0.resolve(StreamId::DEFAULT), pool::COMMON)?;
            allocator.0.take_initial(&shard, initial_bytes)?;
        }
        Ok(allocator)
    }

    /// The device it works on.
    #[must_use]
    pub fn device(&self) -> &Arc<dyn Device> {
        &self.0.supply.device
    }

    /// The settings it was made with. Budgets may have changed since.
    #[must_use]
    pub fn settings(&self) -> &Settings {
        &self.0.settings
    }

    /// Changes the budgets. What is held beyond a new hard budget stays until it is free; soft ones make idle memory go
    /// back at once.
    ///
    /// # Errors
    /// [`Error::Forked`]; a soft budget above the hard one is a [`Error::BadSetting`].
    pub fn set_budget(&self, budget: Budget) -> Result<()> {
        self.0.check_process()?;
        budget.check()?;
        self.0.supply.set_hard(budget.hard_bytes);
        self.0.supply.soft.store(budget.soft_bytes.unwrap_or(u64::MAX), Ordering::Relaxed);
        let most = budget.soft_bytes.unwrap_or(u64::MAX).min(budget.hard_bytes.unwrap_or(u64::MAX));
        if self.0.supply.reserved() > most {
            self.0.trim(most)?;
        }
        Ok(())
    }

    /// Who is asked when a request is about to fail: outside every lock, so that it may allocate, free and trim. It says
    /// whether it is worth trying again, and isn't asked about requests that it makes itself. `None`: nobody.
    pub fn on_out_of_memory(&self, callback: Option<OutOfMemoryCallback>) {
        if self.0.check_process().is_err() {
            return;
        }
        // Whatever the earlier one held is dropped outside the lock: that may call back.
        let earlier = std::mem::replace(&mut *locked(&self.0.callback), callback);
        drop(earlier);
    }

    /// Who is asked for bytes after the callback: something that can move blocks elsewhere. `None`: nobody.
    pub fn set_reclaim(&self, reclaim: Option<Arc<dyn Reclaim>>) {
        if self.0.check_process().is_ok() {
            // As above.
            let earlier = std::mem::replace(&mut *locked(&self.0.reclaim), reclaim);
            drop(earlier);
        }
    }

    /// Who is told of each request and free, of memory taken and given back. `None`: nobody. While somebody is, requests
    /// take the long way.
    pub fn set_sink(&self, sink: Option<Arc<dyn records::Sink>>) {
        if self.0.check_process().is_err() {
            return;
        }
        let is_none = sink.is_none();
        let earlier =
            std::mem::replace(&mut *self.0.sink.write().unwrap_or_else(std::sync::PoisonError::into_inner), sink);
        self.0.arena.is_watched.store(!is_none, Ordering::Relaxed);
        self.0.is_plain.store(is_none && self.0.plain_by_settings(), Ordering::Relaxed);
        // It may call back.
        drop(earlier);
    }
}

impl Shared {
    fn plain_by_settings(&self) -> bool {
        let settings = &self.settings;
        settings.magazines && !settings.guard && settings.op_pools.is_empty() && !settings.separate_precisions
    }

    #[inline]
    fn asker(&self) -> Asker<'_> {
        Asker { allocator: self.id, arena: &self.arena, forks: self.forks }
    }

    #[inline]
    fn is_own_process(&self) -> bool {
        self.forks == fork::forks()
    }

    #[inline]
    fn check_process(&self) -> Result<()> {
        if self.is_own_process() { Ok(()) } else { Err(Error::Forked) }
    }

    /// The clocks' number of a stream.
    fn resolve(&self, id: StreamId) -> u32 {
        let stream = self.arena.clocks.resolve(id);
        self.marks.note_name(stream, id);
        stream
    }

    fn take_initial(&self, shard: &Shard, bytes: u64) -> Result<()> {
        let grown = self.supply.grow(&self.arena, shard, bytes, crate::block::GRANULE);
        grown.map_err(|refusal| match refusal {
            Refusal::Budget => {
                Error::BadSetting { name: "initial_bytes", value: bytes, problem: "it is more than the hard budget" }
            }
            Refusal::Full(Some(error)) => Error::Device(error),
            Refusal::Full(None) => {
                Error::BadSetting { name: "initial_bytes", value: bytes, problem: "it is more than the device has" }
            }
            Refusal::Other(error) => error,
        })?;
        self.update_most_idle();
        Ok(())
    }

    /// Bounds the magazines by what is held.
    fn update_most_idle(&self) {
        /// Enough for a step's small blocks even when little is held.
        const LEAST: u64 = 512 << 10;
        let share = self.supply.reserved() / self.settings.magazine_share.max(1);
        let most = share / (self.arena.set_count().max(1) as u64);
        self.most_idle_bytes.store(most.max(LEAST), Ordering::Relaxed);
    }

    fn tell(&self, event: records::Event) {
        let sink = self.sink.read().unwrap_or_else(std::sync::PoisonError::into_inner).clone();
        let Some(sink) = sink else { return };
        // What came back before this happened.
        for (address, bytes, stream) in self.arena.take_settled() {
            sink.record(&records::Event {
                action: records::Action::FreeCompleted,
                address,
                bytes,
                stream: self.marks.name(stream).0,
                time_ns: event.time_ns,
                ..records::Event::default()
            });
        }
        sink.record(&event);
    }
}

impl Drop for Shared {
    fn drop(&mut self) {
        // A child of a fork has no device.
        if self.forks == fork::forks() {
            self.close();
        }
    }
}
