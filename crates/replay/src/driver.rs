//! Runs a program on a policy, row by row.

use std::collections::VecDeque;
use std::sync::Arc;

use device::{
    AddressRange, CallCounts, Device, DevicePtr, HandleId, OrderCheck, SimDevice, SimOptions, StreamId, Touch,
};
use hashbrown::HashMap;
use records::{Action, DeviceHistory, Event, History, MemoryMap};
use smallvec::SmallVec;

use crate::caching::Caching;
use crate::fit::{Choice, Fit};
use crate::gpumem::Gpumem;
use crate::policy::{Effects, Handle};
use crate::program::{Ask, Instruction, Slot, StreamIndex};
use crate::rounding::GRANULE;
use crate::{Error, FailedRequest, Figures, LogEntry, Observer, Outcome, Policy, Program, Reading, Result, Settings};

/// Capacity where none is set: more than any policy wastes on any trace, and what the simulated device can hold.
pub(crate) const UNLIMITED_BYTES: u64 = 1 << 45;
/// Rows between two calls of [`Observer::rows_done`].
const PROGRESS_ROWS: u64 = 4096;

/// Runs a trace on a policy.
///
/// # Errors
/// See [`Error`]. A request that can't be served is an outcome, not an error.
pub fn replay(program: &Program<'_>, settings: &Settings) -> Result<Outcome> {
    replay_observed(program, settings, &mut ())
}

/// The same, telling an observer what happens.
///
/// # Errors
/// As [`replay`], and what the observer says.
pub fn replay_observed(program: &Program<'_>, settings: &Settings, observer: &mut dyn Observer) -> Result<Outcome> {
    Driver::new(program, settings)?.run(observer)
}

/// What is counted while rows are run.
#[derive(Clone, Debug, Default)]
struct Counters {
    allocs: u64,
    frees: u64,
    reserved: u64,
    highest_fragmentation: f64,
    stream_waits: u64,
    live: u64,
}

/// Where a pass began.
#[derive(Clone, Debug, Default)]
struct Mark {
    calls: CallCounts,
    host_waits: u64,
    stream_waits: u64,
    allocs: u64,
    frees: u64,
    makespan_ns: u64,
}

/// A block that the policy handed out, and to whom.
#[derive(Clone, Copy, Debug)]
struct Held {
    handle: Handle,
    address: u64,
    bytes: u64,
    /// The stream that asked, as the trace numbers it.
    home: i64,
    stream: StreamId,
}

struct Driver<'a> {
    program: &'a Program<'a>,
    settings: &'a Settings,
    device: Arc<SimDevice>,
    policy: Box<dyn crate::policy::Policy>,
    streams: Vec<StreamId>,
    /// What the trace calls each of them.
    names: HashMap<StreamId, i64>,
    /// What each slot holds. Requests of no bytes get no block.
    blocks: Vec<Option<Held>>,
    /// Which other streams use it. Kept where uses last until the free.
    users: Vec<SmallVec<[StreamId; 2]>>,
    uses_last: bool,
    counters: Counters,
    /// Present where somebody wants to know about holes or to keep the history.
    map: Option<MemoryMap>,
    history: DeviceHistory,
    /// Ends of the last steps: what each stream had queued. For traces without syncs.
    step_ends: VecDeque<Vec<device::Sequence>>,
    /// Numbers for handles in the log.
    handle_numbers: HashMap<HandleKey, u64>,
    next_handle: u64,
}

/// What has a number in the log: a handle, or a plain segment by its address.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum HandleKey {
    Handle(HandleId),
    Segment(u64),
}

impl<'a> Driver<'a> {
    fn new(program: &'a Program<'a>, settings: &'a Settings) -> Result<Self> {
        check_settings(settings)?;
        let device = open_device(program, settings)?;
        let policy: Box<dyn crate::policy::Policy> = match settings.policy {
            Policy::Gpumem => Box::new(Gpumem::new(&device, settings)?),
            Policy::FirstFit => Box::new(Fit::new(Choice::First)),
            Policy::BestFit => Box::new(Fit::new(Choice::Best)),
            Policy::Caching | Policy::CachingExpandable => {
                let is_expandable = settings.policy == Policy::CachingExpandable;
                Box::new(Caching::new(crate::CachingSettings { is_expandable, ..settings.caching }))
            }
        };
        Self::with_policy(program, settings, device, policy)
    }

