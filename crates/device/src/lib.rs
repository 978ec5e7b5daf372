//! The [`Device`] trait, which stands between the allocator and whatever drives a GPU; a device made of the host's
//! memory, which serves where there is no GPU; and a simulated device. Imported by `pools`, `host-offload`,
//! `cuda-backend`, `runtime` and those who replay traces; knows memory and streams, not graphs.
//!
//! # What it promises
//! Any device: a refused call leaves no trace, batches are all or nothing, errors say what was attempted with which
//! values and tell running out from wrong values, from wrong moments, from what the device can't do, and from a broken
//! device. The `contract` module tests these promises on any implementation.
//!
//! The simulated device ([`SimDevice`]) besides: equal calls give equal answers, addresses and times on any machine; no
//! memory goes to another use while a stream may still use it without the caller being told so, with both uses named;
//! every driver call is counted and priced.
//!
//! The host device ([`HostDevice`]) besides: bytes are real and pointers are addresses of this process; memory that
//! queued work uses stays until it is done; limits of the system are named when they stand in the way.
//!
//! # The idea
//! [`Device`] is a small core (plain memory, streams, events, copies) with parts that may be absent: addresses apart
//! from memory ([`VirtualMemory`]), the driver's own pools ([`DriverPools`]), page-locked memory ([`PageLocked`]),
//! memory shared between processes ([`Ipc`]).
//!
//! [`SimDevice`] has addresses and no bytes. Each stream is a numbered queue whose progress the caller drives. Who is
//! ordered behind whom is kept in vector clocks (Lamport 1978; Mattern 1989): a stream's clock says up to which entry
//! each other stream lies before its next work, events carry clocks from a record to a wait, and what the host has seen
//! finish is a clock of its own. A map of address ranges keeps the last use by each stream; the first use of a new
//! block has to lie behind all of them, an unmapping needs the host to have seen them. How long a run takes is a model
//! apart ([`Timeline`]).
//!
//! [`HostDevice`] takes memory from the system by mapping: plain memory without a file, handles as parts of one sparse
//! file that may show at several addresses. Queued work owns a share of the mappings it touches, and only a mapping
//! without other owners can be taken away. Streams are queues that a few threads serve; one that waits for another
//! takes no thread.
//!
//! # What it costs
//! A simulated call is a lock, an array access and at most a few lookups in ordered maps: 0.1 us a row without watching
//! uses, 1.1 us with it, on a program made to be hard on the map (`cargo bench -p device`, 2026-11-29, x86-64, two shared
//! cores, load 9, commit 7833033). Clocks have an entry a stream; joining them, at waits and at queries that succeed, is
//! linear in the streams. Two things grow: a stream's open waits, while the work waited for doesn't finish, and the map
//! of uses, with the places of blocks.
//!
//! The host device costs a few system calls an allocation or mapping, and no memory before it is touched: 3.3 us for
//! an alloc and its free, 6 us for mapping a page, setting its access and unmapping it, 0.4 us for a record and a query
//! on an idle stream, 1 us to queue a copy, 30 us to queue one and wait for it; copies run at 9 GiB/s (`cargo bench -p
//! device --bench host`, 2026-11-29, x86-64, two shared cores, load 2 to 4, the commit that adds this bench).
//!
//! # What it refuses
//! Ids and pointers it didn't hand out, mappings of parts, sizes that aren't whole pages ([`Error`]). The simulated
//! device: more than 4096 streams, memory beyond 32 TiB. The host device: unmapping what queued work uses, calls in a
//! forked child.
//!
//! # Example
//! ```
//! use device::{Device, SimDevice, SimOptions, StreamId, Touch};
//!
//! let device = SimDevice::new(SimOptions::with_capacity(1 << 30))?;
//! let (compute, copies) = (StreamId::DEFAULT, device.create_stream()?);
//! let block = device.alloc(64 << 20)?;
//!
//! // The program's work on the block, on one stream and then on another.
//! device.launch(compute, &[Touch::begin(block, 64 << 20)])?;
//! device.order(compute, copies)?;
//! device.launch(copies, &[Touch::again(block, 64 << 20)])?;
//!
//! // An allocator that wants to hand the block to compute again has to wait for copies first.
//! let event = device.create_event()?;
//! device.record_event(event, copies)?;
//! assert!(!device.query_event(event)?, "nothing finishes unless somebody says so");
//! device.wait_event(compute, event)?;
//! device.launch(compute, &[Touch::begin(block, 32 << 20)])?;
//!
//! // Without that wait the device would have refused, and named both uses:
//! let refused = device.launch(copies, &[Touch::begin(block, 32 << 20)]).unwrap_err();
//! assert!(refused.to_string().contains("which may still be running"));
//! # Ok::<(), device::Error>(())
//! ```

#![deny(unsafe_code)] // but for `host/raw.rs`

mod books;
mod call;
pub mod contract;
mod cost;
mod counts;
mod device;
pub mod error;
mod fault;
mod host;
mod ids;
mod parts;
mod scripted;
mod sim;
mod timeline;
mod violation;

pub use call::DriverCall;
pub use cost::{CostModel, Price};
pub use counts::{CallCount, CallCounts};
pub use device::{Device, DeviceInfo, MemoryState, Place};
pub use error::{Attempt, Error, Failure, Result};
pub use fault::{Fault, FaultKind, FaultPlan, When};
pub use host::{Completion, HostDevice, HostOptions};
pub use ids::{AddressRange, DevicePtr, EventId, HandleId, HostPtr, Sequence, StreamId};
pub use parts::{Access, DriverPools, Ipc, Mapping, PageLocked, PoolState, VirtualMemory};
pub use scripted::Scripted;
pub use sim::{ContractMode, OrderCheck, PlainFree, SimDevice, SimOptions, SimStats, Touch};
pub use timeline::{Timeline, TimelineOptions};
pub use violation::{Later, Use, Violation};
