//! Statistics and snapshots.

use std::ffi::c_char;

use pools::{LevelFigures, Quantiles};

use crate::allocator::{AllocatorHandle, gpumem_allocator};
use crate::boundary::{boundary, versioned};
use crate::failure::Failure;
use crate::graph::save;
use crate::status::gpumem_status;

/// A level in bytes.
#[derive(Clone, Copy, Debug, Default)]
#[repr(C)]
#[allow(non_camel_case_types)] // the C name
pub struct gpumem_level {
    /// Now.
    pub current_bytes: u64,
    /// At its highest; while several streams allocate an upper bound.
    pub peak_bytes: u64,
    /// All that ever came in.
    pub cumulative_bytes: u64,
}

/// How long calls took, in ns, within 3.2 %.
#[derive(Clone, Copy, Debug, Default)]
#[repr(C)]
#[allow(non_camel_case_types)] // the C name
pub struct gpumem_quantiles {
    /// How many calls these stand for.
    pub count: u64,
    /// Half of them took at most this.
    pub p50_ns: u64,
    /// Nine in ten took at most this.
    pub p90_ns: u64,
    /// 99 in 100 took at most this.
    pub p99_ns: u64,
    /// 999 in 1000 took at most this.
    pub p999_ns: u64,
    /// The longest that was timed.
    pub max_ns: u64,
}

/// What an allocator has done and holds: live <= allocated <= active <= reserved. While other threads allocate, figures
/// are of slightly different moments. Begin with `GPUMEM_STATISTICS_INIT`.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
#[allow(non_camel_case_types)] // the C name
pub struct gpumem_statistics {
    /// `sizeof(gpumem_statistics)`.
    pub struct_size: usize,
    /// Bytes requested and not freed by the host.
    pub live: gpumem_level,
    /// The same after rounding.
    pub allocated: gpumem_level,
    /// Allocated, or freed by the host and still in use by streams.
    pub active: gpumem_level,
    /// Bytes held from the device.
    pub reserved: gpumem_level,
    /// Live bytes: temporary, cyclic, persistent.
    pub tiers: [gpumem_level; 3],
    /// Live bytes by precision, in the order of `GPUMEM_PRECISION_UNKNOWN` and so on.
    pub precisions: [gpumem_level; 13],
    /// Bytes that nothing uses, except those kept for threads.
    pub free_bytes: u64,
    /// The largest of these in one piece.
    pub largest_free_bytes: u64,
    /// (1 - largest free block / all free bytes) x 100.
    pub fragmentation_percent: f64,
    /// Bytes freed by the host that streams may still use.
    pub pending_bytes: u64,
    /// Bytes of freed blocks kept for the threads that freed them.
    pub cached_bytes: u64,
    /// Requests answered.
    pub allocs: u64,
    /// Blocks dropped.
    pub frees: u64,
    /// Requests answered by what their thread kept.
    pub cache_hits: u64,
    /// Small requests that weren't.
    pub cache_misses: u64,
    /// One in how many quick calls is timed.
    pub sampled_every: u64,
    /// Requests, quick ones weighted by how many they stand for.
    pub alloc_ns: gpumem_quantiles,
    /// Requests that were answered at once.
    pub alloc_hit_ns: gpumem_quantiles,
    /// All other requests; each is timed.
    pub alloc_slow_ns: gpumem_quantiles,
    /// Frees that were done at once.
    pub free_hit_ns: gpumem_quantiles,
    /// Frees of blocks with users, references or guards; each is timed.
    pub free_slow_ns: gpumem_quantiles,
    /// Requests that found nothing at hand.
    pub slow_requests: u64,
    /// Requests that failed.
    pub failed_requests: u64,
    /// Calls of the device that take or give back memory.
    pub driver_calls: u64,
    /// Of these, those that it refused.
    pub driver_refusals: u64,
    /// Reservations of plain memory that are held.
    pub segments: u64,
    /// Handles of physical memory that are held.
    pub handles: u64,
    /// Times that a step's end tidied up.
    pub defragmentations: u64,
    /// Cyclic blocks by references: 1, 2, 3, 4 to 7, and more.
    pub cyclic_references: [u64; 5],
    /// Bytes of host memory that the allocator takes.
    pub host_bytes: u64,
}

const NO_LEVEL: gpumem_level = gpumem_level { current_bytes: 0, peak_bytes: 0, cumulative_bytes: 0 };
const NO_QUANTILES: gpumem_quantiles =
    gpumem_quantiles { count: 0, p50_ns: 0, p90_ns: 0, p99_ns: 0, p999_ns: 0, max_ns: 0 };