    fn with_policy(
        program: &'a Program<'a>,
        settings: &'a Settings,
        device: Arc<SimDevice>,
        policy: Box<dyn crate::policy::Policy>,
    ) -> Result<Self> {
        let refused = |source| Error::Device { row: 0, source };
        let streams: Vec<StreamId> =
            program.streams.iter().map(|_| device.create_stream()).collect::<device::Result<_>>().map_err(refused)?;
        let history = DeviceHistory {
            device: program.device,
            capacity_bytes: settings.capacity_bytes,
            granule_bytes: GRANULE,
            ..DeviceHistory::default()
        };
        let map = (settings.keeps_history || settings.measures_fragmentation).then(|| MemoryMap::new(&history));
        Ok(Self {
            program,
            settings,
            device,
            policy,
            names: streams.iter().copied().zip(program.streams.iter().copied()).collect(),
            streams,
            blocks: vec![None; program.slots],
            users: vec![SmallVec::new(); program.slots],
            uses_last: settings.policy == Policy::Gpumem && settings.gpumem.reading == Reading::Blind,
            counters: Counters::default(),
            map,
            history,
            step_ends: VecDeque::new(),
            handle_numbers: HashMap::new(),
            next_handle: 0,
        })
    }

    fn run(mut self, observer: &mut dyn Observer) -> Result<Outcome> {
        let passes = self.settings.passes.max(1);
        let (program, models_time) = (self.program, self.settings.models_time);
        let unlimited_ns = |end: u64| match models_time {
            true => program.unlimited_makespan_ns(device::TimelineOptions::default(), end),
            false => 0,
        };
        let whole_ns = unlimited_ns(u64::MAX);
        let start = self.mark();
        let (mut peak_reserved_bytes, mut highest, mut all_ns) = (0, 0.0_f64, 0_u64);
        let mut last = Figures::default();
        let mut failed = None;
        for pass in 0..passes {
            let mark = if pass == 0 { start.clone() } else { self.begin_pass()? };
            failed = self.pass(pass, observer)?;
            // What was not run is not compared.
            let pass_ns = failed.map_or(whole_ns, |failed| unlimited_ns(failed.row));
            last = self.figures(&mark, pass_ns);
            peak_reserved_bytes = peak_reserved_bytes.max(last.peak_reserved_bytes);
            highest = highest.max(last.fragmentation_percent.highest);
            all_ns = all_ns.saturating_add(pass_ns);
            if failed.is_some() {
                break;
            }
        }
        let mut all = self.figures(&start, all_ns);
        all.peak_reserved_bytes = peak_reserved_bytes;
        all.fragmentation_percent.highest = highest;
        let steady = (passes > 1 && failed.is_none()).then_some(last);
        let history = self.settings.keeps_history.then(|| self.into_history());
        Ok(Outcome { failed, all, steady, history })
    }

    fn mark(&self) -> Mark {
        Mark {
            calls: self.device.counts(),
            host_waits: self.device.stats().host_waits,
            stream_waits: self.counters.stream_waits,
            allocs: self.counters.allocs,
            frees: self.counters.frees,
            makespan_ns: self.device.stats().makespan_ns,
        }
    }

    fn figures(&self, since: &Mark, unlimited_makespan_ns: u64) -> Figures {
        let has_times = self.settings.models_time;
        Figures {
            allocs: self.counters.allocs - since.allocs,
            frees: self.counters.frees - since.frees,
            peak_live_bytes: self.program.peaks.live,
            peak_live_rounded_bytes: self.program.peaks.rounded,
            peak_live_plus_held_bytes: self.program.peaks.live_plus_held,
            peak_reserved_bytes: self.device.stats().peak_bytes,
            fragmentation_percent: crate::FragmentationFigures {
                end: self.map.as_ref().map_or(0.0, MemoryMap::fragmentation_percent),
                highest: self.counters.highest_fragmentation,
            },
            driver_calls: self.device.counts().since(&since.calls),
            host_waits: self.device.stats().host_waits - since.host_waits,
            stream_waits: self.counters.stream_waits - since.stream_waits,
            makespan_ns: if has_times { self.device.stats().makespan_ns - since.makespan_ns } else { 0 },
            unlimited_makespan_ns: if has_times { unlimited_makespan_ns } else { 0 },
        }
    }

