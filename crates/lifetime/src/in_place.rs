//! Which outputs take the bytes of an input that dies at the same op.
//!
//! A pair that the graph allows is taken if, by then, nothing else needs the input: no later op, no other view of it at
//! this op, no op of another stream that may still be running, nobody after the step, and not whoever handed it in.
//! Taking it never raises the load:
//! - storages of equal size simply meet, one byte range living on as the other;
//! - a smaller output keeps the larger size alive, so it must have at least 7/8 of it and fit under the present peak.
//!
//! Storages of different tiers are joined only where that lowers the peak: elsewhere it would gain nothing and blur
//! the tiers.

use hashbrown::HashMap;

use crate::{
    InPlace, LiveRange, OpId, TensorId, Tier, TierRule,
    clocks::Clocks,
    load::Profile,
    ordered::Ordered,
    storage::{NONE, Origin},
};

/// Storages joined into groups, each of which needs one range of bytes.
#[derive(Clone, Debug)]
pub(crate) struct Groups {
    parent: Vec<u32>,
    /// The pairs taken, in the order of their ops.
    pub(crate) taken: Vec<InPlace>,
}

impl Groups {
    /// Every storage on its own.
    pub(crate) fn apart(storages: usize) -> Self {
        Self { parent: (0..storages as u32).collect(), taken: Vec::new() }
    }

    /// The first storage, in time, of the group that a storage is in.
    pub(crate) fn first(&self, storage: u32) -> u32 {
        let mut at = storage;
        while self.parent[at as usize] != at {
            at = self.parent[at as usize];
        }
        at
    }

    fn first_and_shorten(&mut self, storage: u32) -> u32 {
        let first = self.first(storage);
        let mut at = storage;
        while at != first {
            at = std::mem::replace(&mut self.parent[at as usize], first);
        }
        first
    }
}

/// Joins storages by the rules of this module. `ranges` and `tiers` are those of the single storages; `clocks` is there
/// when the graph has several streams.
pub(crate) fn join(
    ordered: &Ordered<'_, '_>,
    ranges: &[Option<LiveRange>],
    tiers: &[Option<(Tier, TierRule)>],
    clocks: Option<&Clocks>,
) -> Groups {
    let mut joiner = Joiner::new(ordered, ranges, tiers, clocks);
    let graph = ordered.scan.graph;
    let mut across = Vec::new();
    for (position, op) in (0_u32..).zip(&ordered.order) {
        let op = &graph.ops[op.index()];
        if !op.in_place.is_empty() {
            joiner.look_at(position);
        }
        for &pair in &op.in_place {
            if joiner.is_possible(position, pair) {
                if joiner.same_tier(pair) {
                    joiner.try_pair(position, pair);
                } else {
                    across.push((position, pair));
                }
            }
        }
    }
    joiner.join_at_peaks(&across);
    joiner.finish()
}

struct Joiner<'a> {
    ordered: &'a Ordered<'a, 'a>,
    tiers: &'a [Option<(Tier, TierRule)>],
    clocks: Option<&'a Clocks>,
    groups: Groups,
    /// Last position of each group, by its first storage.
    last: Vec<u32>,
    /// Whether a storage's bytes have been taken by an output; whether it has taken those of an input.
    given: Vec<bool>,
    found: Vec<bool>,
    taken: Vec<(u32, InPlace)>,
    profile: Profile,
    /// For each storage the position last looked at whose op reads it, and through which tensor.
    read_at: Vec<(u32, Read)>,
    /// For each storage the position last looked at whose op makes a tensor in it.
    made_at: Vec<u32>,
    /// For each storage what [`Joiner::is_over`] has found.
    over: Vec<Option<bool>>,
}

/// How an op reads a storage.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Read {
    Through(TensorId),
    ThroughSeveral,
}

impl<'a> Joiner<'a> {
    fn new(
        ordered: &'a Ordered<'a, 'a>,
        ranges: &[Option<LiveRange>],
        tiers: &'a [Option<(Tier, TierRule)>],
        clocks: Option<&'a Clocks>,
    ) -> Self {
        let storages = &ordered.scan.storages;
        let positions = ordered.order.len();
        let mut last = vec![NONE; storages.len()];
        let mut change = vec![0_i128; positions + 1];
        for (id, (storage, range)) in storages.iter().zip(ranges).enumerate() {
            let Some(range) = range.filter(|_| storage.origin != Origin::Persistent && positions > 0) else { continue };
            let first = (range.birth.0 / 2) as usize;
            let end = (range.death.0.div_ceil(2) as usize).min(positions);
            last[id] = end as u32 - 1;
            change[first] += i128::from(storage.bytes.0);
            change[end] -= i128::from(storage.bytes.0);
        }
        let mut load = Vec::with_capacity(positions);
        let mut live = 0;
        for (op, change) in ordered.order.iter().zip(&change) {
            live += change;
            load.push(live + i128::from(ordered.scan.graph.ops[op.index()].workspace.0));
        }
        Self {
            ordered,
            tiers,
            clocks,
            groups: Groups::apart(storages.len()),
            last,
            given: vec![false; storages.len()],
            found: vec![false; storages.len()],
            taken: Vec::new(),
            profile: Profile::new(&load),
            read_at: vec![(NONE, Read::ThroughSeveral); storages.len()],
            made_at: vec![NONE; storages.len()],
            over: vec![None; storages.len()],
        }
    }

