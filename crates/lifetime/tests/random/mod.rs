//! Graphs to test with: written down by name, or at random; and the plainest possible reading of what orders their ops
//! and keeps their bytes.
#![allow(dead_code, clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use lifetime::{Bytes, DType, EventId, Graph, InPlace, Op, OpId, StreamId, Tensor, TensorId, TensorKind};
use proptest::{collection::vec, prelude::*};

/// Adds tensors and ops by name.
#[derive(Default)]
pub(crate) struct Builder {
    pub(crate) graph: Graph,
}

impl Builder {
    /// A tensor handed in.
    pub(crate) fn input(&mut self, name: &str, bytes: u64, kind: TensorKind) -> TensorId {
        let id = TensorId(self.graph.tensors.len() as u32);
        self.graph.tensors.push(Tensor {
            name: name.to_owned(),
            dtype: DType::F32,
            shape: if bytes == 4 { vec![] } else { vec![bytes] },
            bytes: Bytes(bytes),
            kind,
            alias_of: None,
            alignment: None,
            tier_hint: None,
        });
        id
    }

    /// A tensor that no op makes yet.
    pub(crate) fn tensor(&mut self, name: &str, bytes: u64) -> TensorId {
        self.input(name, bytes, TensorKind::Intermediate)
    }

    /// An op with one output of its own name.
    pub(crate) fn op(&mut self, name: &str, inputs: &[TensorId], bytes: u64) -> TensorId {
        let output = self.tensor(name, bytes);
        self.push(name, inputs, &[output]);
        output
    }

    /// An op whose output shares the storage of `of`.
    pub(crate) fn view(&mut self, name: &str, of: TensorId) -> TensorId {
        let output = self.op(name, &[of], self.graph.tensors[of.index()].bytes.0);
        self.graph.tensors[output.index()].alias_of = Some(of);
        output
    }

    /// An op that writes into the storage of `of`.
    pub(crate) fn mutate(&mut self, name: &str, of: TensorId, others: &[TensorId]) -> TensorId {
        let output = self.view(name, of);
        self.last().inputs.extend(others);
        self.last().mutates = true;
        output
    }

    /// An op whose output may take the bytes of its first input.
    pub(crate) fn in_place(&mut self, name: &str, inputs: &[TensorId], bytes: u64) -> TensorId {
        let output = self.op(name, inputs, bytes);
        self.last().in_place.push(InPlace { input: inputs[0], output });
        output
    }

    /// An op of any form.
    pub(crate) fn push(&mut self, name: &str, inputs: &[TensorId], outputs: &[TensorId]) -> OpId {
        self.graph.ops.push(Op::new(name, "test", inputs.to_vec(), outputs.to_vec()));
        OpId(self.graph.ops.len() as u32 - 1)
    }

    /// The op added last.
    pub(crate) fn last(&mut self) -> &mut Op {
        self.graph.ops.last_mut().unwrap()
    }
}

/// What one op of a random graph is made from.
#[derive(Clone, Debug)]
struct Draw {
    inputs: Vec<prop::sample::Index>,
    bytes: u64,
    workspace: u64,
    form: u8,
    stream: u32,
    other: Option<prop::sample::Index>,
    is_event: bool,
    is_result: bool,
}

fn draws() -> impl Strategy<Value = Draw> {
    let bytes = prop_oneof![1 => Just(0), 4 => 1_u64..9, 3 => 8_u64..9, 2 => 9_u64..60];
    let other = prop::option::weighted(0.15, any::<prop::sample::Index>());
    let inputs = vec(any::<prop::sample::Index>(), 0..4);
    (inputs, bytes, prop_oneof![3 => Just(0), 1 => 1_u64..20], 0_u8..10, 0_u32..4, other, any::<bool>(), 0_u8..10)
        .prop_map(|(inputs, bytes, workspace, form, stream, other, is_event, result)| Draw {
            inputs,
            bytes,
            workspace,
            form,
            stream,
            other,
            is_event,
            is_result: result == 0,
        })
}

/// Valid graphs of up to `ops` ops, and one more, on up to `streams` streams: with views, writes in place, in-place
/// pairs, empty tensors, workspaces, several outputs, events, plain orders, and parts of a whole that is made last.
pub(crate) fn graphs(ops: usize, streams: u32) -> impl Strategy<Value = Graph> {
    (vec(draws(), 1..=ops), 1..=streams).prop_map(|(draws, streams)| {
        let mut b = Builder::default();
        b.graph.name = "random".to_owned();
        b.graph.streams = (0..streams).map(|stream| format!("stream {stream}")).collect();
        b.input("unused", 5, TensorKind::Input);
        let mut known = vec![b.input("weight", 30, TensorKind::Parameter), b.input("batch", 20, TensorKind::Input)];
        let mut parts = Vec::new();
        for (index, draw) in draws.iter().enumerate() {
            let mut inputs: Vec<TensorId> = draw.inputs.iter().map(|input| *input.get(&known)).collect();
            let name = format!("op {index}");
            let made = match (draw.form, inputs.first().copied()) {
                (0 | 1, Some(of)) => b.view(&name, of),
                (2, Some(of)) => b.mutate(&name, of, &inputs[1..]),
                (3..=5, Some(_)) => {
                    let bytes = b.graph.tensors[inputs[0].index()].bytes.0;
                    b.in_place(&name, &inputs, bytes.saturating_sub(u64::from(draw.form == 5)))
                }
                (6, _) => {
                    let outputs = [b.tensor(&name, draw.bytes), b.tensor("second output", 3)];
                    b.push(&name, &inputs, &outputs);
                    known.push(outputs[1]);
                    outputs[0]
                }
                _ => b.op(&name, &std::mem::take(&mut inputs), draw.bytes),
            };
            if matches!(draw.form, 7..) {
                b.last().inputs = draw.inputs.iter().map(|input| *input.get(&known)).collect();
            }
            if draw.form == 9 {
                parts.push(made);
            }
            known.push(made);
            b.last().workspace = Bytes(draw.workspace);
            b.last().stream = StreamId(draw.stream % streams);
            if let Some(other) = draw.other.filter(|_| index > 0).map(|other| other.index(index)) {
                if draw.is_event {
                    let event = EventId(b.graph.events.len() as u32);
                    b.graph.events.push("event".to_owned());
                    b.graph.ops[other].records.push(event);
                    b.last().waits.push(event);
                } else {
                    b.last().after.push(OpId(other as u32));
                }
            }
            if draw.is_result {
                b.graph.results.push(made);
            }
        }
        if parts.len() > 1 {
            let bytes = parts.iter().map(|id| b.graph.tensors[id.index()].bytes.0).sum();
            let whole = b.op("whole", &parts, bytes);
            for part in parts {
                b.graph.tensors[part.index()].alias_of = Some(whole);
            }
        }
        b.graph
    })
}

