//! What calls of the host device cost the caller, and how fast its streams copy.
#![allow(missing_docs, clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use criterion::{Criterion, Throughput, criterion_group, criterion_main};
use device::{Access, Device, HostDevice, HostOptions, Mapping, Place, StreamId};

const STREAM: StreamId = StreamId::DEFAULT;
const PAGE: u64 = 2 << 20;

fn memory(c: &mut Criterion) {
    let device = HostDevice::new(HostOptions::with_capacity(80 << 30)).unwrap();
    let mut group = c.benchmark_group("host_memory");
    group.bench_function("alloc and free of 2 MiB, untouched", |b| {
        b.iter(|| device.free(device.alloc(PAGE).unwrap()).unwrap());
    });
    let vmm = device.vmm().unwrap();
    for pages in [1, 64] {
        let range = vmm.reserve_range(pages * PAGE, 0).unwrap();
        let handles = vmm.create_handles(PAGE, pages as usize).unwrap();
        let at = |index| device::DevicePtr(range.start.0 + index * PAGE);
        let mappings: Vec<_> =
            (0..pages).zip(&handles).map(|(index, &handle)| Mapping { at: at(index), handle, bytes: PAGE }).collect();
        group.throughput(Throughput::Elements(pages));
        group.bench_function(format!("map, set access, unmap of {pages} pages"), |b| {
            b.iter(|| {
                vmm.map(&mappings).unwrap();
                vmm.set_access(&[range], Access::ReadWrite).unwrap();
                vmm.unmap(&[range]).unwrap();
            });
        });
    }
    group.throughput(Throughput::Elements(1));
    group.bench_function("create and release a handle", |b| {
        b.iter(|| vmm.release_handles(&vmm.create_handles(PAGE, 1).unwrap()).unwrap());
    });
}

fn streams(c: &mut Criterion) {
    let device = HostDevice::new(HostOptions::with_capacity(1 << 30)).unwrap();
    let event = device.create_event().unwrap();
    let mut group = c.benchmark_group("host_streams");
    group.bench_function("record and query on an idle stream", |b| {
        b.iter(|| {
            device.record_event(event, STREAM).unwrap();
            assert!(device.query_event(event).unwrap());
        });
    });
    let bytes = 64 << 20;
    let (to, from) = (device.alloc(bytes).unwrap(), device.alloc(bytes).unwrap());
    device.write(Place::Device(from), &vec![1; bytes as usize]).unwrap();
    group.bench_function("queue a copy of 64 bytes and wait for it", |b| {
        b.iter(|| {
            device.copy(Place::Device(to), Place::Device(from), 64, STREAM).unwrap();
            device.synchronize_stream(STREAM).unwrap();
        });
    });
    group.bench_function("queue a copy of 64 bytes, many at a time", |b| {
        b.iter(|| device.copy(Place::Device(to), Place::Device(from), 64, STREAM).unwrap());
        device.synchronize_stream(STREAM).unwrap();
    });
    group.throughput(Throughput::Bytes(bytes));
    group.bench_function("copy 64 MiB and wait for it", |b| {
        b.iter(|| {
            device.copy(Place::Device(to), Place::Device(from), bytes, STREAM).unwrap();
            device.synchronize_stream(STREAM).unwrap();
        });
    });
}

criterion_group!(benches, memory, streams);
criterion_main!(benches);
