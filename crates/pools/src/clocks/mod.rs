//! Who is ordered behind whom, from what the program itself does.
//!
//! The promise: `covers` is true only if everything that a stream had queued at a free is finished, or is ordered before
//! whatever another stream queues from now on. What isn't seen or isn't certain is left out: that costs memory, never bytes.
//!
//! The idea is that of vector clocks (Fidge 1988; Mattern 1989) with streams as processes, records as sends and waits as
//! receives. Each stream counts its records: a use or free carries the count at that moment, its *component*. A record takes
//! what its stream is ordered behind, and its component, and *then* the driver is called: whatever is queued after the tick
//! has a higher component, whether or not the record really came later. A wait adds what the event carries to the waiter.
//! A synchronize or a query that says yes does the same for the host, which orders every stream.
//!
//! Events and streams whose handles come back are told apart only if their end is announced *before* the driver is called:
//! afterwards another thread may already hold the same handle.
//!
//! Cost: a record takes one lock, and copies a pointer; a wait is linear in the entries of two clocks. Components, what the
//! host has seen, and whether looking again is worth it are read without a lock. Memory: 24 bytes for each stream there ever
//! was; clocks and events are bounded, and what is beyond the bound is forgotten.

mod clock;
mod events;
#[cfg(test)]
mod model;
mod notice;
mod table;
#[cfg(test)]
mod tests;

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock};

use device::StreamId;
use hashbrown::HashMap;

use crate::sync::locked;

use self::clock::{Clock, Entry, Stamp};
use self::events::Events;
pub use self::notice::Notice;
use self::notice::What;
use self::table::Table;

/// The number of streams beyond the bound. Nothing of it is ever covered, and it is ordered behind nothing.
pub(crate) const NO_STREAM: u32 = u32::MAX;

/// What is assumed, and how much is remembered.
#[derive(Clone, Debug)]
pub(crate) struct ClockSettings {
    /// Every entry point that queues work is followed by `work_queued`: a recorded use without work since the last record
    /// counts as of that record.
    pub(crate) sees_all_work: bool,
    /// How many streams are told apart over the life of the program.
    pub(crate) most_streams: u32,
    /// How many other streams one clock knows of.
    pub(crate) most_entries: usize,
    /// How many events carry a clock at a time.
    pub(crate) most_events: usize,
}

impl Default for ClockSettings {
    fn default() -> Self {
        // 1 024 entries are 16 KiB, shared by all events that a stream records between two waits.
        Self { sees_all_work: false, most_streams: NO_STREAM, most_entries: 1_024, most_events: 65_536 }
    }
}

/// How much is remembered. All are counts at the time of the call; `dropped_*` only rise.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct ClockFigures {
    /// Streams there ever were.
    pub(crate) streams: u64,
    /// Of those, not destroyed.
    pub(crate) live_streams: u64,
    /// Entries in the clocks of live streams.
    pub(crate) entries: u64,
    /// Events that carry a clock or are being recorded.
    pub(crate) events: u64,
    /// Entries forgotten to keep within the bound.
    pub(crate) dropped_entries: u64,
    /// Events forgotten to keep within the bound.
    pub(crate) dropped_events: u64,
}

/// The clocks of one device's streams and events. Copies are the same clocks.
#[derive(Clone, Debug)]
pub(crate) struct Clocks {
    shared: Arc<Shared>,
}

#[derive(Debug)]
struct Shared {
    settings: ClockSettings,
    table: Table,
    /// Taken before `state` where both are.
    names: RwLock<HashMap<StreamId, u32>>,
    /// Rises when a name is forgotten.
    generation: AtomicU64,
    /// Rises when the host has seen more.
    sightings: AtomicU64,
    state: Mutex<State>,
}

#[derive(Debug)]
struct State {
    /// The clock of each stream that isn't destroyed.
    streams: HashMap<u32, Clock>,
    events: Events,
    dropped_entries: u64,
}

