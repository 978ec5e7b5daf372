//! Computation graphs: built call by call, or read from a file.

use std::ffi::c_char;
use std::io::Write;
use std::ptr;
use std::sync::{Mutex, PoisonError};

use formats::{Content, Limits, Output};
use lifetime::{Bytes, DType, EventId, Graph, InPlace, Op, OpId, StreamId, Tensor, TensorId, TensorKind, Tier};

use crate::boundary::{Caller, boundary, versioned};
use crate::config::{number, switch};
use crate::failure::{Failure, Result};
use crate::handles::{hand_out, handled};
use crate::status::gpumem_status;
use crate::version::GPUMEM_DEFAULT;

/// A computation graph: one step of a program.
#[derive(Debug)]
#[allow(non_camel_case_types)] // the C name
pub struct gpumem_graph {
    _opaque: (),
}

/// What a handle of a graph stands for.
pub(crate) struct GraphHandle(Mutex<Graph>);

handled!(GraphHandle, gpumem_graph, "graph", 0xa2);

impl GraphHandle {
    /// The graph as it is now.
    pub(crate) fn with<R>(&self, look: impl FnOnce(&mut Graph) -> R) -> R {
        // Each change is one push at the end, so that a panic leaves a whole graph.
        look(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

/// Number of no tensor.
pub const GPUMEM_NO_TENSOR: u32 = 0xffff_ffff;

/// A trained weight.
pub const GPUMEM_TENSOR_PARAMETER: i32 = 1;
/// State of a module that isn't trained.
pub const GPUMEM_TENSOR_MODULE_STATE: i32 = 2;
/// State of the optimizer.
pub const GPUMEM_TENSOR_OPTIMIZER_STATE: i32 = 3;
/// A value fixed when the graph was made.
pub const GPUMEM_TENSOR_CONSTANT: i32 = 4;
/// Handed in anew for every step.
pub const GPUMEM_TENSOR_INPUT: i32 = 5;
/// Made by an op of the graph; 0 says the same.
pub const GPUMEM_TENSOR_INTERMEDIATE: i32 = 6;

/// Lives across steps.
pub const GPUMEM_TIER_PERSISTENT: i32 = 1;
/// Comes back every step.
pub const GPUMEM_TIER_CYCLIC: i32 = 2;
/// Lives within a step.
pub const GPUMEM_TIER_TEMPORARY: i32 = 3;

/// A tensor to be added. Begin with `GPUMEM_TENSOR_INIT`.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
#[allow(non_camel_case_types)] // the C name
pub struct gpumem_tensor {
    /// `sizeof(gpumem_tensor)`.
    pub struct_size: usize,
    /// Its name; null for none.
    pub name: *const c_char,
    /// Size of its storage; of an alias, how much of the other's storage it needs.
    pub bytes: u64,
    /// What the storage's offset is a multiple of, a power of two.
    pub alignment: u64,
    /// `GPUMEM_TENSOR_PARAMETER` and so on; 0 for one that an op makes.
    pub kind: i32,
    /// `GPUMEM_TIER_PERSISTENT` and so on; 0 to have it found out.
    pub tier: i32,
    /// The tensor whose storage it shares, or `GPUMEM_NO_TENSOR`.
    pub alias_of: u32,
    /// 1 if it stays live past the last op, as the loss does; 0 if not.
    pub is_result: i32,
}

versioned!(
    gpumem_tensor,
    [48],
    "GPUMEM_TENSOR_INIT",
    gpumem_tensor {
        struct_size: size_of::<gpumem_tensor>(),
        name: ptr::null(),
        bytes: 0,
        alignment: 0,
        kind: 0,
        tier: 0,
        alias_of: GPUMEM_NO_TENSOR,
        is_result: 0,
    }
);

/// An op to be added. Ops are added in the order in which the program issues them. Begin with `GPUMEM_OP_INIT`.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
#[allow(non_camel_case_types)] // the C name
pub struct gpumem_op {
    /// `sizeof(gpumem_op)`.
    pub struct_size: usize,
    /// Its name; null for none.
    pub name: *const c_char,
    /// What it computes, as `matmul`; null for none.
    pub kind: *const c_char,
    /// Tensors it reads, `input_count` of them.
    pub inputs: *const u32,
    /// How many.
    pub input_count: usize,
    /// Tensors it makes, `output_count` of them; each is made by one op.
    pub outputs: *const u32,
    /// How many.
    pub output_count: usize,
    /// Pairs of an input and an output that may share bytes, one after the other: `2 * in_place_count` numbers.
    pub in_place: *const u32,
    /// How many pairs.
    pub in_place_count: usize,
    /// Events its stream waits for before it runs, `wait_count` of them.
    pub waits: *const u32,
    /// How many.
    pub wait_count: usize,
    /// Events recorded on its stream after it, `record_count` of them.
    pub records: *const u32,
    /// How many.
    pub record_count: usize,
    /// Earlier ops that must come before it without handing it a tensor, `after_count` of them.
    pub after: *const u32,
    /// How many.
    pub after_count: usize,
    /// Bytes needed only while it runs.
    pub workspace_bytes: u64,
    /// How long it runs, in ns.
    pub duration_ns: u64,
    /// The stream it runs on: 0, or what `gpumem_graph_stream_add` gave.
    pub stream: u32,
    /// Whether it writes into the storage of an input that it shares with an output: a switch.
    pub mutates: i32,
}

versioned!(
    gpumem_op,
    [144],
    "GPUMEM_OP_INIT",
    gpumem_op {
        struct_size: size_of::<gpumem_op>(),
        name: ptr::null(),
        kind: ptr::null(),
        inputs: ptr::null(),
        input_count: 0,
        outputs: ptr::null(),
        output_count: 0,
        in_place: ptr::null(),
        in_place_count: 0,
        waits: ptr::null(),
        wait_count: 0,
        records: ptr::null(),
        record_count: 0,
        after: ptr::null(),
        after_count: 0,
        workspace_bytes: 0,
        duration_ns: 0,
        stream: 0,
        mutates: GPUMEM_DEFAULT,
    }
);

/// The number of the next item of a list.
fn next_number(count: usize, kind: &'static str) -> Result<u32> {
    u32::try_from(count).ok().filter(|number| *number != GPUMEM_NO_TENSOR).ok_or(Failure::TooMany {
        argument: kind,
        value: count,
        limit: GPUMEM_NO_TENSOR as usize,
    })
}

/// A graph from a file has names of its own for what is in it; what is added gets one that nothing has.
fn name_added(ids: &mut Vec<String>, number: u32) {
    if ids.is_empty() {
        return;
    }
    let mut id = format!("added-{number}");
    while ids.contains(&id) {
        id.push('+');
    }
    ids.push(id);
}

fn tensor(caller: &Caller, from: &gpumem_tensor) -> Result<Tensor> {
    let kind = match from.kind {
        0 | GPUMEM_TENSOR_INTERMEDIATE => TensorKind::Intermediate,
        GPUMEM_TENSOR_PARAMETER => TensorKind::Parameter,
        GPUMEM_TENSOR_MODULE_STATE => TensorKind::ModuleState,
        GPUMEM_TENSOR_OPTIMIZER_STATE => TensorKind::OptimizerState,
        GPUMEM_TENSOR_CONSTANT => TensorKind::Constant,
        GPUMEM_TENSOR_INPUT => TensorKind::Input,
        kind => {
            let expected = "one of GPUMEM_TENSOR_...";
            return Err(Failure::BadNumber { argument: "tensor.kind", value: kind.into(), expected });
        }
    };
    Ok(Tensor {
        name: caller.text_if_any(from.name, "tensor.name")?.unwrap_or_default().to_owned(),
        dtype: DType::Opaque,
        shape: Vec::new(),
        bytes: Bytes(from.bytes),
        kind,
        alias_of: (from.alias_of != GPUMEM_NO_TENSOR).then_some(TensorId(from.alias_of)),
        alignment: number(from.alignment),
        tier_hint: tier_of(from.tier, "tensor.tier")?,
    })
}

/// The tier of a number; 0 is none.
pub(crate) fn tier_of(value: i32, argument: &'static str) -> Result<Option<Tier>> {
    match value {
        0 => Ok(None),
        GPUMEM_TIER_PERSISTENT => Ok(Some(Tier::Persistent)),
        GPUMEM_TIER_CYCLIC => Ok(Some(Tier::Cyclic)),
        GPUMEM_TIER_TEMPORARY => Ok(Some(Tier::Temporary)),
        _ => Err(Failure::BadNumber { argument, value: value.into(), expected: "0 or one of GPUMEM_TIER_..." }),
    }
}

/// The number of a tier.
pub(crate) fn tier_number(tier: Tier) -> i32 {
    match tier {
        Tier::Persistent => GPUMEM_TIER_PERSISTENT,
        Tier::Cyclic => GPUMEM_TIER_CYCLIC,
        Tier::Temporary => GPUMEM_TIER_TEMPORARY,
    }
}

fn op(caller: &Caller, from: &gpumem_op) -> Result<Op> {
    let name = |text, argument| Ok::<_, Failure>(caller.text_if_any(text, argument)?.unwrap_or_default().to_owned());
    let tensors = |first, count, argument| {
        Ok::<_, Failure>(caller.list(first, count, argument)?.iter().copied().map(TensorId).collect())
    };
    let events = |first, count, argument| {
        Ok::<_, Failure>(caller.list(first, count, argument)?.iter().copied().map(EventId).collect())
    };
    let pairs = from.in_place_count.checked_mul(2).ok_or(Failure::TooMany {
        argument: "op.in_place",
        value: from.in_place_count,
        limit: usize::MAX / 2,
    })?;
    let in_place = caller.list(from.in_place, pairs, "op.in_place")?.chunks_exact(2);
    let after = caller.list(from.after, from.after_count, "op.after")?;
    let mut op = Op::new(
        name(from.name, "op.name")?,
        name(from.kind, "op.kind")?,
        tensors(from.inputs, from.input_count, "op.inputs")?,
        tensors(from.outputs, from.output_count, "op.outputs")?,
    );
    op.in_place = in_place.map(|pair| InPlace { input: TensorId(pair[0]), output: TensorId(pair[1]) }).collect();
    op.waits = events(from.waits, from.wait_count, "op.waits")?;
    op.records = events(from.records, from.record_count, "op.records")?;
    op.after = after.iter().copied().map(OpId).collect();
    op.workspace = Bytes(number(from.workspace_bytes).unwrap_or(0));
    op.duration_ns = number(from.duration_ns);
    op.stream = StreamId(from.stream);
    op.mutates = switch(from.mutates, "op.mutates")?.unwrap_or(false);
    Ok(op)
}

/// Any thread. An empty graph with this name; null for none.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn gpumem_graph_create(name: *const c_char, graph: *mut *mut gpumem_graph) -> gpumem_status {
    boundary!(|caller| {
        let out = caller.pointer_out(graph, "graph")?;
        let name = caller.text_if_any(name, "name")?.unwrap_or_default().to_owned();
        out.set(hand_out(GraphHandle(Mutex::new(Graph { name, ..Graph::default() })))?);
        Ok(())
    })
}

/// Any thread, once for each handle. Gives the graph up; null is nothing. Plans made of it stay.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn gpumem_graph_destroy(graph: *mut gpumem_graph) -> gpumem_status {
    boundary!(|caller| {
        drop(caller.take_back::<GraphHandle>(graph, "graph")?);
        Ok(())
    })
}

/// Any thread. Reads a graph from a file in the form gpumem-graph/1, plain, gzip or zstd.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn gpumem_graph_load(path: *const c_char, graph: *mut *mut gpumem_graph) -> gpumem_status {
    boundary!(|caller| {
        let out = caller.pointer_out(graph, "graph")?;
        let path = caller.text(path, "path")?;
        match formats::read_path(path, &Limits::default())?.content {
            Content::Graph(read) => out.set(hand_out(GraphHandle(Mutex::new(read)))?),
            other => {
                return Err(Failure::WrongContent { path: path.to_owned(), wanted: "a graph", found: other.kind() });
            }
        }
        Ok(())
    })
}