    /// Notes what the op at a position reads and makes.
    fn look_at(&mut self, position: u32) {
        let scan = self.ordered.scan;
        let op = &scan.graph.ops[self.ordered.op_at(position).index()];
        for &input in &op.inputs {
            let read = &mut self.read_at[scan.storages.of(input) as usize];
            *read = match *read {
                (at, seen) if at == position && seen != Read::Through(input) => (position, Read::ThroughSeveral),
                _ => (position, Read::Through(input)),
            };
        }
        for &output in &op.outputs {
            self.made_at[scan.storages.of(output) as usize] = position;
        }
    }

    fn same_tier(&self, pair: InPlace) -> bool {
        let tier = |tensor| self.tiers[self.ordered.scan.storages.of(tensor) as usize].map(|(tier, _)| tier);
        tier(pair.input) == tier(pair.output)
    }

    /// Takes pairs at the position with the most bytes live, as long as that lowers it. `across` is sorted by position.
    fn join_at_peaks(&mut self, across: &[(u32, InPlace)]) {
        let mut next: HashMap<u32, usize> = HashMap::new();
        loop {
            let peak = self.profile.peak_position() as u32;
            let first = || across.partition_point(|&(position, _)| position < peak);
            let next = next.entry(peak).or_insert_with(first);
            let mut taken = false;
            while let Some(&(position, pair)) = across.get(*next).filter(|_| !taken) {
                if position != peak {
                    break;
                }
                *next += 1;
                taken = self.try_pair(position, pair);
            }
            if !taken {
                break;
            }
        }
    }

    /// Joins the storages of a possible pair of the op at this position, if nothing else has taken them and it doesn't
    /// raise the load.
    fn try_pair(&mut self, position: u32, pair: InPlace) -> bool {
        let storages = &self.ordered.scan.storages;
        let (input, output) = (storages.of(pair.input), storages.of(pair.output));
        if self.given[input as usize] || self.found[output as usize] {
            return false;
        }
        let into = self.groups.first_and_shorten(input);
        let joined = self.groups.first_and_shorten(output);
        let (have, need) = (storages.get(into).bytes.0, storages.get(joined).bytes.0);
        let more = i128::from(have) - i128::from(need);
        let (from, to) = (position as usize + 1, self.last[joined as usize] as usize + 1);
        let fits = more == 0
            || (u128::from(need) * 8 >= u128::from(have) * 7
                && self.profile.peak_in(from, to) + more <= self.profile.peak());
        if more < 0 || !fits {
            return false;
        }
        self.profile.add(position as usize, from, -i128::from(need));
        self.profile.add(from, to, more);
        self.groups.parent[joined as usize] = into;
        self.last[into as usize] = self.last[joined as usize];
        (self.given[input as usize], self.found[output as usize]) = (true, true);
        self.taken.push((position, pair));
        true
    }

    /// Whether at this op, which has been looked at, the input's bytes are needed for nothing but this pair.
    fn is_possible(&mut self, position: u32, pair: InPlace) -> bool {
        let scan = self.ordered.scan;
        let storages = &scan.storages;
        let (input, output) = (storages.of(pair.input), storages.of(pair.output));
        let (from, to) = (storages.get(input), storages.get(output));
        // A view of a part may lie anywhere in its storage, so its bytes aren't where the output would go.
        let is_whole = |tensor: TensorId, bytes| scan.graph.tensors[tensor.index()].bytes == bytes;
        let may_join = |storage: u32| match self.tiers[storage as usize] {
            Some((Tier::Temporary | Tier::Cyclic, rule)) => rule != TierRule::Hint || self.same_tier(pair),
            Some((Tier::Persistent, _)) | None => false,
        };
        let ends_here = self.ordered.uses(input).is_some_and(|(_, last)| last == position) && !from.is_result;
        let starts_here = self.ordered.uses(output).is_some_and(|(first, _)| first == position);
        input != output
            && (from.origin, to.origin) == (Origin::Made, Origin::Made)
            && ends_here
            && starts_here
            && may_join(input)
            && may_join(output)
            && is_whole(pair.input, from.bytes)
            && is_whole(pair.output, to.bytes)
            && self.read_at[input as usize] == (position, Read::Through(pair.input))
            && self.made_at[input as usize] != position
            && self.is_over(input, self.ordered.op_at(position))
    }

    /// Whether all that touches a storage is over when its last op starts, that op aside.
    fn is_over(&mut self, storage: u32, last: OpId) -> bool {
        let Some(clocks) = self.clocks else { return true };
        let touched_by = self.ordered.scan.touched_by.row(storage as usize);
        let look = || touched_by.iter().all(|&earlier| clocks.is_after(last.0, earlier));
        *self.over[storage as usize].get_or_insert_with(look)
    }

    fn finish(mut self) -> Groups {
        for storage in 0..self.groups.parent.len() as u32 {
            self.groups.first_and_shorten(storage);
        }
        self.taken.sort_by_key(|&(position, _)| position);
        self.groups.taken = self.taken.into_iter().map(|(_, pair)| pair).collect();
        self.groups
    }
}
