//! What repeats in a run: steps that the program names, or a sequence of requests that comes again and again.

use hashbrown::HashMap;

use crate::{Action, Annotation, DeviceHistory, Event, MemoryMap, Names, Stage};

/// How steps were told apart.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum StepSource {
    /// Step events of the record.
    Events,
    /// Annotations of the program, such as `ProfilerStep#3`.
    Annotations,
    /// The same requests, byte for byte, come again.
    SameRequests,
    /// The same calls come again, with other sizes.
    SameCalls,
}

impl StepSource {
    /// A word for it in JSON.
    pub fn key(self) -> &'static str {
        match self {
            Self::Events => "step_events",
            Self::Annotations => "annotations",
            Self::SameRequests => "same_requests",
            Self::SameCalls => "same_calls",
        }
    }
}

/// One step.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct StepFigures {
    /// Its number: by the marks before it, as the annotation says, or counted from 1 where it was found.
    pub number: u64,
    /// Number of its first event.
    pub start: u64,
    /// Number of the event after its last.
    pub end: u64,
    /// How many requests were served in it.
    pub allocs: u64,
    /// Bytes live when it began.
    pub live_at_start: u64,
    /// Bytes live when it ended.
    pub live_at_end: u64,
    /// Highest live bytes in it.
    pub peak_live: u64,
    /// Highest reserved bytes in it.
    pub peak_reserved: u64,
}

/// The steps of a history.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Steps {
    /// How they were told apart.
    pub source: StepSource,
    /// The steps in order.
    pub steps: Vec<StepFigures>,
}

impl Steps {
    /// Median growth of live bytes from the end of one step to the end of the next. The first step is left out where
    /// there are enough others: optimizers make their state in it.
    pub fn growth_per_step(&self) -> Option<i64> {
        let ends: Vec<u64> = self.settled().iter().map(|step| step.live_at_end).collect();
        let mut growth: Vec<i64> = ends.windows(2).map(|pair| difference(pair[1], pair[0])).collect();
        growth.sort_unstable();
        growth.get(growth.len() / 2).copied()
    }

    /// Whether live bytes only ever grew from the end of one step to the next, over at least three such ends: something
    /// is kept that should have been dropped.
    pub fn looks_like_leak(&self) -> bool {
        let settled = self.settled();
        settled.len() >= 3 && settled.windows(2).all(|pair| pair[1].live_at_end > pair[0].live_at_end)
    }

    /// The steps after the first, or all where that leaves too few.
    fn settled(&self) -> &[StepFigures] {
        if self.steps.len() > 3 { &self.steps[1..] } else { &self.steps }
    }
}

fn difference(after: u64, before: u64) -> i64 {
    let change = i128::from(after) - i128::from(before);
    i64::try_from(change).unwrap_or(if change < 0 { i64::MIN } else { i64::MAX })
}

/// Finds the steps of a history: named by its events, else by annotations on the same device, else the longest sequence of
/// requests that is repeated. `None` if there is nothing of the kind.
pub fn find_steps(history: &DeviceHistory, annotations: &[Annotation], names: &Names) -> Option<Steps> {
    let events = &history.events;
    let found = by_events(events)
        .map(|bounds| (StepSource::Events, bounds))
        .or_else(|| {
            let of_device = annotations.iter().filter(|a| a.device == history.device);
            Some((StepSource::Annotations, by_annotations(events, of_device, names)?))
        })
        .or_else(|| by_repetition(events));
    let (source, bounds) = found?;
    Some(Steps { source, steps: figures(history, &bounds) })
}

/// Half-open ranges of event numbers, in order, not overlapping, each with the number of its step.
type Bounds = Vec<(u64, usize, usize)>;

