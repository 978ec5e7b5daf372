//! The figures as JSON: `gpumem-replay/1`, described in `docs/formats.md`.

use std::io::{self, Write};

use device::{CallCounts, DriverCall};
use replay::{FailedRequest, Figures, Policy, backing_name, hand_over_name};
use serde::ser::SerializeMap;
use serde::{Serialize, Serializer};

use super::Report;

/// Writes it, with a line end.
pub(super) fn write(report: &Report<'_>, out: &mut dyn Write) -> io::Result<()> {
    let (outcome, settings) = (&report.outcome, &report.settings);
    let live = report.peak_live_bytes;
    let gpumem = (settings.policy == Policy::Gpumem).then_some(&settings.gpumem);
    let document = Document {
        format: "gpumem-replay/1",
        name: &report.trace.name,
        input: Input {
            path: &report.path,
            format: report.format,
            rows: report.trace.rows.len(),
            is_cut: report.trace.is_cut,
        },
        policy: settings.policy.name(),
        is_model: settings.policy.is_model(),
        max_split_bytes: settings.caching.max_split_bytes,
        roundup_power2_divisions: settings.caching.roundup_power2_divisions,
        hand_over: gpumem.map(|gpumem| hand_over_name(gpumem.hand_over)),
        backing: gpumem.map(|gpumem| backing_name(gpumem.backing)),
        reading: gpumem.map(|gpumem| gpumem.reading.name()),
        hard_budget_bytes: gpumem.and_then(|gpumem| gpumem.hard_bytes),
        soft_budget_bytes: gpumem.and_then(|gpumem| gpumem.soft_bytes),
        passes: settings.passes,
        lag_steps: settings.lag_steps,
        device: report.device,
        capacity_bytes: settings.capacity_bytes,
        status: if outcome.is_ok() { "ok" } else { "oom" },
        failed_at: outcome.failed.map(|failed| failed.row),
        failed_request: outcome.failed.map(Failed::from),
        figures: Values::from(&outcome.all),
        min_capacity_bytes: report.min_capacity.flatten(),
        min_capacity_over_live: report
            .min_capacity
            .flatten()
            .filter(|_| live > 0)
            .map(|bytes| bytes as f64 / live as f64),
        steady: outcome.steady.as_ref().map(Values::from),
        wall_seconds: report.wall.as_secs_f64(),
    };
    serde_json::to_writer(&mut *out, &document)?;
    writeln!(out)
}

#[derive(Serialize)]
struct Document<'a> {
    format: &'a str,
    name: &'a str,
    input: Input<'a>,
    policy: &'a str,
    is_model: bool,
    max_split_bytes: Option<u64>,
    roundup_power2_divisions: u32,
    hand_over: Option<&'a str>,
    backing: Option<&'a str>,
    reading: Option<&'a str>,
    hard_budget_bytes: Option<u64>,
    soft_budget_bytes: Option<u64>,
    passes: u32,
    lag_steps: u32,
    device: u32,
    capacity_bytes: Option<u64>,
    status: &'a str,
    failed_at: Option<u64>,
    failed_request: Option<Failed>,
    #[serde(flatten)]
    figures: Values<'a>,
    min_capacity_bytes: Option<u64>,
    min_capacity_over_live: Option<f64>,
    steady: Option<Values<'a>>,
    wall_seconds: f64,
}

#[derive(Serialize)]
struct Input<'a> {
    path: &'a str,
    format: &'a str,
    rows: usize,
    is_cut: bool,
}

#[derive(Serialize)]
struct Failed {
    row: u64,
    pass: u32,
    id: u64,
    bytes: u64,
    stream: i64,
    live_bytes: u64,
    reserved_bytes: u64,
    largest_free_bytes: u64,
}

impl From<FailedRequest> for Failed {
    fn from(failed: FailedRequest) -> Self {
        Self {
            row: failed.row,
            pass: failed.pass,
            id: failed.id,
            bytes: failed.bytes,
            stream: failed.stream,
            live_bytes: failed.live_bytes,
            reserved_bytes: failed.reserved_bytes,
            largest_free_bytes: failed.largest_free_bytes,
        }
    }
}

#[derive(Serialize)]
struct Values<'a> {
    allocs: u64,
    frees: u64,
    peak_live_bytes: u64,
    peak_live_rounded_bytes: u64,
    peak_live_plus_held_bytes: u64,
    peak_reserved_bytes: u64,
    reserved_over_live: f64,
    fragmentation_percent: Fragmentation,
    driver_calls: Calls<'a>,
    host_waits: u64,
    stream_waits: u64,
    event_records: u64,
    event_queries: u64,
    modelled_driver_seconds: f64,
    makespan_over_unlimited: f64,
}

#[derive(Serialize)]
struct Fragmentation {
    end: f64,
    highest: f64,
}

impl<'a> From<&'a Figures> for Values<'a> {
    fn from(figures: &'a Figures) -> Self {
        Self {
            allocs: figures.allocs,
            frees: figures.frees,
            peak_live_bytes: figures.peak_live_bytes,
            peak_live_rounded_bytes: figures.peak_live_rounded_bytes,
            peak_live_plus_held_bytes: figures.peak_live_plus_held_bytes,
            peak_reserved_bytes: figures.peak_reserved_bytes,
            reserved_over_live: figures.reserved_over_live(),
            fragmentation_percent: Fragmentation {
                end: figures.fragmentation_percent.end,
                highest: figures.fragmentation_percent.highest,
            },
            driver_calls: Calls(&figures.driver_calls),
            host_waits: figures.host_waits,
            stream_waits: figures.stream_waits,
            event_records: figures.driver_calls.of(DriverCall::EventRecord).calls,
            event_queries: figures.driver_calls.of(DriverCall::EventQuery).calls,
            modelled_driver_seconds: figures.driver_calls.modelled_driver_seconds(),
            makespan_over_unlimited: figures.makespan_over_unlimited(),
        }
    }
}

struct Calls<'a>(&'a CallCounts);

#[derive(Serialize)]
struct Call {
    calls: u64,
    failed: u64,
    handles: u64,
    bytes: u64,
}

impl Serialize for Calls<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(None)?;
        for (kind, count) in self.0.iter() {
            let call = Call { calls: count.calls, failed: count.failed, handles: count.handles, bytes: count.bytes };
            map.serialize_entry(kind.name(), &call)?;
        }
        map.end()
    }
}
