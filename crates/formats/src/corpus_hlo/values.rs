//! Which tensors stand behind the values of each node.
//!
//! The file doesn't say which element a `get-tuple-element` takes, so it is told by type, shape and size:
//! - One element fits: that one.
//! - Several fit, they were all made by the op that made the tuple, and there are no more get-tuple-elements of that
//!   type than such elements: each get-tuple-element takes one of its own. No two take the same, since the compiler
//!   merges equal nodes (true of all 7 642 in the corpus), and the elements are alike in birth, size and type; so
//!   which takes which is only a matter of names. These tensors are therefore named after the get-tuple-element.
//! - Otherwise any of them may be meant, and whoever reads the value counts as reading them all. That can only keep
//!   a tensor longer than needed.

use std::rc::Rc;

use hashbrown::{HashMap, HashSet};
use lifetime::{Graph, TensorId};

use super::Made;
use super::raw::{Module, TypeKey};
use super::storage::{self, Donations};
use crate::error::Fault;
use crate::ids::At;
use crate::{Error, Result};

/// One value of a node, which may be a tuple.
#[derive(Clone, Debug)]
pub(super) enum Leaf {
    /// The value of this tensor.
    One(TensorId),
    /// The value of one of these, not known which.
    Any(Rc<[TensorId]>),
}

impl Leaf {
    /// The tensors that may be meant.
    pub(super) fn tensors(&self) -> &[TensorId] {
        match self {
            Self::One(tensor) => std::slice::from_ref(tensor),
            Self::Any(tensors) => tensors,
        }
    }
}

/// The values of every node.
pub(super) struct Values(Vec<Option<Vec<Leaf>>>);

impl Values {
    /// The values of `node`, in the order of its outputs.
    pub(super) fn of(&self, node: u32) -> &[Leaf] {
        // A module without nodes has a root all the same: node 0.
        self.0.get(node as usize).and_then(Option::as_deref).unwrap_or_default()
    }

    /// Follows all values. Names tensors of `graph` after the nodes that take them out of a tuple.
    pub(super) fn new(module: &Module<'_>, made: &Made, graph: &mut Graph, at: At<'_>) -> Result<Self> {
        let mut values: Vec<Option<Vec<Leaf>>> = vec![None; module.nodes().len()];
        for (index, node) in module.nodes().iter().enumerate() {
            if let Some(first) = made.first_tensor[index] {
                let tensors = (first.0..).take(node.outputs.0.len());
                values[index] = Some(tensors.map(|id| Leaf::One(TensorId(id))).collect());
            }
        }
        pair_elements(module, made, graph, &mut values);
        let mut walk = Walk { module, values, sets: HashMap::new(), held: 0, at };
        walk.resolve_all()?;
        Ok(Self(walk.values))
    }
}

/// Gives every get-tuple-element of an op's own tuple its element, where that is certain or only a matter of names.
fn pair_elements(module: &Module<'_>, made: &Made, graph: &mut Graph, values: &mut [Option<Vec<Leaf>>]) {
    let mut takers: HashMap<u32, Vec<u32>> = HashMap::new();
    for (node, index) in module.nodes().iter().zip(0_u32..) {
        if let (true, [producer]) = (node.is_get_tuple_element(), module.inputs(index))
            && node.outputs.0.len() == 1
            && made.first_tensor[*producer as usize].is_some()
        {
            takers.entry(*producer).or_default().push(index);
        }
    }
    let donations = Donations::new(module, made);
    for (producer, takers) in takers {
        let node = &module.nodes()[producer as usize];
        let mut groups: HashMap<TypeKey<'_>, Group> = HashMap::new();
        for (position, output) in node.outputs.0.iter().enumerate() {
            groups.entry(output.type_key()).or_default().elements.push(position);
        }
        for taker in takers {
            let output = &module.nodes()[taker as usize].outputs.0[0];
            groups.entry(output.type_key()).or_default().takers.push(taker);
        }
        for group in groups.into_values() {
            if let [element] = group.elements[..] {
                let tensor = made.tensor(producer, element);
                group.takers.iter().for_each(|&taker| values[taker as usize] = Some(vec![Leaf::One(tensor)]));
            } else if group.takers.len() <= group.elements.len() && !storage::hands_on_storage(&node.op) {
                for (taker, element) in group.pairs(module, &donations, producer) {
                    let tensor = made.tensor(producer, element);
                    values[taker as usize] = Some(vec![Leaf::One(tensor)]);
                    graph.tensors[tensor.index()].name = module.nodes()[taker as usize].name.to_string();
                }
            }
        }
    }
}

