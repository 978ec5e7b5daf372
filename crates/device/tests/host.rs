//! What the host device does besides what every device does.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use device::{
    Access, AddressRange, Completion, Device, DevicePtr, Error, HostDevice, HostOptions, Mapping, Place, StreamId,
};
use std::os::fd::AsFd;
use std::os::unix::process::CommandExt;
use std::process::Command;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, OnceLock, mpsc};
use std::time::Duration;

const MIB: u64 = 1 << 20;
const STREAM: StreamId = StreamId::DEFAULT;

fn open(change: impl FnOnce(&mut HostOptions)) -> HostDevice {
    let mut options = HostOptions::with_capacity(1 << 30);
    change(&mut options);
    HostDevice::new(options).unwrap()
}

fn prompt() -> HostDevice {
    open(|_| {})
}

fn manual() -> HostDevice {
    open(|options| options.completion = Completion::Manual)
}

fn at(ptr: DevicePtr, bytes: u64) -> Place {
    Place::Device(DevicePtr(ptr.0 + bytes))
}

fn bytes_at(device: &HostDevice, place: Place, bytes: usize) -> Vec<u8> {
    let mut found = vec![0xaa; bytes];
    device.read(place, &mut found).unwrap();
    found
}

/// A range with `pages` pages of memory in it, accessible, each a handle.
fn mapped(device: &HostDevice, pages: u64) -> (AddressRange, Vec<Mapping>) {
    let vmm = device.vmm().unwrap();
    let bytes = device.info().page_bytes.unwrap();
    let range = vmm.reserve_range(pages * bytes, 0).unwrap();
    let handles = vmm.create_handles(bytes, pages as usize).unwrap();
    let mappings: Vec<_> = (0..pages)
        .zip(handles)
        .map(|(page, handle)| Mapping { at: DevicePtr(range.start.0 + page * bytes), handle, bytes })
        .collect();
    vmm.map(&mappings).unwrap();
    vmm.set_access(&[range], Access::ReadWrite).unwrap();
    (range, mappings)
}

fn is_wrong_moment(result: device::Result<()>, word: &str) {
    let error = result.unwrap_err();
    assert!(matches!(&error, Error::InvalidState(_)), "{error:?}");
    assert!(error.to_string().contains(word), "{error}");
}

// -- memory

#[test]
fn untouched_memory_reads_as_zero_also_when_it_is_used_again() {
    let device = prompt();
    let vmm = device.vmm().unwrap();
    for _ in 0..3 {
        let ptr = device.alloc(2 * MIB).unwrap();
        let (range, mappings) = mapped(&device, 2);
        for start in [ptr, range.start] {
            assert_eq!(bytes_at(&device, at(start, MIB), 5000), vec![0; 5000]);
            device.write(at(start, MIB), &[7; 5000]).unwrap();
        }
        device.free(ptr).unwrap();
        vmm.unmap(&[range]).unwrap();
        vmm.release_handles(&mappings.iter().map(|mapping| mapping.handle).collect::<Vec<_>>()).unwrap();
        vmm.release_range(range).unwrap();
    }
    assert_eq!(device.memory().unwrap().free_bytes, 1 << 30);
    device.check().unwrap();
}

#[test]
fn capacity_that_is_never_touched_costs_nothing() {
    let resident = || -> u64 {
        let status = std::fs::read_to_string("/proc/self/statm").unwrap();
        status.split_whitespace().nth(1).unwrap().parse::<u64>().unwrap() * 4096
    };
    let before = resident();
    let device = HostDevice::new(HostOptions::with_capacity(80 << 30)).unwrap();
    let plain = device.alloc(60 << 30).unwrap();
    let vmm = device.vmm().unwrap();
    let range = vmm.reserve_range(20 << 30, 0).unwrap();
    let handle = vmm.create_handles(20 << 30, 1).unwrap()[0];
    vmm.map(&[Mapping { at: range.start, handle, bytes: 20 << 30 }]).unwrap();
    vmm.set_access(&[range], Access::ReadWrite).unwrap();
    assert_eq!(device.memory().unwrap().free_bytes, 0);
    assert!(device.alloc(1).unwrap_err().is_out_of_memory());
    for end in [at(plain, (60 << 30) - 8), at(range.start, (20 << 30) - 8)] {
        device.write(end, &[9; 8]).unwrap();
        assert_eq!(bytes_at(&device, end, 8), [9; 8]);
    }
    let grown = resident().saturating_sub(before);
    assert!(grown < 256 * MIB, "{grown} bytes for nothing");
}