fn by_events(events: &[Event]) -> Option<Bounds> {
    let marks: Vec<usize> = (0..events.len()).filter(|&at| events[at].action == Action::Step).collect();
    // A mark with a name opens a step, one without closes it.
    let opens = marks.iter().all(|&mark| !events[mark].tag.is_empty());
    let edges: Vec<usize> = match opens {
        true => marks.into_iter().chain([events.len()]).collect(),
        false => [0].into_iter().chain(marks).collect(),
    };
    let has_requests =
        |&(_, from, to): &(u64, usize, usize)| events[from..to].iter().any(|e| e.action == Action::Alloc);
    let ranges = edges.windows(2).map(|pair| (pair[0], pair[1]));
    let bounds: Bounds = (u64::from(opens)..).zip(ranges).map(|(number, (from, to))| (number, from, to)).collect();
    let bounds: Bounds = bounds.into_iter().filter(has_requests).collect();
    (bounds.len() >= 2).then_some(bounds)
}

/// The annotation family (`ProfilerStep#` of `ProfilerStep#7`) with most members, of those that have a number.
fn by_annotations<'a>(
    events: &[Event],
    annotations: impl Iterator<Item = &'a Annotation>,
    names: &Names,
) -> Option<Bounds> {
    let mut families: HashMap<&str, Vec<(u64, u64)>> = HashMap::new();
    for annotation in annotations.filter(|a| a.stage == Stage::Start && a.time_ns != 0) {
        let name = names.get(annotation.name);
        let family = name.trim_end_matches(|c: char| c.is_ascii_digit());
        if family.len() < name.len() && family.to_ascii_lowercase().contains("step") {
            let number = name[family.len()..].parse().unwrap_or(u64::MAX);
            families.entry(family).or_default().push((annotation.time_ns, number));
        }
    }
    let (_, mut times) =
        families.into_iter().max_by_key(|(family, times)| (times.len(), std::cmp::Reverse(*family)))?;
    times.sort_unstable();
    times.dedup_by_key(|(time, _)| *time);
    // Times of events may run backwards in a broken file: the first event at or after a moment counts.
    let mut latest = 0;
    let clock: Vec<u64> = events
        .iter()
        .map(|event| {
            latest = latest.max(event.time_ns);
            latest
        })
        .collect();
    let mut starts: Vec<(u64, usize)> =
        times.iter().map(|&(time, number)| (number, clock.partition_point(|&at| at < time))).collect();
    starts.push((0, events.len()));
    // Of several that begin at one event the last one counts: the others are empty.
    let bounds = starts.windows(2).map(|pair| (pair[0].0, pair[0].1, pair[1].1));
    let bounds: Bounds = bounds.filter(|(_, from, to)| from < to).collect();
    (bounds.len() >= 2).then_some(bounds)
}

/// Fewest requests that make a step worth speaking of.
const SHORTEST_STEP: usize = 4;

fn by_repetition(events: &[Event]) -> Option<(StepSource, Bounds)> {
    let allocs: Vec<usize> = (0..events.len()).filter(|&at| events[at].action == Action::Alloc).collect();
    if allocs.len() < 2 * SHORTEST_STEP {
        return None;
    }
    let exact: Vec<u32> = numbered(allocs.iter().map(|&at| (events[at].bytes, events[at].stream)));
    let same = longest_repetition(&exact);
    let is_most = |found: &Repetition| found.covered() * 2 >= allocs.len();
    if let Some(found) = same.as_ref().filter(|found| is_most(found)) {
        return Some((StepSource::SameRequests, found.bounds(&allocs, events.len())));
    }
    let has_stacks = allocs.iter().filter(|&&at| !events[at].stack.is_empty()).count() * 2 > allocs.len();
    if has_stacks {
        let calls: Vec<u32> = numbered(allocs.iter().map(|&at| (u64::from(events[at].stack.0), events[at].stream)));
        let again = longest_repetition(&calls);
        if let Some(found) = again.filter(|a| same.as_ref().is_none_or(|same| a.covered() > same.covered())) {
            return Some((StepSource::SameCalls, found.bounds(&allocs, events.len())));
        }
    }
    let found = same.filter(|found| found.covered() * 4 >= allocs.len())?;
    Some((StepSource::SameRequests, found.bounds(&allocs, events.len())))
}