/// The tensor that owns a tensor's storage.
pub(crate) fn owner(graph: &Graph, mut id: TensorId) -> TensorId {
    while let Some(target) = graph.tensors[id.index()].alias_of {
        id = target;
    }
    id
}

/// `[op][other]`: whether `other` must be over before `op` starts, by the rules of the crate's documentation taken one
/// by one and closed under "and so on".
pub(crate) fn comes_after(graph: &Graph) -> Vec<Vec<bool>> {
    let ops = graph.ops.len();
    let mut after = vec![vec![false; ops]; ops];
    let touches = |op: &Op, storage: TensorId| op.inputs.iter().chain(&op.outputs).any(|&t| owner(graph, t) == storage);
    let several_streams = graph.ops.iter().any(|op| op.stream != graph.ops[0].stream);
    for (i, op) in graph.ops.iter().enumerate() {
        for (j, other) in graph.ops[..i].iter().enumerate() {
            let reads = op.inputs.iter().any(|input| other.outputs.contains(input));
            let looks_at =
                |id: &TensorId| graph.tensors[id.index()].alias_of.is_some_and(|base| other.outputs.contains(&base));
            let waits = op.waits.iter().any(|event| other.records.contains(event));
            let writes_shared = |writer: &Op, user: &Op| {
                writer.mutates && writer.outputs.iter().any(|&id| touches(user, owner(graph, id)))
            };
            after[i][j] = reads
                || op.outputs.iter().any(looks_at)
                || waits
                || op.after.contains(&OpId(j as u32))
                || (several_streams && op.stream == other.stream)
                || writes_shared(op, other)
                || writes_shared(other, op);
        }
    }
    for middle in 0..ops {
        for i in 0..ops {
            if after[i][middle] {
                let further = after[middle].clone();
                after[i].iter_mut().zip(further).for_each(|(after, further)| *after |= further);
            }
        }
    }
    after
}

/// The same for the given order, in which the ops of a single stream run one after another.
pub(crate) fn runs_after(graph: &Graph) -> Vec<Vec<bool>> {
    let ops = graph.ops.len();
    if graph.ops.iter().all(|op| op.stream == graph.ops[0].stream) {
        (0..ops).map(|op| (0..ops).map(|other| other < op).collect()).collect()
    } else {
        comes_after(graph)
    }
}

/// A storage with the ops that touch it, as a set of bits.
pub(crate) struct Storage {
    pub(crate) bytes: u64,
    pub(crate) ops: usize,
    pub(crate) from_start: bool,
    pub(crate) to_end: bool,
}

impl Storage {
    /// Whether it is live during an op, which runs between the sets `done` and `with`.
    pub(crate) fn is_live(&self, done: usize, with: usize) -> bool {
        let has_begun = self.from_start || self.ops & with != 0;
        // What is handed in and never used is dropped at once.
        let goes_on = self.to_end || self.ops & !done != 0 || (self.ops == 0 && done == 0);
        has_begun && goes_on
    }
}

/// The ops that touch the storage a tensor owns, as a set of bits.
pub(crate) fn touching(graph: &Graph, id: TensorId) -> usize {
    let touches = |op: &&Op| op.inputs.iter().chain(&op.outputs).any(|&tensor| owner(graph, tensor) == id);
    graph.ops.iter().enumerate().filter(|(_, op)| touches(op)).map(|(i, _)| 1 << i).sum()
}

/// The storages that count for the load: not persistent, not empty, and handed in or used.
pub(crate) fn storages(graph: &Graph) -> Vec<Storage> {
    let ids = (0..graph.tensors.len() as u32).map(TensorId).filter(|id| graph.tensors[id.index()].alias_of.is_none());
    let storage = |id: TensorId| Storage {
        bytes: graph.tensors[id.index()].bytes.0,
        ops: touching(graph, id),
        from_start: graph.tensors[id.index()].kind == TensorKind::Input,
        to_end: graph.results.iter().any(|&result| owner(graph, result) == id),
    };
    let counts = |id: &TensorId| graph.tensors[id.index()].kind != TensorKind::Parameter;
    ids.filter(counts)
        .map(storage)
        .filter(|storage| storage.bytes > 0 && (storage.ops > 0 || storage.from_start))
        .collect()
}
