//! Names of what a device hands out.

use std::fmt;

/// An address on the device, in bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct DevicePtr(pub u64);

impl DevicePtr {
    /// The address `bytes` further on; `None` beyond the end of all addresses.
    #[must_use]
    pub fn checked_add(self, bytes: u64) -> Option<DevicePtr> {
        self.0.checked_add(bytes).map(DevicePtr)
    }
}

impl fmt::Display for DevicePtr {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:#x}", self.0)
    }
}

/// An address of page-locked memory on the host, in bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct HostPtr(pub u64);

impl fmt::Display for HostPtr {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "host {:#x}", self.0)
    }
}

/// A half-open range of device addresses: `[start, start + bytes)`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct AddressRange {
    /// The first address.
    pub start: DevicePtr,
    /// How many bytes follow.
    pub bytes: u64,
}

impl AddressRange {
    /// The range of `bytes` bytes from `start`.
    #[must_use]
    pub fn new(start: DevicePtr, bytes: u64) -> AddressRange {
        AddressRange { start, bytes }
    }

    /// The first address behind the range; the highest of all addresses if the end can't be addressed.
    #[must_use]
    pub fn end(&self) -> u64 {
        self.start.0.saturating_add(self.bytes)
    }

    /// Whether the two ranges share a byte.
    #[must_use]
    pub fn overlaps(&self, other: &AddressRange) -> bool {
        self.start.0 < other.end() && other.start.0 < self.end()
    }
}

impl fmt::Display for AddressRange {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "[{:#x}, {:#x}) of {} bytes", self.start.0, self.end(), self.bytes)
    }
}

/// A queue of work on the device. An id is never used for two streams.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct StreamId(pub u64);

impl StreamId {
    /// The stream that every device has from the start. It can't be destroyed. It is a stream like any other: nothing
    /// waits for it or is waited for by it unasked (CUDA calls that "per-thread default stream" semantics).
    pub const DEFAULT: StreamId = StreamId(0);
}

impl fmt::Display for StreamId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // An id's upper half tells apart streams that had the same number one after another.
        match self.0 >> 32 {
            0 => write!(f, "stream {}", self.0),
            again => write!(f, "stream {}/{again}", self.0 & u64::from(u32::MAX)),
        }
    }
}

/// A mark in a stream's queue. An id is never used for two events.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct EventId(pub u64);

impl fmt::Display for EventId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "event {}", self.0)
    }
}

/// Physical memory that can be mapped. An id is never used for two handles.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct HandleId(pub u64);

impl fmt::Display for HandleId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "handle {}", self.0)
    }
}

/// How many entries a stream's queue had taken up to and with this one. Work counts one entry, and so does each record
/// of an event, each wait and each stream-ordered free. 0 is before all of them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Sequence(pub u64);
