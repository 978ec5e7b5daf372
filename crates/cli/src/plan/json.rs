//! The report as JSON: `gpumem-report/1`, described in `docs/formats.md`.

use std::io::{self, Write};

use coloring::PlacedBuffer;
use lifetime::Tier;
use serde::ser::{SerializeMap, SerializeSeq};
use serde::{Serialize, Serializer};

use super::Report;

/// Writes it, with a line end.
pub(super) fn write(report: &Report<'_>, out: &mut impl Write) -> io::Result<()> {
    let (loaded, planned, plan) = (report.loaded, report.planned, &report.planned.plan);
    let document = Document {
        format: "gpumem-report/1",
        name: &plan.name,
        input: Input {
            path: &loaded.source.path,
            format: loaded.source.format,
            compression: loaded.source.compression,
            stored_bytes: loaded.source.stored_bytes,
            text_bytes: loaded.source.text_bytes,
        },
        buffers: plan.buffers.len(),
        zero_byte: &loaded.zero_byte,
        sum_bytes: plan.buffers.iter().map(|b| b.bytes.0).sum(),
        max_load_bytes: plan.max_load.0,
        lower_bound_bytes: plan.lower_bound.0,
        bound_kind: plan.bound_kind.name(),
        peak_bytes: plan.peak.0,
        gap: plan.gap(),
        status: plan.status.name(),
        capacity_bytes: plan.capacity.map(|c| c.0),
        deterministic: planned.is_deterministic,
        solver: &plan.solver,
        nodes: planned.nodes,
        wall_seconds: report.wall.as_secs_f64(),
        cpu_seconds: report.cpu.as_secs_f64(),
        read_seconds: loaded.read.as_secs_f64(),
        analysis_seconds: loaded.analysed.as_secs_f64(),
        planning_seconds: report.planning.as_secs_f64(),
        conflict_edges: report.conflict_edges,
        max_clique_bytes: plan.max_load.0,
        given_order_load_bytes: loaded.given_load.map(|l| l.0),
        arena_base_bytes: planned.base.0,
        tiers: Tiers(&plan.buffers),
        holes: Holes {
            pieces_mean_before: planned.holes_before.pieces_mean,
            pieces_mean_after: planned.holes_after.pieces_mean,
            largest_free_min_before: planned.holes_before.largest_free_min_bytes,
            largest_free_min_after: planned.holes_after.largest_free_min_bytes,
        },
        baselines: Baselines(report),
        placements: Placements(&plan.buffers),
    };
    serde_json::to_writer(&mut *out, &document)?;
    writeln!(out)
}

#[derive(Serialize)]
struct Document<'a> {
    format: &'a str,
    name: &'a str,
    input: Input<'a>,
    buffers: usize,
    zero_byte: &'a [String],
    sum_bytes: u64,
    max_load_bytes: u64,
    lower_bound_bytes: u64,
    bound_kind: &'a str,
    peak_bytes: u64,
    gap: f64,
    status: &'a str,
    capacity_bytes: Option<u64>,
    deterministic: bool,
    solver: &'a str,
    nodes: u64,
    wall_seconds: f64,
    cpu_seconds: f64,
    read_seconds: f64,
    analysis_seconds: f64,
    planning_seconds: f64,
    conflict_edges: Option<u64>,
    max_clique_bytes: u64,
    given_order_load_bytes: Option<u64>,
    arena_base_bytes: u64,
    tiers: Tiers<'a>,
    holes: Holes,
    baselines: Baselines<'a>,
    placements: Placements<'a>,
}

#[derive(Serialize)]
struct Input<'a> {
    path: &'a str,
    format: &'a str,
    compression: &'a str,
    stored_bytes: u64,
    text_bytes: u64,
}

#[derive(Serialize)]
struct Holes {
    pieces_mean_before: f64,
    pieces_mean_after: f64,
    largest_free_min_before: u64,
    largest_free_min_after: u64,
}

struct Tiers<'a>(&'a [PlacedBuffer]);

#[derive(Serialize)]
struct Count {
    count: usize,
    bytes: u64,
}

/// How many buffers a tier has, and their bytes.
pub(super) fn count(buffers: &[PlacedBuffer], tier: Tier) -> (usize, u64) {
    let of_tier = buffers.iter().filter(|b| b.tier == tier);
    (of_tier.clone().count(), of_tier.map(|b| b.bytes.0).sum())
}

impl Serialize for Tiers<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(Some(Tier::ALL.len()))?;
        for tier in Tier::ALL {
            let (count, bytes) = count(self.0, tier);
            map.serialize_entry(tier.name(), &Count { count, bytes })?;
        }
        map.end()
    }
}

struct Baselines<'a>(&'a Report<'a>);

impl Serialize for Baselines<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(Some(self.0.baselines.peaks.len()))?;
        for (baseline, peak) in &self.0.baselines.peaks {
            map.serialize_entry(baseline.name(), &peak.0)?;
        }
        map.end()
    }
}

/// One after the other, so that a million need no second copy.
struct Placements<'a>(&'a [PlacedBuffer]);

#[derive(Serialize)]
struct Placement<'a> {
    id: &'a str,
    name: &'a str,
    offset: u64,
    bytes: u64,
    birth: u64,
    death: u64,
    tier: &'a str,
}

impl Serialize for Placements<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut list = serializer.serialize_seq(Some(self.0.len()))?;
        for b in self.0 {
            list.serialize_element(&Placement {
                id: &b.id,
                name: &b.name,
                offset: b.offset.0,
                bytes: b.bytes.0,
                birth: b.range.birth.0,
                death: b.range.death.0,
                tier: b.tier.name(),
            })?;
        }
        list.end()
    }
}
