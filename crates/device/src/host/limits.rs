//! What the system allows, and which limit stood in the way.

use crate::books::Refusal;
use rustix::io::Errno;
use rustix::process::{Resource, getrlimit};
use std::borrow::Cow;
use std::fs;

/// Addresses a process has on the machines we run on, at least.
const ADDRESSES: u64 = 1 << 47;

/// Bytes of memory that the machine, or the container we are in, has.
pub(super) fn memory_bytes() -> u64 {
    let system = rustix::system::sysinfo();
    let machine = u64::from(system.mem_unit).saturating_mul(system.totalram);
    let container = fs::read_to_string("/sys/fs/cgroup/memory.max").ok();
    container.and_then(|text| text.trim().parse().ok()).map_or(machine, |limit: u64| limit.min(machine))
}

/// The system's page.
pub(super) fn system_page() -> u64 {
    rustix::param::page_size() as u64
}

fn number_in(path: &str) -> Option<u64> {
    fs::read_to_string(path).ok()?.trim().parse().ok()
}

/// Bytes by `/proc/self/status`, which counts in KiB.
fn status_bytes(field: &str) -> Option<u64> {
    let text = fs::read_to_string("/proc/self/status").ok()?;
    let line = text.lines().find_map(|line| line.strip_prefix(field)?.strip_prefix(':'))?;
    line.trim().strip_suffix("kB")?.trim().parse::<u64>().ok()?.checked_mul(1024)
}

fn ran_out(reason: impl Into<Cow<'static, str>>, free: u64, total: u64) -> Refusal {
    Refusal::Limit { reason: reason.into(), free_bytes: free, total_bytes: total }
}

/// Why addresses or memory could not be had, or not be given back.
pub(super) fn of_mapping(errno: Errno, bytes: u64) -> Refusal {
    match errno {
        Errno::NOMEM | Errno::AGAIN => no_mapping(bytes),
        _ => other("mmap", errno),
    }
}

fn no_mapping(bytes: u64) -> Refusal {
    let mappings = fs::read("/proc/self/maps").map_or(0, |text| text.iter().filter(|byte| **byte == b'\n').count());
    // A call may need two more than it leaves.
    if let Some(limit) = number_in("/proc/sys/vm/max_map_count")
        && mappings as u64 + 2 >= limit
    {
        let reason = format!(
            "the process has {mappings} mappings and vm.max_map_count allows {limit}; raise it with sysctl, or map fewer, larger pieces"
        );
        return ran_out(reason, 0, 0);
    }
    let limit = getrlimit(Resource::As).current;
    let used = status_bytes("VmSize").unwrap_or(0);
    if let Some(limit) = limit
        && used.saturating_add(bytes) > limit
    {
        let reason = format!("RLIMIT_AS (ulimit -v) allows the process {limit} bytes of addresses, {used} are taken");
        return ran_out(reason, limit.saturating_sub(used), limit);
    }
    if number_in("/proc/sys/vm/overcommit_memory") == Some(2) {
        let reason = "the system promises no more memory than it has (vm.overcommit_memory is 2)";
        return ran_out(reason, 0, 0);
    }
    ran_out("the system has no addresses or memory for it", ADDRESSES.saturating_sub(used), ADDRESSES)
}

/// Why memory could not be locked.
pub(super) fn of_locking(errno: Errno) -> Refusal {
    match (errno, getrlimit(Resource::Memlock).current) {
        (Errno::NOMEM | Errno::AGAIN | Errno::PERM, Some(limit)) => {
            let locked = status_bytes("VmLck").unwrap_or(0);
            let reason = format!(
                "RLIMIT_MEMLOCK (ulimit -l) allows the process {limit} bytes of locked memory, {locked} are locked"
            );
            ran_out(reason, limit.saturating_sub(locked), limit)
        }
        (Errno::NOMEM | Errno::AGAIN, None) => ran_out("the system can't lock more memory", 0, 0),
        _ => other("mlock", errno),
    }
}

/// Why a descriptor could not be had.
pub(super) fn of_descriptors(call: &'static str, errno: Errno) -> Refusal {
    match errno {
        Errno::MFILE => {
            let limit = getrlimit(Resource::Nofile).current.unwrap_or(u64::MAX);
            let reason = format!("RLIMIT_NOFILE (ulimit -n) allows the process {limit} open files, and all are open");
            ran_out(reason, 0, 0)
        }
        Errno::NFILE => ran_out("the system has as many open files as fs.file-max allows", 0, 0),
        Errno::FBIG => {
            let limit = getrlimit(Resource::Fsize).current.unwrap_or(u64::MAX);
            let reason = format!(
                "RLIMIT_FSIZE (ulimit -f) allows files of {limit} bytes, those without a name in memory included; raise it"
            );
            ran_out(reason, 0, 0)
        }
        Errno::NOMEM | Errno::NOSPC => ran_out("the system has no memory for it", 0, 0),
        _ => other(call, errno),
    }
}

/// Why no thread could be started.
pub(super) fn of_threads(error: &std::io::Error) -> Refusal {
    let limit = getrlimit(Resource::Nproc).current;
    let limit = limit.map_or_else(|| "none".to_owned(), |limit| limit.to_string());
    let reason = format!("no thread can be started: {error}; RLIMIT_NPROC (ulimit -u) is {limit}");
    ran_out(reason, 0, 0)
}

fn other(call: &str, errno: Errno) -> Refusal {
    Refusal::System(format!("{call} failed: {errno}"))
}
