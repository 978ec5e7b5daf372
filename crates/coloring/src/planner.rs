//! From named buffers in tiers to a plan: the persistent ones packed on their own, the others above them.

use std::cmp::Reverse;
use std::collections::HashSet;

use lifetime::{Analysis, BufferSource, Bytes, Graph, HalfStep, Limit, Offset, OpId, Tier};

use crate::holes::HoleStats;
use crate::instance::align_up;
use crate::plan::{arena_base, packed_apart, renumber};
use crate::{BoundKind, Error, Options, PlacedBuffer, Plan, Problem, Progress, Status, solve, verify};

/// Alignment of offsets in a graph's plan where nothing else is asked for: what CUDA's own allocation calls guarantee,
/// and what XLA uses on GPUs.
pub const GRAPH_ALIGNMENT: u64 = 256;

/// What is to be planned.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Request {
    /// Name of the graph or file.
    pub name: String,
    /// Every buffer; the offset of one that isn't fixed is not looked at.
    pub buffers: Vec<PlacedBuffer>,
    /// Conflicts beyond those of live ranges; see [`Problem::separations`].
    pub separations: Vec<(u32, u32)>,
    /// The moment after the step.
    pub end: HalfStep,
    /// Bytes available, if limited.
    pub capacity: Option<Bytes>,
    /// The order the live ranges belong to.
    pub order: Option<Vec<OpId>>,
}

impl Request {
    /// The buffers of an analysed graph. Those without an alignment of their own get `alignment` (bytes).
    ///
    /// Identifiers are those of [`buffer_ids`].
    pub fn from_analysis(graph: &Graph, analysis: &Analysis, alignment: u64) -> Self {
        let buffer = |(b, id): (&lifetime::Buffer, String)| PlacedBuffer {
            id,
            name: b.name.clone(),
            op: match b.born_by {
                Limit::Op(op) => graph.ops.get(op.index()).map(|op| op.name.clone()),
                Limit::Step => None,
            },
            tier: b.tier,
            offset: Offset(0),
            bytes: b.bytes,
            alignment: b.alignment.unwrap_or(alignment),
            range: b.range,
            fixed: false,
            gaps: Vec::new(),
        };
        Self {
            name: graph.name.clone(),
            buffers: analysis.buffers.iter().zip(buffer_ids(graph, analysis)).map(buffer).collect(),
            separations: analysis.separations.iter().map(|&(a, b)| (a.0, b.0)).collect(),
            end: analysis.end,
            capacity: None,
            order: Some(analysis.order.clone()),
        }
    }

    /// Only the buffers of these tiers.
    #[must_use]
    pub fn of_tiers(mut self, tiers: &[Tier]) -> Self {
        let numbers: Vec<u32> =
            (0..self.buffers.len() as u32).filter(|&i| tiers.contains(&self.buffers[i as usize].tier)).collect();
        self.separations = renumber(&self.separations, &numbers);
        self.buffers.retain(|b| tiers.contains(&b.tier));
        self
    }
}

/// What each buffer of an analysed graph is called in its plan, no two the same: what the file calls the tensor that owns
/// it, or `op` and what the file calls the op whose workspace it is.
pub fn buffer_ids(graph: &Graph, analysis: &Analysis) -> Vec<String> {
    let mut taken: HashSet<String> = HashSet::with_capacity(analysis.buffers.len());
    let storages = analysis.buffers.iter().filter_map(|b| match b.source {
        BufferSource::Storage(tensor) => Some(graph.tensor_id(tensor).into_owned()),
        BufferSource::Workspace(_) => None,
    });
    taken.extend(storages);
    let id = |b: &lifetime::Buffer| match b.source {
        BufferSource::Storage(tensor) => graph.tensor_id(tensor).into_owned(),
        BufferSource::Workspace(op) => {
            let mut id = format!("op{}", graph.op_id(op));
            // A tensor may be called that.
            while !taken.insert(id.clone()) {
                id.push_str(".workspace");
            }
            id
        }
    };
    analysis.buffers.iter().map(id).collect()
}

/// A plan with what is known of how it was found.
#[derive(Clone, Debug, PartialEq)]
pub struct Planned {
    /// The plan.
    pub plan: Plan,
    /// Where the arena above the persistent buffers begins.
    pub base: Offset,
    /// What was placed in that arena, by number of the plan's buffers and as a problem: what baselines are run on.
    pub arena: Problem,
    /// Whether the same input and options give the same plan again.
    pub is_deterministic: bool,
    /// Nodes spent.
    pub nodes: u64,
    /// Free space in the arena before hole merging.
    pub holes_before: HoleStats,
    /// Free space in it after.
    pub holes_after: HoleStats,
}

