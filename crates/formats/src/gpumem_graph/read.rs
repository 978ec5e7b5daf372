//! Reading.

use hashbrown::HashMap;
use lifetime::{Bytes, DType, EventId, Graph, InPlace, Op, OpId, StreamId, Tensor, TensorId, TensorKind, Tier};
use serde::de::IgnoredAny;

use crate::error::Fault;
use crate::graph_checks::{self, Places};
use crate::ids::{At, Positions, name_positions};
use crate::input::Input;
use crate::json::{self, Id, Items, Text, record};
use crate::words::Spelled;
use crate::{Result, document};

record! {
    RawGraph<'de>, Refuse:
    may _format "format": IgnoredAny,
    may name "name": Option<Text<'de>>,
    may streams "streams": Items<Text<'de>>,
    may events "events": Items<Text<'de>>,
    must tensors "tensors": Items<RawTensor<'de>>,
    must ops "ops": Items<RawOp<'de>>,
    may results "results": Items<Id<'de>>,
    may loss "loss": Option<Id<'de>>,
}

record! {
    RawTensor<'de>, Refuse:
    must id "id": Id<'de>,
    may name "name": Option<Text<'de>>,
    must dtype "dtype": Spelled<DType>,
    must shape "shape": Items<u64>,
    may bytes "bytes": Option<u64>,
    may kind "kind": Option<Spelled<TensorKind>>,
    may alias_of "alias_of": Option<Id<'de>>,
    may alignment "alignment": Option<u64>,
    may tier_hint "tier_hint": Option<Spelled<Tier>>,
}

record! {
    RawOp<'de>, Refuse:
    must id "id": Id<'de>,
    may name "name": Option<Text<'de>>,
    must kind "kind": Text<'de>,
    must inputs "inputs": Items<Id<'de>>,
    must outputs "outputs": Items<Id<'de>>,
    may in_place "in_place": Items<RawPair<'de>>,
    may mutates "mutates": bool,
    may workspace_bytes "workspace_bytes": u64,
    may stream "stream": Option<Text<'de>>,
    may waits "waits": Items<Text<'de>>,
    may records "records": Items<Text<'de>>,
    may after "after": Items<Id<'de>>,
    may duration_ns "duration_ns": Option<u64>,
}

record! {
    RawPair<'de>, Refuse:
    must input "input": Id<'de>,
    must output "output": Id<'de>,
}

/// Reads a graph.
pub(crate) fn read(input: &mut Input<'_>) -> Result<Graph> {
    input.read_all()?;
    let at = At { file: input.file() };
    let raw: RawGraph<'_> = json::parse(input.text(), at.file)?;
    let tensor_positions = Positions::new(raw.tensors.0.iter().map(|t| &t.id), "tensors", "tensor", at)?;
    let op_positions = Positions::new(raw.ops.0.iter().map(|op| &op.id), "ops", "op", at)?;
    let names = Names {
        tensors: tensor_positions,
        ops: op_positions,
        streams: name_positions(&raw.streams.0, "streams", "stream", at)?,
        events: name_positions(&raw.events.0, "events", "event", at)?,
        at,
    };
    let mut graph = Graph {
        name: raw.name.as_ref().map_or_else(|| document::stem(at.file), ToString::to_string),
        tensor_ids: names.tensors.texts(raw.tensors.0.iter().map(|t| &t.id), "tensors", "tensor", at)?,
        op_ids: names.ops.texts(raw.ops.0.iter().map(|op| &op.id), "ops", "op", at)?,
        ..Graph::default()
    };
    for (index, tensor) in raw.tensors.0.iter().enumerate() {
        graph.tensors.push(names.tensor(index, tensor)?);
    }
    for (index, op) in raw.ops.0.iter().enumerate() {
        graph.ops.push(names.op(index, op)?);
    }
    graph.results = names.tensor_list(&raw.results, "results", String::new)?;
    if let Some(loss) = &raw.loss {
        graph.loss = Some(names.tensor_id(loss, || "loss".to_owned(), String::new)?);
    }
    graph.streams = raw.streams.0.iter().map(ToString::to_string).collect();
    graph.events = raw.events.0.iter().map(ToString::to_string).collect();
    graph_checks::check(&graph, &Places::LISTS, at)?;
    Ok(graph)
}

/// What the file calls its parts.
struct Names<'a> {
    tensors: Positions<'a>,
    ops: Positions<'a>,
    streams: HashMap<&'a str, u32>,
    events: HashMap<&'a str, u32>,
    at: At<'a>,
}

