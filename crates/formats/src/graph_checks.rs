//! What every graph must satisfy to be handed on, whatever file it came from.

use lifetime::{Graph, TensorId};

use crate::error::Fault;
use crate::ids::At;
use crate::limits::{MAX_BYTES, add_below_limit};
use crate::{Error, Result};

/// Where a graph's parts stand in the file it came from.
pub(crate) struct Places<'a> {
    /// The place of the tensor with this index.
    pub(crate) tensor: &'a dyn Fn(usize) -> String,
    /// The place of the op with this index.
    pub(crate) op: &'a dyn Fn(usize) -> String,
}

impl Places<'_> {
    /// `tensors[i]` and `ops[i]`.
    pub(crate) const LISTS: Self =
        Self { tensor: &|index| format!("tensors[{index}]"), op: &|index| format!("ops[{index}]") };
}

/// Refuses sizes over the limit, sums beyond 64 bits and aliases in a circle.
pub(crate) fn check(graph: &Graph, places: &Places<'_>, at: At<'_>) -> Result<()> {
    let mut sum = 0_u64;
    let mut add = |bytes: u64, counts: bool| -> Result<(), Fault> {
        if bytes > MAX_BYTES {
            return Err(Fault::TooLarge { value: bytes, max: MAX_BYTES });
        }
        if counts {
            let what = "the sizes of all tensors and workspaces up to here";
            sum = add_below_limit(sum, bytes).ok_or(Fault::SumOverflow(what))?;
        }
        Ok(())
    };
    for (index, tensor) in graph.tensors.iter().enumerate() {
        let refuse =
            |field, fault| at.fault(format!("{}.{field}", (places.tensor)(index)), tensor_name(graph, index), fault);
        // An alias takes no memory of its own.
        add(tensor.bytes.0, tensor.alias_of.is_none()).map_err(|fault| refuse("bytes", fault))?;
        if let Some(alignment) = tensor.alignment.filter(|alignment| !alignment.is_power_of_two()) {
            return Err(refuse("alignment", Fault::NotPowerOfTwo(alignment)));
        }
    }
    for (index, op) in graph.ops.iter().enumerate() {
        add(op.workspace.0, true).map_err(|fault| {
            at.fault(format!("{}.workspace_bytes", (places.op)(index)), format!("op `{}`", op.name), fault)
        })?;
    }
    check_aliases(graph, places, at)
}

/// ``tensor `NAME` ``.
pub(crate) fn tensor_name(graph: &Graph, index: usize) -> String {
    graph.tensors.get(index).map(|tensor| format!("tensor `{}`", tensor.name)).unwrap_or_default()
}

/// Refuses aliases in a circle. Every tensor is visited once.
fn check_aliases(graph: &Graph, places: &Places<'_>, at: At<'_>) -> Result<()> {
    const UNSEEN: u32 = u32::MAX;
    // The walk that saw the tensor first.
    let mut walk_of = vec![UNSEEN; graph.tensors.len()];
    for start in 0..graph.tensors.len() {
        let walk = start as u32;
        let mut tensor = start;
        while walk_of[tensor] == UNSEEN {
            walk_of[tensor] = walk;
            match graph.tensors[tensor].alias_of {
                Some(next) => tensor = next.index(),
                None => break,
            }
        }
        if walk_of[tensor] == walk && graph.tensors[tensor].alias_of.is_some() {
            return Err(cycle_error(graph, places, tensor, at));
        }
    }
    Ok(())
}

/// The error for the circle that `start` is on.
fn cycle_error(graph: &Graph, places: &Places<'_>, start: usize, at: At<'_>) -> Error {
    const SHOWN: usize = 16;
    let mut names = vec![graph.tensors[start].name.clone()];
    let mut tensor = graph.tensors[start].alias_of;
    while let Some(TensorId(index)) = tensor {
        if names.len() == SHOWN {
            names.push("...".to_owned());
        }
        if names.len() < SHOWN {
            names.push(graph.tensors[index as usize].name.clone());
        }
        if index as usize == start {
            break;
        }
        tensor = graph.tensors[index as usize].alias_of;
    }
    at.fault(format!("{}.alias_of", (places.tensor)(start)), tensor_name(graph, start), Fault::AliasCycle { names })
}

/// For each tensor the one at the end of its aliases. The graph's aliases must have been checked.
pub(crate) fn storages(graph: &Graph) -> Vec<TensorId> {
    let mut storage: Vec<Option<TensorId>> = vec![None; graph.tensors.len()];
    let mut chain = Vec::new();
    for start in (0..).take(graph.tensors.len()).map(TensorId) {
        let mut end = start;
        while let (None, Some(next)) = (storage[end.index()], graph.tensors[end.index()].alias_of) {
            chain.push(end);
            end = next;
        }
        let owner = *storage[end.index()].get_or_insert(end);
        for tensor in chain.drain(..) {
            storage[tensor.index()] = Some(owner);
        }
    }
    storage.into_iter().zip(0..).map(|(owner, id)| owner.unwrap_or(TensorId(id))).collect()
}