/// Any thread. Writes the graph to a file in the form gpumem-graph/1; gzip if its name ends in `.gz`, zstd if in `.zst`.
/// The file is in its place only once it is whole.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn gpumem_graph_save(graph: *const gpumem_graph, path: *const c_char) -> gpumem_status {
    boundary!(|caller| {
        let graph = caller.handle::<GraphHandle>(graph, "graph")?;
        let path = caller.text(path, "path")?;
        let graph = graph.with(|graph| graph.clone());
        // What can't be read back isn't written.
        lifetime::check(&graph)?;
        save(path, |out| formats::write_graph(&graph, out))
    })
}

/// Writes a file that is in its place only once it is whole.
pub(crate) fn save(path: &str, write: impl FnOnce(&mut dyn Write) -> formats::Result<()>) -> Result<()> {
    let mut output = Output::create(path)?;
    write(&mut output).map_err(|error| match error {
        // Whoever writes knows the document's name only.
        formats::Error::Io { action, source, .. } => formats::Error::Io { file: path.to_owned(), action, source },
        other => other,
    })?;
    Ok(output.finish()?)
}

/// Any thread. Adds a stream and gives its number. Stream 0 is there from the start.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn gpumem_graph_stream_add(
    graph: *mut gpumem_graph,
    name: *const c_char,
    stream: *mut u32,
) -> gpumem_status {
    boundary!(|caller| {
        let graph = caller.handle::<GraphHandle>(graph, "graph")?;
        let out = caller.out(stream, "stream")?;
        let name = caller.text_if_any(name, "name")?.unwrap_or_default().to_owned();
        out.set(graph.with(|graph| {
            if graph.streams.is_empty() {
                graph.streams.push("default".to_owned());
            }
            let number = next_number(graph.streams.len(), "streams")?;
            graph.streams.push(name);
            Ok::<_, Failure>(number)
        })?);
        Ok(())
    })
}