impl Names<'_> {
    fn tensor_id(&self, id: &Id<'_>, place: impl Fn() -> String, name: impl Fn() -> String) -> Result<TensorId> {
        let dangling = || self.at.fault(place(), name(), Fault::Dangling { what: "tensor", id: id.to_string() });
        self.tensors.find(id).map(TensorId).ok_or_else(dangling)
    }

    fn tensor_list(&self, ids: &Items<Id<'_>>, list: &str, name: impl Fn() -> String) -> Result<Vec<TensorId>> {
        let item = |(index, id)| self.tensor_id(id, || format!("{list}[{index}]"), &name);
        ids.0.iter().enumerate().map(item).collect()
    }

    fn tensor(&self, index: usize, raw: &RawTensor<'_>) -> Result<Tensor> {
        let name = raw.name.as_ref().map_or_else(|| raw.id.to_string(), ToString::to_string);
        let label = || format!("tensor `{name}`");
        let dtype = raw.dtype.0;
        let bytes = match raw.bytes {
            Some(bytes) => bytes,
            None => dense_bytes(dtype, &raw.shape.0)
                .map_err(|fault| self.at.fault(format!("tensors[{index}].bytes"), label(), fault))?,
        };
        let place = || format!("tensors[{index}].alias_of");
        let alias_of = raw.alias_of.as_ref().map(|id| self.tensor_id(id, place, label)).transpose()?;
        Ok(Tensor {
            dtype,
            shape: raw.shape.0.clone(),
            bytes: Bytes(bytes),
            kind: raw.kind.map_or(TensorKind::Intermediate, |kind| kind.0),
            alias_of,
            alignment: raw.alignment,
            tier_hint: raw.tier_hint.map(|tier| tier.0),
            name,
        })
    }

    fn op(&self, index: usize, raw: &RawOp<'_>) -> Result<Op> {
        let name = raw.name.as_ref().map_or_else(|| raw.id.to_string(), ToString::to_string);
        let label = || format!("op `{name}`");
        let inputs = self.tensor_list(&raw.inputs, &format!("ops[{index}].inputs"), label)?;
        let outputs = self.tensor_list(&raw.outputs, &format!("ops[{index}].outputs"), label)?;
        let dangling = |what, field: &str, item, id: &dyn std::fmt::Display| {
            self.at.fault(format!("ops[{index}].{field}{item}"), label(), Fault::Dangling { what, id: id.to_string() })
        };
        let stream = match &raw.stream {
            None => StreamId(0),
            Some(stream) => match self.streams.get(&**stream) {
                Some(&position) => StreamId(position),
                None => return Err(dangling("stream", "stream", String::new(), stream)),
            },
        };
        let events = |list: &Items<Text<'_>>, field| -> Result<Vec<EventId>> {
            let item = |(item, event): (usize, &Text<'_>)| match self.events.get(&**event) {
                Some(&position) => Ok(EventId(position)),
                None => Err(dangling("event", field, format!("[{item}]"), event)),
            };
            list.0.iter().enumerate().map(item).collect()
        };
        let after = raw.after.0.iter().enumerate().map(|(item, id)| {
            self.ops.find(id).map(OpId).ok_or_else(|| dangling("op", "after", format!("[{item}]"), id))
        });
        let in_place = self.in_place(index, &raw.in_place, &inputs, &outputs, label)?;
        Ok(Op {
            kind: raw.kind.to_string(),
            in_place,
            mutates: raw.mutates,
            workspace: Bytes(raw.workspace_bytes),
            stream,
            waits: events(&raw.waits, "waits")?,
            records: events(&raw.records, "records")?,
            after: after.collect::<Result<_>>()?,
            duration_ns: raw.duration_ns,
            inputs,
            outputs,
            name,
        })
    }

    /// The in-place pairs of the op at `index`, whose tensors must be among its own.
    fn in_place(
        &self,
        index: usize,
        pairs: &Items<RawPair<'_>>,
        inputs: &[TensorId],
        outputs: &[TensorId],
        label: impl Fn() -> String,
    ) -> Result<Vec<InPlace>> {
        if pairs.0.is_empty() {
            return Ok(Vec::new());
        }
        let (inputs, outputs) = (sorted(inputs), sorted(outputs));
        let own = |id: &Id<'_>, list: &[TensorId], role: &'static str, item: usize| {
            let place = || format!("ops[{index}].in_place[{item}].{role}");
            let tensor = self.tensor_id(id, place, &label)?;
            match list.binary_search(&tensor) {
                Ok(_) => Ok(tensor),
                Err(_) => Err(self.at.fault(place(), label(), Fault::NotOfOp { role, tensor: id.to_string() })),
            }
        };
        let pair = |(item, pair): (usize, &RawPair<'_>)| {
            let input = own(&pair.input, &inputs, "input", item)?;
            let output = own(&pair.output, &outputs, "output", item)?;
            Ok(InPlace { input, output })
        };
        pairs.0.iter().enumerate().map(pair).collect()
    }
}

fn sorted(tensors: &[TensorId]) -> Vec<TensorId> {
    let mut tensors = tensors.to_vec();
    tensors.sort_unstable();
    tensors
}

/// Size of a tensor whose elements stand side by side.
fn dense_bytes(dtype: DType, shape: &[u64]) -> Result<u64, Fault> {
    if dtype == DType::Opaque {
        return Err(Fault::NoSize { dtype: dtype.name() });
    }
    let overflow = Fault::SizeOverflow("the elements of this shape");
    // A zero anywhere makes it empty, however large the rest is.
    if shape.contains(&0) {
        return Ok(0);
    }
    let bits = shape.iter().try_fold(u128::from(dtype.bits()), |bits, &extent| bits.checked_mul(u128::from(extent)));
    bits.and_then(|bits| u64::try_from(bits.div_ceil(8)).ok()).ok_or(overflow)
}
