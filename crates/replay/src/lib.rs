//! Runs a trace on a policy over a simulated device: would the run have fitted, and what would it have cost? Imported by
//! the command. Knows models of other allocators, and drives our own.
//!
//! # What it promises
//! - The same trace and settings give the same figures and addresses on any machine.
//! - Every placement is watched by the simulated device: memory that a stream may still use is never handed to another
//!   stream unordered, whatever the policy; if it were, the replay ends with a report instead of figures.
//! - Running out of memory is an [`Outcome`], with the request that failed.
//! - Models are called models. They are compared with the real allocators on every shared trace. Policy `gpumem` is none:
//!   it is the allocator that programs get.
//!
//! # The idea
//! [`Program::new`] checks a trace and numbers its blocks and streams; [`replay`] feeds it to a policy, which talks to the
//! device through `device::Device` alone, as an allocator in a process would. What the policy does comes back as events
//! of a [`records::History`], so that a replay can be drawn and explained like a recorded run.
//!
//! # What it costs
//! About a microsecond a row, and a few with all measurements on. [`min_capacity`] runs a trace some ten to twenty times.
//!
//! # Example
//! ```
//! use records::{Operation, Row, Trace};
//! use replay::{Policy, Program, Settings, replay};
//!
//! let row = |operation, id, bytes| Row { operation, id, bytes, ..Row::default() };
//! let trace = Trace {
//!     rows: vec![
//!         row(Operation::Alloc, 1, 3 << 20),
//!         row(Operation::Free, 1, 0),
//!         row(Operation::Alloc, 2, 2 << 20),
//!     ],
//!     ..Trace::default()
//! };
//! let program = Program::new(&trace, None)?;
//! let outcome = replay(&program, &Settings::new(Policy::Caching))?;
//! assert!(outcome.is_ok());
//! assert_eq!(outcome.all.peak_live_bytes, 3 << 20);
//! assert_eq!(outcome.all.peak_reserved_bytes, 20 << 20); // segments of that allocator are 20 MiB at least
//! # Ok::<(), replay::Error>(())
//! ```

#![forbid(unsafe_code)]

mod caching;
mod capacity;
mod contents;
mod driver;
mod error;
mod fit;
mod gpumem;
mod live;
mod log;
mod outcome;
mod policy;
mod program;
mod rounding;
mod settings;

pub use capacity::min_capacity;
pub use contents::{ContentOutcome, ContentSettings, check_contents};
pub use driver::{replay, replay_observed};
pub use error::{Error, Result};
pub use log::{LogEntry, Observer};
pub use outcome::{FailedRequest, Figures, FragmentationFigures, Outcome};
pub use pools::{Backing, HandOver};
pub use program::{Program, drop_uses};
pub use settings::{CachingSettings, GpumemSettings, Policy, Reading, Settings, backing_name, hand_over_name};
