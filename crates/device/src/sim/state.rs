//! What the simulated device knows, and what its calls do to it.

use super::locked::Locked;
use super::options::{ContractMode, OrderCheck, PlainFree, SimOptions};
use super::plain::Plain;
use super::pool::Pool;
use super::streams::{Entry, Mark, Standard, Streams};
use super::touched::Touched;
use crate::books::Refusal;
use crate::books::VirtualSpace;
use crate::violation::{Later, Use};
use crate::{
    AddressRange, Attempt, CallCounts, DevicePtr, DriverCall, Error, EventId, MemoryState, Place, Sequence, StreamId,
    Timeline, Violation,
};

/// How many violations are kept with all they say.
const KEPT_VIOLATIONS: usize = 16;

/// What was counted on a simulated device. `host_waits` and the makespan only grow.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct SimStats {
    /// Bytes taken from the device now: plain memory, handles (mapped or not) and the driver's pool.
    pub in_use_bytes: u64,
    /// The most that `in_use_bytes` has been, since the start or the last `reset_peak`.
    pub peak_bytes: u64,
    /// Bytes of plain memory in use, rounded to the granule.
    pub plain_bytes: u64,
    /// Bytes of handles in use.
    pub handle_bytes: u64,
    /// Bytes that the driver's pool has reserved.
    pub pool_bytes: u64,
    /// Calls by which the host waited for work that wasn't finished: synchronize calls and the driver's pool when it is
    /// out of memory.
    pub host_waits: u64,
    /// Frees of plain memory that waited for unfinished work, or would have on a real device.
    pub device_stalls: u64,
    /// Times that memory was taken from work that may still use it.
    pub violations: u64,
    /// The host's clock by the duration model.
    pub host_ns: u64,
    /// When host and all streams are done by the duration model.
    pub makespan_ns: u64,
}

#[derive(Debug)]
pub(super) struct State {
    pub(super) options: SimOptions,
    pub(super) counts: CallCounts,
    poison: Option<Error>,
    pub(super) timeline: Timeline,
    pub(super) streams: Streams,
    plain: Plain,
    pub(super) virt: VirtualSpace<()>,
    pub(super) pool: Pool,
    pub(super) locked: Locked,
    touched: Touched,
    pub(super) peak_bytes: u64,
    host_waits: u64,
    device_stalls: u64,
    violations: u64,
    kept: Vec<Violation>,
}

pub(super) fn no_event() -> Refusal {
    Refusal::Id("there is no such event")
}

impl State {
    pub(super) fn new(options: SimOptions) -> State {
        State {
            counts: CallCounts::default(),
            poison: None,
            timeline: Timeline::new(options.timeline),
            streams: Streams::new(options.waits_finish),
            plain: Plain::new(options.plain_granule_bytes),
            virt: VirtualSpace::new(options.page_bytes.unwrap_or(1)),
            pool: Pool::new(),
            locked: Locked::new(options.page_locked_limit_bytes),
            touched: Touched::default(),
            peak_bytes: 0,
            host_waits: 0,
            device_stalls: 0,
            violations: 0,
            kept: Vec::new(),
            options,
        }
    }

    // -- the frame of every call

    /// A driver call with this many handles and bytes in it.
    pub(super) fn call<T>(
        &mut self,
        attempt: Attempt,
        handles: u64,
        bytes: u64,
        body: impl FnOnce(&mut State) -> Result<T, Refusal>,
    ) -> Result<T, Error> {
        self.call_batch(|_| attempt, handles, bytes, body)
    }

    /// A driver call; `attempt` says what its entry number `index` is.
    pub(super) fn call_batch<T>(
        &mut self,
        attempt: impl Fn(usize) -> Attempt,
        handles: u64,
        bytes: u64,
        body: impl FnOnce(&mut State) -> Result<T, Refusal>,
    ) -> Result<T, Error> {
        if let Some(poison) = &self.poison {
            return Err(poison.clone());
        }
        let Some(call) = attempt(0).call() else { return self.guard(&attempt, body) };
        let price = self.options.costs.price(call);
        if let Some(fault) = self.options.faults.next(call) {
            let MemoryState { free_bytes, total_bytes } = self.memory();
            let error = fault.error(attempt(0), free_bytes, total_bytes);
            self.refuse(call, price.of(0, 0), &error);
            return Err(error);
        }
        match self.guard(&attempt, body) {
            Ok(value) => {
                let ns = price.of(handles, bytes);
                if price.stalls_device {
                    self.timeline.host_wait_all();
                }
                self.timeline.host_busy(ns);
                self.counts.add(call, handles, bytes, ns);
                Ok(value)
            }
            Err(error) => {
                self.refuse(call, price.of(0, 0), &error);
                Err(error)
            }
        }
    }