impl Shared {
    // Nothing in here panics with a lock held, and every change is whole before the next begins: a poisoned lock is as good.
    fn state(&self) -> MutexGuard<'_, State> {
        locked(&self.state)
    }

    fn seen(&self, of: u32) -> u64 {
        self.table.get(of).map_or(0, table::Row::seen)
    }

    /// Ends the stream's component and returns its clock with it. The tick comes before the driver call that follows.
    fn take(&self, state: &State, stream: u32) -> Option<Stamp> {
        let component = self.table.get(stream)?.tick();
        Some(Stamp { own: Entry { stream, component }, clock: state.streams.get(&stream).cloned().unwrap_or_default() })
    }

    fn join(&self, state: &mut State, by: u32, stamp: &Stamp) {
        let State { streams, dropped_entries, .. } = state;
        let (Some(clock), Some(row)) = (streams.get(&by), self.table.get(by)) else { return };
        let Some(mut entries) = clock.joined(by, stamp, |stream| self.seen(stream)) else { return };
        let dropped = clock::bound(&mut entries, self.settings.most_entries, stamp.own.stream, |stream| {
            streams.contains_key(&stream)
        });
        *dropped_entries += dropped as u64;
        if let Some(clock) = streams.get_mut(&by) {
            clock.replace(entries);
            row.grown();
        }
    }

    fn see(&self, entries: impl Iterator<Item = Entry>) {
        let mut is_news = false;
        for entry in entries {
            is_news |= self.table.get(entry.stream).is_some_and(|row| row.see(entry.component));
        }
        if is_news {
            // Release: pairs with the acquire in `knowledge`; what was seen was written before.
            self.sightings.fetch_add(1, Ordering::Release);
        }
    }
}

impl Clocks {
    pub(crate) fn new(settings: ClockSettings) -> Self {
        let state = State { streams: HashMap::new(), events: Events::new(settings.most_events), dropped_entries: 0 };
        Self {
            shared: Arc::new(Shared {
                settings,
                table: Table::new(),
                names: RwLock::new(HashMap::new()),
                generation: AtomicU64::new(0),
                sightings: AtomicU64::new(0),
                state: Mutex::new(state),
            }),
        }
    }

    /// The number of a stream; a new one if it isn't known. A thread may remember the answer while [`Self::generation`]
    /// stands still.
    pub(crate) fn resolve(&self, id: StreamId) -> u32 {
        let shared = &*self.shared;
        if let Some(&number) = shared.names.read().unwrap_or_else(PoisonError::into_inner).get(&id) {
            return number;
        }
        let mut names = shared.names.write().unwrap_or_else(PoisonError::into_inner);
        if let Some(&number) = names.get(&id) {
            return number;
        }
        if shared.table.count() >= shared.settings.most_streams {
            return NO_STREAM;
        }
        let number = shared.table.push();
        shared.state().streams.insert(number, Clock::default());
        names.insert(id, number);
        number
    }

    /// The number of a stream, if it is known.
    pub(crate) fn known(&self, id: StreamId) -> Option<u32> {
        self.shared.names.read().unwrap_or_else(PoisonError::into_inner).get(&id).copied()
    }

    /// Rises whenever a name is forgotten.
    pub(crate) fn generation(&self) -> u64 {
        // Acquire: pairs with the release in `stream_destroyed`.
        self.shared.generation.load(Ordering::Acquire)
    }

    /// Forgets the name of a stream: the same handle is another stream from now on. To be said before the driver is called.
    /// The number, which is returned, keeps its meaning as that of the stream that was.
    pub(crate) fn stream_destroyed(&self, id: StreamId) -> Option<u32> {
        let mut names = self.shared.names.write().unwrap_or_else(PoisonError::into_inner);
        let number = names.remove(&id)?;
        self.shared.state().streams.remove(&number);
        // Release: pairs with the acquire in `generation`.
        self.shared.generation.fetch_add(1, Ordering::Release);
        Some(number)
    }

