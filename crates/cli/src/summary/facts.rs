//! The facts of a summary: `gpumem-summary/1`, described in `docs/formats.md`.

use std::collections::BTreeMap;

use records::{
    Action, BlockState, DeviceHistory, Hole, Moment, Peak, Scatter, StepSource, Steps, Survey, Tightness, Totals,
    find_steps, largest_holes, tightest_request,
};
use serde::Serialize;

use crate::recording::{Input, Modelled, Recording, StatedFailures};
use crate::report::{Clock, HolderFacts, HoleFacts, Labels, Scene, StackLabel, When, by_stack, by_tag, first};

/// Columns of the pictures over time.
const COLUMNS: usize = 64;
/// Most groups and holes that are kept.
const GROUPS: usize = 20;
const HOLES: usize = 10;
/// Most steps that are listed.
const STEPS: usize = 1000;

/// Everything that a summary says.
#[derive(Debug, Serialize)]
pub(crate) struct Summary {
    format: &'static str,
    pub(super) name: String,
    pub(super) input: Input,
    pub(super) allocator: String,
    pub(super) settings: BTreeMap<String, String>,
    pub(super) notes: Vec<String>,
    pub(super) modelled: Option<Modelled>,
    pub(super) devices: Vec<DeviceFacts>,
    pub(super) device: u32,
    pub(super) capacity_bytes: Option<u64>,
    pub(super) events: u64,
    pub(super) events_by_action: BTreeMap<&'static str, u64>,
    pub(super) span_ns: Option<u64>,
    pub(super) requested_bytes: u64,
    pub(super) largest_request_bytes: u64,
    pub(super) peaks: BTreeMap<&'static str, PeakFacts>,
    pub(super) end: Sums,
    pub(super) fragmentation: Fragmentation,
    pub(super) course: Vec<ColumnFacts>,
    pub(super) holders_at_peak: Holders,
    pub(super) holes: Holes,
    pub(super) steps: Option<StepsFacts>,
    pub(super) out_of_memory: OutOfMemory,
    pub(super) inconsistencies: Vec<Inconsistency>,
}