    /// Runs what may be refused; loses the device if the refusal says so.
    pub(super) fn guard<T>(
        &mut self,
        attempt: &dyn Fn(usize) -> Attempt,
        body: impl FnOnce(&mut State) -> Result<T, Refusal>,
    ) -> Result<T, Error> {
        if let Some(poison) = &self.poison {
            return Err(poison.clone());
        }
        body(self).map_err(|refusal| {
            let MemoryState { free_bytes, total_bytes } = self.memory();
            let error = refusal.into_error(attempt, 0, free_bytes, total_bytes);
            self.poison_if_sticky(&error);
            error
        })
    }

    fn refuse(&mut self, call: DriverCall, ns: u64, error: &Error) {
        self.timeline.host_busy(ns);
        self.counts.add_failed(call, ns);
        self.poison_if_sticky(error);
    }

    fn poison_if_sticky(&mut self, error: &Error) {
        if error.is_sticky() {
            self.poison = Some(error.clone());
        }
    }

    // -- memory

    fn in_use(&self) -> u64 {
        self.plain.bytes() + self.virt.bytes() + self.pool.state().reserved_bytes
    }

    pub(super) fn memory(&self) -> MemoryState {
        let total_bytes = self.options.capacity_bytes;
        MemoryState { free_bytes: total_bytes - self.in_use(), total_bytes }
    }

    pub(super) fn check_room(&self, bytes: u64) -> Result<(), Refusal> {
        if bytes <= self.memory().free_bytes { Ok(()) } else { Err(Refusal::NoRoom) }
    }

    pub(super) fn raise_peak(&mut self) {
        self.peak_bytes = self.peak_bytes.max(self.in_use());
    }

    pub(super) fn alloc(&mut self, bytes: u64) -> Result<DevicePtr, Refusal> {
        let rounded = self.plain.rounded(bytes)?;
        self.check_room(rounded)?;
        let ptr = self.plain.alloc(rounded)?;
        self.raise_peak();
        Ok(ptr)
    }

    pub(super) fn free(&mut self, ptr: DevicePtr) -> Result<(), Refusal> {
        let range = self.plain.find(ptr)?;
        match self.options.plain_free {
            PlainFree::Waits => {
                self.device_stalls += u64::from(!self.streams.all_finished());
                self.observe_all();
            }
            PlainFree::Ignores => self.device_stalls += u64::from(!self.streams.all_finished()),
            PlainFree::Refuses => self.check_over(range, Later::Free(range))?,
        }
        self.plain.free(range);
        self.touched.forget(range);
        Ok(())
    }

    pub(super) fn unmap(&mut self, ranges: &[AddressRange]) -> Result<(), Refusal> {
        self.virt.check_unmap(ranges)?;
        for (index, &range) in ranges.iter().enumerate() {
            self.check_over(range, Later::Unmap(range)).map_err(|refusal| refusal.at(index))?;
        }
        self.virt.unmap(ranges);
        for &range in ranges {
            self.touched.forget(range);
        }
        Ok(())
    }

    // -- the driver's pool

    pub(super) fn pool_alloc(&mut self, bytes: u64, place: u32) -> Result<DevicePtr, Refusal> {
        let rounded = Pool::rounded(bytes)?;
        let range = match self.pool.take(rounded, place, &self.streams) {
            Some(range) => range,
            None => {
                self.pool_make_room(rounded, place)?;
                self.pool.take(rounded, place, &self.streams).ok_or(Refusal::NoRoom)?
            }
        };
        // The driver answers for the order behind the frees before; each free answered for the uses before it.
        self.touched.forget(range);
        Ok(range.start)
    }

    /// Sees to it that the pool has a block for this stream.
    fn pool_make_room(&mut self, rounded: u64, place: u32) -> Result<(), Refusal> {
        if self.pool_grow(rounded)? {
            return Ok(());
        }
        if rounded > self.options.capacity_bytes {
            return Err(Refusal::NoRoom);
        }
        // Out of memory: the driver waits for what is pending, joins it and gives whole segments back.
        self.count_device_wait();
        self.observe_all();
        if self.pool.has(rounded, place, &self.streams) {
            return Ok(());
        }
        self.pool_trim(0);
        if self.pool_grow(rounded)? { Ok(()) } else { Err(Refusal::NoRoom) }
    }

    pub(super) fn pool_free(&mut self, ptr: DevicePtr, stream: StreamId) -> Result<(), Refusal> {
        let place = self.place(stream)?;
        let range = self.pool.find(ptr)?;
        self.check_before(range, place, Later::PoolFree { range, stream })?;
        let entry = self.streams.issue(place);
        self.pool.free(range, entry);
        Ok(())
    }

