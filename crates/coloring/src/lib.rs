//! Conflicts, offset assignment, hole merging, bounds and verification. Imported by `steps`, `runtime`, `formats`,
//! `memviz` and the command; knows live ranges and sizes, not devices.
//!
//! # What it promises
//! Buffers that are live together never share bytes: every plan is checked by [`verify`], which shares no code with the
//! solver, before anyone sees it. No plan's peak is below its stated lower bound, and one that is called optimal meets
//! it. Equal input, options and seed give equal offsets, at any number of threads, unless a time limit was set. Hole
//! merging makes neither of its two figures worse and never raises the peak.
//!
//! # The idea
//! Placing buffers is weighted colouring of the conflict graph: each buffer gets a contiguous range of bytes, ranges of
//! conflicting buffers are apart, and the highest byte is as low as can be ("dynamic storage allocation", NP-hard). For
//! one stream the graph is an interval graph, and its heaviest clique, the most bytes live at one moment, is a lower
//! bound that real training graphs nearly always meet. So the portfolio in [`solve`] aims at that bound:
//! 1. *Placements*: a dozen orders, each buffer into the lowest or the tightest hole. Room is found in a segment tree of
//!    byte ranges (`occupancy`), without a list of conflicts, so that one order of 60 000 buffers with 180 million
//!    conflicts takes a fraction of a second. The rules of other planners ([`Baseline`]) are among them.
//! 2. *From the ground up*: always the buffer that can lie lowest (`skyline`).
//! 3. *Exact search* for the bound itself (`search`): canonical placements with dominance, inference and decomposition
//!    after MiniMalloc (Moffitt, ASPLOS 2023), several preferences in doubling slices. It also proves bounds above the
//!    load.
//! 4. *Promotion*: what doesn't fit under a limit moves forward in the order (`promote`).
//!
//! # What it costs
//! Measured by `cargo bench -p coloring` (2026-11-29, x86-64, one of two shared cores, load 1 to 2, commit 9e2e6fc): a
//! first answer takes 0.63 ms at 500 buffers, 58 ms at 30 000, 7.5 s at a million, in memory linear in their number (some
//! 700 MB at a million, reading included). After that the
//! node limit decides. The exact search is tried up to 4 000 buffers without gaps or
//! separations; its memory grows with the square of their number, up to some 200 MB a thread.
//!
//! # What it refuses
//! Buffers without bytes or life, alignments of 0, gaps outside a life, fixed buffers on each other's bytes, sums beyond
//! 2^63 ([`Error`]).
//!
//! # Example
//! ```
//! use coloring::{Buffer, Options, Problem, Status, solve};
//! use lifetime::{Bytes, HalfStep, LiveRange};
//!
//! let buffer = |birth, death, size| {
//!     Buffer::new(LiveRange::new(HalfStep(birth), HalfStep(death)), Bytes(size))
//! };
//! // The first and the last are never live together, so they share bytes.
//! let problem = Problem { buffers: vec![buffer(0, 2, 64), buffer(1, 4, 32), buffer(2, 5, 64)], ..Problem::default() };
//! let solution = solve(&problem, &Options::default(), &mut |_| {})?;
//! assert_eq!(solution.peak, Bytes(96));
//! assert_eq!(solution.status, Status::Optimal);
//! # Ok::<(), coloring::Error>(())
//! ```

#![forbid(unsafe_code)]

mod baselines;
mod bounds;
mod compare;
mod conflicts;
mod error;
mod greedy;
mod holes;
mod instance;
mod occupancy;
mod plan;
mod planner;
mod problem;
mod promote;
mod random;
mod range_max;
mod search;
mod skyline;
mod solver;
mod verify;

pub use baselines::{Baseline, baselines};
pub use compare::{Difference, compare};
pub use conflicts::{count_conflicts, list_conflicts};
pub use error::{Defect, Error};
pub use holes::{HoleStats, measure as measure_holes, merge as merge_holes};
pub use plan::{BoundKind, PlacedBuffer, Plan, Status};
pub use planner::{GRAPH_ALIGNMENT, Planned, Request, buffer_ids, plan, tightest_moment};
pub use problem::{Buffer, Gap, Problem};
pub use solver::{Options, Progress, Solution, solve};
pub use verify::{PlanCheck, Verified, verify, verify_plan};
