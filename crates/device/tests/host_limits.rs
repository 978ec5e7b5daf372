//! Limits of the system that stand in the host device's way. Each test lowers a limit in a process of its own.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use device::{Access, AddressRange, Device, DevicePtr, Error, HostDevice, HostOptions, Mapping, Place};
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use std::os::unix::fs::MetadataExt;
use std::os::unix::process::CommandExt;
use std::process::Command;

const MIB: u64 = 1 << 20;
const CHILD: &str = "GPUMEM_TEST_LIMITS_CHILD";

/// Runs this very test again in a process of its own, and `body` there.
fn alone(name: &str, body: impl FnOnce()) {
    alone_by(name, |_| {}, body);
}

/// The same, as a user whom limits hold.
fn alone_unprivileged(name: &str, body: impl FnOnce()) {
    let nobody = 65_534;
    let drop_root = |command: &mut Command| {
        if rustix::process::geteuid().is_root() {
            command.uid(nobody).gid(nobody);
        }
    };
    alone_by(name, drop_root, body);
}

fn alone_by(name: &str, change: impl FnOnce(&mut Command), body: impl FnOnce()) {
    if std::env::var_os(CHILD).is_some() {
        return body();
    }
    let mut command = Command::new(std::env::current_exe().unwrap());
    command.args(["--exact", name, "--nocapture", "--test-threads", "1"]).env(CHILD, "1");
    change(&mut command);
    let child = match command.output() {
        Ok(child) => child,
        Err(error) if error.kind() == std::io::ErrorKind::PermissionDenied => {
            return println!("not run: another user can't start this test: {error}");
        }
        Err(error) => panic!("{error}"),
    };
    let said = String::from_utf8_lossy(&child.stdout);
    assert!(child.status.success(), "{said}\n{}", String::from_utf8_lossy(&child.stderr));
    assert!(said.contains("1 passed"), "{said}");
}

fn lower(resource: Resource, limit: u64) {
    setrlimit(resource, Rlimit { current: Some(limit), ..getrlimit(resource) }).unwrap();
}

fn open(page_bytes: u64) -> HostDevice {
    let mut options = HostOptions::with_capacity(80 << 30);
    options.page_bytes = Some(page_bytes);
    HostDevice::new(options).unwrap()
}

/// The error says that memory ran out, and because of what.
fn names<T: std::fmt::Debug>(result: device::Result<T>, limit: &str) -> Error {
    let error = result.unwrap_err();
    assert!(error.is_out_of_memory() && !error.is_sticky(), "{error:?}");
    assert!(error.to_string().contains(limit), "{error}");
    error
}

#[test]
fn a_limit_of_addresses_is_named() {
    alone("a_limit_of_addresses_is_named", || {
        let device = open(2 * MIB);
        lower(Resource::As, 4 << 30);
        let before = device.memory().unwrap();
        let error = names(device.alloc(8 << 30), "RLIMIT_AS");
        assert!(matches!(error, Error::OutOfMemory { free_bytes: 1.., total_bytes: 0x1_0000_0000, .. }), "{error:?}");
        names(device.vmm().unwrap().reserve_range(8 << 30, 0), "RLIMIT_AS");
        assert_eq!(device.memory().unwrap(), before);
        device.write(Place::Device(device.alloc(4 * MIB).unwrap()), &[1; 100]).unwrap();
        device.check().unwrap();
    });
}

#[test]
fn a_limit_of_open_files_is_named() {
    alone("a_limit_of_open_files_is_named", || {
        let mut options = HostOptions::with_capacity(1 << 30);
        options.exports_handles = true;
        let device = HostDevice::new(options).unwrap();
        let vmm = device.vmm().unwrap();
        lower(Resource::Nofile, 40);
        let before = device.memory().unwrap();
        let few = vmm.create_handles(2 * MIB, 10).unwrap();
        names(vmm.create_handles(2 * MIB, 100), "RLIMIT_NOFILE");
        // Those made before the refusal are gone, with their files.
        let more = vmm.create_handles(2 * MIB, 10).unwrap();
        vmm.release_handles(&few).unwrap();
        vmm.release_handles(&more).unwrap();
        assert_eq!(device.memory().unwrap(), before);
        device.check().unwrap();
        // A device whose handles share a file needs one.
        let mut files = Vec::new();
        while let Ok(file) = std::fs::File::open("/dev/null") {
            files.push(file);
        }
        names(HostDevice::new(HostOptions::with_capacity(1 << 30)), "RLIMIT_NOFILE");
        files.pop();
        let device = HostDevice::new(HostOptions::with_capacity(1 << 30)).unwrap();
        assert_eq!(device.vmm().unwrap().create_handles(2 * MIB, 100).unwrap().len(), 100);
    });
}