    fn pool_grow(&mut self, rounded: u64) -> Result<bool, Refusal> {
        for just_enough in [false, true] {
            let bytes = Pool::segment_bytes(rounded, just_enough).ok_or(Refusal::NoRoom)?;
            if self.check_room(bytes).is_ok() {
                self.pool.grow(bytes)?;
                self.raise_peak();
                return Ok(true);
            }
        }
        Ok(false)
    }

    pub(super) fn pool_trim(&mut self, keep_bytes: u64) {
        for range in self.pool.trim(keep_bytes, &self.streams) {
            self.touched.forget(range);
        }
    }

    // -- streams and events

    pub(super) fn place(&self, stream: StreamId) -> Result<u32, Refusal> {
        self.streams.place(stream.0).ok_or(Refusal::Id("there is no such stream"))
    }

    pub(super) fn last(&self, stream: StreamId) -> Result<Entry, Refusal> {
        Ok(self.streams.last(self.place(stream)?))
    }

    pub(super) fn mark(&self, event: EventId) -> Result<Option<Mark>, Refusal> {
        self.streams.mark(event.0).map(|mark| mark.cloned()).ok_or_else(no_event)
    }

    pub(super) fn count_host_wait(&mut self, entry: Entry) {
        self.host_waits += u64::from(!self.streams.is_finished(entry));
    }

    pub(super) fn count_device_wait(&mut self) {
        self.host_waits += u64::from(!self.streams.all_finished());
    }

    /// A stream finishes up to `entry`, and the host sees it.
    pub(super) fn observe(&mut self, entry: Entry) {
        self.streams.finish(entry);
        self.streams.see_stream(entry);
        self.timeline.host_wait(self.timeline.stream_ns(entry.place as usize));
    }

    /// Everything finishes, and the host sees it.
    pub(super) fn observe_all(&mut self) {
        self.streams.finish_all();
        self.streams.see_all();
        self.timeline.host_wait_all();
    }

    // -- work and the memory it uses

    pub(super) fn copy(&mut self, to: Place, from: Place, bytes: u64, place: u32) -> Result<(), Refusal> {
        let mut touches = [None; 2];
        for (touch, end) in touches.iter_mut().zip([to, from]) {
            let held = match end {
                Place::Host(ptr) => self.locked.holds(ptr, bytes),
                Place::Device(ptr) => {
                    let range = AddressRange::new(ptr, bytes);
                    *touch = Some(range);
                    ptr.checked_add(bytes).is_some() && self.first_without_memory(range).is_none()
                }
            };
            if !held {
                return Err(Refusal::value(format!(
                    "{end} is not followed by {bytes} bytes of memory that may be accessed"
                )));
            }
        }
        if let [Some(to), Some(from)] = touches
            && to.overlaps(&from)
        {
            return Err(Refusal::value("the two places overlap"));
        }
        let entry = self.streams.issue(place);
        self.timeline.work(place as usize, bytes);
        if self.options.check_order != OrderCheck::Off {
            for range in touches.into_iter().flatten() {
                self.touched.again(range, entry);
            }
        }
        Ok(())
    }

    /// The next entry of the stream, which works on these ranges; `true` marks one that begins as a new block.
    pub(super) fn launch(
        &mut self,
        place: u32,
        touches: impl Iterator<Item = (AddressRange, bool)> + Clone,
    ) -> Result<Entry, Refusal> {
        let next = Entry { place, sequence: self.streams.last(place).sequence + 1 };
        let watch = self.options.check_order != OrderCheck::Off;
        if watch {
            for (range, begins) in touches.clone() {
                if let Some(at) = self.first_without_memory(range) {
                    let used = self.describe(next, range);
                    self.violate(Violation::NoMemory { used, at })?;
                }
                if begins {
                    self.check_before(range, place, Later::Reuse(self.describe(next, range)))?;
                }
            }
        }
        let entry = self.streams.issue(place);
        let mut bytes = 0u64;
        for (range, begins) in touches {
            bytes = bytes.saturating_add(range.bytes);
            match (watch, begins) {
                (false, _) => {}
                (true, true) => self.touched.begin(range, entry),
                (true, false) => self.touched.again(range, entry),
            }
        }
        self.timeline.work(place as usize, bytes);
        Ok(entry)
    }

    /// The next entry of the stream, which has used these ranges as parts of what they belong to.
    pub(super) fn use_until_now(&mut self, place: u32, ranges: &[AddressRange]) -> Entry {
        let entry = self.streams.issue(place);
        if self.options.check_order != OrderCheck::Off {
            for range in ranges {
                self.touched.again(*range, entry);
            }
        }
        entry
    }

