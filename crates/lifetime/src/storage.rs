//! Tensors folded into the storages they share.

use crate::{
    Bytes, Error, Graph, OpId, TensorId, TensorKind, Tier,
    csr::Csr,
    error::{Loop, TensorPlace},
};

/// "None" in arrays of indices; no graph is large enough to use it as one.
pub(crate) const NONE: u32 = u32::MAX;

/// When a tensor can be read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Available {
    /// No op makes it and nobody hands it in.
    Never,
    /// From the start of the step.
    Start,
    /// Once this op has run.
    By(OpId),
}

/// Where a storage's bytes come from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Origin {
    /// They live across steps.
    Persistent,
    /// They are handed in for this step.
    HandedIn,
    /// An op makes them.
    Made,
}

/// The bytes that one tensor owns and others may share.
#[derive(Clone, Debug)]
pub(crate) struct Storage {
    /// The tensor that shares nobody's storage.
    pub(crate) owner: TensorId,
    /// What the largest of its tensors needs: a view may claim more than its owner, and too few bytes would do harm.
    pub(crate) bytes: Bytes,
    /// The largest alignment asked for.
    pub(crate) alignment: Option<u64>,
    pub(crate) origin: Origin,
    /// Whether one of its tensors stays live past the last op.
    pub(crate) is_result: bool,
    /// The owner's hint; without one, the first tier, in their order, that an alias asks for.
    pub(crate) hint: Option<Tier>,
}

/// All storages of a graph, in the order of their owners.
#[derive(Clone, Debug)]
pub(crate) struct Storages {
    list: Vec<Storage>,
    of_tensor: Vec<u32>,
    tensors: Csr,
    available: Vec<Available>,
}

impl Storages {
    /// Folds the tensors. `maker[t]` is the op that makes tensor `t`, or [`NONE`]; the ids in the graph are valid.
    pub(crate) fn new(graph: &Graph, maker: &[u32]) -> Result<Self, Error> {
        let (owner, available) = resolve(graph, maker)?;
        let mut index = vec![NONE; graph.tensors.len()];
        let mut list = Vec::new();
        for (id, _) in owner.iter().enumerate().filter(|&(id, &owner)| owner as usize == id) {
            index[id] = list.len() as u32;
            list.push(Storage {
                owner: TensorId(id as u32),
                bytes: Bytes(0),
                alignment: None,
                origin: Origin::Made,
                is_result: false,
                hint: graph.tensors[id].tier_hint,
            });
        }
        let of_tensor: Vec<u32> = owner.iter().map(|&owner| index[owner as usize]).collect();
        for (tensor, &storage) in graph.tensors.iter().zip(&of_tensor) {
            let storage = &mut list[storage as usize];
            storage.bytes = storage.bytes.max(tensor.bytes);
            storage.alignment = storage.alignment.max(tensor.alignment);
            match tensor.kind {
                TensorKind::Parameter | TensorKind::ModuleState | TensorKind::OptimizerState | TensorKind::Constant => {
                    storage.origin = Origin::Persistent
                }
                TensorKind::Input if storage.origin == Origin::Made => storage.origin = Origin::HandedIn,
                TensorKind::Input | TensorKind::Intermediate => {}
            }
            if graph.tensors[storage.owner.index()].tier_hint.is_none() {
                storage.hint = match (storage.hint, tensor.tier_hint) {
                    (Some(a), Some(b)) => Some(a.min(b)),
                    (a, b) => a.or(b),
                };
            }
        }
        for result in &graph.results {
            list[of_tensor[result.index()] as usize].is_result = true;
        }
        let tensors = owners_first(&list, &of_tensor);
        Ok(Self { list, of_tensor, tensors, available })
    }

    /// How many there are.
    pub(crate) fn len(&self) -> usize {
        self.list.len()
    }

    /// All of them.
    pub(crate) fn iter(&self) -> impl Iterator<Item = &Storage> {
        self.list.iter()
    }

    /// One of them.
    pub(crate) fn get(&self, storage: u32) -> &Storage {
        &self.list[storage as usize]
    }

    /// The storage a tensor lies in.
    pub(crate) fn of(&self, tensor: TensorId) -> u32 {
        self.of_tensor[tensor.index()]
    }

    /// The tensors in a storage, the owner first, the others by id.
    pub(crate) fn tensors(&self, storage: u32) -> impl Iterator<Item = TensorId> + '_ {
        self.tensors.row(storage as usize).iter().map(|&id| TensorId(id))
    }

    /// When a tensor can be read.
    pub(crate) fn available(&self, tensor: TensorId) -> Available {
        self.available[tensor.index()]
    }
}