/// Whether this process may lock as much as it likes.
fn may_lock_anything() -> bool {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let effective = status.lines().find_map(|line| line.strip_prefix("CapEff:")).unwrap();
    u64::from_str_radix(effective.trim(), 16).unwrap() & (1 << 14) != 0
}

#[test]
fn a_limit_of_locked_memory_is_named() {
    alone_unprivileged("a_limit_of_locked_memory_is_named", || {
        if may_lock_anything() {
            println!("not run: CAP_IPC_LOCK lifts the limit of locked memory");
            return;
        }
        lower(Resource::Memlock, MIB);
        let device = open(2 * MIB);
        let locked = device.page_locked().unwrap();
        let held = locked.alloc_host(MIB / 2).unwrap();
        let error = names(locked.alloc_host(MIB), "RLIMIT_MEMLOCK");
        let free = MIB / 2;
        assert!(
            matches!(error, Error::OutOfMemory { free_bytes, total_bytes: MIB, .. } if free_bytes == free),
            "{error:?}"
        );
        assert_eq!(locked.locked_bytes(), MIB / 2);
        locked.free_host(held).unwrap();
        let whole = locked.alloc_host(MIB).unwrap();
        device.write(Place::Host(whole), &[1; 100]).unwrap();
    });
}

#[test]
fn a_limit_of_threads_is_named() {
    alone_unprivileged("a_limit_of_threads_is_named", || {
        if rustix::process::geteuid().is_root() {
            println!("not run: root may have any number of threads");
            return;
        }
        let device = open(2 * MIB);
        let ptr = device.alloc(MIB).unwrap();
        let before = getrlimit(Resource::Nproc);
        lower(Resource::Nproc, 1);
        let stream = device.create_stream().unwrap();
        names(device.fill(Place::Device(ptr), 1, 8, stream), "RLIMIT_NPROC");
        assert!(device.query_stream(stream).unwrap(), "nothing was queued");
        setrlimit(Resource::Nproc, before).unwrap();
        device.fill(Place::Device(ptr), 1, 8, stream).unwrap();
        device.synchronize().unwrap();
    });
}

fn count_of_mappings() -> usize {
    std::fs::read_to_string("/proc/self/maps").unwrap().lines().count()
}

