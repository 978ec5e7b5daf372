//! Writing: one tensor or op a line, fields in a fixed order, defaults left out, so that the same graph always gives
//! the same bytes.

use std::io::{self, BufWriter, Write};

use lifetime::{EventId, Graph, InPlace, Op, OpId, StreamId, Tensor, TensorId};
use serde::Serialize;

use crate::graph_checks::{self, Places};
use crate::ids::At;
use crate::words::Word;
use crate::{Error, Format, Result};

/// Writes a graph as `gpumem-graph/1`. Reading it back gives the same graph.
///
/// # Errors
/// The writer failed, or the graph has something that could not be read back: an index beyond its list, two streams
/// or events of one name, a size or alignment that the format refuses.
pub fn write_graph(graph: &Graph, out: impl Write) -> Result<()> {
    check(graph)?;
    write_all(graph, &mut BufWriter::new(out)).map_err(|source| Error::Io {
        file: graph.name.clone(),
        action: "write",
        source,
    })
}

/// Refuses what [`read`](super::read) would refuse.
fn check(graph: &Graph) -> Result<()> {
    let refuse = |what: String| Err(Error::NotCarried { format: Format::Graph, what });
    if graph.tensors.len().max(graph.ops.len()) > u32::MAX as usize {
        return refuse("more than 2^32 - 1 tensors or ops".to_owned());
    }
    for names in [&graph.streams, &graph.events] {
        let mut sorted: Vec<&String> = names.iter().collect();
        sorted.sort_unstable();
        if let Some(pair) = sorted.windows(2).find(|pair| pair[0] == pair[1]) {
            return refuse(format!("two streams or two events called `{}`", pair[0]));
        }
    }
    for (ids, count) in [(&graph.tensor_ids, graph.tensors.len()), (&graph.op_ids, graph.ops.len())] {
        let mut sorted: Vec<&String> = ids.iter().collect();
        sorted.sort_unstable();
        sorted.dedup();
        if !ids.is_empty() && sorted.len() != count {
            return refuse("identifiers that are missing or stand twice".to_owned());
        }
    }
    let is_tensor = |id: &TensorId| id.index() < graph.tensors.len();
    let is_event = |id: &EventId| id.index() < graph.events.len();
    for tensor in &graph.tensors {
        if !tensor.alias_of.iter().all(is_tensor) {
            return refuse(format!("tensor `{}`, an alias of a tensor that isn't there", tensor.name));
        }
    }
    for op in &graph.ops {
        let is_sound = op.inputs.iter().chain(&op.outputs).all(is_tensor)
            && pairs_are_own(op)
            && op.waits.iter().chain(&op.records).all(is_event)
            && op.after.iter().all(|id| id.index() < graph.ops.len())
            && op.stream.index() < graph.streams.len().max(1);
        if !is_sound {
            return refuse(format!("op `{}`, which refers to something that isn't there", op.name));
        }
    }
    if !graph.results.iter().chain(&graph.loss).all(is_tensor) {
        return refuse("a result or loss that isn't there".to_owned());
    }
    graph_checks::check(graph, &Places::LISTS, At { file: &graph.name })
}

fn pairs_are_own(op: &Op) -> bool {
    if op.in_place.is_empty() {
        return true;
    }
    let (mut inputs, mut outputs) = (op.inputs.clone(), op.outputs.clone());
    inputs.sort_unstable();
    outputs.sort_unstable();
    let is_own =
        |pair: &InPlace| inputs.binary_search(&pair.input).is_ok() && outputs.binary_search(&pair.output).is_ok();
    op.in_place.iter().all(is_own)
}

fn write_all(graph: &Graph, out: &mut impl Write) -> io::Result<()> {
    out.write_all(b"{\"format\":\"")?;
    out.write_all(Format::Graph.name().as_bytes())?;
    out.write_all(b"\",\"name\":")?;
    serde_json::to_writer(&mut *out, &graph.name)?;
    for (field, names) in [("streams", &graph.streams), ("events", &graph.events)] {
        if !names.is_empty() {
            write!(out, ",\"{field}\":")?;
            serde_json::to_writer(&mut *out, names)?;
        }
    }
    out.write_all(b",\n\"tensors\":[")?;
    write_list(out, graph.tensors.iter().zip(0..).map(|(tensor, id)| TensorRow::new(graph, tensor, TensorId(id))))?;
    out.write_all(b"],\n\"ops\":[")?;
    write_list(out, graph.ops.iter().zip(0..).map(|(op, id)| OpRow::new(graph, op, OpId(id))))?;
    out.write_all(b"]")?;
    if !graph.results.is_empty() {
        out.write_all(b",\n\"results\":")?;
        serde_json::to_writer(&mut *out, &tensor_ids(graph, &graph.results))?;
    }
    if let Some(loss) = graph.loss {
        out.write_all(b",\n\"loss\":")?;
        serde_json::to_writer(&mut *out, &tensor_id(graph, loss))?;
    }
    out.write_all(b"}\n")?;
    out.flush()
}