/// Equal values get equal numbers, from 0 up.
fn numbered<T: Eq + std::hash::Hash>(values: impl Iterator<Item = T>) -> Vec<u32> {
    let mut numbers = HashMap::new();
    values
        .map(|value| {
            let next = numbers.len() as u32;
            *numbers.entry(value).or_insert(next)
        })
        .collect()
}

/// A stretch in which everything comes again after `period` places.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Repetition {
    start: usize,
    period: usize,
    count: usize,
}

impl Repetition {
    fn covered(&self) -> usize {
        self.period * self.count
    }

    fn bounds(&self, allocs: &[usize], end: usize) -> Bounds {
        let event_at = |place: usize| allocs.get(place).copied().unwrap_or(end);
        let bound = |index: usize| event_at(self.start + index * self.period);
        (0..self.count).map(|index| (index as u64 + 1, bound(index), bound(index + 1))).collect()
    }
}

/// Lengths of the pieces that are looked up to guess periods: long ones are found once a step, short ones survive shapes
/// that change now and then.
const PIECES: [usize; 3] = [64, 16, 4];
/// Most periods that are tried.
const TRIED: usize = 24;

/// The repetition that covers most places; of those that cover nearly as much the one with the shortest period.
///
/// Periods are guessed by how far back the same piece (told by a rolling hash) was last, and each guess is then tried on
/// the sequence itself, so that a collision of hashes costs nothing but time. O(n) for each of at most [`TRIED`] guesses.
fn longest_repetition(sequence: &[u32]) -> Option<Repetition> {
    let mut tried: Vec<usize> = Vec::new();
    for piece in PIECES {
        let mut votes: HashMap<usize, usize> = HashMap::new();
        let mut unique_votes: HashMap<usize, usize> = HashMap::new();
        let mut last: HashMap<u64, (usize, usize, bool)> = HashMap::new();
        for (at, hash) in rolling(sequence, piece) {
            let seen = last.entry(hash).or_insert((at, 0, true));
            if seen.0 < at {
                let gap = at - seen.0;
                *votes.entry(gap).or_default() += 1;
                // A piece that is met once a step always comes back after the same distance, or nearly so.
                seen.2 &= seen.1 == 0 || seen.1.abs_diff(gap) * 8 <= gap;
                *seen = (at, gap, seen.2);
            }
        }
        for (_, gap, is_even) in last.into_values() {
            if is_even && gap > 0 {
                *unique_votes.entry(gap).or_default() += 1;
            }
        }
        for votes in [unique_votes, votes] {
            let mut ranked: Vec<(usize, usize)> = votes.into_iter().collect();
            ranked.sort_unstable_by(|a, b| b.1.cmp(&a.1).then(b.0.cmp(&a.0)));
            let fresh = ranked.into_iter().map(|(gap, _)| gap).filter(|gap| *gap >= SHORTEST_STEP);
            for gap in fresh.take(TRIED / (2 * PIECES.len())) {
                if !tried.contains(&gap) {
                    tried.push(gap);
                }
            }
        }
    }
    let mut found: Vec<Repetition> = tried.into_iter().filter_map(|period| try_period(sequence, period)).collect();
    let most = found.iter().map(Repetition::covered).max()?;
    found.retain(|repetition| repetition.covered() * 20 >= most * 19);
    found.into_iter().min_by_key(|repetition| (repetition.period, repetition.start))
}

/// What a place that differs costs in [`try_period`], in places that are equal: a step in which one request of ten has
/// another size is still the same step.
const PRICE_OF_DIFFERENCE: i64 = 4;

/// The stretch of places that equal the one `period` later with few that don't (that of highest score), at least one
/// period long.
fn try_period(sequence: &[u32], period: usize) -> Option<Repetition> {
    let (mut start, mut score) = (0, 0_i64);
    let (mut best, mut best_score) = (0..0, 0);
    let later = sequence.get(period..)?;
    for (at, (a, b)) in sequence.iter().zip(later).enumerate() {
        score += if a == b { 1 } else { -PRICE_OF_DIFFERENCE };
        if score <= 0 {
            (start, score) = (at + 1, 0);
        } else if score > best_score {
            (best, best_score) = (start..at + 1, score);
        }
    }
    let count = (best.len() + period) / period;
    (count >= 2).then_some(Repetition { start: best.start, period, count })
}

