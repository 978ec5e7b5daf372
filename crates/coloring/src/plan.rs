//! A finished plan: every buffer with its offset, and what is known about how good that is.

use lifetime::{Bytes, HalfStep, LiveRange, Offset, OpId, Tier};

use crate::Gap;

/// How good a plan is known to be.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Status {
    /// The peak equals the lower bound, or a search went through everything below it.
    Optimal,
    /// Valid; nobody knows whether a lower peak exists.
    Feasible,
    /// Valid, but the peak is above the capacity asked for.
    Infeasible,
}

impl Status {
    /// `optimal`, `feasible` or `infeasible`.
    pub fn name(self) -> &'static str {
        match self {
            Self::Optimal => "optimal",
            Self::Feasible => "feasible",
            Self::Infeasible => "infeasible",
        }
    }

    /// The status with this name.
    pub fn from_name(name: &str) -> Option<Self> {
        [Self::Optimal, Self::Feasible, Self::Infeasible].into_iter().find(|s| s.name() == name)
    }
}

/// What a lower bound rests on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum BoundKind {
    /// Bytes live at one moment (the heaviest clique of the conflict graph).
    Load,
    /// The same with sizes rounded up to an alignment that all offsets share, less the slack of the topmost.
    AlignedLoad,
    /// The end of a buffer with a fixed offset.
    Fixed,
    /// A search found no plan below it.
    Search,
}

impl BoundKind {
    /// `load`, `aligned-load`, `fixed` or `search`.
    pub fn name(self) -> &'static str {
        match self {
            Self::Load => "load",
            Self::AlignedLoad => "aligned-load",
            Self::Fixed => "fixed",
            Self::Search => "search",
        }
    }

    /// The kind with this name.
    pub fn from_name(name: &str) -> Option<Self> {
        [Self::Load, Self::AlignedLoad, Self::Fixed, Self::Search].into_iter().find(|k| k.name() == name)
    }
}

/// A buffer with its place.
#[derive(Clone, Debug, PartialEq)]
pub struct PlacedBuffer {
    /// Identifier in the file it came from; unique in a plan.
    pub id: String,
    /// Name of the tensor; the identifier again where there is no other.
    pub name: String,
    /// Name of the op that makes it, if known.
    pub op: Option<String>,
    /// Its tier.
    pub tier: Tier,
    /// Where it lies.
    pub offset: Offset,
    /// How many bytes it needs.
    pub bytes: Bytes,
    /// What its offset is a multiple of.
    pub alignment: u64,
    /// When it is live.
    pub range: LiveRange,
    /// Whether the offset was asked for rather than chosen.
    pub fixed: bool,
    /// Times at which it needs less.
    pub gaps: Vec<Gap>,
}

/// A plan that stands on its own: it can be drawn, saved and checked without the graph it came from.
#[derive(Clone, Debug, PartialEq)]
pub struct Plan {
    /// Name of the graph or file.
    pub name: String,
    /// Every buffer; an index here is what `separations` counts in.
    pub buffers: Vec<PlacedBuffer>,
    /// Conflicts beyond those of live ranges; see [`Problem::separations`](crate::Problem::separations).
    pub separations: Vec<(u32, u32)>,
    /// The moment after the step.
    pub end: HalfStep,
    /// Highest end of a buffer.
    pub peak: Bytes,
    /// Most bytes live at one moment.
    pub max_load: Bytes,
    /// No plan has a lower peak.
    pub lower_bound: Bytes,
    /// What that rests on.
    pub bound_kind: BoundKind,
    /// How good the plan is known to be.
    pub status: Status,
    /// The capacity asked for, if any.
    pub capacity: Option<Bytes>,
    /// The order of the ops the live ranges belong to, if the plan came from a graph.
    pub order: Option<Vec<OpId>>,
    /// Which method found it.
    pub solver: String,
}

impl Plan {
    /// `(peak - lower bound) / lower bound`; 0 for an empty plan.
    pub fn gap(&self) -> f64 {
        if self.lower_bound.0 == 0 {
            return 0.0;
        }
        self.peak.0.saturating_sub(self.lower_bound.0) as f64 / self.lower_bound.0 as f64
    }
}