#[test]
fn pointers_are_addresses_of_this_process() {
    let device = prompt();
    let ptr = device.alloc(MIB).unwrap();
    // SAFETY:
    // - the address is the start of live plain memory of this device, and no work uses it.
    unsafe { std::ptr::with_exposed_provenance_mut::<u64>(ptr.0 as usize).write(0x0123_4567_89ab_cdef) };
    assert_eq!(bytes_at(&device, Place::Device(ptr), 8), 0x0123_4567_89ab_cdef_u64.to_ne_bytes());
}

#[test]
fn one_copy_may_cross_many_mappings() {
    let device = open(|options| options.page_bytes = Some(4096));
    let (range, mappings) = mapped(&device, 8);
    let plain = device.alloc(MIB).unwrap();
    let bytes: Vec<u8> = (0..6 * 4096u32).map(|index| (index / 7) as u8).collect();
    device.write(at(range.start, 1000), &bytes).unwrap();
    device.copy(at(plain, 77), at(range.start, 1000), bytes.len() as u64, STREAM).unwrap();
    device.copy(at(range.start, 2000), at(plain, 77), bytes.len() as u64, STREAM).unwrap();
    device.synchronize().unwrap();
    assert_eq!(bytes_at(&device, at(plain, 77), bytes.len()), bytes);
    assert_eq!(bytes_at(&device, at(range.start, 2000), bytes.len()), bytes);
    // A hole in the middle is named.
    let hole = mappings[3].range();
    device.vmm().unwrap().unmap(&[hole]).unwrap();
    let refused = device.read(at(range.start, 0), &mut vec![0; 5 * 4096]).unwrap_err();
    assert!(refused.to_string().contains(&format!("there is none at {:#x}", hole.start.0)), "{refused}");
    device.check().unwrap();
}

#[test]
fn what_may_only_be_read_is_not_written() {
    let device = prompt();
    let (range, _) = mapped(&device, 1);
    let place = Place::Device(range.start);
    device.write(place, &[1; 64]).unwrap();
    device.vmm().unwrap().set_access(&[range], Access::Read).unwrap();
    assert_eq!(bytes_at(&device, place, 64), [1; 64]);
    assert!(matches!(device.write(place, &[2; 64]), Err(Error::InvalidValue(_))));
    assert!(matches!(device.fill(place, 2, 64, STREAM), Err(Error::InvalidValue(_))));
    assert_eq!(bytes_at(&device, place, 64), [1; 64]);
}

#[test]
fn memory_that_queued_work_uses_stays_where_it_is() {
    let device = manual();
    let vmm = device.vmm().unwrap();
    let (range, mappings) = mapped(&device, 2);
    let plain = device.alloc(MIB).unwrap();
    let (first, second) = (mappings[0].range(), mappings[1].range());
    device.copy(Place::Device(plain), Place::Device(first.start), MIB, STREAM).unwrap();
    vmm.unmap(&[second]).unwrap();
    is_wrong_moment(vmm.unmap(&[first]), "hasn't finished");
    is_wrong_moment(vmm.set_access(&[first], Access::Read), "hasn't finished");
    device.check().unwrap();
    device.finish(STREAM).unwrap();
    vmm.set_access(&[first], Access::Read).unwrap();
    vmm.unmap(&[first]).unwrap();
    vmm.release_range(range).unwrap();
    // Plain memory waits instead.
    device.fill(Place::Device(plain), 3, MIB, STREAM).unwrap();
    device.free(plain).unwrap();
    assert!(device.query_stream(STREAM).unwrap());
    device.check().unwrap();
}

#[test]
fn page_locked_memory_in_use_is_not_freed() {
    let device = manual();
    let locked = device.page_locked().unwrap();
    let host = locked.alloc_host(4096).unwrap();
    let plain = device.alloc(MIB).unwrap();
    device.copy(Place::Host(host), Place::Device(plain), 4096, STREAM).unwrap();
    is_wrong_moment(locked.free_host(host), "hasn't finished");
    device.finish(STREAM).unwrap();
    locked.free_host(host).unwrap();
    assert_eq!(locked.locked_bytes(), 0);
}

