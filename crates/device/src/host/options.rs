//! What a host device is to be like.

use std::time::Duration;

/// When work finishes that could start.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum Completion {
    /// As soon as a worker has done it. Records and waits with nothing before them are done at once.
    #[default]
    Prompt,
    /// Each copy, fill, launch and record takes some time more, up to `longest`. The same `seed` gives the entry of the
    /// same number on the same stream the same time.
    Late {
        /// Most time an entry takes.
        longest: Duration,
        /// Picks the times.
        seed: u64,
    },
    /// Nothing finishes until [`HostDevice::finish`](crate::HostDevice::finish) and its kin say so, or the host waits
    /// for it. For tests.
    Manual,
}

/// What a host device is to be like.
///
/// ```
/// let mut options = device::HostOptions::with_capacity(1 << 30);
/// options.completion = device::Completion::Manual;
/// let device = device::HostDevice::new(options)?;
/// # Ok::<(), device::Error>(())
/// ```
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct HostOptions {
    /// What it is called. Default "host memory".
    pub name: String,
    /// Memory for plain allocations and handles together, by the device's own account: it may be more than the machine
    /// has, as long as it isn't touched. `None`, the default, is half of what the machine or its container has.
    pub capacity_bytes: Option<u64>,
    /// Plain allocations take a multiple of this, at a multiple of it; a power of two, at least the system's page.
    /// Default 2 MiB.
    pub plain_granule_bytes: u64,
    /// Page of virtual memory; a power of two, at least the system's page. Default 2 MiB. `None`: no virtual memory.
    pub page_bytes: Option<u64>,
    /// Most page-locked memory. What the system allows (`RLIMIT_MEMLOCK`) counts besides. `None`, the default, is half
    /// of what the machine or its container has; `Some(0)`: no page-locked memory.
    pub page_locked_limit_bytes: Option<u64>,
    /// Whether handles can be given to other processes. Each has a file descriptor of its own then, of which a process
    /// has few (`RLIMIT_NOFILE`). Default false: all handles share one.
    pub exports_handles: bool,
    /// When work finishes.
    pub completion: Completion,
    /// Most threads that do work. Started when there is work. Default (0): as many as the machine has processors, at
    /// most 4.
    pub threads: usize,
}

impl HostOptions {
    /// The default with another capacity.
    #[must_use]
    pub fn with_capacity(capacity_bytes: u64) -> HostOptions {
        HostOptions { capacity_bytes: Some(capacity_bytes), ..HostOptions::default() }
    }
}

impl Default for HostOptions {
    fn default() -> HostOptions {
        HostOptions {
            name: "host memory".to_owned(),
            capacity_bytes: None,
            plain_granule_bytes: 2 << 20,
            page_bytes: Some(2 << 20),
            page_locked_limit_bytes: None,
            exports_handles: false,
            completion: Completion::default(),
            threads: 0,
        }
    }
}