/// Any thread. Adds an event and gives its number. One op at most records it.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn gpumem_graph_event_add(
    graph: *mut gpumem_graph,
    name: *const c_char,
    event: *mut u32,
) -> gpumem_status {
    boundary!(|caller| {
        let graph = caller.handle::<GraphHandle>(graph, "graph")?;
        let out = caller.out(event, "event")?;
        let name = caller.text_if_any(name, "name")?.unwrap_or_default().to_owned();
        out.set(graph.with(|graph| {
            let number = next_number(graph.events.len(), "events")?;
            graph.events.push(name);
            Ok::<_, Failure>(number)
        })?);
        Ok(())
    })
}

/// Any thread. Adds a tensor and gives its number, from 0 in the order of adding.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn gpumem_graph_tensor_add(
    graph: *mut gpumem_graph,
    tensor: *const gpumem_tensor,
    number: *mut u32,
) -> gpumem_status {
    boundary!(|caller| {
        let graph = caller.handle::<GraphHandle>(graph, "graph")?;
        let from = caller.versioned(tensor, "tensor")?;
        let out = caller.out_if_wanted(number, "number")?;
        let added = self::tensor(caller, &from)?;
        let number = graph.with(|graph| {
            let number = next_number(graph.tensors.len(), "tensors")?;
            graph.tensors.push(added);
            name_added(&mut graph.tensor_ids, number);
            if from.is_result != 0 {
                graph.results.push(TensorId(number));
            }
            Ok::<_, Failure>(number)
        })?;
        if let Some(out) = out {
            out.set(number);
        }
        Ok(())
    })
}