versioned!(
    gpumem_statistics,
    [912],
    "GPUMEM_STATISTICS_INIT",
    gpumem_statistics {
        struct_size: size_of::<gpumem_statistics>(),
        live: NO_LEVEL,
        allocated: NO_LEVEL,
        active: NO_LEVEL,
        reserved: NO_LEVEL,
        tiers: [NO_LEVEL; 3],
        precisions: [NO_LEVEL; 13],
        free_bytes: 0,
        largest_free_bytes: 0,
        fragmentation_percent: 0.0,
        pending_bytes: 0,
        cached_bytes: 0,
        allocs: 0,
        frees: 0,
        cache_hits: 0,
        cache_misses: 0,
        sampled_every: 0,
        alloc_ns: NO_QUANTILES,
        alloc_hit_ns: NO_QUANTILES,
        alloc_slow_ns: NO_QUANTILES,
        free_hit_ns: NO_QUANTILES,
        free_slow_ns: NO_QUANTILES,
        slow_requests: 0,
        failed_requests: 0,
        driver_calls: 0,
        driver_refusals: 0,
        segments: 0,
        handles: 0,
        defragmentations: 0,
        cyclic_references: [0; 5],
        host_bytes: 0,
    }
);

fn level(figures: &LevelFigures) -> gpumem_level {
    gpumem_level {
        current_bytes: figures.current_bytes,
        peak_bytes: figures.peak_bytes,
        cumulative_bytes: figures.cumulative_bytes,
    }
}

fn quantiles(figures: &Quantiles) -> gpumem_quantiles {
    gpumem_quantiles {
        count: figures.count,
        p50_ns: figures.p50_ns,
        p90_ns: figures.p90_ns,
        p99_ns: figures.p99_ns,
        p999_ns: figures.p999_ns,
        max_ns: figures.max_ns,
    }
}

/// Any thread. What the allocator has done and holds.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn gpumem_allocator_statistics(
    allocator: *const gpumem_allocator,
    statistics: *mut gpumem_statistics,
) -> gpumem_status {
    boundary!(|caller| {
        let allocator = caller.handle::<AllocatorHandle>(allocator, "allocator")?.allocator();
        caller.struct_size(statistics, "statistics")?;
        let from = allocator.statistics();
        let found = gpumem_statistics {
            struct_size: 0,
            live: level(&from.live),
            allocated: level(&from.allocated),
            active: level(&from.active),
            reserved: level(&from.reserved),
            tiers: from.tiers.each_ref().map(level),
            precisions: from.precisions.each_ref().map(level),
            free_bytes: from.free_bytes,
            largest_free_bytes: from.largest_free_bytes,
            fragmentation_percent: from.fragmentation_percent,
            pending_bytes: from.pending_bytes,
            cached_bytes: from.cached_bytes,
            allocs: from.allocs,
            frees: from.frees,
            cache_hits: from.cache_hits,
            cache_misses: from.cache_misses,
            sampled_every: from.sampled_every,
            alloc_ns: quantiles(&from.alloc_ns),
            alloc_hit_ns: quantiles(&from.alloc_hit_ns),
            alloc_slow_ns: quantiles(&from.alloc_slow_ns),
            free_hit_ns: quantiles(&from.free_hit_ns),
            free_slow_ns: quantiles(&from.free_slow_ns),
            slow_requests: from.slow.requests,
            failed_requests: from.slow.failed,
            driver_calls: from.driver_calls,
            driver_refusals: from.driver_refusals,
            segments: from.segments,
            handles: from.handles,
            defragmentations: from.defragmentations,
            cyclic_references: from.cyclic_references,
            host_bytes: from.host_bytes,
        };
        caller.fill(statistics, found, "statistics")
    })
}

/// Any thread. The same and more as a JSON object, gpumem-statistics/1. Its size may change from one call to the next:
/// leave some room.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn gpumem_allocator_statistics_json(
    allocator: *const gpumem_allocator,
    buffer: *mut c_char,
    capacity: usize,
    size: *mut usize,
) -> gpumem_status {
    boundary!(|caller| {
        let allocator = caller.handle::<AllocatorHandle>(allocator, "allocator")?.allocator();
        caller.write_text(&runtime::statistics_json(&allocator.statistics()), buffer, capacity, size)
    })
}

/// Any thread. All segments and blocks as a JSON object, gpumem-snapshot/1. Requests of other threads go on meanwhile, and
/// its size may change from one call to the next: leave some room.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn gpumem_allocator_snapshot(
    allocator: *const gpumem_allocator,
    buffer: *mut c_char,
    capacity: usize,
    size: *mut usize,
) -> gpumem_status {
    boundary!(|caller| {
        let allocator = caller.handle::<AllocatorHandle>(allocator, "allocator")?.allocator();
        let mut bytes = Vec::new();
        runtime::snapshot_json(allocator, &mut bytes).map_err(|source| Failure::Unwritable { source })?;
        caller.write_text(&String::from_utf8_lossy(&bytes), buffer, capacity, size)
    })
}

/// Any thread. The same into a file; gzip if its name ends in `.gz`, zstd if in `.zst`. The file is in its place only once
/// it is whole.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn gpumem_allocator_snapshot_save(
    allocator: *const gpumem_allocator,
    path: *const c_char,
) -> gpumem_status {
    boundary!(|caller| {
        let allocator = caller.handle::<AllocatorHandle>(allocator, "allocator")?.allocator();
        let path = caller.text(path, "path")?;
        save(path, |out| {
            let mut out = std::io::BufWriter::new(out);
            let written = runtime::snapshot_json(allocator, &mut out).and_then(|()| std::io::Write::flush(&mut out));
            written.map_err(|source| formats::Error::Io { file: path.to_owned(), action: "write", source })
        })
    })
}
