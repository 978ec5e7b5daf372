//! What is known about one buffer, as facts; whoever shows them makes the words.

use hashbrown::HashSet;

use crate::{
    Analysis, BufferId, BufferSource, Bytes, Error, Graph, HalfStep, InPlace, Limit, LiveRange, Op, OpId, TensorId,
    Tier, TierRule,
    error::{TensorPlace, clip},
};

/// Most names suggested for one that isn't known.
const SUGGESTED: usize = 5;

/// What a question is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Subject<'a> {
    /// A buffer.
    Buffer(BufferId),
    /// The buffer that holds this tensor.
    Tensor(TensorId),
    /// The buffer that holds the first tensor of this name, or else the workspace of this name (`OP.workspace`).
    Name(&'a str),
}

/// An op with its place in the order.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OpAt {
    /// The op.
    pub op: OpId,
    /// Its name.
    pub name: String,
    /// What it computes.
    pub kind: String,
    /// Its place in the analysis' order, from 0.
    pub position: u64,
}

/// What sets a moment of a live range, as [`Limit`], with the op's name and place.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Bound {
    /// Present when the step begins, or kept past its end.
    Step,
    /// This op.
    Op(OpAt),
}

/// An output that took the bytes of an input in this buffer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TakenInPlace {
    /// The op that does it.
    pub op: OpAt,
    /// The tensors.
    pub pair: InPlace,
}

/// Everything known about a buffer before it has a place.
#[derive(Clone, Debug, PartialEq)]
pub struct Explanation {
    /// The buffer.
    pub buffer: BufferId,
    /// Its name.
    pub name: String,
    /// The tensor asked for; the buffer's owner if a buffer was. `None` for a workspace.
    pub tensor: Option<TensorId>,
    /// How many further tensors have the name asked for.
    pub namesakes: usize,
    /// Bytes needed.
    pub bytes: Bytes,
    /// The tier.
    pub tier: Tier,
    /// The rule that decided it.
    pub rule: TierRule,
    /// The op that makes it, if one does.
    pub producer: Option<OpAt>,
    /// The ops the rule looked at, in the order of time: for [`TierRule::AcrossTurningPoint`] the producer, if there is
    /// one, the op of the loss, and the reader that holds the buffer across it. Empty for other rules.
    pub decided_by: Vec<OpAt>,
    /// When it is live.
    pub range: LiveRange,
    /// The half-step after the step.
    pub end: HalfStep,
    /// What sets its birth.
    pub born_by: Bound,
    /// What sets its death. A buffer of several streams may be kept longer, until its order against others is known.
    pub dies_by: Bound,
    /// Every op that reads or makes one of its tensors, in order; for a workspace its op.
    pub used_by: Vec<OpAt>,
    /// All tensors in it, the owner first.
    pub tensors: Vec<TensorId>,
    /// Outputs that took the bytes of an input in it, in order.
    pub in_place: Vec<TakenInPlace>,
}

/// Says what is known about a buffer: `analysis` must be that of `graph`.
pub fn explain(graph: &Graph, analysis: &Analysis, subject: Subject<'_>) -> Result<Explanation, Error> {
    let places = Places::new(graph, analysis);
    let (buffer, tensor, namesakes) = match subject {
        Subject::Buffer(id) => (id, None, 0),
        Subject::Tensor(id) => (holder(graph, analysis, id)?, Some(id), 0),
        Subject::Name(name) => by_name(graph, analysis, name)?,
    };
    let buffers = analysis.buffers.len();
    let facts = analysis.buffers.get(buffer.index()).ok_or(Error::UnknownBuffer { id: buffer.0, buffers })?;
    let inside: HashSet<TensorId> = facts.tensors.iter().copied().collect();
    let touches = |op: &Op| op.inputs.iter().chain(&op.outputs).any(|id| inside.contains(id));
    let used_by: Vec<OpAt> = match facts.source {
        BufferSource::Workspace(op) => places.at(op).into_iter().collect(),
        BufferSource::Storage(_) => {
            let users = analysis.order.iter().filter(|op| graph.ops.get(op.index()).is_some_and(touches));
            users.filter_map(|&op| places.at(op)).collect()
        }
    };
    let bound = |limit| match limit {
        Limit::Step => Bound::Step,
        Limit::Op(op) => places.at(op).map_or(Bound::Step, Bound::Op),
    };
    let decided_by = match facts.rule {
        TierRule::AcrossTurningPoint { producer, reader } => {
            let loss = analysis.turning_point.map(|point| point.op);
            [producer, loss, Some(reader)].into_iter().flatten().filter_map(|op| places.at(op)).collect()
        }
        TierRule::Hint | TierRule::Kind | TierRule::LongLived { .. } | TierRule::Rest => Vec::new(),
    };
    let taken = |&pair: &InPlace| {
        let does = |at: &&OpAt| graph.ops.get(at.op.index()).is_some_and(|op| op.in_place.contains(&pair));
        used_by.iter().find(does).map(|op| TakenInPlace { op: op.clone(), pair })
    };
    let in_place = analysis.in_place.iter().filter(|pair| inside.contains(&pair.input)).filter_map(taken).collect();
    let born_by = bound(facts.born_by);
    Ok(Explanation {
        buffer,
        name: facts.name.clone(),
        tensor: tensor.or(facts.tensors.first().copied()),
        namesakes,
        bytes: facts.bytes,
        tier: facts.tier,
        rule: facts.rule,
        producer: match &born_by {
            Bound::Op(op) => Some(op.clone()),
            Bound::Step => None,
        },
        decided_by,
        range: facts.range,
        end: analysis.end,
        born_by,
        dies_by: bound(facts.dies_by),
        used_by,
        tensors: facts.tensors.clone(),
        in_place,
    })
}

