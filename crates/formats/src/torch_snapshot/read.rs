//! From a pickle's values to a history.

use std::collections::BTreeMap;

use hashbrown::{HashMap, HashSet};
use records::{Annotation, DeviceHistory, Event, History, NameId, Segment};

use super::convert::{device, expected, number, word};
use super::finish::{End, finish};
use super::machine::Machine;
use super::problem::{SnapshotError, SnapshotProblem as Problem};
use super::source::Source;
use super::store::{BlockPart, Mistake, Store};
use super::value::Value;
use super::words::Word;
use super::{ALLOCATOR, GRANULE_BYTES, MAX_DEVICE, settings};
use crate::input::Input;
use crate::{Error, Limits, Result, document};

/// Reads a snapshot.
pub(crate) fn read(input: &mut Input<'_>, limits: &Limits) -> Result<History> {
    let file = input.file().to_owned();
    let refused = |offset, place, problem| {
        Error::Snapshot(Box::new(SnapshotError { file: file.clone(), offset, place, problem }))
    };
    let result = Machine::new(Source::new(input), Store::new(limits)).run();
    let (top, store, rest) = match result {
        Ok(done) => done,
        Err(stop) => {
            return Err(input.failure().unwrap_or_else(|| refused(stop.offset, String::new(), stop.problem)));
        }
    };
    if let Some(failure) = input.failure() {
        return Err(failure);
    }
    let end_offset = store.offset;
    let mut history = Assembly::new(store)
        .assemble(top)
        .map_err(|fault| refused(fault.offset.unwrap_or(end_offset), fault.place, fault.problem))?;
    if history.name.is_empty() {
        history.name = document::stem(&file);
    }
    if rest > 0 {
        history.notes.push(format!("{rest} bytes after the end of the pickle were not looked at"));
    }
    Ok(history)
}

/// A mistake with its place.
struct Fault {
    place: String,
    /// Where the part was made that has it; `None` for the end of the pickle.
    offset: Option<u64>,
    problem: Problem,
}

fn fault(place: String, problem: Problem) -> Fault {
    Fault { place, offset: None, problem }
}

/// What one device has in the file.
#[derive(Default)]
struct Part {
    end: Vec<End>,
    events: Vec<Event>,
    granule_bytes: Option<u64>,
    capacity_bytes: Option<u64>,
}

struct Assembly {
    store: Store,
    mistakes: HashMap<(u8, u32), Mistake>,
    /// Lists whose parts were taken: nothing is multiplied by standing in several places.
    taken: HashSet<u32>,
    strange: BTreeMap<NameId, u64>,
}

impl Assembly {
    fn new(mut store: Store) -> Self {
        let mut mistakes = HashMap::new();
        for mistake in std::mem::take(&mut store.mistakes) {
            if let Some(key) = key(mistake.part) {
                mistakes.entry(key).or_insert(mistake);
            }
        }
        Self { store, mistakes, taken: HashSet::new(), strange: BTreeMap::new() }
    }

    fn assemble(mut self, top: Value) -> std::result::Result<History, Fault> {
        let mut parts: BTreeMap<u32, Part> = BTreeMap::new();
        let mut history = History { allocator: ALLOCATOR.to_owned(), ..History::default() };
        let has_end = match top {
            Value::Dict(_) => {
                let segments = self.field(top, Word::Segments);
                let traces = self.field(top, Word::DeviceTraces);
                if segments.is_none() && traces.is_none() {
                    let found = "a dict without `segments` and `device_traces`";
                    return Err(fault(String::new(), Problem::NotASnapshot { found }));
                }
                self.segments(segments.unwrap_or(Value::Empty), "segments", &mut parts)?;
                self.traces(traces.unwrap_or(Value::Empty), &mut parts)?;
                if let Some(annotations) = self.field(top, Word::Annotations) {
                    history.annotations = self.annotations(annotations)?;
                }
                if let Some(value) = self.field(top, Word::AllocatorSettings) {
                    let (settings, note) = settings::read(&self.store, value);
                    history.settings = settings;
                    history.notes.extend(note);
                }
                if let Some(ours) = self.field(top, Word::Gpumem) {
                    self.ours(ours, &mut history, &mut parts);
                }
                segments.is_some()
            }
            Value::Empty => true,
            // What torch.cuda.memory_snapshot() gives: segments and nothing else.
            Value::List(_) if matches!(self.store.items(top), Some([Value::Segment(_), ..])) => {
                self.segments(top, "", &mut parts)?;
                true
            }
            other => return Err(fault(String::new(), Problem::NotASnapshot { found: other.found() })),
        };
        if self.store.repaired > 0 {
            let count = self.store.repaired;
            history.notes.push(format!("{count} texts were not UTF-8; what could not be read of them was replaced"));
        }
        for (action, count) in &self.strange {
            let action = crate::error::tame(self.store.texts.get(*action));
            history.notes.push(format!("{count} events of the unknown action `{action}` were left out"));
        }
        let Self { store, .. } = self;
        history.names = store.names;
        history.stacks = store.stacks;
        for (device, part) in parts {
            let mut result = DeviceHistory {
                device,
                capacity_bytes: part.capacity_bytes,
                granule_bytes: part.granule_bytes.unwrap_or(GRANULE_BYTES),
                events: part.events,
                ..DeviceHistory::default()
            };
            if part.end.is_empty() && result.events.is_empty() {
                continue;
            }
            finish(&mut result, part.end, has_end);
            history.devices.push(result);
        }
        Ok(history)
    }

