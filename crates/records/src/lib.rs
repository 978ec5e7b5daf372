//! What happened to memory, as data: requests ([`Trace`]), what an allocator did with them ([`History`]), and the state
//! at any moment ([`MemoryMap`]). Imported by everything that records, reads, replays or draws; imports nothing of ours.
//!
//! # What it promises
//! - A [`Trace`] is what a program asked for, by block id, with no addresses. It can be run again on any allocator.
//! - A [`History`] is what an allocator answered: segments, blocks, addresses, pending frees, with the state before the
//!   first event and after the last. Every view of a run is made of a history.
//! - [`MemoryMap`] plays a history forwards. Totals obey live <= allocated <= active <= reserved at every event of a
//!   consistent history; what contradicts itself is counted in [`Defects`] and never stops the walk.
//! - [`rebuild_start`] plays a history backwards from its end, so that a record that began in the middle of a run has a
//!   beginning.
//!
//! # The idea
//! Names and stacks are interned ([`Names`], [`Stacks`]), so an event is a few machine words whatever its stack is, and
//! a million of them fit in some 60 MB.
//!
//! # What it costs
//! An event of a [`MemoryMap`] takes a few operations on ordered maps, O(log n) in the number of blocks.
//!
//! # Example
//! ```
//! use records::{Action, DeviceHistory, Event, MemoryMap};
//!
//! let event = |action, address, bytes| Event { action, address, bytes, ..Event::default() };
//! let events = [
//!     event(Action::SegmentAlloc, 0x1000, 4096),
//!     event(Action::Alloc, 0x1000, 1000),
//!     event(Action::Alloc, 0x1400, 512),
//!     event(Action::FreeRequested, 0x1000, 1000),
//!     event(Action::FreeCompleted, 0x1000, 1000),
//! ];
//! let history = DeviceHistory { events: events.to_vec(), ..DeviceHistory::default() };
//! let mut map = MemoryMap::new(&history);
//! for event in &history.events {
//!     map.apply(event);
//! }
//! let totals = map.totals();
//! assert_eq!((totals.live, totals.reserved), (512, 4096));
//! assert_eq!(map.largest_free(), 2560);
//! assert!(map.defects().is_empty());
//! ```

#![forbid(unsafe_code)]

mod defects;
mod history;
mod map;
mod names;
mod rebuild;
mod stacks;
mod totals;
mod trace;

pub use defects::{Defect, Defects};
pub use history::{Action, Annotation, Block, BlockState, DeviceHistory, Event, History, Segment, SegmentKind, Stage};
pub use map::{Hole, MemoryMap};
pub use names::{NameId, Names};
pub use rebuild::rebuild_start;
pub use stacks::{Frame, FrameId, StackId, Stacks};
pub use totals::{Totals, fragmentation_percent};
pub use trace::{Operation, Row, Trace};