/// Elements of one tuple that are alike in type, and the get-tuple-elements that take values of that type from it.
#[derive(Default)]
struct Group {
    elements: Vec<usize>,
    takers: Vec<u32>,
}

impl Group {
    /// An element for every taker. Results that are the new value of a donated parameter come from elements that the
    /// compiler put in that parameter's place.
    fn pairs(self, module: &Module<'_>, donations: &Donations, producer: u32) -> Vec<(u32, usize)> {
        let outputs = &module.nodes()[producer as usize].outputs.0;
        let in_donated = |element: &usize| outputs[*element].alloc.filter(|alloc| donations.has(*alloc));
        let mut updates: HashMap<u64, usize> =
            self.elements.iter().filter_map(|element| Some((in_donated(element)?, *element))).collect();
        let mut pairs = Vec::with_capacity(self.takers.len());
        let mut paired: HashSet<usize> = HashSet::new();
        let (mut results, mut others) = (Vec::new(), Vec::new());
        for taker in self.takers {
            let wanted = donations.wanted_by(taker);
            match wanted.and_then(|alloc| updates.remove(&alloc?)) {
                Some(element) => {
                    paired.insert(element);
                    pairs.push((taker, element));
                }
                None if wanted.is_some() => results.push(taker),
                None => others.push(taker),
            }
        }
        let rest = self.elements.into_iter().filter(|element| !paired.contains(element));
        let (updates, plain): (Vec<usize>, Vec<usize>) = rest.partition(|element| in_donated(element).is_some());
        // Results first, from the front; the others from the back, where the plain ones are.
        let rest = [updates, plain].concat();
        let count = results.len();
        pairs.extend(results.into_iter().zip(rest.iter().copied()));
        pairs.extend(others.into_iter().zip(rest[count.min(rest.len())..].iter().rev().copied()));
        pairs
    }
}

/// Follows the values of alias nodes through each other.
struct Walk<'a> {
    module: &'a Module<'a>,
    values: Vec<Option<Vec<Leaf>>>,
    /// For each node asked, its values by type.
    sets: HashMap<u32, HashMap<TypeKey<'a>, Leaf>>,
    /// Tensors in all sets so far, and values of all tuples.
    held: usize,
    at: At<'a>,
}

impl<'a> Walk<'a> {
    /// Tuples of tuples and sets of sets grow faster than the file; more than this is refused.
    const MAX_HELD: usize = 1 << 24;

    fn resolve_all(&mut self) -> Result<()> {
        let module = self.module;
        let mut open: HashSet<u32> = HashSet::new();
        let mut stack: Vec<u32> = Vec::new();
        for start in (0_u32..).take(module.nodes().len()) {
            stack.push(start);
            while let Some(&node) = stack.last() {
                if self.values[node as usize].is_some() {
                    stack.pop();
                    continue;
                }
                let before = stack.len();
                stack.extend(module.inputs(node).iter().filter(|&&input| self.values[input as usize].is_none()));
                if stack.len() == before {
                    self.values[node as usize] = Some(self.values_of_alias(node)?);
                    stack.pop();
                } else if !open.insert(node) {
                    return Err(self.cycle(node, &stack[..before], &open));
                }
            }
        }
        Ok(())
    }

