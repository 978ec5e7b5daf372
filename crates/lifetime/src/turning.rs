//! Where forward turns into backward.
//!
//! The forward pass is what the loss is computed from: its ancestors. Which result is the loss is found from the shape
//! of the graph alone: of the results that are one floating-point number, the one with the most ancestors. Two things
//! blur that and are dealt with below. The norm of the gradients is such a number too, and has more ancestors than the
//! loss; and a compiler may sink the last few ops of the loss to the end of its schedule, since nothing waits for them.

use crate::{
    Op, OpId, Tensor, TensorId, TurningPoint,
    ordered::{Ordered, born_at},
    storage::{Available, Origin},
};

/// Most results whose ancestors are counted; those with the longest path to them come first.
const MAX_CANDIDATES: usize = 16;

/// The turning point with what is needed to tell its two sides apart.
#[derive(Clone, Debug)]
pub(crate) struct Turning {
    pub(crate) point: TurningPoint,
    /// The last position of the forward side.
    last_forward: u32,
    forward: OpSet,
}

impl Turning {
    /// Finds it: at the graph's loss, or else at the loss found from structure. `None` if there is no loss.
    pub(crate) fn find(ordered: &Ordered<'_, '_>) -> Option<Self> {
        let graph = ordered.scan.graph;
        let named = graph.loss.and_then(|loss| Candidate::new(ordered, loss));
        let chosen = named.or_else(|| loss_from_structure(ordered))?;
        let at_loss = ordered.position(chosen.op);
        let last_forward =
            if graph.loss.is_some() { at_loss } else { last_forward_position(ordered, &chosen.ancestors, at_loss) };
        Some(Self {
            point: TurningPoint { op: OpId(chosen.op), loss: chosen.loss, at: born_at(last_forward + 1) },
            last_forward,
            forward: chosen.ancestors,
        })
    }

    /// The ops between which a storage crosses the turning point, if it does: made (or handed in: `None`) on the
    /// forward side, last read on the other. Reads by the forward pass itself don't count, however late, and neither
    /// do ops that only make views.
    pub(crate) fn crossing(&self, ordered: &Ordered<'_, '_>, storage: u32) -> Option<(Option<OpId>, OpId)> {
        let scan = ordered.scan;
        let producer = match scan.storages.get(storage).origin {
            Origin::Made => Some(ordered.op_at(ordered.uses(storage)?.0)),
            Origin::HandedIn | Origin::Persistent => None,
        };
        if producer.is_some_and(|op| ordered.position(op.0) > self.last_forward && !self.forward.contains(op.0)) {
            return None;
        }
        let readers = scan.touched_by.row(storage as usize).iter().copied();
        let last = readers
            .filter(|&op| !self.forward.contains(op) && !scan.is_view(op))
            .max_by_key(|&op| ordered.position(op))?;
        let crosses = ordered.position(last) > self.last_forward && producer != Some(OpId(last));
        crosses.then_some((producer, OpId(last)))
    }
}

/// A tensor that may be the loss.
struct Candidate {
    loss: TensorId,
    op: u32,
    ancestors: OpSet,
}

impl Candidate {
    fn new(ordered: &Ordered<'_, '_>, loss: TensorId) -> Option<Self> {
        match ordered.scan.storages.available(loss) {
            Available::By(op) => Some(Self { loss, op: op.0, ancestors: ancestors(ordered, op.0) }),
            Available::Start | Available::Never => None,
        }
    }
}

/// The result most likely to be the loss.
fn loss_from_structure(ordered: &Ordered<'_, '_>) -> Option<Candidate> {
    let (graph, scan) = (ordered.scan.graph, ordered.scan);
    let mut possible: Vec<(u32, TensorId)> = Vec::new();
    for &id in &graph.results {
        let tensor = &graph.tensors[id.index()];
        let is_made = scan.storages.get(scan.storages.of(id)).origin == Origin::Made;
        if let Available::By(op) = scan.storages.available(id)
            && tensor.dtype.is_float()
            && is_one_number(tensor)
            && is_made
        {
            possible.push((op.0, id));
        }
    }
    possible.sort_unstable();
    possible.dedup_by_key(|&mut (op, _)| op);
    if possible.len() > MAX_CANDIDATES {
        let depth = depths(ordered);
        possible.sort_by_key(|&(op, _)| std::cmp::Reverse(depth[op as usize]));
        possible.truncate(MAX_CANDIDATES);
    }
    let mut candidates: Vec<_> = possible.iter().filter_map(|&(_, id)| Candidate::new(ordered, id)).collect();
    candidates.sort_by_key(|c| (std::cmp::Reverse(c.ancestors.count), c.op));
    let mut candidates = candidates.into_iter();
    let mut chosen = candidates.next()?;
    for candidate in candidates {
        if is_computed_from_gradients_of(ordered, &chosen, &candidate) {
            chosen = candidate;
        }
    }
    Some(chosen)
}

/// Whether `outer` is computed from gradients of `inner`, as the norm of the gradients is. Then the ops between the two
/// are a backward pass: they go back over most of the weights that `inner` is computed from, as no later layer would, and
/// over what was made on the way to it in reverse, as no later step of a recurrent network would.
fn is_computed_from_gradients_of(ordered: &Ordered<'_, '_>, outer: &Candidate, inner: &Candidate) -> bool {
    let shared = inner.ancestors.iter().filter(|&op| outer.ancestors.contains(op)).count();
    let between = |op: u32| outer.ancestors.contains(op) && !inner.ancestors.contains(op);
    // The last ops of the loss need not be among the ancestors: its gradient starts from a constant.
    shared * 2 >= inner.ancestors.count
        && reads_weights_again(ordered, &inner.ancestors, between)
        && reads_in_reverse(ordered, &inner.ancestors, between)
}