    /// Of all streams there ever were, also those that are gone, up to which component something may not be over.
    pub(crate) fn unseen(&self) -> impl Iterator<Item = (u32, u64)> + '_ {
        let table = &self.shared.table;
        let rows = (0..table.count()).filter_map(|stream| table.get(stream).map(|row| (stream, row)));
        rows.map(|(stream, row)| (stream, row.current(), row.seen()))
            .filter(|(_, current, seen)| current > seen)
            .map(|(stream, current, _)| (stream, current))
    }

    /// The component that a use or a free happening now gets, from 1 up.
    pub(crate) fn current(&self, stream: u32) -> u64 {
        self.shared.table.get(stream).map_or(u64::MAX, table::Row::current)
    }

    /// The component that a recorded use gets at the free: the current one, or that of the last record if all work is seen
    /// and none was queued since. 0 if no work was ever queued: that is always covered.
    pub(crate) fn use_component(&self, stream: u32) -> u64 {
        match self.shared.table.get(stream) {
            None => u64::MAX,
            Some(row) if self.shared.settings.sees_all_work => row.marked_component(),
            Some(row) => row.current(),
        }
    }

    /// Work was queued on a stream. To be said after the driver call, before the program gets to know of it.
    pub(crate) fn work_queued(&self, stream: u32) {
        if let Some(row) = self.shared.table.get(stream) {
            row.mark_work();
        }
    }

    /// Whether the host has seen everything of `of` up to `component` finish.
    pub(crate) fn seen(&self, of: u32, component: u64) -> bool {
        component <= self.shared.seen(of)
    }

    /// Whether work queued on `by` from now on is ordered behind everything of `of` up to `component`. Who asks about many
    /// takes a [`view`](Self::view).
    #[cfg(test)]
    pub(crate) fn covers(&self, by: u32, of: u32, component: u64) -> bool {
        if of == NO_STREAM {
            return false;
        }
        by == of
            || self.seen(of, component)
            || self.shared.state().streams.get(&by).is_some_and(|clock| component <= clock.component(of))
    }

    /// A number that rises whenever `covers(by, ..)` may have become true for more. Read it before looking, and look again
    /// once it has risen.
    pub(crate) fn knowledge(&self, by: u32) -> u64 {
        // Acquire: pairs with the release in `see`. Both parts only rise, so that a later sum is never smaller.
        let sightings = self.shared.sightings.load(Ordering::Acquire);
        sightings + self.shared.table.get(by).map_or(0, table::Row::version)
    }

    /// What `by` is ordered behind at this moment, to ask about many uses with one lock.
    pub(crate) fn view(&self, by: u32) -> View<'_> {
        let knowledge = self.knowledge(by);
        let clock = self.shared.state().streams.get(&by).cloned().unwrap_or_default();
        View { shared: &self.shared, by, clock, knowledge }
    }

    fn notice(&self, what: What) -> Notice {
        Notice { shared: Arc::clone(&self.shared), what, frees: Vec::new() }
    }

    /// A record of `event` on `stream` is about to be made.
    pub(crate) fn begin_record(&self, event: u64, stream: u32) -> Notice {
        let mut state = self.shared.state();
        state.events.begin(event);
        let clock = self.shared.take(&state, stream);
        self.notice(What::Record { event, clock })
    }

    /// A record of `event` is about to be made whose meaning isn't known, such as one inside a capture: the event ends up
    /// without a clock.
    pub(crate) fn begin_unmodelled_record(&self, event: u64) -> Notice {
        self.shared.state().events.begin(event);
        self.notice(What::Record { event, clock: None })
    }

    /// A wait of `stream` for `event` is about to be made.
    pub(crate) fn begin_wait(&self, event: u64, stream: u32) -> Notice {
        let read = self.shared.state().events.read(event);
        self.notice(read.map_or(What::Nothing, |(version, clock)| What::Wait { event, version, clock, by: stream }))
    }

    /// The host is about to wait for `event`, or to ask whether it has happened: commit if it has.
    pub(crate) fn begin_event_synchronize(&self, event: u64) -> Notice {
        let read = self.shared.state().events.read(event);
        self.notice(read.map_or(What::Nothing, |(version, clock)| What::SeeEvent { event, version, clock }))
    }

    /// The host is about to wait for `stream`, or to ask whether it is done: commit if it is.
    pub(crate) fn begin_synchronize(&self, stream: u32) -> Notice {
        let taken = self.shared.take(&self.shared.state(), stream);
        self.notice(taken.map_or(What::Nothing, What::See))
    }

    /// The host is about to wait for the whole device.
    pub(crate) fn begin_synchronize_device(&self) -> Notice {
        let table = &self.shared.table;
        // The lock keeps streams from being destroyed meanwhile.
        let state = self.shared.state();
        let entries = (0..table.count()).filter_map(|stream| {
            let row = table.get(stream)?;
            // Nothing is queued any more on a stream that is gone: its last component needs no end.
            let component = if state.streams.contains_key(&stream) { row.tick() } else { row.current() };
            (component > row.seen()).then_some(Entry { stream, component })
        });
        let entries = entries.collect();
        self.notice(What::SeeAll(entries))
    }

    /// `by` is about to be ordered behind `of`, by a record and a wait on an event that nobody else knows.
    pub(crate) fn begin_stream_wait(&self, of: u32, by: u32) -> Notice {
        let taken = self.shared.take(&self.shared.state(), of);
        self.notice(taken.map_or(What::Nothing, |clock| What::Join { by, clock }))
    }

    /// The announced call has succeeded. A notice of other clocks counts as dropped: false.
    pub(crate) fn commit(&self, mut notice: Notice) -> bool {
        if !Arc::ptr_eq(&self.shared, &notice.shared) {
            return false;
        }
        let shared = &*self.shared;
        match std::mem::replace(&mut notice.what, What::Nothing) {
            What::Nothing => {}
            What::Record { event, clock } => shared.state().events.end(event, clock),
            What::Wait { event, version, clock, by } => {
                let mut state = shared.state();
                if state.events.stands(event, version) {
                    shared.join(&mut state, by, &clock);
                }
            }
            What::SeeEvent { event, version, clock } => {
                // What the host waited for is what was read only if the event has not changed since.
                let stands = shared.state().events.stands(event, version);
                if stands {
                    shared.see(clock.entries());
                }
            }
            What::Join { by, clock } => shared.join(&mut shared.state(), by, &clock),
            What::See(clock) => shared.see(clock.entries()),
            What::SeeAll(entries) => shared.see(entries.into_iter()),
        }
        true
    }

    /// `event` was recorded on `stream`. For this and the next four: to be said right after the driver call, with nobody
    /// recording that event or queueing on that stream in between.
    pub(crate) fn event_record(&self, event: u64, stream: u32) {
        self.commit(self.begin_record(event, stream));
    }

    /// `stream` waits for `event`.
    pub(crate) fn event_wait(&self, event: u64, stream: u32) {
        self.commit(self.begin_wait(event, stream));
    }

    /// The host has seen that `event` has happened.
    pub(crate) fn event_synchronized(&self, event: u64) {
        self.commit(self.begin_event_synchronize(event));
    }

    /// The host has seen a stream finish.
    pub(crate) fn synchronized(&self, stream: u32) {
        self.commit(self.begin_synchronize(stream));
    }

    /// The host has seen the whole device finish.
    #[cfg(test)]
    pub(crate) fn device_synchronized(&self) {
        self.commit(self.begin_synchronize_device());
    }

    /// `by` is ordered behind `of`.
    pub(crate) fn stream_wait(&self, of: u32, by: u32) {
        self.commit(self.begin_stream_wait(of, by));
    }

    /// `event` is about to be destroyed. To be said before the driver is called.
    pub(crate) fn event_emptied(&self, event: u64) {
        self.shared.state().events.empty(event);
    }

    /// How much is remembered.
    pub(crate) fn figures(&self) -> ClockFigures {
        let state = self.shared.state();
        ClockFigures {
            streams: u64::from(self.shared.table.count()),
            live_streams: state.streams.len() as u64,
            entries: state.streams.values().map(|clock| clock.entries().len() as u64).sum(),
            events: state.events.len() as u64,
            dropped_entries: state.dropped_entries,
            dropped_events: state.events.dropped(),
        }
    }

    /// Names the invariant that doesn't hold.
    pub(crate) fn check(&self) -> Result<(), &'static str> {
        let names = self.shared.names.read().unwrap_or_else(PoisonError::into_inner);
        let state = self.shared.state();
        let mut named: Vec<u32> = names.values().copied().collect();
        named.sort_unstable();
        if named.windows(2).any(|pair| pair[0] == pair[1]) {
            return Err("no two streams share a number");
        }
        if named.len() != state.streams.len() || !named.iter().all(|number| state.streams.contains_key(number)) {
            return Err("a stream has a clock exactly as long as it has a name");
        }
        let ended =
            |entry: &Entry| self.shared.table.get(entry.stream).is_some_and(|row| entry.component < row.current());
        for (stream, clock) in &state.streams {
            let entries = clock.entries();
            if !entries.is_sorted_by(|a, b| a.stream < b.stream) {
                return Err("a clock has one entry a stream, by rising number");
            }
            if entries.iter().any(|entry| entry.stream == *stream) {
                return Err("a stream's clock leaves out the stream itself");
            }
            if entries.len() > self.shared.settings.most_entries.max(1) {
                return Err("a clock keeps within its bound");
            }
            if !entries.iter().all(ended) {
                return Err("a clock holds only components that a record has ended");
            }
        }
        if !state.events.clocks().flat_map(Stamp::entries).all(|entry| ended(&entry)) {
            return Err("an event carries only components that a record has ended");
        }
        state.events.check()
    }
}

/// What a stream was ordered behind when it was asked; what the host has seen is read anew each time.
#[derive(Clone, Debug)]
pub(crate) struct View<'a> {
    shared: &'a Shared,
    by: u32,
    clock: Clock,
    knowledge: u64,
}

impl View<'_> {
    /// Whether work queued on the stream from now on is ordered behind everything of `of` up to `component`.
    pub(crate) fn covers(&self, of: u32, component: u64) -> bool {
        of != NO_STREAM && (self.by == of || component <= self.shared.seen(of) || component <= self.clock.component(of))
    }

    /// [`Clocks::knowledge`] as it was before the clock was read: look again once it has risen.
    pub(crate) fn knowledge(&self) -> u64 {
        self.knowledge
    }
}