    /// The value of a dict under `name`; the last one if there are several, as in Python.
    fn field(&self, dict: Value, name: Word) -> Option<Value> {
        let Value::Dict(index) = dict else { return None };
        let pairs = self.store.plain[index as usize].items.as_chunks::<2>().0;
        pairs.iter().rev().find(|[key, _]| word(*key) == Some(name)).map(|[_, value]| *value)
    }

    /// Whether a part has a mistake in it.
    fn check(&mut self, part: Value, place: impl FnOnce() -> String) -> std::result::Result<(), Fault> {
        if self.mistakes.is_empty() {
            return Ok(());
        }
        match key(part).and_then(|key| self.mistakes.remove(&key)) {
            None => Ok(()),
            Some(Mistake { field, problem, offset, .. }) => {
                Err(Fault { place: format!("{}.{field}", place()), offset: Some(offset), problem })
            }
        }
    }

    /// The items of a list whose parts belong in one place.
    fn take_list(
        &mut self,
        value: Value,
        what: &'static str,
        place: impl Fn() -> String,
    ) -> std::result::Result<Vec<Value>, Fault> {
        match value {
            Value::Empty | Value::None => Ok(Vec::new()),
            Value::List(index) if self.taken.insert(index) => {
                Ok(std::mem::take(&mut self.store.plain[index as usize].items))
            }
            Value::List(_) => Err(fault(place(), Problem::UsedTwice("list"))),
            other => Err(fault(place(), expected(what, other))),
        }
    }

    fn segments(&mut self, list: Value, path: &str, parts: &mut BTreeMap<u32, Part>) -> std::result::Result<(), Fault> {
        let items = self.take_list(list, "a list of segments", || path.to_owned())?;
        for (index, item) in items.into_iter().enumerate() {
            let place = || format!("{path}[{index}]");
            let Value::Segment(segment) = item else {
                return Err(match item {
                    Value::Dict(_) => fault(format!("{}.{}", place(), Word::TotalSize.text()), Problem::Missing),
                    other => fault(place(), expected("a segment", other)),
                });
            };
            self.check(item, place)?;
            let part = &mut self.store.segments[segment as usize];
            if std::mem::replace(&mut part.is_taken, true) {
                return Err(fault(place(), Problem::UsedTwice("segment")));
            }
            let (device, blocks) = (part.device, part.blocks);
            let segment = std::mem::take(&mut part.segment);
            let end = self.blocks(segment, blocks, &place)?;
            parts.entry(device).or_default().end.push(end);
        }
        Ok(())
    }

    fn blocks(
        &mut self,
        mut segment: Segment,
        list: Value,
        place: &dyn Fn() -> String,
    ) -> std::result::Result<End, Fault> {
        let items = self.take_list(list, "a list of blocks", || format!("{}.blocks", place()))?;
        let mut without_request = Vec::new();
        let mut next = segment.address;
        segment.blocks.reserve_exact(items.len());
        for (index, item) in items.into_iter().enumerate() {
            let place = || format!("{}.blocks[{index}]", place());
            let Value::Block(block) = item else {
                return Err(match item {
                    Value::Dict(_) => fault(format!("{}.{}", place(), Word::State.text()), Problem::Missing),
                    other => fault(place(), expected("a block", other)),
                });
            };
            self.check(item, place)?;
            let BlockPart { mut block, has_address, has_request, has_stream } = self.store.blocks[block as usize];
            if !has_address {
                block.address = next;
            }
            if !has_request {
                without_request.push(segment.blocks.len());
                block.requested_bytes = block.bytes;
            }
            if !has_stream {
                block.stream = segment.stream;
            }
            next = block.address.saturating_add(block.bytes);
            segment.blocks.push(block);
        }
        Ok(End { segment, without_request })
    }

