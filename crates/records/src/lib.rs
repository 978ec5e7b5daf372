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
//! - [`Survey`], [`Moment`], [`holders`], [`find_steps`], [`tightest_request`], [`cheapest_window`] answer what a person asks
//!   of a history: peaks, who held what, what repeats, what failed and what was in its way.
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

mod course;
mod defects;
mod history;
mod holders;
mod map;
mod moment;
mod names;
mod peaks;
mod rebuild;
mod sink;
mod stacks;
mod steps;
mod survey;
mod telling;
mod tightest;
mod to_trace;
mod totals;
mod trace;
mod trace_columns;
mod trace_writer;
mod windows;

pub use course::{Column, Course, Scatter};
pub use defects::{Defect, Defects};
pub use history::{Action, Annotation, Block, BlockState, DeviceHistory, Event, History, Segment, SegmentKind, Stage};
pub use holders::{Holder, holders};
pub use map::{Hole, MemoryMap};
pub use moment::Moment;
pub use names::{NameId, Names, clip};
pub use peaks::{Peak, Peaks};
pub use rebuild::rebuild_start;
pub use sink::{Recorder, Sink};
pub use stacks::{Frame, FrameId, StackId, Stacks};
pub use steps::{StepFigures, StepSource, Steps, find_steps};
pub use survey::Survey;
pub use telling::Telling;
pub use tightest::{TightRequest, Tightness, tightest_request};
pub use totals::{Totals, fragmentation_percent};
pub use trace::{Operation, Row, Trace};
pub use trace_writer::{
    TRACE_HEAD_BYTES, TRACE_MAGIC, TRACE_VERSION, TraceChunk, TraceDecoder, TraceWriter, write_trace,
};
pub use windows::{Release, Window, cheapest_release, cheapest_window, largest_holes};