    /// Gives back what the pass before left live, lets the device finish, and starts the peaks anew.
    fn begin_pass(&mut self) -> Result<Mark> {
        let row = self.program.trace.rows.len() as u64;
        let mut effects = Effects::default();
        for &slot in &self.program.left_live {
            self.free(row, slot, &mut effects)?;
        }
        self.device.observe_all();
        self.policy.synchronized(None).map_err(|source| Error::Device { row, source })?;
        self.step_ends.clear();
        self.device.reset_peak();
        self.counters.highest_fragmentation = 0.0;
        if self.settings.keeps_history
            && let Some(map) = &self.map
        {
            self.history.start = map.segments().collect();
            self.history.events.clear();
        }
        Ok(self.mark())
    }

    fn pass(&mut self, pass: u32, observer: &mut dyn Observer) -> Result<Option<FailedRequest>> {
        let mut effects = Effects::default();
        let done_before = u64::from(pass) * self.program.instructions.len() as u64;
        for (index, instruction) in (0u64..).zip(&self.program.instructions) {
            if index % PROGRESS_ROWS == 0 {
                observer.rows_done(done_before + index);
            }
            let failed = self.step(pass, *instruction, &mut effects, observer)?;
            if failed.is_some() {
                return Ok(failed);
            }
        }
        observer.rows_done(done_before + self.program.instructions.len() as u64);
        self.check_policy(self.program.trace.rows.len() as u64)?;
        Ok(None)
    }

    fn check_policy(&self, row: u64) -> Result<()> {
        match self.settings.checks_policy {
            true => self.policy.check().map_err(|source| Error::Device { row, source }),
            false => Ok(()),
        }
    }

    fn step(
        &mut self,
        pass: u32,
        instruction: Instruction,
        effects: &mut Effects,
        observer: &mut dyn Observer,
    ) -> Result<Option<FailedRequest>> {
        let row = u64::from(instruction.row);
        let refused = |source| Error::Device { row, source };
        self.device.host_row();
        match instruction.ask {
            Ask::Alloc { slot, bytes, stream } => {
                return self.alloc(pass, row, (slot, bytes, stream), effects, observer);
            }
            Ask::Free { slot } => {
                self.counters.frees += 1;
                self.free(row, slot, effects)?;
            }
            Ask::Use { slot, bytes, stream } => {
                if let Some(Held { handle, address, .. }) = self.blocks[slot.0 as usize] {
                    let id = self.streams[stream.0 as usize];
                    self.policy.record_use(handle, id).map_err(refused)?;
                    self.device.launch(id, &[Touch::again(DevicePtr(address), bytes)]).map_err(refused)?;
                    self.policy.work_queued(id).map_err(refused)?;
                    let users = &mut self.users[slot.0 as usize];
                    if self.uses_last && !users.contains(&id) {
                        users.push(id);
                    }
                }
            }
            Ask::Wait { of, by } => {
                let (of, by) = (self.streams[of.0 as usize], self.streams[by.0 as usize]);
                self.device.order(of, by).map_err(refused)?;
                self.policy.ordered(of, by).map_err(refused)?;
            }
            Ask::Work { stream } => self.policy.work_queued(self.streams[stream.0 as usize]).map_err(refused)?,
            Ask::Sync { stream } => {
                match stream {
                    Some(stream) => self.device.observe(self.streams[stream.0 as usize]).map_err(refused)?,
                    None => self.device.observe_all(),
                }
                let stream = stream.map(|stream| self.streams[stream.0 as usize]);
                self.policy.synchronized(stream).map_err(refused)?;
            }
            Ask::Step => {
                self.end_step(row).map_err(refused)?;
                self.policy.step_ended(effects).map_err(refused)?;
                self.settle(row, effects, observer)?;
                self.measure_holes();
                self.check_policy(row)?;
            }
        }
        Ok(None)
    }

