//! The parts of a device that may be absent.

use crate::{AddressRange, DevicePtr, HandleId, HostPtr, Result, StreamId};
use std::fmt;
use std::os::fd::{BorrowedFd, OwnedFd};

/// Physical memory at an address. A handle is mapped whole, from its first byte.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Mapping {
    /// Where it begins.
    pub at: DevicePtr,
    /// What is mapped.
    pub handle: HandleId,
    /// The handle's size; anything else is refused.
    pub bytes: u64,
}

impl Mapping {
    /// The addresses it takes.
    #[must_use]
    pub fn range(&self) -> AddressRange {
        AddressRange::new(self.at, self.bytes)
    }
}

/// What work may do with mapped memory.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Access {
    /// Nothing. So it is after mapping.
    #[default]
    None,
    /// Read it.
    Read,
    /// Read and write it.
    ReadWrite,
}

impl fmt::Display for Access {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Access::None => "none",
            Access::Read => "read",
            Access::ReadWrite => "read and write",
        })
    }
}

/// Addresses apart from memory. All sizes and addresses are multiples of
/// [`page_bytes`](crate::DeviceInfo::page_bytes).
///
/// Batches are all or nothing, and an empty one is no call at all.
pub trait VirtualMemory: Send + Sync {
    /// Addresses without memory. They belong to the caller until released and overlap nothing. `alignment` is 0 (any
    /// page) or a power of two.
    fn reserve_range(&self, bytes: u64, alignment: u64) -> Result<AddressRange>;

    /// Gives addresses back: exactly a reserved range, with nothing mapped in it.
    fn release_range(&self, range: AddressRange) -> Result<()>;

    /// `count` pieces of physical memory of `bytes_each` bytes.
    fn create_handles(&self, bytes_each: u64, count: usize) -> Result<Vec<HandleId>>;

    /// Gives up handles. Memory that is still mapped goes back to the device once its last mapping is gone, and
    /// can't be mapped again.
    fn release_handles(&self, handles: &[HandleId]) -> Result<()>;

    /// Maps each handle whole at its address, in a reserved range where nothing is mapped. A handle may be mapped at
    /// several addresses at once; they show the same bytes.
    fn map(&self, mappings: &[Mapping]) -> Result<()>;

    /// Takes mappings away. Each range covers whole mappings without a gap. Work that may use these addresses must be
    /// known to have finished: doing it earlier is a contract error, which a simulated device reports and a real one
    /// answers with a fault, or not at all.
    fn unmap(&self, ranges: &[AddressRange]) -> Result<()>;

    /// Says what work may do with mapped memory. Each range covers whole mappings without a gap.
    fn set_access(&self, ranges: &[AddressRange], access: Access) -> Result<()>;
}

/// What the driver's own pool holds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PoolState {
    /// Bytes it has taken from the device.
    pub reserved_bytes: u64,
    /// Bytes handed out and not freed; at most `reserved_bytes`.
    pub live_bytes: u64,
}

/// The driver's own stream-ordered pool.
pub trait DriverPools: Send + Sync {
    /// Memory for work queued on `stream` from now on. Other streams may use it once they are ordered behind this call.
    /// Before it runs out, the pool may wait for the device and give idle memory back.
    fn alloc_async(&self, bytes: u64, stream: StreamId) -> Result<DevicePtr>;

    /// Gives memory back behind all work queued on `stream` so far.
    fn free_async(&self, ptr: DevicePtr, stream: StreamId) -> Result<()>;

    /// Gives idle memory back to the device until at most `keep_bytes` are reserved, or nothing more is idle. Memory
    /// counts as idle once the device has finished the work before its free.
    fn trim(&self, keep_bytes: u64) -> Result<()>;

    /// What the pool holds now.
    fn pool_state(&self) -> Result<PoolState>;
}

/// Page-locked memory on the host.
pub trait PageLocked: Send + Sync {
    /// Page-locked memory of at least `bytes` bytes. 0 bytes are refused.
    fn alloc_host(&self, bytes: u64) -> Result<HostPtr>;

    /// Gives it back. Copies that use it must be known to have finished.
    fn free_host(&self, ptr: HostPtr) -> Result<()>;

    /// Bytes handed out and not freed, after rounding.
    fn locked_bytes(&self) -> u64;
}

/// Memory shared with other processes, by file descriptor.
pub trait Ipc: Send + Sync {
    /// A descriptor that another process can import. The memory lives as long as any process has it mapped.
    fn export(&self, handle: HandleId) -> Result<OwnedFd>;

    /// A handle for memory that another process exported, `bytes` as it was created there.
    fn import(&self, descriptor: BorrowedFd<'_>, bytes: u64) -> Result<HandleId>;
}
