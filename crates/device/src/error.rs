//! What can go wrong on a device, with the facts.

use crate::{
    Access, AddressRange, DevicePtr, DriverCall, EventId, HandleId, HostPtr, Mapping, Place, StreamId, Violation,
};
use std::borrow::Cow;
use std::fmt;

/// A result of this crate.
pub type Result<T> = std::result::Result<T, Error>;

/// Numbers and names of the driver's errors, as CUDA's driver has them.
pub mod codes {
    /// A driver's number and name for an error.
    pub type Code = (i32, &'static str);
    /// A value can't be right.
    pub const INVALID_VALUE: Code = (1, "CUDA_ERROR_INVALID_VALUE");
    /// No room.
    pub const OUT_OF_MEMORY: Code = (2, "CUDA_ERROR_OUT_OF_MEMORY");
    /// An id that names nothing.
    pub const INVALID_HANDLE: Code = (400, "CUDA_ERROR_INVALID_HANDLE");
    /// Right values at the wrong time.
    pub const ILLEGAL_STATE: Code = (401, "CUDA_ERROR_ILLEGAL_STATE");
    /// Work touched memory that isn't there.
    pub const ILLEGAL_ADDRESS: Code = (700, "CUDA_ERROR_ILLEGAL_ADDRESS");
    /// Work failed on the device.
    pub const LAUNCH_FAILED: Code = (719, "CUDA_ERROR_LAUNCH_FAILED");
    /// The device can't do this.
    pub const NOT_SUPPORTED: Code = (801, "CUDA_ERROR_NOT_SUPPORTED");
    /// The driver doesn't say.
    pub const UNKNOWN: Code = (999, "CUDA_ERROR_UNKNOWN");
    /// Ours, no driver's: memory was taken from work that may still use it.
    pub const CONTRACT: Code = (-1, "CONTRACT_VIOLATION");
}

/// What was attempted, with the values. For a batch: the entry that was refused (the first one where none can be
/// named), its position from 0 and how many entries there were.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
#[allow(missing_docs)] // the fields are the values of the call of the same name
pub enum Attempt {
    Alloc {
        bytes: u64,
    },
    Free {
        ptr: DevicePtr,
    },
    MemoryInfo,
    ReserveRange {
        bytes: u64,
        alignment: u64,
    },
    ReleaseRange {
        range: AddressRange,
    },
    CreateHandles {
        bytes_each: u64,
        count: usize,
    },
    ReleaseHandle {
        handle: HandleId,
        index: usize,
        count: usize,
    },
    Map {
        mapping: Mapping,
        index: usize,
        count: usize,
    },
    Unmap {
        range: AddressRange,
        index: usize,
        count: usize,
    },
    SetAccess {
        range: AddressRange,
        access: Access,
        index: usize,
        count: usize,
    },
    CreateStream,
    DestroyStream {
        stream: StreamId,
    },
    WaitEvent {
        stream: StreamId,
        event: EventId,
    },
    QueryStream {
        stream: StreamId,
    },
    SynchronizeStream {
        stream: StreamId,
    },
    CreateEvent,
    DestroyEvent {
        event: EventId,
    },
    RecordEvent {
        event: EventId,
        stream: StreamId,
    },
    QueryEvent {
        event: EventId,
    },
    SynchronizeEvent {
        event: EventId,
    },
    Synchronize,
    Copy {
        to: Place,
        from: Place,
        bytes: u64,
        stream: StreamId,
    },
    Write {
        to: Place,
        bytes: u64,
    },
    Read {
        from: Place,
        bytes: u64,
    },
    PoolAlloc {
        bytes: u64,
        stream: StreamId,
    },
    PoolFree {
        ptr: DevicePtr,
        stream: StreamId,
    },
    PoolTrim {
        keep_bytes: u64,
    },
    HostAlloc {
        bytes: u64,
    },
    HostFree {
        ptr: HostPtr,
    },
    /// Memory was given to another process.
    Export {
        handle: HandleId,
    },
    /// Memory of another process was taken.
    Import {
        bytes: u64,
    },
    /// A device was opened.
    Open,
    /// The program queued work.
    Launch {
        stream: StreamId,
    },
    /// The program ordered two streams.
    OrderStreams {
        first: StreamId,
        then: StreamId,
    },
    /// A stream was looked at, or its work finished.
    Observe {
        stream: StreamId,
    },
}

impl Attempt {
    /// The kind of driver call; `None` for what no allocator calls: opening a device, memory between processes, the
    /// program's work.
    #[must_use]
    pub fn call(&self) -> Option<DriverCall> {
        Some(match self {
            Attempt::Alloc { .. } => DriverCall::Alloc,
            Attempt::Free { .. } => DriverCall::Free,
            Attempt::MemoryInfo => DriverCall::MemoryInfo,
            Attempt::ReserveRange { .. } => DriverCall::RangeReserve,
            Attempt::ReleaseRange { .. } => DriverCall::RangeRelease,
            Attempt::CreateHandles { .. } => DriverCall::HandleCreate,
            Attempt::ReleaseHandle { .. } => DriverCall::HandleRelease,
            Attempt::Map { .. } => DriverCall::Map,
            Attempt::Unmap { .. } => DriverCall::Unmap,
            Attempt::SetAccess { .. } => DriverCall::SetAccess,
            Attempt::CreateStream => DriverCall::StreamCreate,
            Attempt::DestroyStream { .. } => DriverCall::StreamDestroy,
            Attempt::WaitEvent { .. } => DriverCall::StreamWait,
            Attempt::QueryStream { .. } => DriverCall::StreamQuery,
            Attempt::SynchronizeStream { .. } => DriverCall::StreamSync,
            Attempt::CreateEvent => DriverCall::EventCreate,
            Attempt::DestroyEvent { .. } => DriverCall::EventDestroy,
            Attempt::RecordEvent { .. } => DriverCall::EventRecord,
            Attempt::QueryEvent { .. } => DriverCall::EventQuery,
            Attempt::SynchronizeEvent { .. } => DriverCall::EventSync,
            Attempt::Synchronize => DriverCall::DeviceSync,
            Attempt::Copy { .. } | Attempt::Write { .. } | Attempt::Read { .. } => DriverCall::Copy,
            Attempt::PoolAlloc { .. } => DriverCall::PoolAlloc,
            Attempt::PoolFree { .. } => DriverCall::PoolFree,
            Attempt::PoolTrim { .. } => DriverCall::PoolTrim,
            Attempt::HostAlloc { .. } => DriverCall::HostAlloc,
            Attempt::HostFree { .. } => DriverCall::HostFree,
            Attempt::Open
            | Attempt::Export { .. }
            | Attempt::Import { .. }
            | Attempt::Launch { .. }
            | Attempt::OrderStreams { .. }
            | Attempt::Observe { .. } => return None,
        })
    }
}

/// `(2 of 5)` behind what is said of an entry of a batch.
fn place_in_batch(index: usize, count: usize) -> String {
    if count > 1 { format!(" ({} of {count})", index.saturating_add(1)) } else { String::new() }
}

impl fmt::Display for Attempt {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Attempt::Alloc { bytes } => write!(f, "allocate {bytes} bytes"),
            Attempt::Free { ptr } => write!(f, "free {ptr}"),
            Attempt::MemoryInfo => write!(f, "ask for the free memory"),
            Attempt::ReserveRange { bytes, alignment } => {
                write!(f, "reserve {bytes} bytes of addresses aligned to {alignment}")
            }
            Attempt::ReleaseRange { range } => write!(f, "release the addresses {range}"),
            Attempt::CreateHandles { bytes_each, count } => write!(f, "create {count} handles of {bytes_each} bytes"),
            Attempt::ReleaseHandle { handle, index, count } => {
                write!(f, "release {handle}{}", place_in_batch(*index, *count))
            }
            Attempt::Map { mapping, index, count } => {
                let Mapping { at, handle, bytes } = mapping;
                write!(f, "map {bytes} bytes of {handle} at {at}{}", place_in_batch(*index, *count))
            }
            Attempt::Unmap { range, index, count } => write!(f, "unmap {range}{}", place_in_batch(*index, *count)),
            Attempt::SetAccess { range, access, index, count } => {
                write!(f, "set access of {range} to {access}{}", place_in_batch(*index, *count))
            }
            Attempt::CreateStream => write!(f, "create a stream"),
            Attempt::DestroyStream { stream } => write!(f, "destroy {stream}"),
            Attempt::WaitEvent { stream, event } => write!(f, "make {stream} wait for {event}"),
            Attempt::QueryStream { stream } => write!(f, "query {stream}"),
            Attempt::SynchronizeStream { stream } => write!(f, "wait for {stream}"),
            Attempt::CreateEvent => write!(f, "create an event"),
            Attempt::DestroyEvent { event } => write!(f, "destroy {event}"),
            Attempt::RecordEvent { event, stream } => write!(f, "record {event} on {stream}"),
            Attempt::QueryEvent { event } => write!(f, "query {event}"),
            Attempt::SynchronizeEvent { event } => write!(f, "wait for {event}"),
            Attempt::Synchronize => write!(f, "wait for the device"),
            Attempt::Copy { to, from, bytes, stream } => {
                write!(f, "copy {bytes} bytes from {from} to {to} on {stream}")
            }
            Attempt::Write { to, bytes } => write!(f, "write {bytes} bytes to {to}"),
            Attempt::Read { from, bytes } => write!(f, "read {bytes} bytes from {from}"),
            Attempt::PoolAlloc { bytes, stream } => write!(f, "allocate {bytes} bytes in order of {stream}"),
            Attempt::PoolFree { ptr, stream } => write!(f, "free {ptr} in order of {stream}"),
            Attempt::PoolTrim { keep_bytes } => write!(f, "trim the driver's pool to {keep_bytes} bytes"),
            Attempt::HostAlloc { bytes } => write!(f, "allocate {bytes} bytes of page-locked memory"),
            Attempt::HostFree { ptr } => write!(f, "free page-locked {ptr}"),
            Attempt::Export { handle } => write!(f, "export {handle}"),
            Attempt::Import { bytes } => write!(f, "import {bytes} bytes of another process"),
            Attempt::Open => write!(f, "open the device"),
            Attempt::Launch { stream } => write!(f, "run work on {stream}"),
            Attempt::OrderStreams { first, then } => write!(f, "order {then} behind {first}"),
            Attempt::Observe { stream } => write!(f, "look at {stream}"),
        }
    }
}