    fn alloc(
        &mut self,
        pass: u32,
        row: u64,
        (slot, bytes, stream): (Slot, u64, StreamIndex),
        effects: &mut Effects,
        observer: &mut dyn Observer,
    ) -> Result<Option<FailedRequest>> {
        let refused = |source| Error::Device { row, source };
        let home = self.program.streams[stream.0 as usize];
        let id = self.streams[stream.0 as usize];
        if bytes == 0 {
            self.counters.allocs += 1;
            return Ok(None);
        }
        let placement = self.policy.alloc(&*self.device, bytes, id, effects);
        let trace_row = self.program.trace.rows[row as usize];
        match placement {
            Ok(placement) => {
                let waits: Vec<i64> = effects.waits.iter().map(|stream| self.name_of(*stream)).collect();
                self.settle(row, effects, observer)?;
                self.counters.allocs += 1;
                self.counters.stream_waits += waits.len() as u64;
                self.counters.live += bytes;
                self.blocks[slot.0 as usize] =
                    Some(Held { handle: placement.handle, address: placement.address, bytes, home, stream: id });
                self.record(Event {
                    action: Action::Alloc,
                    address: placement.address,
                    bytes,
                    stream: home as u64,
                    time_ns: trace_row.time_ns,
                    stack: trace_row.stack,
                    tag: trace_row.tag,
                });
                self.measure_holes();
                let touch = Touch::begin(DevicePtr(placement.address), bytes);
                self.device.launch(id, &[touch]).map_err(refused)?;
                self.policy.work_queued(id).map_err(refused)?;
                if observer.wants_entries() {
                    let address = placement.address;
                    let entry = LogEntry::Alloc { row, id: trace_row.id, address, bytes, stream: home, waits: &waits };
                    observer.entry(&entry).map_err(|what| Error::Log { what })?;
                }
                Ok(None)
            }
            Err(error) if error.is_out_of_memory() => {
                self.settle(row, effects, observer)?;
                let free =
                    self.settings.capacity_bytes.unwrap_or(UNLIMITED_BYTES).saturating_sub(self.counters.reserved);
                self.record(Event {
                    action: Action::OutOfMemory,
                    address: free,
                    bytes,
                    stream: home as u64,
                    time_ns: trace_row.time_ns,
                    stack: trace_row.stack,
                    tag: trace_row.tag,
                });
                Ok(Some(FailedRequest {
                    row,
                    pass,
                    id: trace_row.id,
                    bytes,
                    stream: home,
                    live_bytes: self.counters.live,
                    reserved_bytes: self.counters.reserved,
                    largest_free_bytes: self.map.as_ref().map_or(0, MemoryMap::largest_free),
                }))
            }
            Err(error) => Err(refused(error)),
        }
    }

    fn free(&mut self, row: u64, slot: Slot, effects: &mut Effects) -> Result<()> {
        let Some(Held { handle, address, bytes, home, stream }) = self.blocks[slot.0 as usize].take() else {
            return Ok(());
        };
        self.counters.live -= bytes;
        let refused = |source| Error::Device { row, source };
        if self.uses_last {
            let users = std::mem::take(&mut self.users[slot.0 as usize]);
            let range = [AddressRange::new(DevicePtr(address), bytes)];
            for user in users.into_iter().filter(|user| *user != stream).chain([stream]) {
                self.device.use_until_now(user, &range).map_err(refused)?;
            }
        }
        let trace_row = self.program.trace.rows.get(row as usize).copied().unwrap_or_default();
        self.record(Event {
            action: Action::FreeRequested,
            address,
            bytes,
            stream: home as u64,
            time_ns: trace_row.time_ns,
            stack: trace_row.stack,
            tag: trace_row.tag,
        });
        self.policy.free(&*self.device, handle, effects).map_err(refused)?;
        self.settle(row, effects, &mut ())?;
        self.measure_holes();
        Ok(())
    }

    fn end_step(&mut self, row: u64) -> device::Result<()> {
        let trace_row = self.program.trace.rows[row as usize];
        self.record(Event {
            action: Action::Step,
            address: trace_row.id,
            time_ns: trace_row.time_ns,
            tag: trace_row.tag,
            ..Event::default()
        });
        if self.program.has_syncs {
            return Ok(());
        }
        let ends = self.streams.iter().map(|stream| self.device.issued(*stream)).collect::<device::Result<_>>()?;
        self.step_ends.push_back(ends);
        if self.step_ends.len() as u64 > u64::from(self.settings.lag_steps)
            && let Some(ends) = self.step_ends.pop_front()
        {
            for (stream, end) in self.streams.iter().zip(ends) {
                self.device.finish_up_to(*stream, end)?;
            }
        }
        Ok(())
    }