    /// The first address of the range without memory that may be accessed.
    fn first_without_memory(&self, range: AddressRange) -> Option<u64> {
        if range.bytes == 0 || self.plain.holds(range) || self.pool.holds(range) {
            return None;
        }
        self.virt.first_inaccessible(range)
    }

    fn describe(&self, entry: Entry, range: AddressRange) -> Use {
        Use { stream: StreamId(self.streams.id(entry.place)), sequence: Sequence(entry.sequence), range }
    }

    fn standard(&self) -> Option<Standard> {
        match self.options.check_order {
            OrderCheck::Off => None,
            OrderCheck::Finished => Some(Standard::Finished),
            OrderCheck::Seen => Some(Standard::Seen),
        }
    }

    /// All uses of the range, at any address of its memory, lie before whatever is queued on `place` next.
    fn check_before(&mut self, range: AddressRange, place: u32, later: Later) -> Result<(), Refusal> {
        let Some(standard) = self.standard() else { return Ok(()) };
        let is_before = |entry| self.streams.is_before(entry, place, standard);
        let mut found = self.find_use(range, &is_before);
        if found.is_none() {
            found = self.virt.aliases(range).into_iter().find_map(|alias| self.find_use(alias, &is_before));
        }
        self.settle(found, Some(place), later)
    }

    /// All uses of these addresses lie before whatever the host does next.
    fn check_over(&mut self, range: AddressRange, later: Later) -> Result<(), Refusal> {
        let Some(standard) = self.standard() else { return Ok(()) };
        let found = self.find_use(range, &|entry| self.streams.is_over(entry, standard));
        self.settle(found, None, later)
    }

    /// Reports the use that was found, if any. `place` is the stream of the later use.
    fn settle(
        &mut self,
        found: Option<(AddressRange, Entry)>,
        place: Option<u32>,
        later: Later,
    ) -> Result<(), Refusal> {
        let Some((where_used, entry)) = found else { return Ok(()) };
        let violation = Violation::Unordered {
            earlier: self.describe(entry, where_used),
            finished: Sequence(self.streams.finished(entry.place)),
            seen: Sequence(self.streams.seen(entry.place)),
            waits_for: place.map(|place| Sequence(self.streams.waits_for(place, entry.place))),
            later,
        };
        self.violate(violation)
    }

    /// The first use of the range that isn't settled.
    fn find_use(&self, range: AddressRange, is_settled: &dyn Fn(Entry) -> bool) -> Option<(AddressRange, Entry)> {
        if range.bytes == 0 {
            return None;
        }
        let unsettled = |(used, entries): (AddressRange, &[Entry])| {
            entries.iter().find(|entry| !is_settled(**entry)).map(|entry| (used, *entry))
        };
        match self.touched.covering(range) {
            Some(only) => unsettled(only),
            None => self.touched.overlapping(range).find_map(unsettled),
        }
    }

    fn violate(&mut self, violation: Violation) -> Result<(), Refusal> {
        self.violations += 1;
        if self.kept.len() < KEPT_VIOLATIONS {
            self.kept.push(violation.clone());
        }
        match self.options.contract {
            ContractMode::Count => Ok(()),
            ContractMode::Abort => Err(Refusal::Contract(Box::new(violation))),
        }
    }

    // -- what was counted

    pub(super) fn stats(&self) -> SimStats {
        SimStats {
            in_use_bytes: self.in_use(),
            peak_bytes: self.peak_bytes,
            plain_bytes: self.plain.bytes(),
            handle_bytes: self.virt.bytes(),
            pool_bytes: self.pool.state().reserved_bytes,
            host_waits: self.host_waits,
            device_stalls: self.device_stalls,
            violations: self.violations,
            host_ns: self.timeline.host_ns(),
            makespan_ns: self.timeline.makespan_ns(),
        }
    }

    pub(super) fn reset_peak(&mut self) {
        self.peak_bytes = self.in_use();
    }

    pub(super) fn kept_violations(&self) -> Vec<Violation> {
        self.kept.clone()
    }

    /// Names the invariant that doesn't hold.
    pub(super) fn check(&self) -> Result<(), String> {
        self.streams.check()?;
        self.plain.check()?;
        self.virt.check()?;
        self.pool.check()?;
        self.locked.check()?;
        self.touched.check()?;
        if self.in_use() > self.options.capacity_bytes || self.in_use() > self.peak_bytes {
            return Err(format!(
                "{} bytes in use, {} at the peak, {} there are",
                self.in_use(),
                self.peak_bytes,
                self.options.capacity_bytes
            ));
        }
        Ok(())
    }
}