/// Hashes of all pieces of `length` places, each with where it begins.
fn rolling(sequence: &[u32], length: usize) -> impl Iterator<Item = (usize, u64)> + '_ {
    const BASE: u64 = 0x9e37_79b9_7f4a_7c15;
    let top = (1..length).fold(1_u64, |power, _| power.wrapping_mul(BASE));
    let value = |at: usize| u64::from(sequence[at]).wrapping_add(1).wrapping_mul(0xff51_afd7_ed55_8ccd);
    let mut hash = 0_u64;
    (0..sequence.len()).filter_map(move |at| {
        if at >= length {
            hash = hash.wrapping_sub(value(at - length).wrapping_mul(top));
        }
        hash = hash.wrapping_mul(BASE).wrapping_add(value(at));
        (at + 1 >= length).then(|| (at + 1 - length, hash))
    })
}

fn figures(history: &DeviceHistory, bounds: &Bounds) -> Vec<StepFigures> {
    let mut map = MemoryMap::new(history);
    let mut steps = Vec::with_capacity(bounds.len());
    let mut played = 0;
    for &(number, start, end) in bounds {
        for event in &history.events[played..start.max(played)] {
            map.apply(event);
        }
        let totals = map.totals();
        let mut step = StepFigures {
            number,
            start: start as u64,
            end: end as u64,
            allocs: 0,
            live_at_start: totals.live,
            live_at_end: totals.live,
            peak_live: totals.live,
            peak_reserved: totals.reserved,
        };
        for event in &history.events[start..end] {
            map.apply(event);
            let totals = map.totals();
            step.allocs += u64::from(event.action == Action::Alloc);
            step.peak_live = step.peak_live.max(totals.live);
            step.peak_reserved = step.peak_reserved.max(totals.reserved);
            step.live_at_end = totals.live;
        }
        steps.push(step);
        played = end;
    }
    steps
}

#[cfg(test)]
#[allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]
mod tests {
    use super::*;
    use crate::{NameId, StackId};

    fn alloc(bytes: u64, stack: u32) -> Event {
        Event { bytes, address: bytes << 20, stack: StackId(stack), ..Event::default() }
    }

    /// A step of two passes over like layers, as models have, with a size of its own for the loss.
    fn step(layers: u64, loss: u64) -> Vec<u64> {
        let forward = (0..layers).flat_map(|_| [10, 20, 20, 30]);
        let backward = (0..layers).flat_map(|_| [31, 21, 11, 7, 7, 7]);
        forward.chain([loss, 5]).chain(backward).collect()
    }

    #[test]
    fn a_step_is_found_and_not_its_layers() {
        let set_up = (0..50).map(|i| 1000 + i);
        let sizes: Vec<u64> = set_up.chain((0..6).flat_map(|_| step(12, 99))).chain([3, 4]).collect();
        let events: Vec<Event> = sizes.iter().map(|&bytes| alloc(bytes, 0)).collect();
        let history = DeviceHistory { events, ..DeviceHistory::default() };
        let steps = find_steps(&history, &[], &Names::default()).unwrap();
        assert_eq!((steps.source, steps.steps.len()), (StepSource::SameRequests, 6));
        assert!(steps.steps.iter().all(|s| s.allocs == 122 && s.start >= 50), "{:?}", steps.steps);
        // One request of each step that never has the same size twice changes nothing.
        let sizes: Vec<u64> = (0..6).flat_map(|i| step(12, 100 + i)).collect();
        let events: Vec<Event> = sizes.iter().map(|&bytes| alloc(bytes, 0)).collect();
        let history = DeviceHistory { events, ..DeviceHistory::default() };
        let steps = find_steps(&history, &[], &Names::default()).unwrap();
        assert_eq!((steps.steps.len(), steps.steps[0].allocs), (6, 122));
    }