#[test]
fn an_option_limits_page_locked_memory() {
    let device = open(|options| options.page_locked_limit_bytes = Some(8192));
    let locked = device.page_locked().unwrap();
    locked.alloc_host(4096).unwrap();
    let refused = locked.alloc_host(4097).unwrap_err();
    assert!(matches!(refused, Error::OutOfMemory { free_bytes: 4096, total_bytes: 8192, .. }), "{refused:?}");
    assert!(refused.to_string().contains("page_locked_limit_bytes"), "{refused}");
}

// -- streams

#[test]
fn nothing_finishes_on_a_manual_device_until_told() {
    let device = manual();
    let plain = device.alloc(MIB).unwrap();
    let other = device.create_stream().unwrap();
    let event = device.create_event().unwrap();
    device.fill(Place::Device(plain), 5, 64, STREAM).unwrap();
    device.record_event(event, STREAM).unwrap();
    device.wait_event(other, event).unwrap();
    device.fill(Place::Device(plain), 6, 32, other).unwrap();
    let stands = |event_happened, first, second| {
        assert_eq!(device.query_event(event).unwrap(), event_happened);
        assert_eq!(device.query_stream(STREAM).unwrap(), first);
        assert_eq!(device.query_stream(other).unwrap(), second);
        device.check().unwrap();
    };
    stands(false, false, false);
    device.finish_next(STREAM).unwrap();
    assert_eq!(bytes_at(&device, Place::Device(plain), 2), [5; 2]);
    stands(false, false, false);
    // The first entry of the other stream is its wait, which takes the record along.
    device.finish_next(other).unwrap();
    stands(true, true, false);
    assert_eq!(bytes_at(&device, Place::Device(plain), 2), [5; 2]);
    device.finish(other).unwrap();
    stands(true, true, true);
    assert_eq!(bytes_at(&device, Place::Device(plain), 64), [[6; 32], [5; 32]].concat());
}

#[test]
fn work_runs_beside_the_host_and_events_happen_after_it() {
    let device = prompt();
    let (go, gate) = mpsc::channel::<()>();
    let event = device.create_event().unwrap();
    device.launch(STREAM, move || gate.recv().unwrap()).unwrap();
    device.record_event(event, STREAM).unwrap();
    assert!(!device.query_event(event).unwrap(), "the work before it waits for us");
    assert!(!device.query_stream(STREAM).unwrap());
    // Another stream isn't held up.
    let other = device.create_stream().unwrap();
    let plain = device.alloc(MIB).unwrap();
    device.fill(Place::Device(plain), 1, MIB, other).unwrap();
    device.synchronize_stream(other).unwrap();
    assert!(!device.query_event(event).unwrap());
    go.send(()).unwrap();
    device.synchronize_event(event).unwrap();
    assert!(device.query_stream(STREAM).unwrap());
}

#[test]
fn a_destroyed_stream_finishes_its_work() {
    let device = manual();
    let plain = device.alloc(MIB).unwrap();
    let stream = device.create_stream().unwrap();
    let event = device.create_event().unwrap();
    device.fill(Place::Device(plain), 8, 64, stream).unwrap();
    device.record_event(event, stream).unwrap();
    device.destroy_stream(stream).unwrap();
    assert!(!device.query_event(event).unwrap());
    device.synchronize_event(event).unwrap();
    assert_eq!(bytes_at(&device, Place::Device(plain), 64), [8; 64]);
    device.check().unwrap();
}

#[test]
fn who_queues_much_faster_than_the_device_works_waits_for_it() {
    let device = open(|options| options.threads = 1);
    let plain = device.alloc(MIB).unwrap();
    for index in 0..200_000u32 {
        device.fill(Place::Device(plain), index as u8, 16, STREAM).unwrap();
    }
    device.synchronize().unwrap();
    assert_eq!(bytes_at(&device, Place::Device(plain), 16), [(199_999u32 as u8); 16]);
}