/// The items of a list, each on a line of its own.
pub(crate) fn write_list<T: Serialize>(out: &mut impl Write, items: impl Iterator<Item = T>) -> io::Result<()> {
    for (index, item) in items.enumerate() {
        out.write_all(if index == 0 { b"\n" } else { b",\n" })?;
        serde_json::to_writer(&mut *out, &item)?;
    }
    Ok(())
}

/// What a tensor or op is called: its own identifier, or its position where it has no other.
#[derive(Serialize)]
#[serde(untagged)]
enum RowId<'a> {
    Own(&'a str),
    Position(u32),
}

fn tensor_id(graph: &Graph, id: TensorId) -> RowId<'_> {
    graph.tensor_ids.get(id.index()).map_or(RowId::Position(id.0), |own| RowId::Own(own))
}

fn op_id(graph: &Graph, id: OpId) -> RowId<'_> {
    graph.op_ids.get(id.index()).map_or(RowId::Position(id.0), |own| RowId::Own(own))
}

fn tensor_ids<'a>(graph: &'a Graph, tensors: &[TensorId]) -> Vec<RowId<'a>> {
    tensors.iter().map(|&id| tensor_id(graph, id)).collect()
}

#[derive(Serialize)]
struct TensorRow<'a> {
    id: RowId<'a>,
    name: &'a str,
    dtype: &'static str,
    shape: &'a [u64],
    bytes: u64,
    kind: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    alias_of: Option<RowId<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    alignment: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    tier_hint: Option<&'static str>,
}

impl<'a> TensorRow<'a> {
    fn new(graph: &'a Graph, tensor: &'a Tensor, id: TensorId) -> Self {
        Self {
            id: tensor_id(graph, id),
            name: &tensor.name,
            dtype: tensor.dtype.name(),
            shape: &tensor.shape,
            bytes: tensor.bytes.0,
            kind: tensor.kind.word(),
            alias_of: tensor.alias_of.map(|id| tensor_id(graph, id)),
            alignment: tensor.alignment,
            tier_hint: tensor.tier_hint.map(|tier| tier.name()),
        }
    }
}

#[derive(Serialize)]
struct PairRow<'a> {
    input: RowId<'a>,
    output: RowId<'a>,
}

#[derive(Serialize)]
struct OpRow<'a> {
    id: RowId<'a>,
    name: &'a str,
    kind: &'a str,
    inputs: Vec<RowId<'a>>,
    outputs: Vec<RowId<'a>>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    in_place: Vec<PairRow<'a>>,
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    mutates: bool,
    #[serde(skip_serializing_if = "is_zero")]
    workspace_bytes: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    stream: Option<&'a str>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    waits: Vec<&'a str>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    records: Vec<&'a str>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    after: Vec<RowId<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    duration_ns: Option<u64>,
}

#[allow(clippy::trivially_copy_pass_by_ref)] // serde's signature
fn is_zero(bytes: &u64) -> bool {
    *bytes == 0
}

impl<'a> OpRow<'a> {
    fn new(graph: &'a Graph, op: &'a Op, id: OpId) -> Self {
        let event_names =
            |events: &[EventId]| events.iter().map(|event| graph.events[event.index()].as_str()).collect();
        // The first stream is the default.
        let stream = (op.stream != StreamId(0)).then(|| graph.streams[op.stream.index()].as_str());
        let pair =
            |pair: &InPlace| PairRow { input: tensor_id(graph, pair.input), output: tensor_id(graph, pair.output) };
        let pairs = op.in_place.iter().map(pair);
        Self {
            id: op_id(graph, id),
            name: &op.name,
            kind: &op.kind,
            inputs: tensor_ids(graph, &op.inputs),
            outputs: tensor_ids(graph, &op.outputs),
            in_place: pairs.collect(),
            mutates: op.mutates,
            workspace_bytes: op.workspace.0,
            stream,
            waits: event_names(&op.waits),
            records: event_names(&op.records),
            after: op.after.iter().map(|&op| op_id(graph, op)).collect(),
            duration_ns: op.duration_ns,
        }
    }
}