/// The buffer that holds a tensor, or why there is none.
fn holder(graph: &Graph, analysis: &Analysis, id: TensorId) -> Result<BufferId, Error> {
    let Some(tensor) = graph.tensors.get(id.index()) else {
        return Err(Error::UnknownName { name: format!("tensor {}", id.0), similar: Vec::new() });
    };
    let found = analysis.buffers.iter().position(|buffer| buffer.tensors.contains(&id));
    found.map(|index| BufferId(index as u32)).ok_or_else(|| {
        let mut owner = (id, tensor);
        for _ in 0..graph.tensors.len() {
            match owner.1.alias_of.and_then(|target| Some((target, graph.tensors.get(target.index())?))) {
                Some(target) => owner = target,
                None => break,
            }
        }
        Error::NotPlaced { tensor: TensorPlace::new(graph, id), zero_byte: analysis.zero_byte.contains(&owner.0) }
    })
}

fn by_name(graph: &Graph, analysis: &Analysis, name: &str) -> Result<(BufferId, Option<TensorId>, usize), Error> {
    let mut named = graph.tensors.iter().enumerate().filter(|(_, tensor)| tensor.name == name);
    if let Some((first, _)) = named.next() {
        let id = TensorId(first as u32);
        return Ok((holder(graph, analysis, id)?, Some(id), named.count()));
    }
    if let Some(index) = analysis.buffers.iter().position(|buffer| buffer.name == name) {
        return Ok((BufferId(index as u32), None, 0));
    }
    let asked = name.to_lowercase();
    let is_similar = |other: &&str| {
        let other = other.to_lowercase();
        !asked.is_empty() && (other.contains(&asked) || (!other.is_empty() && asked.contains(&other)))
    };
    let names = graph.tensors.iter().map(|tensor| tensor.name.as_str());
    let names = names.chain(analysis.buffers.iter().map(|buffer| buffer.name.as_str()));
    let mut similar: Vec<&str> = names.filter(is_similar).collect();
    // The names nearest in length first: they differ least.
    similar.sort_by_key(|other| (other.len().abs_diff(name.len()), *other));
    similar.dedup();
    similar.truncate(SUGGESTED);
    let similar = similar.into_iter().map(clip).collect();
    Err(Error::UnknownName { name: clip(name), similar })
}

/// Where each op stands.
struct Places<'a> {
    graph: &'a Graph,
    position: Vec<usize>,
}

impl<'a> Places<'a> {
    fn new(graph: &'a Graph, analysis: &Analysis) -> Self {
        let mut position = vec![0; graph.ops.len()];
        for (at, op) in analysis.order.iter().enumerate() {
            if let Some(place) = position.get_mut(op.index()) {
                *place = at;
            }
        }
        Self { graph, position }
    }

    fn at(&self, id: OpId) -> Option<OpAt> {
        let op = self.graph.ops.get(id.index())?;
        let position = self.position[id.index()] as u64;
        Some(OpAt { op: id, name: op.name.clone(), kind: op.kind.clone(), position })
    }
}

impl Analysis {
    /// For each tensor of the graph the buffer that holds it; `None` for a tensor that takes no bytes. `tensors` is how
    /// many tensors the graph has.
    pub fn buffer_of_tensor(&self, tensors: usize) -> Vec<Option<BufferId>> {
        let mut holder = vec![None; tensors];
        for (index, buffer) in self.buffers.iter().enumerate() {
            for tensor in &buffer.tensors {
                if let Some(holder) = holder.get_mut(tensor.index()) {
                    *holder = Some(BufferId(index as u32));
                }
            }
        }
        holder
    }
}