/// One device of the file.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub(crate) struct DeviceFacts {
    pub(super) device: u32,
    pub(super) events: usize,
    pub(super) segments_at_end: usize,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub(crate) struct PeakFacts {
    pub(super) bytes: u64,
    #[serde(flatten)]
    pub(super) when: When,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub(crate) struct Sums {
    pub(super) live_bytes: u64,
    pub(super) allocated_bytes: u64,
    pub(super) active_bytes: u64,
    pub(super) reserved_bytes: u64,
    pub(super) pending_bytes: u64,
}

impl From<Totals> for Sums {
    fn from(totals: Totals) -> Self {
        Self {
            live_bytes: totals.live,
            allocated_bytes: totals.allocated,
            active_bytes: totals.active,
            reserved_bytes: totals.reserved,
            pending_bytes: totals.pending(),
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub(crate) struct Fragmentation {
    pub(super) end: ScatterFacts,
    pub(super) highest: ScatterFacts,
}

#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub(crate) struct ScatterFacts {
    pub(super) percent: f64,
    pub(super) free_bytes: u64,
    pub(super) largest_free_bytes: u64,
    #[serde(flatten)]
    pub(super) when: When,
}

#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub(crate) struct ColumnFacts {
    pub(super) live_bytes: u64,
    pub(super) active_bytes: u64,
    pub(super) reserved_bytes: u64,
    pub(super) fragmentation_percent: f64,
}

/// Who holds the live bytes at their peak.
#[derive(Debug, Serialize)]
pub(crate) struct Holders {
    #[serde(flatten)]
    pub(super) when: When,
    pub(super) live_bytes: u64,
    pub(super) live_blocks: u64,
    pub(super) stacks: usize,
    pub(super) tags: usize,
    pub(super) by_stack: Vec<HolderFacts<StackLabel>>,
    pub(super) by_tag: Vec<HolderFacts<String>>,
}

/// Holes at the tightest moment.
#[derive(Debug, Serialize)]
pub(crate) struct Holes {
    #[serde(flatten)]
    pub(super) when: When,
    /// What makes it the tightest moment; absent where there are no requests.
    pub(super) why: Option<&'static str>,
    pub(super) free_bytes: u64,
    /// Segments with nothing in them: an allocator can give those back.
    pub(super) whole_segments: u64,
    pub(super) whole_segments_bytes: u64,
    /// Holes in segments that have blocks.
    pub(super) holes: u64,
    pub(super) holes_bytes: u64,
    /// The largest of those.
    pub(super) largest: Vec<HoleFacts>,
    pub(super) pending: Vec<PendingFacts>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub(crate) struct PendingFacts {
    pub(super) stream: u64,
    pub(super) bytes: u64,
    pub(super) blocks: u64,
}

#[derive(Debug, Serialize)]
pub(crate) struct StepsFacts {
    pub(super) source: &'static str,
    /// Whether the file marks them; else they were found.
    pub(super) are_marked: bool,
    pub(super) first_event: u64,
    pub(super) end_event: u64,
    pub(super) count: usize,
    pub(super) allocs_median: u64,
    pub(super) peak_live_median_bytes: u64,
    pub(super) peak_live_highest_bytes: u64,
    pub(super) growth_per_step_bytes: Option<i64>,
    pub(super) looks_like_leak: bool,
    /// What was handed out in steps that are over and is still live at the end of the last one, if it looks like a leak.
    pub(super) kept: Vec<HolderFacts<StackLabel>>,
    pub(super) steps: Vec<StepFacts>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub(crate) struct StepFacts {
    start_event: u64,
    end_event: u64,
    allocs: u64,
    live_at_start_bytes: u64,
    live_at_end_bytes: u64,
    peak_live_bytes: u64,
    peak_reserved_bytes: u64,
}

#[derive(Debug, Default, Serialize)]
pub(crate) struct OutOfMemory {
    pub(super) count: u64,
    /// Of a trace: what it says of requests that failed, which a replay doesn't ask for.
    pub(super) stated: StatedFailures,
    pub(super) last: Option<FailedRequest>,
}

#[derive(Debug, Serialize)]
pub(crate) struct FailedRequest {
    pub(super) bytes: u64,
    pub(super) device_free_bytes: u64,
    pub(super) stream: u64,
    pub(super) stack: StackLabel,
    #[serde(flatten)]
    pub(super) when: When,
}

#[derive(Debug, Serialize)]
pub(crate) struct Inconsistency {
    kind: &'static str,
    pub(super) what: &'static str,
    pub(super) count: u64,
    pub(super) first_event: u64,
}

impl Summary {
    /// Sums up one device of a recording.
    pub(crate) fn new(recording: &Recording, device: &DeviceHistory) -> Self {
        let history = &recording.history;
        let labels = Labels::from(history);
        let survey = Survey::new(device, COLUMNS);
        let steps = find_steps(device, &history.annotations, &history.names);
        let clock = Clock::new(survey.times_ns.map(|(first, _)| first), steps.as_ref());
        let peak = |peak: Peak| PeakFacts { bytes: peak.bytes, when: clock.when(peak.events, peak.time_ns) };
        let peaks = &survey.peaks;
        let scatter = |scatter: &Scatter| ScatterFacts {
            percent: scatter.percent,
            free_bytes: scatter.free_bytes,
            largest_free_bytes: scatter.largest_free_bytes,
            when: clock.when(scatter.events, scatter.time_ns),
        };
        Self {
            format: "gpumem-summary/1",
            name: history.name.clone(),
            input: recording.input.clone(),
            allocator: history.allocator.clone(),
            settings: history.settings.iter().cloned().collect(),
            notes: history.notes.clone(),
            modelled: recording.modelled.clone(),
            devices: history.devices.iter().map(device_facts).collect(),
            device: device.device,
            capacity_bytes: device.capacity_bytes,
            events: device.events.len() as u64,
            events_by_action: actions(&survey),
            span_ns: survey.times_ns.map(|(first, last)| last - first),
            requested_bytes: survey.requested_bytes,
            largest_request_bytes: survey.largest_request_bytes,
            peaks: BTreeMap::from([
                ("live", peak(peaks.live)),
                ("allocated", peak(peaks.allocated)),
                ("active", peak(peaks.active)),
                ("reserved", peak(peaks.reserved)),
                ("pending", peak(peaks.pending)),
            ]),
            end: survey.end.into(),
            fragmentation: Fragmentation {
                end: scatter(&survey.end_scatter),
                highest: scatter(&survey.most_scattered),
            },
            course: survey.course.columns().iter().map(column).collect(),
            holders_at_peak: holders_at(device, peaks.live, &labels, &clock),
            holes: tightest_holes(device, &labels, &clock),
            steps: steps.as_ref().map(|steps| steps_facts(device, steps, &labels)),
            out_of_memory: OutOfMemory {
                stated: recording.stated_failures(device.device),
                ..out_of_memory(device, &survey, &labels, &clock)
            },
            inconsistencies: survey
                .defects
                .iter()
                .map(|(defect, count, first_event)| Inconsistency {
                    kind: defect.key(),
                    what: defect.in_words(),
                    count,
                    first_event,
                })
                .collect(),
        }
    }
}

fn device_facts(device: &DeviceHistory) -> DeviceFacts {
    DeviceFacts { device: device.device, events: device.events.len(), segments_at_end: device.end.len() }
}

fn actions(survey: &Survey) -> BTreeMap<&'static str, u64> {
    let counts = Action::ALL.into_iter().map(|action| (action.name(), survey.count(action)));
    counts.filter(|(_, count)| *count > 0).collect()
}

fn column(column: &records::Column) -> ColumnFacts {
    ColumnFacts {
        live_bytes: column.highest.live,
        active_bytes: column.highest.active,
        reserved_bytes: column.highest.reserved,
        fragmentation_percent: column.most_scattered.percent,
    }
}

fn holders_at(device: &DeviceHistory, peak: Peak, labels: &Labels<'_>, clock: &Clock<'_>) -> Holders {
    let moment = Moment::after(device, peak.events);
    let map = moment.map();
    let (stacks, tags) = (by_stack(map.blocks(), labels), by_tag(map.blocks(), labels));
    let live_bytes = map.totals().live;
    Holders {
        when: clock.when(peak.events, moment.time_ns()),
        live_bytes,
        live_blocks: map.blocks().filter(|block| block.state == BlockState::Live).count() as u64,
        stacks: stacks.len(),
        tags: tags.len(),
        by_stack: first(stacks, live_bytes, GROUPS),
        by_tag: first(tags, live_bytes, GROUPS),
    }
}

fn tightest_holes(device: &DeviceHistory, labels: &Labels<'_>, clock: &Clock<'_>) -> Holes {
    let tightest = tightest_request(device, None);
    let moment = Moment::after(device, tightest.map_or(0, |request| request.events_before));
    let map = moment.map();
    let scene = Scene { device, moment: &moment, labels, clock };
    let mut pending: BTreeMap<u64, PendingFacts> = BTreeMap::new();
    for block in map.blocks().filter(|block| block.state == BlockState::Pending) {
        let sum = pending.entry(block.stream).or_insert(PendingFacts { stream: block.stream, bytes: 0, blocks: 0 });
        sum.bytes = sum.bytes.saturating_add(block.bytes);
        sum.blocks += 1;
    }
    let (whole, pinned): (Vec<Hole>, Vec<Hole>) =
        largest_holes(map, map.hole_count()).into_iter().partition(|hole| hole.bytes == hole.segment_bytes);
    let sum = |holes: &[Hole]| holes.iter().fold(0_u64, |sum, hole| sum.saturating_add(hole.bytes));
    Holes {
        when: clock.when(map.event(), moment.time_ns()),
        why: tightest.map(|request| request.why).map(Tightness::key),
        free_bytes: sum(&whole).saturating_add(sum(&pinned)),
        whole_segments: whole.len() as u64,
        whole_segments_bytes: sum(&whole),
        holes: pinned.len() as u64,
        holes_bytes: sum(&pinned),
        largest: pinned.iter().take(HOLES).map(|hole| scene.hole(hole)).collect(),
        pending: pending.into_values().collect(),
    }
}

fn steps_facts(device: &DeviceHistory, steps: &Steps, labels: &Labels<'_>) -> StepsFacts {
    let figures = &steps.steps;
    let median = |mut values: Vec<u64>| {
        values.sort_unstable();
        values.get(values.len() / 2).copied().unwrap_or(0)
    };
    let looks_like_leak = steps.looks_like_leak();
    StepsFacts {
        source: steps.source.key(),
        are_marked: matches!(steps.source, StepSource::Events | StepSource::Annotations),
        first_event: figures.first().map_or(0, |step| step.start),
        end_event: figures.last().map_or(0, |step| step.end),
        count: figures.len(),
        allocs_median: median(figures.iter().map(|step| step.allocs).collect()),
        peak_live_median_bytes: median(figures.iter().map(|step| step.peak_live).collect()),
        peak_live_highest_bytes: figures.iter().map(|step| step.peak_live).max().unwrap_or(0),
        growth_per_step_bytes: steps.growth_per_step(),
        looks_like_leak,
        kept: if looks_like_leak { kept(device, steps, labels) } else { Vec::new() },
        steps: figures
            .iter()
            .take(STEPS)
            .map(|step| StepFacts {
                start_event: step.start,
                end_event: step.end,
                allocs: step.allocs,
                live_at_start_bytes: step.live_at_start,
                live_at_end_bytes: step.live_at_end,
                peak_live_bytes: step.peak_live,
                peak_reserved_bytes: step.peak_reserved,
            })
            .collect(),
    }
}

/// Blocks from steps that are over (the first apart, which makes what lasts) that are live at the end of the last one.
fn kept(device: &DeviceHistory, steps: &Steps, labels: &Labels<'_>) -> Vec<HolderFacts<StackLabel>> {
    let (Some(second), Some(last)) = (steps.steps.get(1), steps.steps.last()) else { return Vec::new() };
    let moment = Moment::after(device, last.end);
    let is_kept = |block: &&records::Block| {
        let birth = moment.birth(block.address);
        birth.is_some_and(|birth| birth >= second.start && birth < last.start)
    };
    let groups = by_stack(moment.map().blocks().filter(is_kept), labels);
    let whole = groups.iter().fold(0_u64, |sum, group| sum.saturating_add(group.live_bytes));
    first(groups, whole, GROUPS)
}

fn out_of_memory(device: &DeviceHistory, survey: &Survey, labels: &Labels<'_>, clock: &Clock<'_>) -> OutOfMemory {
    let last = survey.last_out_of_memory.and_then(|index| {
        let event = device.events.get(usize::try_from(index).ok()?)?;
        Some(FailedRequest {
            bytes: event.bytes,
            device_free_bytes: event.address,
            stream: event.stream,
            stack: labels.stack(event.stack),
            when: clock.when(index + 1, event.time_ns),
        })
    });
    OutOfMemory { count: survey.count(Action::OutOfMemory), last, ..OutOfMemory::default() }
}
