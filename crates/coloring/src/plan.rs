//! A finished plan: every buffer with its offset, and what is known about how good that is.

use lifetime::{Bytes, HalfStep, LiveRange, Offset, OpId, Tier};

use crate::instance::common_divisor;
use crate::{Buffer, Gap, Problem};

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

    /// Its buffers as a problem: what the offsets are a solution of.
    pub fn problem(&self) -> Problem {
        Problem {
            buffers: self.buffers.iter().map(PlacedBuffer::to_buffer).collect(),
            separations: self.separations.clone(),
            capacity: self.capacity,
        }
    }

    /// The buffers that aren't packed apart (see [`packed_apart`]) as a problem of their own, with their offsets counted
    /// from where their arena begins, and that beginning.
    pub(crate) fn above_persistent(&self) -> (Offset, Problem, Vec<Offset>) {
        let is_apart = packed_apart(&self.buffers);
        let numbers: Vec<u32> =
            (0..self.buffers.len() as u32).filter(|&i| !is_apart(&self.buffers[i as usize])).collect();
        // Out of reach only for a plan that nobody checked; then nothing lies above it, and checks will say so.
        let base = arena_base(&self.buffers).unwrap_or(Offset(1 << 63));
        let rest = numbers.iter().map(|&i| &self.buffers[i as usize]);
        let offsets = rest.clone().map(|b| Offset(b.offset.0.saturating_sub(base.0))).collect();
        let problem = Problem {
            buffers: rest.map(PlacedBuffer::to_buffer).collect(),
            separations: renumber(&self.separations, &numbers),
            capacity: self.capacity.map(|c| Bytes(c.0.saturating_sub(base.0))),
        };
        (base, problem, offsets)
    }
}

impl PlacedBuffer {
    /// What has to be placed.
    pub fn to_buffer(&self) -> Buffer {
        Buffer {
            range: self.range,
            size: self.bytes,
            alignment: self.alignment,
            fixed: self.fixed.then_some(self.offset),
            gaps: self.gaps.clone(),
        }
    }
}

/// Which buffers lie in the packed arena at the bottom: the persistent ones, unless something has a fixed offset, which
/// might lie anywhere.
pub(crate) fn packed_apart(buffers: &[PlacedBuffer]) -> impl Fn(&PlacedBuffer) -> bool + use<> {
    let any_fixed = buffers.iter().any(|b| b.fixed);
    move |buffer| buffer.tier == Tier::Persistent && !any_fixed
}

/// Where the arena above the packed buffers begins: at their end, rounded up to every alignment above, which need not
/// divide each other. `None` if that is out of reach.
pub(crate) fn arena_base(buffers: &[PlacedBuffer]) -> Option<Offset> {
    let is_apart = packed_apart(buffers);
    let packed = buffers.iter().filter(|b| is_apart(b));
    let end = packed.map(|b| u128::from(b.offset.0) + u128::from(b.bytes.0)).max().unwrap_or(0);
    if end == 0 {
        return Some(Offset(0));
    }
    let mut unit = 1_u64;
    for b in buffers.iter().filter(|b| !is_apart(b)) {
        let common = u128::from(unit / common_divisor(unit, b.alignment).max(1)) * u128::from(b.alignment);
        unit = u64::try_from(common).ok()?;
    }
    let base = end.div_ceil(u128::from(unit.max(1))) * u128::from(unit.max(1));
    u64::try_from(base).ok().filter(|&base| base < 1 << 63).map(Offset)
}

/// Pairs among `numbers`, by position there; `numbers` is sorted.
pub(crate) fn renumber(pairs: &[(u32, u32)], numbers: &[u32]) -> Vec<(u32, u32)> {
    let place = |i: u32| numbers.binary_search(&i).ok().map(|k| k as u32);
    pairs.iter().filter_map(|&(a, b)| Some((place(a)?, place(b)?))).collect()
}