    /// Takes account of what a policy did besides answering.
    fn settle(&mut self, row: u64, effects: &mut Effects, observer: &mut dyn Observer) -> Result<()> {
        let time_ns = self.program.trace.rows.get(row as usize).map_or(0, |row| row.time_ns);
        for event in &effects.events {
            match event.action {
                Action::SegmentAlloc | Action::SegmentMap => self.counters.reserved += event.bytes,
                Action::SegmentFree | Action::SegmentUnmap => self.counters.reserved -= event.bytes,
                _ => {}
            }
            let stream = self.name_of(StreamId(event.stream)) as u64;
            self.record(Event { stream, time_ns, ..*event });
        }
        if observer.wants_entries() {
            for moved in &effects.moves {
                let key = moved.handle.map_or(HandleKey::Segment(moved.address), HandleKey::Handle);
                let (address, bytes) = (moved.address, moved.bytes);
                let entry = if moved.is_map {
                    self.next_handle += 1;
                    self.handle_numbers.insert(key, self.next_handle);
                    LogEntry::Map { row, handle: self.next_handle, address, bytes }
                } else {
                    let handle = self.handle_numbers.remove(&key).unwrap_or(0);
                    LogEntry::Unmap { row, handle, address, bytes }
                };
                observer.entry(&entry).map_err(|what| Error::Log { what })?;
            }
        }
        effects.clear();
        Ok(())
    }

    fn record(&mut self, event: Event) {
        if let Some(map) = &mut self.map {
            map.apply(&event);
        }
        if self.settings.keeps_history {
            self.history.events.push(event);
        }
    }

    fn measure_holes(&mut self) {
        if let Some(map) = &self.map {
            self.counters.highest_fragmentation = self.counters.highest_fragmentation.max(map.fragmentation_percent());
        }
    }

    /// What the trace calls a stream; the default stream serves for what belongs to none.
    fn name_of(&self, stream: StreamId) -> i64 {
        self.names.get(&stream).copied().unwrap_or(0)
    }

    fn into_history(mut self) -> History {
        if let Some(map) = &self.map {
            self.history.end = map.segments().collect();
            self.history.defects = map.defects().clone();
        }
        let trace = self.program.trace;
        let mut settings = Vec::new();
        let caching = self.settings.caching;
        if let Some(bytes) = caching.max_split_bytes {
            settings.push(("max_split_size".to_owned(), bytes.to_string()));
        }
        if caching.roundup_power2_divisions > 1 {
            settings.push(("roundup_power2_divisions".to_owned(), caching.roundup_power2_divisions.to_string()));
        }
        if self.settings.policy == Policy::Gpumem {
            let gpumem = &self.settings.gpumem;
            settings.push(("hand_over".to_owned(), crate::settings::hand_over_name(gpumem.hand_over).to_owned()));
            settings.push(("backing".to_owned(), crate::settings::backing_name(gpumem.backing).to_owned()));
            settings.push(("reading".to_owned(), gpumem.reading.name().to_owned()));
        }
        if self.settings.policy.is_model() {
            let is_expandable = self.settings.policy == Policy::CachingExpandable;
            settings.push(("expandable_segments".to_owned(), is_expandable.to_string()));
        }
        History {
            name: trace.name.clone(),
            allocator: self.settings.policy.in_words().to_owned(),
            settings,
            devices: vec![self.history],
            annotations: Vec::new(),
            notes: Vec::new(),
            names: trace.names.clone(),
            stacks: trace.stacks.clone(),
        }
    }
}

/// The device that a replay runs on.
fn open_device(program: &Program<'_>, settings: &Settings) -> Result<Arc<SimDevice>> {
    let options = SimOptions {
        capacity_bytes: settings.capacity_bytes.unwrap_or(UNLIMITED_BYTES),
        costs: settings.costs,
        waits_finish: !program.has_syncs,
        check_order: if settings.checks_order { OrderCheck::Seen } else { OrderCheck::Off },
        ..SimOptions::default()
    };
    SimDevice::new(options).map(Arc::new).map_err(|source| Error::Device { row: 0, source })
}

fn check_settings(settings: &Settings) -> Result<()> {
    let caching = &settings.caching;
    if let Some(bytes) = caching.max_split_bytes
        && bytes <= 20 << 20
    {
        return Err(Error::BadSetting {
            what: format!("a largest block to split of {bytes} bytes is too small: more than 20 MiB is asked for"),
        });
    }
    if let Some(bytes) = settings.capacity_bytes
        && bytes > UNLIMITED_BYTES
    {
        return Err(Error::BadSetting {
            what: format!("a capacity of {bytes} bytes: simulated devices have at most {UNLIMITED_BYTES} (32 TiB)"),
        });
    }
    let divisions = caching.roundup_power2_divisions;
    if divisions > 1 && !divisions.is_power_of_two() {
        return Err(Error::BadSetting { what: format!("{divisions} divisions: a power of two is asked for") });
    }
    Ok(())
}

#[cfg(test)]
#[allow(clippy::unwrap_used, clippy::panic)]
mod tests {
    use records::{Operation, Row, Trace};