    #[test]
    fn steps_of_changing_shapes_are_found_by_their_calls() {
        let events: Vec<Event> =
            (0..5).flat_map(|i| step(8, 99).into_iter().map(move |s| alloc(s * (101 + i * 37), s as u32))).collect();
        let history = DeviceHistory { events, ..DeviceHistory::default() };
        let steps = find_steps(&history, &[], &Names::default()).unwrap();
        assert_eq!((steps.source, steps.steps.len(), steps.steps[0].allocs), (StepSource::SameCalls, 5, 82));
    }

    #[test]
    fn what_never_repeats_has_no_steps() {
        let mut state = 5_u64;
        let mut random = || {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            (state >> 33) % 1000
        };
        for count in [0, 1, 7, 500] {
            let events: Vec<Event> = (0..count).map(|_| alloc(random() + 1, random() as u32)).collect();
            let history = DeviceHistory { events, ..DeviceHistory::default() };
            assert_eq!(find_steps(&history, &[], &Names::default()), None, "{count}");
        }
    }

    #[test]
    fn growth_from_step_to_step_is_told_as_a_leak() {
        let step_mark = Event { action: Action::Step, ..Event::default() };
        let events = |kept: u64| -> Vec<Event> {
            let free = |address| Event { action: Action::FreeCompleted, address, ..Event::default() };
            let mut events = Vec::new();
            for i in 0..5_u64 {
                let at = |k: u64| (1 + i * 4 + k) << 20;
                events.push(Event { bytes: 100, address: at(0), ..Event::default() });
                events.push(Event { bytes: kept, address: at(1), ..Event::default() });
                events.push(free(at(0)));
                if i % 2 == 1 || kept == 0 {
                    events.push(Event { bytes: 1, address: at(2), ..Event::default() });
                    events.push(free(at(2)));
                }
                events.push(step_mark);
            }
            events
        };
        let leaking = DeviceHistory { events: events(7), ..DeviceHistory::default() };
        let steps = find_steps(&leaking, &[], &Names::default()).unwrap();
        assert_eq!((steps.source, steps.steps.len()), (StepSource::Events, 5));
        assert_eq!(steps.steps.iter().map(|s| s.number).collect::<Vec<_>>(), [0, 1, 2, 3, 4]);
        assert_eq!((steps.growth_per_step(), steps.looks_like_leak()), (Some(7), true));
        assert_eq!(steps.steps[2].peak_live, 2 * 7 + 107);
        let sound = DeviceHistory { events: events(0), ..DeviceHistory::default() };
        let steps = find_steps(&sound, &[], &Names::default()).unwrap();
        assert_eq!((steps.growth_per_step(), steps.looks_like_leak()), (Some(0), false));
    }

    #[test]
    fn annotations_with_numbers_are_steps() {
        let mut names = Names::default();
        let mut start =
            |name: &str, time_ns| Annotation { stage: Stage::Start, name: names.intern(name), device: 0, time_ns };
        let annotations = [
            start("ProfilerStep#0", 10),
            start("forward", 12),
            start("ProfilerStep#1", 20),
            start("ProfilerStep#2", 30),
        ];
        let events = (10..40).map(|time_ns| Event { time_ns, bytes: time_ns, ..Event::default() }).collect();
        let history = DeviceHistory { events, ..DeviceHistory::default() };
        let steps = find_steps(&history, &annotations, &names).unwrap();
        assert_eq!(steps.source, StepSource::Annotations);
        assert_eq!(steps.steps.iter().map(|s| (s.number, s.allocs)).collect::<Vec<_>>(), [(0, 10), (1, 10), (2, 10)]);
        let named = |tag| Event { action: Action::Step, tag: NameId(tag), ..Event::default() };
        let events = vec![alloc(1, 0), named(1), alloc(2, 0), alloc(3, 0), named(2), alloc(4, 0)];
        let history = DeviceHistory { events, ..DeviceHistory::default() };
        let steps = find_steps(&history, &annotations, &names).unwrap();
        assert_eq!(steps.source, StepSource::Events);
        assert_eq!(steps.steps.iter().map(|s| (s.number, s.allocs)).collect::<Vec<_>>(), [(1, 2), (2, 1)]);
    }
}