    /// The error for an alias node that is its own input, `stack` being what led back to it.
    fn cycle(&self, node: u32, stack: &[u32], open: &HashSet<u32>) -> Error {
        const SHOWN: usize = 16;
        let start = stack.iter().position(|&other| other == node).unwrap_or_default();
        let path = stack[start..].iter().filter(|&other| open.contains(other)).take(SHOWN);
        let names = path.map(|&other| self.module.nodes()[other as usize].name.to_string()).collect();
        self.at.fault(format!("nodes[{node}].inputs"), self.module.label(node), Fault::AliasCycle { names })
    }

    /// The values of an alias node whose inputs' values are known.
    fn values_of_alias(&mut self, node: u32) -> Result<Vec<Leaf>> {
        let module = self.module;
        let raw = &module.nodes()[node as usize];
        if raw.is_get_tuple_element() {
            return self.taken_from_tuple(node);
        }
        let listed = raw.outputs.0.len();
        let count = |input: &u32| self.values[*input as usize].as_ref().map_or(0, Vec::len);
        let found: usize = module.inputs(node).iter().map(count).fold(0, usize::saturating_add);
        // A tuple has the values of all inputs; a bitcast those of the first, whatever else it is made to wait for.
        let inputs = match module.inputs(node) {
            inputs if found == listed => inputs,
            [first, ..] if count(first) == listed => std::slice::from_ref(first),
            _ => {
                let fault = Fault::LeafCount { listed, found };
                return Err(self.at.fault(format!("nodes[{node}].outputs"), module.label(node), fault));
            }
        };
        self.hold(listed, node)?;
        Ok(inputs.iter().filter_map(|&input| self.values[input as usize].as_ref()).flatten().cloned().collect())
    }

    /// The values that may be meant by each output of a get-tuple-element.
    fn taken_from_tuple(&mut self, node: u32) -> Result<Vec<Leaf>> {
        let module = self.module;
        let Some(&tuple) = module.inputs(node).first() else {
            let fault = Fault::LeafCount { listed: module.nodes()[node as usize].outputs.0.len(), found: 0 };
            return Err(self.at.fault(format!("nodes[{node}].inputs"), module.label(node), fault));
        };
        if !self.sets.contains_key(&tuple) {
            let sets = self.values_by_type(tuple)?;
            self.sets.insert(tuple, sets);
        }
        let sets = self.sets.get(&tuple);
        let taken = module.nodes()[node as usize].outputs.0.iter().enumerate().map(|(output, raw)| {
            sets.and_then(|sets| sets.get(&raw.type_key())).cloned().ok_or_else(|| {
                let from = module.nodes()[tuple as usize].name.to_string();
                let place = format!("nodes[{node}].outputs[{output}]");
                self.at.fault(place, module.label(node), Fault::NoSuchLeaf { from })
            })
        });
        taken.collect()
    }

    /// The values of a node whose values are known, those of one type together.
    fn values_by_type(&mut self, node: u32) -> Result<HashMap<TypeKey<'a>, Leaf>> {
        let module = self.module;
        let mut sets: HashMap<TypeKey<'a>, Vec<TensorId>> = HashMap::new();
        let values = self.values[node as usize].take().unwrap_or_default();
        for (leaf, output) in values.iter().zip(&module.nodes()[node as usize].outputs.0) {
            sets.entry(output.type_key()).or_default().extend_from_slice(leaf.tensors());
            self.hold(leaf.tensors().len(), node)?;
        }
        self.values[node as usize] = Some(values);
        let as_leaf = |(key, mut tensors): (TypeKey<'a>, Vec<TensorId>)| {
            tensors.sort_unstable();
            tensors.dedup();
            let leaf = if let [tensor] = tensors[..] { Leaf::One(tensor) } else { Leaf::Any(tensors.into()) };
            (key, leaf)
        };
        Ok(sets.into_iter().map(as_leaf).collect())
    }

    fn hold(&mut self, count: usize, node: u32) -> Result<()> {
        self.held = self.held.saturating_add(count);
        if self.held > Self::MAX_HELD {
            let fault = Fault::TooMany { what: "values in tuples", limit: Self::MAX_HELD as u64 };
            return Err(self.at.fault(format!("nodes[{node}]"), self.module.label(node), fault));
        }
        Ok(())
    }
}