/// Whether the ops `between` use at least half of the bytes, and a quarter of the number, of the weights that `inner`
/// uses.
fn reads_weights_again(ordered: &Ordered<'_, '_>, inner: &OpSet, between: impl Fn(u32) -> bool) -> bool {
    let scan = ordered.scan;
    let (mut weights, mut again) = ((0_u64, 0_u128), (0_u64, 0_u128));
    for (id, storage) in scan.storages.iter().enumerate().filter(|(_, s)| s.origin == Origin::Persistent) {
        let ops = scan.touched_by.row(id);
        if ops.iter().any(|&op| inner.contains(op)) {
            let bytes = u128::from(storage.bytes.0);
            weights = (weights.0 + 1, weights.1 + bytes);
            if ops.iter().any(|&op| between(op)) {
                again = (again.0 + 1, again.1 + bytes);
            }
        }
    }
    again.0 > 0 && again.0 * 4 >= weights.0 && again.1 * 2 >= weights.1
}

/// Whether of the storages made by `inner`, the later made are on the whole the sooner used by the ops `between`: the
/// covariance of the two positions is negative.
fn reads_in_reverse(ordered: &Ordered<'_, '_>, inner: &OpSet, between: impl Fn(u32) -> bool) -> bool {
    let scan = ordered.scan;
    let mut pairs: Vec<(f64, f64)> = Vec::new();
    for (id, _) in scan.storages.iter().enumerate().filter(|(_, s)| s.origin == Origin::Made) {
        let Some((made, _)) = ordered.uses(id as u32) else { continue };
        let users = scan.touched_by.row(id).iter().copied().filter(|&op| between(op) && !scan.is_view(op));
        let used = users.map(|op| ordered.position(op)).min();
        if let Some(used) = used.filter(|_| inner.contains(ordered.op_at(made).0)) {
            pairs.push((f64::from(made), f64::from(used)));
        }
    }
    let count = pairs.len() as f64;
    let (made, used) = pairs.iter().fold((0.0, 0.0), |sum, pair| (sum.0 + pair.0, sum.1 + pair.1));
    let covariance: f64 = pairs.iter().map(|pair| (pair.0 - made / count) * (pair.1 - used / count)).sum();
    covariance < 0.0
}

/// The position after which the forward pass is over. Where the loss stands, unless something else has begun before
/// it: from the last op of the forward pass that makes anything of size (more than one number, and 1 % of its largest
/// tensor), everything up to the first op that isn't part of it.
fn last_forward_position(ordered: &Ordered<'_, '_>, forward: &OpSet, at_loss: u32) -> u32 {
    let scan = ordered.scan;
    let made = |op: &Op| {
        let made = |id: &&TensorId| scan.storages.get(scan.storages.of(**id)).origin == Origin::Made;
        let tensors = op.outputs.iter().filter(made).map(|id| &scan.graph.tensors[id.index()]);
        tensors.filter(|tensor| !is_one_number(tensor)).map(|tensor| tensor.bytes.0).max().unwrap_or(0)
    };
    let sizes: Vec<(u32, u64)> =
        forward.iter().map(|op| (ordered.position(op), made(&scan.graph.ops[op as usize]))).collect();
    let largest = sizes.iter().map(|&(_, bytes)| bytes).max().unwrap_or(0);
    let of_size = sizes.iter().filter(|&&(_, bytes)| bytes > 0 && u128::from(bytes) * 100 >= u128::from(largest));
    let mut last = of_size.map(|&(position, _)| position).max().unwrap_or(at_loss);
    while last < at_loss {
        let next = ordered.op_at(last + 1).0;
        if !forward.contains(next) && !scan.is_view(next) {
            break;
        }
        last += 1;
    }
    last
}

fn is_one_number(tensor: &Tensor) -> bool {
    tensor.shape.iter().all(|&extent| extent == 1)
}

/// Longest path of data to each op.
fn depths(ordered: &Ordered<'_, '_>) -> Vec<u32> {
    let data = &ordered.scan.dependencies.data;
    let mut depth = vec![0; ordered.order.len()];
    for op in &ordered.order {
        depth[op.index()] = data.row(op.index()).iter().map(|&need| depth[need as usize] + 1).max().unwrap_or(0);
    }
    depth
}

/// The op and everything its result is computed from.
fn ancestors(ordered: &Ordered<'_, '_>, op: u32) -> OpSet {
    let data = &ordered.scan.dependencies.data;
    let mut set = OpSet::new(ordered.order.len());
    set.insert(op);
    let mut open = vec![op];
    while let Some(op) = open.pop() {
        open.extend(data.row(op as usize).iter().copied().filter(|&need| set.insert(need)));
    }
    set
}

/// A set of ops, one bit each.
#[derive(Clone, Debug)]
struct OpSet {
    bits: Vec<u64>,
    count: usize,
}

impl OpSet {
    fn new(ops: usize) -> Self {
        Self { bits: vec![0; ops.div_ceil(64)], count: 0 }
    }

    /// Whether it wasn't there yet.
    fn insert(&mut self, op: u32) -> bool {
        let (word, bit) = (&mut self.bits[op as usize / 64], 1_u64 << (op % 64));
        let new = *word & bit == 0;
        *word |= bit;
        self.count += usize::from(new);
        new
    }

    fn contains(&self, op: u32) -> bool {
        self.bits[op as usize / 64] & (1 << (op % 64)) != 0
    }

    fn iter(&self) -> impl Iterator<Item = u32> + '_ {
        (0..self.bits.len() as u32 * 64).filter(|&op| self.contains(op))
    }
}
