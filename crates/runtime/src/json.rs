//! Figures and states as JSON.

use std::io::{self, Write};

use pools::{Allocator, LevelFigures, Precision, Quantiles, Statistics, Tier};
use records::{BlockState, Names};
use serde_json::{Map, Value, json};

fn level(figures: &LevelFigures) -> Value {
    json!({
        "current_bytes": figures.current_bytes,
        "peak_bytes": figures.peak_bytes,
        "cumulative_bytes": figures.cumulative_bytes,
    })
}

fn quantiles(figures: &Quantiles) -> Value {
    json!({
        "count": figures.count,
        "p50_ns": figures.p50_ns,
        "p90_ns": figures.p90_ns,
        "p99_ns": figures.p99_ns,
        "p999_ns": figures.p999_ns,
        "max_ns": figures.max_ns,
    })
}

/// All figures of an allocator as a JSON object, in the form `gpumem-statistics/1`.
#[must_use]
pub fn statistics_json(statistics: &Statistics) -> String {
    let tiers = Tier::ALL.iter().zip(&statistics.tiers).map(|(tier, figures)| (tier.name().to_owned(), level(figures)));
    let precisions = Precision::ALL
        .iter()
        .zip(&statistics.precisions)
        .map(|(precision, figures)| (precision.name().to_owned(), level(figures)));
    let op_pools: Vec<Value> = statistics
        .op_pools
        .iter()
        .map(|pool| json!({"op": pool.op, "bytes": pool.bytes, "allocated_bytes": pool.allocated_bytes}))
        .collect();
    let (slow, order) = (&statistics.slow, &statistics.order);
    json!({
        "format": "gpumem-statistics/1",
        "live": level(&statistics.live),
        "allocated": level(&statistics.allocated),
        "active": level(&statistics.active),
        "reserved": level(&statistics.reserved),
        "tiers": tiers.collect::<Map<_, _>>(),
        "precisions": precisions.collect::<Map<_, _>>(),
        "free_bytes": statistics.free_bytes,
        "largest_free_bytes": statistics.largest_free_bytes,
        "fragmentation_percent": statistics.fragmentation_percent,
        "pending_bytes": statistics.pending_bytes,
        "cached_bytes": statistics.cached_bytes,
        "allocs": statistics.allocs,
        "frees": statistics.frees,
        "cache_hits": statistics.cache_hits,
        "cache_misses": statistics.cache_misses,
        "sampled_every": statistics.sampled_every,
        "latency": {
            "alloc": quantiles(&statistics.alloc_ns),
            "alloc_hit": quantiles(&statistics.alloc_hit_ns),
            "alloc_slow": quantiles(&statistics.alloc_slow_ns),
            "free_hit": quantiles(&statistics.free_hit_ns),
            "free_slow": quantiles(&statistics.free_slow_ns),
        },
        "slow": {
            "requests": slow.requests,
            "flushed": slow.flushed,
            "handed_over": slow.handed_over,
            "grown": slow.grown,
            "released": slow.released,
            "stream_waits": slow.stream_waits,
            "callbacks": slow.callbacks,
            "reclaimed": slow.reclaimed,
            "host_waits": slow.host_waits,
            "failed": slow.failed,
        },
        "driver_calls": statistics.driver_calls,
        "driver_refusals": statistics.driver_refusals,
        "segments": statistics.segments,
        "handles": statistics.handles,
        "defragmentations": statistics.defragmentations,
        "cyclic_references": statistics.cyclic_references,
        "op_pools": op_pools,
        "shards": statistics.shards,
        "magazine_sets": statistics.magazine_sets,
        "order": {
            "streams": order.streams,
            "streams_ever": order.streams_ever,
            "events": order.events,
            "entries": order.entries,
            "forgotten": order.forgotten,
            "marks": order.marks,
        },
        "host_bytes": statistics.host_bytes,
    })
    .to_string()
}

/// Writes all segments and blocks of an allocator as a JSON object, in the form `gpumem-snapshot/1`: one segment a line
/// and one block a line. Requests go on meanwhile.
///
/// # Errors
/// The writer failed.
pub fn snapshot_json(allocator: &Allocator, out: &mut dyn Write) -> io::Result<()> {
    let mut names = Names::default();
    let segments = allocator.snapshot().into_segments(&mut names);
    let capacity = allocator.device().info().total_bytes;
    write!(out, "{{\"format\":\"gpumem-snapshot/1\",\"capacity_bytes\":{capacity},\"segments\":[")?;
    for (number, segment) in segments.iter().enumerate() {
        let comma = if number > 0 { "," } else { "" };
        write!(
            out,
            "{comma}\n{{\"address\":{},\"bytes\":{},\"is_expandable\":{},\"is_persistent\":{},\"blocks\":[",
            segment.address,
            segment.bytes,
            segment.is_expandable,
            segment.pool.0 != 0,
        )?;
        for (number, block) in segment.blocks.iter().enumerate() {
            let comma = if number > 0 { "," } else { "" };
            let state = match block.state {
                BlockState::Live => "live",
                BlockState::Pending => "pending",
                BlockState::Free => "free",
            };
            write!(
                out,
                "{comma}\n{{\"address\":{},\"bytes\":{},\"requested_bytes\":{},\"state\":\"{state}\",\"stream\":{},\"op\":",
                block.address, block.bytes, block.requested_bytes, block.stream,
            )?;
            serde_json::to_writer(&mut *out, names.get(block.tag))?;
            out.write_all(b"}")?;
        }
        out.write_all(b"]}")?;
    }
    out.write_all(b"]}\n")
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;
    use crate::{Configuration, Instance};
    use device::StreamId;

    #[test]
    fn both_documents_are_json_and_say_what_is_live() {
        let configuration = Configuration::resolve("device=sim;capacity=1G", &[], &|_| None).unwrap();
        let instance = Instance::new(configuration).unwrap();
        let allocator = instance.allocator();
        let tag = pools::Tag::NONE.with_op("quo\"te");
        let block = allocator.alloc_tagged(5000, 0, StreamId(0), tag).unwrap();
        let statistics: Value = serde_json::from_str(&statistics_json(&allocator.statistics())).unwrap();
        assert_eq!(statistics["live"]["current_bytes"], 5000);
        let mut text = Vec::new();
        snapshot_json(allocator, &mut text).unwrap();
        let snapshot: Value = serde_json::from_slice(&text).unwrap();
        let live: Vec<&Value> = snapshot["segments"]
            .as_array()
            .unwrap()
            .iter()
            .flat_map(|segment| segment["blocks"].as_array().unwrap())
            .filter(|block| block["state"] == "live")
            .collect();
        assert_eq!(live.len(), 1);
        assert_eq!((&live[0]["requested_bytes"], &live[0]["op"]), (&json!(5000), &json!("quo\"te")));
        assert_eq!(live[0]["address"], block.0);
    }
}