/// What every failure says, whatever its kind.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Failure {
    /// What was attempted, with which values.
    pub attempt: Attempt,
    /// The driver's number for it.
    pub code: i32,
    /// The driver's name for it.
    pub name: Cow<'static, str>,
    /// Whether the device is lost: every later call on it fails with this error.
    pub sticky: bool,
    /// What stood in the way, and what would help.
    pub reason: Cow<'static, str>,
}

impl Failure {
    /// A failure that is not sticky.
    #[must_use]
    pub fn new(attempt: Attempt, (code, name): codes::Code, reason: impl Into<Cow<'static, str>>) -> Failure {
        Failure { attempt, code, name: Cow::Borrowed(name), sticky: false, reason: reason.into() }
    }

    /// The same failure, sticky or not.
    #[must_use]
    pub fn with_sticky(mut self, sticky: bool) -> Failure {
        self.sticky = sticky;
        self
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Failure { attempt, code, name, sticky, reason } = self;
        write!(f, "can't {attempt}: {reason} ({name}, {code}")?;
        if *sticky {
            write!(f, "; the device is lost")?;
        }
        write!(f, ")")
    }
}

/// Why a call on a device failed. A refused call leaves the device as it was.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// No room on the device, in its addresses or in what it may lock on the host.
    #[error("{failure}{}", were_free(*free_bytes, *total_bytes))]
    OutOfMemory {
        /// What happened.
        failure: Box<Failure>,
        /// Bytes that nobody held at that moment, of what ran out.
        free_bytes: u64,
        /// All bytes there are of it; 0 if what ran out isn't counted in bytes.
        total_bytes: u64,
    },
    /// A size, address or id that can't be right.
    #[error("{0}")]
    InvalidValue(Box<Failure>),
    /// Right values at the wrong time.
    #[error("{0}")]
    InvalidState(Box<Failure>),
    /// This process is a fork of the one that opened the device, and can't use it.
    #[error("{0}")]
    Forked(Box<Failure>),
    /// This device can't do it at all.
    #[error("{0}")]
    Unsupported(Box<Failure>),
    /// The driver or the device failed.
    #[error("{0}")]
    Device(Box<Failure>),
    /// The caller took memory away from work that may still use it, or ran work on memory that isn't there.
    #[error("{failure}: {violation}")]
    Contract {
        /// The call that was refused.
        failure: Box<Failure>,
        /// Both uses, and what is missing between them.
        violation: Box<Violation>,
    },
    /// An invariant of this crate did not hold.
    #[error("internal error: {what}")]
    Internal {
        /// The invariant.
        what: String,
    },
}

/// `; N of M bytes were free`, where what ran out is counted in bytes.
fn were_free(free_bytes: u64, total_bytes: u64) -> String {
    if total_bytes == 0 { String::new() } else { format!("; {free_bytes} of {total_bytes} bytes were free") }
}

impl Error {
    /// The failure's facts; `None` for an internal error.
    #[must_use]
    pub fn failure(&self) -> Option<&Failure> {
        match self {
            Error::OutOfMemory { failure, .. } | Error::Contract { failure, .. } => Some(failure),
            Error::InvalidValue(failure)
            | Error::InvalidState(failure)
            | Error::Forked(failure)
            | Error::Unsupported(failure)
            | Error::Device(failure) => Some(failure),
            Error::Internal { .. } => None,
        }
    }

    /// Whether the device is lost.
    #[must_use]
    pub fn is_sticky(&self) -> bool {
        self.failure().is_some_and(|failure| failure.sticky)
    }

    /// Whether memory ran out: a result to act on, not a bug.
    #[must_use]
    pub fn is_out_of_memory(&self) -> bool {
        matches!(self, Error::OutOfMemory { .. })
    }
}