/// Any thread. Adds an op and gives its number, from 0 in the order of adding, which is that in which the program issues
/// them. Whether the graph makes sense is said when it is planned or checked.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn gpumem_graph_op_add(
    graph: *mut gpumem_graph,
    op: *const gpumem_op,
    number: *mut u32,
) -> gpumem_status {
    boundary!(|caller| {
        let graph = caller.handle::<GraphHandle>(graph, "graph")?;
        let from = caller.versioned(op, "op")?;
        let out = caller.out_if_wanted(number, "number")?;
        let added = self::op(caller, &from)?;
        let number = graph.with(|graph| {
            let number = next_number(graph.ops.len(), "ops")?;
            graph.ops.push(added);
            name_added(&mut graph.op_ids, number);
            Ok::<_, Failure>(number)
        })?;
        if let Some(out) = out {
            out.set(number);
        }
        Ok(())
    })
}

/// Any thread. Names the tensor at which forward turns into backward; without, it is found out.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn gpumem_graph_loss_set(graph: *mut gpumem_graph, tensor: u32) -> gpumem_status {
    boundary!(|caller| {
        let graph = caller.handle::<GraphHandle>(graph, "graph")?;
        graph.with(|graph| {
            let tensors = graph.tensors.len();
            if tensor as usize >= tensors {
                return Err(Failure::NoSuch { kind: "tensor", number: tensor.into(), count: tensors });
            }
            graph.loss = Some(TensorId(tensor));
            Ok(())
        })
    })
}

/// Any thread. Whether the graph makes sense: every tensor is made once and before it is read, aliases and streams lead
/// somewhere, nothing runs in a circle.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn gpumem_graph_check(graph: *const gpumem_graph) -> gpumem_status {
    boundary!(|caller| {
        let graph = caller.handle::<GraphHandle>(graph, "graph")?;
        Ok(graph.with(|graph| lifetime::check(graph))?)
    })
}
