//! What a row of a trace costs on the simulated device.
//!
//! `cargo bench -p device`. The program is made up: 17 streams of which one allocates and the others use what it made,
//! as collectives do, with 2 000 blocks alive; each row is one call or two.

use criterion::{Criterion, Throughput, criterion_group, criterion_main};
use device::{
    Access, AddressRange, Device, DevicePtr, Mapping, OrderCheck, SimDevice, SimOptions, StreamId, Touch, VirtualMemory,
};
use std::hint::black_box;

const ROWS: u64 = 100_000;
const BLOCKS: u64 = 2_000;
const PAGE: u64 = 2 << 20;
const COMPUTE: StreamId = StreamId::DEFAULT;

/// Memory for all blocks, of 1 to 8 pages each.
fn memory(device: &SimDevice, mapped: bool) -> device::Result<DevicePtr> {
    let bytes = BLOCKS * 8 * PAGE;
    if !mapped {
        return device.alloc(bytes);
    }
    let range = device.reserve_range(bytes, 0)?;
    let handles = device.create_handles(PAGE, (bytes / PAGE) as usize)?;
    let at = |page: u64| DevicePtr(range.start.0 + page * PAGE);
    let mappings: Vec<_> =
        (0..).zip(handles).map(|(page, handle)| Mapping { at: at(page), handle, bytes: PAGE }).collect();
    device.map(&mappings)?;
    device.set_access(&[AddressRange::new(range.start, bytes)], Access::ReadWrite)?;
    Ok(range.start)
}

/// Runs the program; every reuse is ordered.
fn run(device: &SimDevice, base: DevicePtr) -> device::Result<u64> {
    let streams: Vec<_> = (0..16).map(|_| device.create_stream()).collect::<device::Result<_>>()?;
    let event = device.create_event()?;
    let mut state = 1u64;
    for row in 0..ROWS {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        let random = state >> 33;
        device.host_row();
        let block = DevicePtr(base.0 + random % BLOCKS * 8 * PAGE);
        let bytes = (random >> 12) % (8 * PAGE) + 1;
        let helper = streams[(row / 8 % 16) as usize];
        match row % 8 {
            0..=4 => device.launch(COMPUTE, &[Touch::begin(block, bytes)]).map(drop)?,
            5 => device.launch(helper, &[Touch::again(block, bytes)]).map(drop)?,
            6 => {
                device.record_event(event, helper)?;
                device.wait_event(COMPUTE, event)?;
            }
            _ => {
                device.finish_up_to(helper, device.issued(helper)?)?;
                black_box(device.query_event(event)?);
            }
        }
    }
    device.synchronize()?;
    Ok(device.stats().makespan_ns)
}

fn rows(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("rows");
    group.sample_size(10).throughput(Throughput::Elements(ROWS));
    for (name, check_order, mapped) in [
        ("watched", OrderCheck::Seen, false),
        ("watched, mapped pages", OrderCheck::Seen, true),
        ("unwatched", OrderCheck::Off, false),
    ] {
        group.bench_function(name, |bencher| {
            let fresh = || {
                let options = SimOptions { check_order, ..SimOptions::with_capacity(64 << 30) };
                let device = SimDevice::new(options)?;
                let base = memory(&device, mapped)?;
                device::Result::Ok((device, base))
            };
            bencher.iter_batched(
                fresh,
                |fresh| fresh.and_then(|(device, base)| run(&device, base)),
                criterion::BatchSize::LargeInput,
            );
        });
    }
    group.finish();
}

criterion_group!(benches, rows);
criterion_main!(benches);