    use super::*;
    use crate::policy::Placement;

    /// Hands out the same bytes to everybody, one after another.
    struct Reckless(Option<DevicePtr>);

    impl crate::policy::Policy for Reckless {
        fn alloc(
            &mut self,
            device: &dyn Device,
            _bytes: u64,
            _stream: StreamId,
            _effects: &mut Effects,
        ) -> device::Result<Placement> {
            let address = match self.0 {
                Some(address) => address,
                None => *self.0.insert(device.alloc(2 << 20)?),
            };
            Ok(Placement { handle: Handle(0), address: address.0 })
        }

        fn free(&mut self, _: &dyn Device, _: Handle, _: &mut Effects) -> device::Result<()> {
            Ok(())
        }

        fn record_use(&mut self, _: Handle, _: StreamId) -> device::Result<()> {
            Ok(())
        }
    }

    /// Our allocator, which isn't told of uses.
    struct Deaf(Gpumem);

    impl crate::policy::Policy for Deaf {
        fn alloc(
            &mut self,
            device: &dyn Device,
            bytes: u64,
            stream: StreamId,
            effects: &mut Effects,
        ) -> device::Result<Placement> {
            self.0.alloc(device, bytes, stream, effects)
        }

        fn free(&mut self, device: &dyn Device, handle: Handle, effects: &mut Effects) -> device::Result<()> {
            self.0.free(device, handle, effects)
        }

        fn record_use(&mut self, _: Handle, _: StreamId) -> device::Result<()> {
            Ok(())
        }

        fn ordered(&mut self, of: StreamId, by: StreamId) -> device::Result<()> {
            self.0.ordered(of, by)
        }
    }

    #[test]
    fn under_the_blind_reading_a_use_lasts_until_the_free() {
        let row = |operation, id, stream| Row { operation, id, bytes: 4096, stream, ..Row::default() };
        // Stream 0 waits for stream 1 before the free: that says nothing of what was queued there since.
        let rows = vec![
            row(Operation::Alloc, 1, 0),
            row(Operation::Use, 1, 1),
            row(Operation::Wait, 1, 0),
            row(Operation::Free, 1, 0),
            row(Operation::Alloc, 2, 0),
        ];
        let trace = Trace { rows, ..Trace::default() };
        let program = Program::new(&trace, None).unwrap();
        let mut settings = Settings::new(Policy::Gpumem);
        let run = |settings: &Settings, is_deaf: bool| {
            let device = open_device(&program, settings).unwrap();
            let gpumem = Gpumem::new(&device, settings).unwrap();
            let policy: Box<dyn crate::policy::Policy> =
                if is_deaf { Box::new(Deaf(gpumem)) } else { Box::new(gpumem) };
            Driver::with_policy(&program, settings, device, policy).unwrap().run(&mut ()).map(|_| ())
        };
        run(&settings, false).unwrap();
        let Err(Error::Device { row: 4, source: device::Error::Contract { .. } }) = run(&settings, true) else {
            panic!("a use went unnoticed: {:?}", run(&settings, true));
        };
        settings.gpumem.reading = Reading::Seen;
        run(&settings, true).unwrap();
    }

    #[test]
    fn a_policy_that_hands_memory_on_unordered_is_stopped_with_both_uses_named() {
        let row = |operation, id, stream| Row { operation, id, bytes: 4096, stream, ..Row::default() };
        let mut rows = vec![
            row(Operation::Alloc, 1, 0),
            row(Operation::Free, 1, 0),
            row(Operation::Alloc, 2, 1),
            row(Operation::Free, 2, 0),
        ];
        let run = |rows: &[Row]| {
            let trace = Trace { rows: rows.to_vec(), ..Trace::default() };
            let program = Program::new(&trace, None).unwrap();
            let settings = Settings::new(Policy::FirstFit);
            let device = open_device(&program, &settings).unwrap();
            Driver::with_policy(&program, &settings, device, Box::new(Reckless(None))).unwrap().run(&mut ()).map(|_| ())
        };
        let Err(Error::Device { row: 2, source: device::Error::Contract { .. } }) = run(&rows) else {
            panic!("unordered reuse went unnoticed: {:?}", run(&rows));
        };
        // The same with a wait of the program's in between is in order.
        rows.insert(2, Row { operation: Operation::Wait, id: 0, stream: 1, ..Row::default() });
        run(&rows).unwrap();
    }
}