/// Plans all buffers of `request`.
///
/// Persistent buffers lie side by side from offset 0, whatever their live ranges say, largest alignment first so that
/// nothing is lost between them; the others share an arena above. The bound takes the persistent buffers as they lie.
///
/// # Errors
/// As [`solve`](crate::solve()).
pub fn plan(
    request: Request,
    options: &Options,
    on_better: &mut (dyn FnMut(Progress) + Send),
) -> Result<Planned, Error> {
    let Request { name, mut buffers, separations, end, capacity, order } = request;
    let total: u128 = buffers.iter().map(|b| u128::from(b.bytes.0) + u128::from(b.alignment.saturating_sub(1))).sum();
    if total >= 1 << 63 {
        return Err(Error::TooLarge);
    }
    if let Some(buffer) = buffers.iter().position(|b| b.alignment == 0) {
        return Err(Error::ZeroAlignment { buffer });
    }
    pack_persistent(&mut buffers);
    let mut plan = Plan {
        name,
        end,
        separations,
        capacity,
        order,
        buffers,
        peak: Bytes(0),
        max_load: Bytes(0),
        lower_bound: Bytes(0),
        bound_kind: BoundKind::Load,
        status: Status::Optimal,
        solver: "none".to_owned(),
    };
    if arena_base(&plan.buffers).is_none() {
        return Err(Error::TooLarge);
    }
    let (base, arena, _) = plan.above_persistent();
    let above = |bytes: Bytes| Bytes(base.0 + bytes.0);
    let mut report = |progress: Progress| {
        on_better(Progress { peak: above(progress.peak), lower_bound: above(progress.lower_bound), ..progress });
    };
    let solution = solve(&arena, options, &mut report)?;
    let is_apart = packed_apart(&plan.buffers);
    let rest = plan.buffers.iter_mut().filter(|b| !is_apart(b));
    for (buffer, offset) in rest.zip(&solution.offsets) {
        buffer.offset = Offset(base.0 + offset.0);
    }
    let offsets: Vec<Offset> = plan.buffers.iter().map(|b| b.offset).collect();
    let found = verify(&plan.problem(), &offsets).map_err(|defect| Error::Internal { what: defect.to_string() })?;
    (plan.peak, plan.max_load) = (found.peak, found.max_load);
    plan.lower_bound = if arena.buffers.is_empty() { plan.peak } else { above(solution.lower_bound) };
    plan.bound_kind = solution.bound_kind;
    plan.solver = solution.solver.to_owned();
    plan.status = match capacity {
        Some(capacity) if plan.peak > capacity => Status::Infeasible,
        _ if plan.peak == plan.lower_bound => Status::Optimal,
        _ => Status::Feasible,
    };
    crate::verify_plan(&plan).map_err(|defect| Error::Internal { what: defect.to_string() })?;
    Ok(Planned {
        plan,
        base,
        arena,
        is_deterministic: solution.is_deterministic,
        nodes: solution.nodes,
        holes_before: solution.holes_before,
        holes_after: solution.holes_after,
    })
}

fn pack_persistent(buffers: &mut [PlacedBuffer]) {
    let is_apart = packed_apart(buffers);
    let mut packed: Vec<&mut PlacedBuffer> = buffers.iter_mut().filter(|b| is_apart(b)).collect();
    packed.sort_by_key(|b| Reverse(b.alignment));
    let mut end = 0;
    for buffer in packed {
        buffer.offset = Offset(align_up(end, buffer.alignment));
        end = buffer.offset.0 + buffer.bytes.0;
    }
}

/// The moment at which most bytes are live, and the buffers live there, largest first.
pub fn tightest_moment(problem: &Problem) -> (HalfStep, Vec<u32>) {
    let mut changes: Vec<(u64, i128)> = Vec::with_capacity(2 * problem.buffers.len());
    for buffer in &problem.buffers {
        for (birth, death, lo, hi) in crate::instance::held(buffer) {
            changes.push((birth, i128::from(hi - lo)));
            changes.push((death, -i128::from(hi - lo)));
        }
    }
    changes.sort_unstable();
    let (mut load, mut highest, mut at) = (0_i128, 0_i128, 0);
    for (moment, change) in changes {
        load += change;
        if load > highest {
            (highest, at) = (load, moment);
        }
    }
    let live = |b: &crate::Buffer| crate::instance::held(b).any(|(birth, death, ..)| birth <= at && at < death);
    let mut numbers: Vec<u32> =
        (0..problem.buffers.len() as u32).filter(|&i| live(&problem.buffers[i as usize])).collect();
    numbers.sort_by_key(|&i| (Reverse(problem.buffers[i as usize].size), i));
    (HalfStep(at), numbers)
}