#[test]
fn late_work_finishes_later_than_it_could() {
    // Never dropped, which could take an hour: the process exits with work left.
    static DEVICE: OnceLock<HostDevice> = OnceLock::new();
    let device = DEVICE.get_or_init(|| {
        open(|options| options.completion = Completion::Late { longest: Duration::from_secs(3600), seed: 1 })
    });
    let event = device.create_event().unwrap();
    device.record_event(event, STREAM).unwrap();
    assert!(!device.query_event(event).unwrap());
}

#[test]
fn work_that_panics_loses_the_device() {
    let device = prompt();
    device.launch(STREAM, || panic!("on purpose")).unwrap();
    let lost = device.synchronize().unwrap_err();
    assert!(lost.is_sticky() && lost.to_string().contains("on purpose"), "{lost}");
    assert_eq!(device.alloc(1).unwrap_err(), lost);
    assert_eq!(device.create_stream().unwrap_err(), lost);
}

#[test]
fn dropping_a_busy_device_finishes_its_work() {
    for completion in
        [Completion::Prompt, Completion::Late { longest: Duration::from_micros(200), seed: 3 }, Completion::Manual]
    {
        let device = open(|options| options.completion = completion);
        let done = Arc::new(AtomicUsize::new(0));
        let mut last = device.create_event().unwrap();
        for round in 0..50 {
            let stream = device.create_stream().unwrap();
            device.wait_event(stream, last).unwrap();
            let done = Arc::clone(&done);
            // Each has to find what the ones before did.
            device.launch(stream, move || assert_eq!(done.fetch_add(1, Ordering::SeqCst), round)).unwrap();
            last = device.create_event().unwrap();
            device.record_event(last, stream).unwrap();
        }
        drop(device);
        assert_eq!(done.load(Ordering::SeqCst), 50, "{completion:?}");
        assert_eq!(Arc::strong_count(&done), 1, "the threads are gone, and what they held");
    }
}

#[test]
fn the_last_owner_may_be_the_devices_own_work() {
    let device = Arc::new(prompt());
    let (said, hear) = mpsc::channel();
    let own = Arc::clone(&device);
    let (go, gate) = mpsc::channel::<()>();
    device
        .launch(STREAM, move || {
            gate.recv().unwrap();
            drop(own);
            said.send(()).unwrap();
        })
        .unwrap();
    drop(device);
    go.send(()).unwrap();
    hear.recv().unwrap();
}

#[test]
fn sixty_four_threads_keep_their_bytes_apart() {
    let device = open(|options| options.capacity_bytes = Some(4 << 30));
    let broken = AtomicBool::new(false);
    std::thread::scope(|scope| {
        for thread in 0..64u8 {
            let (device, broken) = (&device, &broken);
            scope.spawn(move || {
                let stream = device.create_stream().unwrap();
                let event = device.create_event().unwrap();
                for round in 0..20u8 {
                    let (one, two) = (device.alloc(64 << 10).unwrap(), device.alloc(64 << 10).unwrap());
                    let value = thread.wrapping_mul(7).wrapping_add(round);
                    device.fill(Place::Device(one), value, 64 << 10, stream).unwrap();
                    device.copy(Place::Device(two), Place::Device(one), 64 << 10, stream).unwrap();
                    device.record_event(event, stream).unwrap();
                    device.synchronize_event(event).unwrap();
                    let found = bytes_at(device, Place::Device(two), 64 << 10);
                    if found.iter().any(|byte| *byte != value) {
                        broken.store(true, Ordering::Relaxed);
                    }
                    device.free(two).unwrap();
                    device.free(one).unwrap();
                }
                device.destroy_stream(stream).unwrap();
            });
        }
    });
    assert!(!broken.load(Ordering::Relaxed));
    assert_eq!(device.memory().unwrap().free_bytes, 4 << 30);
    device.check().unwrap();
}

// -- processes

