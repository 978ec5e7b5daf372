//! From a graph to buffers with live ranges and tiers.

use crate::{
    Analysis, Buffer, BufferSource, Bytes, Error, Graph, Limit, LiveRange, OpId, TensorId, Tier, TierRule,
    check::Scan,
    classify::classify,
    clocks::Clocks,
    csr::Csr,
    in_place::{self, Groups},
    memory_order::memory_order,
    ordered::{Ordered, born_at, released_after},
    separate::separate,
    storage::Origin,
    turning::Turning,
};

/// The order the ops are taken in.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Order {
    /// As the graph lists them.
    #[default]
    Given,
    /// An order that keeps every dependency and lowers the most bytes live at one moment, persistent buffers aside. The
    /// given one where none better is found.
    Memory,
}

impl Order {
    /// `given` or `memory`.
    pub fn name(self) -> &'static str {
        match self {
            Self::Given => "given",
            Self::Memory => "memory",
        }
    }

    /// The order with this name.
    pub fn from_name(name: &str) -> Option<Self> {
        [Self::Given, Self::Memory].into_iter().find(|order| order.name() == name)
    }
}

/// How to analyse a graph. Fields may be added; make one with `AnalysisOptions { .., ..Default::default() }`.
#[derive(Clone, Debug, PartialEq)]
pub struct AnalysisOptions {
    /// The order the ops are taken in.
    pub order: Order,
    /// A buffer that lives over at least this share of the step's half-steps is cyclic. Above 1 none is.
    pub long_lived_share: f64,
    /// Whether outputs may take the bytes of inputs where the graph allows it.
    pub reuse_in_place: bool,
    /// Most pairs in [`Analysis::separations`]. Where there would be more, the buffers with the most pairs are kept live
    /// longer instead: that costs bytes, but never correctness.
    pub max_separations: usize,
    /// How long [`Order::Memory`] searches, in visits of a tensor by an op: 100 million take about half a second. The
    /// result depends on this number only, not on the machine.
    pub order_budget: u64,
}

impl Default for AnalysisOptions {
    fn default() -> Self {
        Self {
            order: Order::Given,
            long_lived_share: 0.25,
            reuse_in_place: true,
            max_separations: 20_000_000,
            order_budget: 150_000_000,
        }
    }
}

/// Checks a graph and works out when each of its buffers is live and which tier it belongs to.
///
/// Costs time and memory linear in the size of the graph, up to logarithms, the table of clocks and the separations of a
/// graph with several streams, and the search of [`Order::Memory`].
pub fn analyse(graph: &Graph, options: &AnalysisOptions) -> Result<Analysis, Error> {
    if options.long_lived_share.is_nan() || options.long_lived_share < 0.0 {
        return Err(Error::BadShare { share: options.long_lived_share });
    }
    let scan = Scan::new(graph)?;
    let given = analyse_in(&scan, (0..graph.ops.len() as u32).map(OpId).collect(), options)?;
    if options.order == Order::Given {
        return Ok(given);
    }
    let Some(order) = memory_order(&scan, options.order_budget) else { return Ok(given) };
    let found = analyse_in(&scan, order, options)?;
    let load = |analysis: &Analysis| analysis.max_load(|buffer| buffer.tier != Tier::Persistent);
    Ok(if load(&found) < load(&given) { found } else { given })
}

fn analyse_in(scan: &Scan<'_>, order: Vec<OpId>, options: &AnalysisOptions) -> Result<Analysis, Error> {
    let ordered = Ordered::new(scan, order);
    let ranges: Vec<Option<LiveRange>> = (0..scan.storages.len() as u32).map(|id| ordered.range(id)).collect();
    let turning = Turning::find(&ordered);
    let tiers = classify(&ordered, &ranges, turning.as_ref(), options.long_lived_share);
    let several_streams = scan.dependencies.several_streams;
    let clocks = if several_streams { Clocks::new(scan, &ordered.order) } else { None };
    // Without clocks nothing is known between streams, so no bytes are handed on.
    let is_known = clocks.is_some() || !several_streams;
    let groups = if options.reuse_in_place && is_known {
        in_place::join(&ordered, &ranges, &tiers, clocks.as_ref())
    } else {
        Groups::apart(scan.storages.len())
    };
    let Buffers { mut list, used_by } = buffers(&ordered, &ranges, &tiers, &groups)?;
    let mut separations = Vec::new();
    if let Some(clocks) = &clocks {
        let ranges: Vec<LiveRange> = list.iter().map(|buffer| buffer.range).collect();
        let found = separate(&ordered, clocks, &ranges, &used_by, options.max_separations);
        for (id, death) in found.extended {
            list[id.index()].range.death = death;
        }
        separations = found.pairs;
    } else if !is_known {
        for buffer in &mut list {
            buffer.range.death = ordered.end();
        }
    }
    let zero_byte = scan.storages.iter().filter(|s| s.bytes.0 == 0).map(|s| s.owner).collect();
    let turning_point = turning.map(|turning| turning.point);
    let (end, in_place) = (ordered.end(), groups.taken);
    Ok(Analysis { order: ordered.order, end, buffers: list, zero_byte, in_place, separations, turning_point })
}

