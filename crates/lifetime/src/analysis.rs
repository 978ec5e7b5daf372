//! What an analysed graph says: buffers with live ranges and tiers.

use crate::{BufferId, Bytes, HalfStep, LiveRange, OpId, TensorId, tier::Tier};

/// What makes a buffer need bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BufferSource {
    /// A tensor and all that share its storage; the tensor that owns the storage is named.
    Storage(TensorId),
    /// The workspace of an op.
    Workspace(OpId),
}

/// What sets the first or the last moment of a live range.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Limit {
    /// Present when the step begins, or kept past its end (persistent, input, result).
    Step,
    /// This op makes it, or uses it last.
    Op(OpId),
}

/// The rule that decided a tier, with the facts it looked at.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TierRule {
    /// The graph asked for it.
    Hint,
    /// The graph's own kind of input: parameter, module state, optimizer state, constant.
    Kind,
    /// Made by `producer` (`None`: handed in) before the turning point and read by `reader` after it.
    AcrossTurningPoint {
        /// The op that makes it, if one does.
        producer: Option<OpId>,
        /// The last op that reads it.
        reader: OpId,
    },
    /// Live over at least the knob's share of the step.
    LongLived {
        /// Share of the step's half-steps, in parts per million.
        share_ppm: u32,
    },
    /// None of the others.
    Rest,
}

/// What needs bytes once aliases are folded: the unit that is placed.
#[derive(Clone, Debug, PartialEq)]
pub struct Buffer {
    /// Name of the tensor that owns the storage, or `NAME.workspace`.
    pub name: String,
    /// Where it comes from.
    pub source: BufferSource,
    /// Every tensor in this storage, the owner first; empty for a workspace.
    pub tensors: Vec<TensorId>,
    /// Bytes needed.
    pub bytes: Bytes,
    /// Alignment asked for by the graph, in bytes.
    pub alignment: Option<u64>,
    /// When it is live, in half-steps of the chosen order.
    pub range: LiveRange,
    /// What sets the range's birth.
    pub born_by: Limit,
    /// What sets the range's death.
    pub dies_by: Limit,
    /// The tier it is given.
    pub tier: Tier,
    /// Why.
    pub rule: TierRule,
}

/// Where forward turns into backward.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TurningPoint {
    /// The op that makes the loss.
    pub op: OpId,
    /// The loss.
    pub loss: TensorId,
    /// The first half-step after the turning point.
    pub at: HalfStep,
}

/// Everything a planner needs to know of a graph.
#[derive(Clone, Debug, PartialEq)]
pub struct Analysis {
    /// The order the ops are taken in; `order[i]` owns half-steps `2i` and `2i + 1`.
    pub order: Vec<OpId>,
    /// The first half-step after the step: `2 * order.len()`, at least 1.
    pub end: HalfStep,
    /// What needs bytes.
    pub buffers: Vec<Buffer>,
    /// Tensors that own a storage of zero bytes and so take no range.
    pub zero_byte: Vec<TensorId>,
    /// Outputs placed in the bytes of an input by the planner's own choice.
    pub in_place: Vec<crate::InPlace>,
    /// Pairs whose live ranges are apart in issue order but not by any proof between their streams: they conflict
    /// all the same. Empty for one stream. Sorted, the smaller id first.
    pub separations: Vec<(BufferId, BufferId)>,
    /// Where forward turns into backward, if anywhere.
    pub turning_point: Option<TurningPoint>,
}

impl Analysis {
    /// Highest sum of bytes live at one moment, over the buffers that `keep` accepts, in issue order.
    pub fn max_load(&self, mut keep: impl FnMut(&Buffer) -> bool) -> Bytes {
        let mut events: Vec<(HalfStep, i128)> = Vec::with_capacity(self.buffers.len() * 2);
        for buffer in self.buffers.iter().filter(|b| keep(b)) {
            events.push((buffer.range.birth, i128::from(buffer.bytes.0)));
            events.push((buffer.range.death, -i128::from(buffer.bytes.0)));
        }
        events.sort_unstable();
        let (mut load, mut peak) = (0_i128, 0_i128);
        for (_, change) in events {
            load += change;
            peak = peak.max(load);
        }
        Bytes(u64::try_from(peak).unwrap_or(u64::MAX))
    }
}