#[test]
fn a_forked_child_is_refused_and_does_not_hang() {
    let device = prompt();
    let plain = device.alloc(MIB).unwrap();
    let (go, gate) = mpsc::channel::<()>();
    device.launch(STREAM, move || gate.recv().unwrap()).unwrap();
    let device = Mutex::new(Some(device));
    let device = Arc::new(device);
    let in_child = Arc::clone(&device);
    let mut command = Command::new("true");
    let check = move || {
        let Ok(mut device) = in_child.lock() else { return Err(std::io::Error::other("lock")) };
        let taken = device.take();
        let refused = taken.as_ref().is_some_and(|device| {
            matches!(device.alloc(1), Err(Error::Forked(_)))
                && matches!(device.synchronize(), Err(Error::Forked(_)))
                && matches!(device.free(plain), Err(Error::Forked(_)))
        });
        drop(taken);
        if refused { Ok(()) } else { Err(std::io::Error::other("the child was served")) }
    };
    // SAFETY:
    // - the closure runs between fork and exec: it takes a lock that no other thread touches, asks for the process id and
    //   builds errors. It allocates, which the C libraries we run on allow after a fork.
    unsafe { command.pre_exec(check) };
    assert!(command.status().unwrap().success());
    go.send(()).unwrap();
    let device = device.lock().unwrap().take().unwrap();
    device.synchronize().unwrap();
    device.free(plain).unwrap();
}

#[test]
fn a_limit_of_file_sizes_is_named_instead_of_ending_the_process() {
    let mut command = Command::new("true");
    let check = || {
        let limit = rustix::process::Rlimit { current: Some(1 << 20), maximum: Some(1 << 20) };
        rustix::process::setrlimit(rustix::process::Resource::Fsize, limit)?;
        match HostDevice::new(HostOptions::with_capacity(64 << 20)) {
            Err(Error::OutOfMemory { failure, .. }) if failure.reason.contains("ulimit -f") => Ok(()),
            _ => Err(std::io::Error::other("no such refusal")),
        }
    };
    // SAFETY:
    // - the closure runs between fork and exec: it sets a limit of the child's own, and makes a device that it drops
    //   again. It allocates, which the C libraries we run on allow after a fork.
    unsafe { command.pre_exec(check) };
    assert!(command.status().unwrap().success());
}

#[test]
fn exported_memory_shows_the_same_bytes_in_another_device() {
    let export = |options: &mut HostOptions| options.exports_handles = true;
    let (one, two) = (open(export), open(export));
    let (range, mappings) = mapped(&one, 1);
    let page = range.bytes;
    one.write(at(range.start, 100), b"from one").unwrap();
    let descriptor = one.ipc().unwrap().export(mappings[0].handle).unwrap();
    let handle = two.ipc().unwrap().import(descriptor.as_fd(), page).unwrap();
    let vmm = two.vmm().unwrap();
    let there = vmm.reserve_range(page, 0).unwrap();
    vmm.map(&[Mapping { at: there.start, handle, bytes: page }]).unwrap();
    vmm.set_access(&[there], Access::ReadWrite).unwrap();
    drop(descriptor);
    assert_eq!(bytes_at(&two, at(there.start, 100), 8), b"from one");
    two.write(at(there.start, 100), b"from two").unwrap();
    assert_eq!(bytes_at(&one, at(range.start, 100), 8), b"from two");
    // It lives as long as anybody has it.
    drop(one);
    assert_eq!(bytes_at(&two, at(there.start, 100), 8), b"from two");
}

#[test]
fn only_exported_memory_is_imported() {
    let device = open(|options| options.exports_handles = true);
    let page = device.info().page_bytes.unwrap();
    let (_, mappings) = mapped(&device, 1);
    let ipc = device.ipc().unwrap();
    let descriptor = ipc.export(mappings[0].handle).unwrap();
    let file = tempfile::tempfile().unwrap();
    file.set_len(page).unwrap();
    let flags = rustix::fs::MemfdFlags::ALLOW_SEALING;
    let unsealed = rustix::fs::memfd_create("unsealed", flags).unwrap();
    rustix::fs::ftruncate(&unsealed, page).unwrap();
    let before = device.memory().unwrap();
    for (what, descriptor, bytes) in [
        ("another size", descriptor.as_fd(), 2 * page),
        ("a file", file.as_fd(), page),
        ("memory that could shrink", unsealed.as_fd(), page),
    ] {
        let refused = ipc.import(descriptor, bytes).unwrap_err();
        assert!(matches!(refused, Error::InvalidValue(_)), "{what}: {refused:?}");
    }
    assert_eq!(device.memory().unwrap(), before);
    assert!(prompt().ipc().is_none());
}