struct Buffers {
    list: Vec<Buffer>,
    /// The ops that use each buffer.
    used_by: Csr,
}

/// A buffer for each group of storages, in the order of their owners, then one for each workspace.
fn buffers(
    ordered: &Ordered<'_, '_>,
    ranges: &[Option<LiveRange>],
    tiers: &[Option<(Tier, TierRule)>],
    groups: &Groups,
) -> Result<Buffers, Error> {
    let scan = ordered.scan;
    let mut members = group_members(ordered, ranges, groups);
    let mut list = Vec::new();
    let mut used_by = Csr::with_rows(scan.storages.len());
    for group in members.drain(..).filter(|group| !group.is_empty()) {
        let first = group[0];
        let (Some(range), Some((mut tier, rule))) = (ranges[first as usize], tiers[first as usize]) else {
            return Err(Error::Internal { broken: "a storage with a live range has a tier" });
        };
        let last = group[group.len() - 1];
        let death = ranges[last as usize].map_or(range.death, |range| range.death);
        let (mut rule, mut bytes, mut alignment) = (rule, Bytes(0), None);
        let mut tensors: Vec<TensorId> = Vec::new();
        for &storage in &group {
            let facts = scan.storages.get(storage);
            bytes = bytes.max(facts.bytes);
            alignment = alignment.max(facts.alignment);
            tensors.extend(scan.storages.tensors(storage));
            if let Some((other, why)) = tiers[storage as usize].filter(|&(other, _)| other < tier) {
                (tier, rule) = (other, why);
            }
        }
        let owner = scan.storages.get(first).owner;
        list.push(Buffer {
            name: scan.graph.tensors[owner.index()].name.clone(),
            source: BufferSource::Storage(owner),
            tensors,
            bytes,
            alignment,
            range: LiveRange::new(range.birth, death),
            born_by: born_by(ordered, first),
            dies_by: dies_by(ordered, last),
            tier,
            rule,
        });
        used_by.push_row(group.iter().flat_map(|&storage| scan.touched_by.row(storage as usize)).copied());
    }
    for (index, op) in scan.graph.ops.iter().enumerate().filter(|(_, op)| op.workspace.0 > 0) {
        let id = OpId(index as u32);
        let position = ordered.position(id.0);
        list.push(Buffer {
            name: format!("{}.workspace", op.name),
            source: BufferSource::Workspace(id),
            tensors: Vec::new(),
            bytes: op.workspace,
            alignment: None,
            range: LiveRange::new(born_at(position), released_after(position)),
            born_by: Limit::Op(id),
            dies_by: Limit::Op(id),
            tier: Tier::Temporary,
            rule: TierRule::Rest,
        });
        used_by.push_row([id.0]);
    }
    if list.len() as u64 > u64::from(u32::MAX) {
        return Err(Error::TooMany { what: "buffers", count: list.len(), limit: u64::from(u32::MAX) });
    }
    Ok(Buffers { list, used_by })
}

/// The storages with a live range, by the first of their group, each group in the order of time.
fn group_members(ordered: &Ordered<'_, '_>, ranges: &[Option<LiveRange>], groups: &Groups) -> Vec<Vec<u32>> {
    let mut members: Vec<Vec<u32>> = vec![Vec::new(); ranges.len()];
    for (id, _) in ranges.iter().enumerate().filter(|(_, range)| range.is_some()) {
        members[groups.first(id as u32) as usize].push(id as u32);
    }
    for group in &mut members {
        group.sort_by_key(|&storage| ordered.uses(storage));
    }
    members
}

fn born_by(ordered: &Ordered<'_, '_>, storage: u32) -> Limit {
    match (ordered.scan.storages.get(storage).origin, ordered.uses(storage)) {
        (Origin::Made, Some((first, _))) => Limit::Op(ordered.op_at(first)),
        _ => Limit::Step,
    }
}

fn dies_by(ordered: &Ordered<'_, '_>, storage: u32) -> Limit {
    let facts = ordered.scan.storages.get(storage);
    match (facts.origin, ordered.uses(storage)) {
        (Origin::Made | Origin::HandedIn, Some((_, last))) if !facts.is_result => Limit::Op(ordered.op_at(last)),
        _ => Limit::Step,
    }
}