/// For each tensor the one that owns its storage, and when it can be read. Walks every chain of aliases once.
fn resolve(graph: &Graph, maker: &[u32]) -> Result<(Vec<u32>, Vec<Available>), Error> {
    let tensors = &graph.tensors;
    let mut owner = vec![NONE; tensors.len()];
    let mut available = vec![Available::Never; tensors.len()];
    let mut walked_from = vec![NONE; tensors.len()];
    let mut chain = Vec::new();
    for start in 0..tensors.len() as u32 {
        chain.clear();
        let mut at = start;
        // Follow aliases up to a tensor that is resolved or owns its storage.
        let found = loop {
            if owner[at as usize] != NONE {
                break at;
            }
            if walked_from[at as usize] == start {
                let first = chain.iter().position(|&t| t == at).unwrap_or(0);
                let ids = chain.split_off(first);
                let cycle = Loop::new(ids, |id| TensorPlace::new(graph, TensorId(id)));
                return Err(Error::AliasCycle { cycle });
            }
            walked_from[at as usize] = start;
            chain.push(at);
            match tensors[at as usize].alias_of {
                Some(target) => at = target.0,
                None => {
                    owner[at as usize] = at;
                    break at;
                }
            }
        };
        let root = owner[found as usize];
        for &id in chain.iter().rev() {
            let tensor = &tensors[id as usize];
            owner[id as usize] = root;
            available[id as usize] = match (maker[id as usize], tensor.kind, tensor.alias_of) {
                (op, ..) if op != NONE => Available::By(OpId(op)),
                (_, TensorKind::Intermediate, Some(target)) => available[target.index()],
                (_, TensorKind::Intermediate, None) => Available::Never,
                _ => Available::Start,
            };
        }
    }
    Ok((owner, available))
}

/// The tensors of each storage, the owner first.
fn owners_first(list: &[Storage], of_tensor: &[u32]) -> Csr {
    let mut one_each = Csr::with_rows(of_tensor.len());
    for &storage in of_tensor {
        one_each.push_row([storage]);
    }
    let by_id = one_each.transposed(list.len());
    let mut rows = Csr::with_rows(list.len());
    for (index, storage) in list.iter().enumerate() {
        let owner = storage.owner.0;
        rows.push_row(std::iter::once(owner).chain(by_id.row(index).iter().copied().filter(|&id| id != owner)));
    }
    rows
}

#[cfg(test)]
#[allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]
mod tests {
    use super::*;
    use crate::{
        Tensor,
        testing::{alias, tensor},
    };

    fn of(tensors: Vec<Tensor>) -> Graph {
        Graph { tensors, ..Graph::default() }
    }

    fn storages(graph: &Graph) -> Result<Storages, Error> {
        Storages::new(graph, &vec![NONE; graph.tensors.len()])
    }

    #[test]
    fn chained_aliases_fold_into_the_storage_of_the_last_owner() {
        let graph = of(vec![alias("view of view", 8, 1), alias("view", 8, 2), tensor("owner", 8), tensor("other", 8)]);
        let storages = storages(&graph).unwrap();
        assert_eq!(storages.len(), 2);
        assert_eq!(storages.of(TensorId(0)), storages.of(TensorId(2)));
        assert_ne!(storages.of(TensorId(0)), storages.of(TensorId(3)));
        let members: Vec<_> = storages.tensors(storages.of(TensorId(0))).collect();
        assert_eq!(members, [TensorId(2), TensorId(0), TensorId(1)]);
    }

    #[test]
    fn a_storage_is_as_large_as_its_largest_tensor() {
        let mut graph = of(vec![tensor("owner", 8), alias("view", 24, 0), alias("part", 4, 0)]);
        graph.tensors[1].alignment = Some(64);
        let storages = storages(&graph).unwrap();
        assert_eq!(storages.get(0).bytes, Bytes(24));
        assert_eq!(storages.get(0).alignment, Some(64));
    }

    #[test]
    fn a_persistent_alias_makes_the_storage_persistent() {
        let mut graph = of(vec![tensor("owner", 8), alias("weight", 8, 0)]);
        graph.tensors[1].kind = TensorKind::Parameter;
        assert_eq!(storages(&graph).unwrap().get(0).origin, Origin::Persistent);
    }

    #[test]
    fn the_owners_hint_outweighs_an_aliass() {
        let mut graph = of(vec![alias("view", 8, 1), tensor("owner", 8), alias("other view", 8, 1)]);
        graph.tensors[0].tier_hint = Some(Tier::Temporary);
        graph.tensors[2].tier_hint = Some(Tier::Cyclic);
        assert_eq!(storages(&graph).unwrap().get(0).hint, Some(Tier::Cyclic));
        graph.tensors[1].tier_hint = Some(Tier::Temporary);
        assert_eq!(storages(&graph).unwrap().get(0).hint, Some(Tier::Temporary));
    }

    #[test]
    fn a_ring_of_aliases_is_refused_and_named() {
        let graph = of(vec![alias("tail", 8, 1), alias("a", 8, 2), alias("b", 8, 1)]);
        let Err(Error::AliasCycle { cycle }) = storages(&graph) else { panic!("no cycle found") };
        assert_eq!(cycle.to_string(), r#"tensor 1 ("a") -> tensor 2 ("b") -> tensor 1 ("a")"#);
    }

    #[test]
    fn a_very_long_chain_of_aliases_needs_no_deep_stack() {
        let mut graph = of((0..200_000).map(|i| alias("view", 1, i + 1)).collect());
        graph.tensors.push(tensor("owner", 1));
        assert_eq!(storages(&graph).unwrap().len(), 1);
    }
}
