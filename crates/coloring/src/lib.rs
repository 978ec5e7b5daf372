//! Conflicts, offset assignment, hole merging, bounds and verification.

#![forbid(unsafe_code)]

mod baselines;
mod bounds;
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
pub use conflicts::{count_conflicts, list_conflicts};
pub use error::{Defect, Error};
pub use holes::{HoleStats, measure as measure_holes, merge as merge_holes};
pub use plan::{BoundKind, PlacedBuffer, Plan, Status};
pub use planner::{Planned, Request, plan, tightest_moment};
pub use problem::{Buffer, Gap, Problem};
pub use solver::{Options, Progress, Solution, solve};
pub use verify::{PlanCheck, Verified, verify, verify_plan};
