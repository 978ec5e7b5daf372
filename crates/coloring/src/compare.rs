//! Is this a plan of that graph: the buffers derived anew, held against those of a plan.

use std::collections::HashMap;

use lifetime::{AnalysisOptions, Bytes, Graph, OpId, analyse};

use crate::{PlacedBuffer, Plan, Request};

/// In what a plan differs from what it is held against.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum Difference {
    /// The plan's order names other ops than the graph has.
    #[error("the plan's order is not one of this graph's {ops} ops")]
    Order {
        /// How many ops the graph has.
        ops: usize,
    },
    /// In the plan's order the graph is refused.
    #[error(transparent)]
    Graph(#[from] lifetime::Error),
    /// A buffer with other bytes or another live range.
    #[error(
        "buffer `{}` ({}) has {} bytes and lives {}; the plan has {} bytes, {}",
        .derived.id, .derived.name, .derived.bytes.0, .derived.live_in_words(), .planned.0.0, .planned.1
    )]
    Buffer {
        /// As it is.
        derived: Box<PlacedBuffer>,
        /// Bytes and live range as the plan has them.
        planned: (Bytes, String),
    },
    /// A buffer whose offset the plan says was asked for.
    #[error("buffer `{id}` is not pinned there, as the plan claims")]
    NotFixed {
        /// Its identifier.
        id: String,
    },
    /// A buffer that lies elsewhere than was asked for.
    #[error("buffer `{id}` is pinned at {wanted} but planned at {offset}")]
    Moved {
        /// Its identifier.
        id: String,
        /// Where it has to lie.
        wanted: u64,
        /// Where it lies.
        offset: u64,
    },
    /// A buffer that isn't aligned as was asked for.
    #[error("buffer `{id}` must be aligned to {alignment} but lies at {offset}")]
    Misaligned {
        /// Its identifier.
        id: String,
        /// What was asked for.
        alignment: u64,
        /// Where it lies.
        offset: u64,
    },
    /// A buffer that only the plan has.
    #[error("the plan has a buffer `{id}` that isn't there")]
    Unknown {
        /// Its identifier.
        id: String,
    },
    /// A buffer that the plan doesn't have, though it has others of its tier.
    #[error("buffer `{id}` ({name}, {tier}) is missing from the plan")]
    Missing {
        /// Its identifier.
        id: String,
        /// Its name.
        name: String,
        /// Its tier.
        tier: lifetime::Tier,
    },
    /// Two buffers that nothing keeps apart in time.
    #[error("buffers `{first}` and `{second}` share bytes, and nothing orders their streams")]
    Shared {
        /// One.
        first: String,
        /// The other.
        second: String,
    },
}

impl PlacedBuffer {
    /// The time it is live, `[birth, death)`, with the gaps in between.
    pub fn live_in_words(&self) -> String {
        let gap = |gap: &crate::Gap| format!(", gap [{}, {})", gap.range.birth.0, gap.range.death.0);
        let gaps: String = self.gaps.iter().map(gap).collect();
        format!("[{}, {}){gaps}", self.range.birth.0, self.range.death.0)
    }
}

impl Request {
    /// The buffers of a graph in the plan's order of ops, which is checked like any other.
    ///
    /// # Errors
    /// It isn't an order of this graph's ops.
    pub fn in_order_of(graph: &Graph, plan: &Plan) -> Result<Self, Difference> {
        let given: Vec<OpId> = (0..graph.ops.len() as u32).map(OpId).collect();
        let order = plan.order.clone().unwrap_or_else(|| given.clone());
        let mut sorted = order.clone();
        sorted.sort_unstable();
        if sorted != given {
            return Err(Difference::Order { ops: graph.ops.len() });
        }
        lifetime::check(graph)?;
        // The graph as if it had been issued in that order.
        let mut place = vec![0_u32; order.len()];
        for (at, op) in order.iter().enumerate() {
            place[op.index()] = at as u32;
        }
        let mut issued = graph.clone();
        issued.ops = order.iter().map(|op| graph.ops[op.index()].clone()).collect();
        for op in &mut issued.ops {
            for before in &mut op.after {
                *before = OpId(place[before.index()]);
            }
        }
        // Ops keep their names: identifiers of workspaces are made of them.
        issued.op_ids = order.iter().map(|&op| graph.op_id(op).into_owned()).collect();
        let analysis = analyse(&issued, &AnalysisOptions::default())?;
        Ok(Self::from_analysis(&issued, &analysis, 1))
    }
}

/// Holds `plan` against the buffers it should be of; returns how many of those belong to tiers the plan doesn't have.
/// Offsets that `request` fixes must be kept unless `ignore_offsets`.
///
/// # Errors
/// The first difference.
pub fn compare(plan: &Plan, request: &Request, ignore_offsets: bool) -> Result<usize, Difference> {
    let mut planned: HashMap<&str, &PlacedBuffer> = plan.buffers.iter().map(|b| (b.id.as_str(), b)).collect();
    let (mut left_out, mut planned_tiers) = (Vec::new(), Vec::new());
    for b in &request.buffers {
        let Some(p) = planned.remove(b.id.as_str()) else {
            left_out.push(b);
            continue;
        };
        if !planned_tiers.contains(&b.tier) {
            planned_tiers.push(b.tier);
        }
        let id = || b.id.clone();
        let offset = p.offset.0;
        if p.bytes != b.bytes || p.range != b.range || p.gaps != b.gaps {
            let planned = (p.bytes, p.live_in_words());
            return Err(Difference::Buffer { derived: Box::new(b.clone()), planned });
        }
        if p.fixed && !b.fixed {
            return Err(Difference::NotFixed { id: id() });
        }
        if b.fixed && !ignore_offsets && b.offset != p.offset {
            return Err(Difference::Moved { id: id(), wanted: b.offset.0, offset });
        }
        if !offset.is_multiple_of(b.alignment) {
            return Err(Difference::Misaligned { id: id(), alignment: b.alignment, offset });
        }
    }
    if let Some(id) = planned.into_keys().min() {
        return Err(Difference::Unknown { id: id.to_owned() });
    }
    // A plan of some tiers leaves the others out, but never a part of one. What the plan calls them doesn't count.
    if let Some(b) = left_out.iter().find(|b| planned_tiers.contains(&b.tier)) {
        return Err(Difference::Missing { id: b.id.clone(), name: b.name.clone(), tier: b.tier });
    }
    check_separations(plan, request)?;
    Ok(left_out.len())
}

/// Buffers that only streams keep apart must not share bytes, whether the plan says so or not.
fn check_separations(plan: &Plan, request: &Request) -> Result<(), Difference> {
    let planned: HashMap<&str, &PlacedBuffer> = plan.buffers.iter().map(|b| (b.id.as_str(), b)).collect();
    for &(a, b) in &request.separations {
        let (Some(a), Some(b)) = (request.buffers.get(a as usize), request.buffers.get(b as usize)) else { continue };
        let (Some(x), Some(y)) = (planned.get(a.id.as_str()), planned.get(b.id.as_str())) else { continue };
        if x.offset.0 < y.offset.0.saturating_add(y.bytes.0) && y.offset.0 < x.offset.0.saturating_add(x.bytes.0) {
            return Err(Difference::Shared { first: a.id.clone(), second: b.id.clone() });
        }
    }
    Ok(())
}