#[test]
fn a_limit_of_mappings_is_named_and_nothing_is_half_done() {
    alone("a_limit_of_mappings_is_named_and_nothing_is_half_done", || {
        let limit: usize = std::fs::read_to_string("/proc/sys/vm/max_map_count").unwrap().trim().parse().unwrap();
        if limit > 200_000 {
            println!("not run: vm.max_map_count is {limit}, too many to reach");
            return;
        }
        let page = 4096;
        let device = open(page);
        let vmm = device.vmm().unwrap();
        // Neighbours in one file: the system keeps them as one mapping.
        let joined = vmm.reserve_range(64 * page, 0).unwrap();
        let handles = vmm.create_handles(page, 64).unwrap();
        let place = |range: AddressRange, index: u64| DevicePtr(range.start.0 + index * page);
        let neighbours: Vec<_> = (0..64)
            .zip(&handles)
            .map(|(index, &handle)| Mapping { at: place(joined, index), handle, bytes: page })
            .collect();
        vmm.map(&neighbours).unwrap();
        vmm.set_access(&[joined], Access::ReadWrite).unwrap();
        for (index, mapping) in neighbours.iter().enumerate() {
            device.write(Place::Device(mapping.at), &[index as u8; 4096]).unwrap();
        }
        // The same page again and again can't be kept as one.
        let wide = vmm.reserve_range((limit as u64 + 100) * page, 0).unwrap();
        let again = |index| Mapping { at: place(wide, index), handle: handles[0], bytes: page };
        let too_many: Vec<_> = (0..limit as u64 + 100).map(again).collect();
        let error = names(vmm.map(&too_many), "vm.max_map_count");
        assert!(error.to_string().contains("sysctl"), "{error}");
        assert!(count_of_mappings() < 200, "{} mappings are left", count_of_mappings());
        device.check().unwrap();
        // As many as there is room for, again and again, while the joined one is cut into ever more.
        let mut mapped = 0;
        let mut cut = 1;
        let refused = loop {
            for step in [1000, 100, 10, 1] {
                while mapped + step <= too_many.len() && vmm.map(&too_many[mapped..mapped + step]).is_ok() {
                    mapped += step;
                }
            }
            // The first goes without more room, the second doesn't: both stay.
            let batch = [too_many[mapped - 1].range(), AddressRange::new(place(joined, cut), page)];
            match vmm.unmap(&batch) {
                Ok(()) => (mapped, cut) = (mapped - 1, cut + 2),
                Err(error) => break error,
            }
        };
        assert!(refused.to_string().contains("vm.max_map_count"), "{refused}");
        let middle = AddressRange::new(place(joined, cut), page);
        names(vmm.set_access(&[too_many[mapped - 1].range(), middle], Access::Read), "vm.max_map_count");
        device.check().unwrap();
        for (index, mapping) in neighbours.iter().enumerate() {
            let mut found = [0; 4096];
            let is_gone = index < cut as usize && index % 2 == 1;
            assert_eq!(device.read(Place::Device(mapping.at), &mut found).is_err(), is_gone, "page {index}");
            assert_eq!(found, [if is_gone { 0 } else { index as u8 }; 4096], "page {index}");
        }
        let last = too_many[mapped - 1].range();
        // With some room made all goes on.
        vmm.unmap(&[last]).unwrap();
        vmm.unmap(&[AddressRange::new(too_many[0].at, (mapped as u64 - 1) * page)]).unwrap();
        vmm.unmap(&[middle]).unwrap();
        device.alloc(MIB).unwrap();
        device.check().unwrap();
    });
}

/// Bytes of memory in this process' files without a name.
fn bytes_in_files() -> u64 {
    let of = |entry: std::io::Result<std::fs::DirEntry>| {
        let path = entry.ok()?.path();
        let is_ours = std::fs::read_link(&path).ok()?.to_string_lossy().contains("memfd:gpumem");
        is_ours.then(|| std::fs::metadata(path).map_or(0, |found| found.blocks() * 512))
    };
    std::fs::read_dir("/proc/self/fd").unwrap().filter_map(of).sum()
}

fn resident_bytes() -> u64 {
    let status = std::fs::read_to_string("/proc/self/statm").unwrap();
    status.split_whitespace().nth(1).unwrap().parse::<u64>().unwrap() * rustix::param::page_size() as u64
}

#[test]
fn memory_goes_back_to_the_system() {
    alone("memory_goes_back_to_the_system", || {
        let device = open(2 * MIB);
        let vmm = device.vmm().unwrap();
        let range = vmm.reserve_range(16 * MIB, 0).unwrap();
        let handle = vmm.create_handles(16 * MIB, 1).unwrap()[0];
        vmm.map(&[Mapping { at: range.start, handle, bytes: 16 * MIB }]).unwrap();
        vmm.set_access(&[range], Access::ReadWrite).unwrap();
        let plain = device.alloc(16 * MIB).unwrap();
        let before = resident_bytes();
        assert_eq!(bytes_in_files(), 0);
        let bytes = vec![1; 16 * MIB as usize];
        device.write(Place::Device(range.start), &bytes).unwrap();
        device.write(Place::Device(plain), &bytes).unwrap();
        drop(bytes);
        assert!(bytes_in_files() >= 16 * MIB && resident_bytes() >= before + 32 * MIB);
        device.free(plain).unwrap();
        vmm.release_handles(&[handle]).unwrap();
        assert!(bytes_in_files() >= 16 * MIB, "it is still mapped");
        vmm.unmap(&[range]).unwrap();
        assert_eq!(bytes_in_files(), 0);
        assert!(resident_bytes() < before + 2 * MIB, "{} of {before} bytes", resident_bytes());
        drop(device);
        assert!(std::fs::read_to_string("/proc/self/maps").unwrap().lines().all(|line| !line.contains("memfd:gpumem")));
    });
}