    fn traces(&mut self, list: Value, parts: &mut BTreeMap<u32, Part>) -> std::result::Result<(), Fault> {
        let path = Word::DeviceTraces.text();
        let items = self.take_list(list, "a list of traces", || path.to_owned())?;
        // The memory of events that belong to one device alone is handed on as it is.
        let mut all = std::mem::take(&mut self.store.events);
        for (device, item) in items.into_iter().enumerate() {
            let place = || format!("{path}[{device}]");
            let items = self.take_list(item, "a list of events", place)?;
            if items.is_empty() {
                continue;
            }
            let number = u32::try_from(device).ok().filter(|number| *number <= MAX_DEVICE);
            let Some(number) = number else {
                return Err(fault(place(), Problem::TooMany { what: "devices", limit: u64::from(MAX_DEVICE) + 1 }));
            };
            let is_all =
                items.len() == all.len() && items.iter().enumerate().all(|(at, item)| *item == Value::Event(at as u32));
            let mut events = if is_all { Vec::new() } else { Vec::with_capacity(items.len()) };
            for (index, item) in items.into_iter().enumerate() {
                let place = || format!("{}[{index}]", place());
                match item {
                    Value::Event(at) => {
                        self.check(item, place)?;
                        if !is_all {
                            events.push(all[at as usize]);
                        }
                    }
                    Value::StrangeEvent(action) => *self.strange.entry(action).or_default() += 1,
                    Value::Dict(_) => {
                        return Err(fault(format!("{}.{}", place(), Word::Action.text()), Problem::Missing));
                    }
                    other => return Err(fault(place(), expected("an event", other))),
                }
            }
            if is_all {
                events = std::mem::take(&mut all);
            }
            parts.entry(number).or_default().events = events;
        }
        Ok(())
    }

    fn annotations(&mut self, list: Value) -> std::result::Result<Vec<Annotation>, Fault> {
        let path = Word::Annotations.text();
        let items = self.take_list(list, "a list of annotations", || path.to_owned())?;
        let mut annotations = Vec::new();
        for (index, item) in items.into_iter().enumerate() {
            self.check(item, || format!("{path}[{index}]"))?;
            if let Value::Annotation(at) = item {
                let part = self.store.annotations[at as usize];
                if let Some(stage) = part.stage {
                    annotations.push(Annotation { stage, name: part.name, device: part.device, time_ns: part.time_ns });
                }
            }
        }
        Ok(annotations)
    }

    /// What we write beside what others look at.
    fn ours(&self, ours: Value, history: &mut History, parts: &mut BTreeMap<u32, Part>) {
        let text = |name| match self.field(ours, name) {
            Some(Value::Text(text)) => Some(self.store.texts.get(text).to_owned()),
            _ => None,
        };
        if let Some(name) = text(Word::Name) {
            history.name = name;
        }
        if let Some(allocator) = text(Word::Allocator) {
            history.allocator = allocator;
        }
        let list = |name| self.field(ours, name).and_then(|list| self.store.items(list)).unwrap_or_default();
        let devices = list(Word::Device).iter().zip(list(Word::Granule)).zip(list(Word::Capacity));
        for ((number_of, granule), capacity) in devices {
            if let Some(part) = device(*number_of).ok().and_then(|device| parts.get_mut(&device)) {
                part.granule_bytes = number(*granule).ok();
                part.capacity_bytes = number(*capacity).ok();
            }
        }
    }
}

/// By what a part with a mistake is found.
fn key(part: Value) -> Option<(u8, u32)> {
    match part {
        Value::Event(index) => Some((0, index)),
        Value::Block(index) => Some((1, index)),
        Value::Segment(index) => Some((2, index)),
        Value::Annotation(index) => Some((3, index)),
        _ => None,
    }
}
