//! Validation, and what a first pass over a valid graph finds out.

use crate::{
    Error, Graph, Op, OpId, TensorId,
    csr::Csr,
    dependencies::{Dependencies, find_cycle},
    error::{EventPlace, InPlaceFault, Loop, Mention, OpPlace, TensorPlace},
    storage::{Available, NONE, Storages},
};

/// Checks everything that [`analyse`](crate::analyse) relies on: ids, makers, aliases, sizes, events, in-place pairs,
/// and that `ops` stand in an order in which they can run.
pub fn check(graph: &Graph) -> Result<(), Error> {
    Scan::new(graph).map(drop)
}

/// A valid graph with its storages and dependencies.
#[derive(Clone, Debug)]
pub(crate) struct Scan<'g> {
    pub(crate) graph: &'g Graph,
    pub(crate) storages: Storages,
    /// The storages each op reads or makes, each once.
    pub(crate) touches: Csr,
    /// The ops that read or make each storage, in issue order.
    pub(crate) touched_by: Csr,
    pub(crate) dependencies: Dependencies,
    views: Vec<bool>,
}

impl<'g> Scan<'g> {
    /// Checks the graph on the way.
    pub(crate) fn new(graph: &'g Graph) -> Result<Self, Error> {
        counts(graph)?;
        ids(graph)?;
        let maker = makers(graph)?;
        let recorder = recorders(graph)?;
        let storages = Storages::new(graph, &maker)?;
        sizes(graph, &storages)?;
        in_place_pairs(graph)?;
        if let Some(too_early) = issue_order(graph, &storages, &recorder)? {
            let cycle = find_cycle(&stated_needs(graph, &storages, &recorder));
            return Err(match cycle {
                Some(ids) => Error::Cycle { cycle: Loop::new(ids, |id| OpPlace::new(graph, id)) },
                None => too_early,
            });
        }
        if let Some(loss) = graph.loss
            && !matches!(storages.available(loss), Available::By(_))
        {
            return Err(Error::LossNotMade { tensor: TensorPlace::new(graph, loss) });
        }
        let touches = touches(graph, &storages);
        let touched_by = touches.transposed(storages.len());
        let dependencies = Dependencies::new(graph, &storages, &touched_by, &recorder);
        let views = views(graph, &storages);
        Ok(Self { graph, storages, touches, touched_by, dependencies, views })
    }

    /// How many ops there are.
    pub(crate) fn ops(&self) -> usize {
        self.graph.ops.len()
    }

    /// Whether an op only looks at its inputs' bytes under another name.
    pub(crate) fn is_view(&self, op: u32) -> bool {
        self.views[op as usize]
    }
}

fn counts(graph: &Graph) -> Result<(), Error> {
    let limit = u64::from(NONE);
    for (what, count) in [
        ("tensors", graph.tensors.len()),
        ("ops", graph.ops.len()),
        ("streams", graph.streams.len()),
        ("events", graph.events.len()),
    ] {
        if count as u64 >= limit {
            return Err(Error::TooMany { what, count, limit: limit - 1 });
        }
    }
    Ok(())
}

fn ids(graph: &Graph) -> Result<(), Error> {
    let (tensors, ops, events) = (graph.tensors.len(), graph.ops.len(), graph.events.len());
    let streams = graph.streams.len().max(1);
    let tensor = |id: TensorId, by: &dyn Fn() -> Mention| {
        if id.index() < tensors { Ok(()) } else { Err(Error::UnknownTensor { id, tensors, by: by() }) }
    };
    for (index, t) in graph.tensors.iter().enumerate() {
        if let Some(target) = t.alias_of {
            tensor(target, &|| Mention::AliasOf(TensorPlace::new(graph, TensorId(index as u32))))?;
        }
    }
    for (index, op) in graph.ops.iter().enumerate() {
        let by = || OpPlace::new(graph, OpId(index as u32));
        op.inputs.iter().try_for_each(|&id| tensor(id, &|| Mention::Input(by())))?;
        op.outputs.iter().try_for_each(|&id| tensor(id, &|| Mention::Output(by())))?;
        let paired = op.in_place.iter().flat_map(|pair| [pair.input, pair.output]);
        paired.into_iter().try_for_each(|id| tensor(id, &|| Mention::InPlace(by())))?;
        if let Some(&id) = op.after.iter().find(|id| id.index() >= ops) {
            return Err(Error::UnknownOp { id, ops, by: by() });
        }
        if op.stream.index() >= streams {
            return Err(Error::UnknownStream { id: op.stream, streams, by: by() });
        }
        for (list, recorded) in [(&op.waits, false), (&op.records, true)] {
            if let Some(&id) = list.iter().find(|id| id.index() >= events) {
                return Err(Error::UnknownEvent { id, events, by: by(), recorded });
            }
        }
    }
    for (index, &id) in graph.results.iter().enumerate() {
        tensor(id, &|| Mention::Result(index))?;
    }
    graph.loss.map_or(Ok(()), |id| tensor(id, &|| Mention::Loss))
}

/// The op that makes each tensor, or [`NONE`].
fn makers(graph: &Graph) -> Result<Vec<u32>, Error> {
    let mut maker = vec![NONE; graph.tensors.len()];
    for (index, op) in graph.ops.iter().enumerate() {
        for &output in &op.outputs {
            let first = std::mem::replace(&mut maker[output.index()], index as u32);
            if first != NONE {
                return Err(Error::MadeTwice {
                    tensor: TensorPlace::new(graph, output),
                    first: OpPlace::new(graph, OpId(first)),
                    second: OpPlace::new(graph, OpId(index as u32)),
                });
            }
        }
    }
    Ok(maker)
}

/// The op that records each event, or [`NONE`] for an event that nobody waits for either.
fn recorders(graph: &Graph) -> Result<Vec<u32>, Error> {
    let mut recorder = vec![NONE; graph.events.len()];
    for (index, op) in graph.ops.iter().enumerate() {
        for &event in &op.records {
            let first = std::mem::replace(&mut recorder[event.index()], index as u32);
            if first != NONE {
                return Err(Error::EventRecordedTwice {
                    event: EventPlace::new(graph, event),
                    first: OpPlace::new(graph, OpId(first)),
                    second: OpPlace::new(graph, OpId(index as u32)),
                });
            }
        }
    }
    for (index, op) in graph.ops.iter().enumerate() {
        if let Some(&event) = op.waits.iter().find(|event| recorder[event.index()] == NONE) {
            return Err(Error::EventNeverRecorded {
                event: EventPlace::new(graph, event),
                waiter: OpPlace::new(graph, OpId(index as u32)),
            });
        }
    }
    Ok(recorder)
}

fn sizes(graph: &Graph, storages: &Storages) -> Result<(), Error> {
    for (index, tensor) in graph.tensors.iter().enumerate() {
        if let Some(alignment) = tensor.alignment.filter(|alignment| !alignment.is_power_of_two()) {
            return Err(Error::BadAlignment { tensor: TensorPlace::new(graph, TensorId(index as u32)), alignment });
        }
    }
    let mut sum = 0_u64;
    for storage in storages.iter() {
        sum = sum
            .checked_add(storage.bytes.0)
            .ok_or_else(|| Error::TooManyBytes { at: TensorPlace::new(graph, storage.owner).to_string() })?;
    }
    for (index, op) in graph.ops.iter().enumerate() {
        sum = sum.checked_add(op.workspace.0).ok_or_else(|| Error::TooManyBytes {
            at: format!("the workspace of {}", OpPlace::new(graph, OpId(index as u32))),
        })?;
    }
    Ok(())
}

fn in_place_pairs(graph: &Graph) -> Result<(), Error> {
    let sorted = |ids: &[TensorId]| {
        let mut ids = ids.to_vec();
        ids.sort_unstable();
        ids
    };
    for (index, op) in graph.ops.iter().enumerate().filter(|(_, op)| !op.in_place.is_empty()) {
        let (inputs, outputs) = (sorted(&op.inputs), sorted(&op.outputs));
        for pair in &op.in_place {
            let bytes = |id: TensorId| graph.tensors[id.index()].bytes;
            let (input, output) = (bytes(pair.input), bytes(pair.output));
            let fault = if inputs.binary_search(&pair.input).is_err() {
                InPlaceFault::InputNotRead
            } else if outputs.binary_search(&pair.output).is_err() {
                InPlaceFault::OutputNotMade
            } else if output > input {
                InPlaceFault::OutputLarger { input, output }
            } else {
                continue;
            };
            return Err(Error::BadInPlace {
                op: OpPlace::new(graph, OpId(index as u32)),
                input: TensorPlace::new(graph, pair.input),
                output: TensorPlace::new(graph, pair.output),
                fault,
            });
        }
    }
    Ok(())
}

/// What an op needs by its own statement: tensors it reads, ops it comes after, events it waits for.
fn stated_needs_of<'a>(
    op: &'a Op,
    storages: &'a Storages,
    recorder: &'a [u32],
) -> impl Iterator<Item = (u32, Need)> + 'a {
    let made = |&input: &TensorId| match storages.available(input) {
        Available::By(maker) => Some((maker.0, Need::Tensor(input))),
        Available::Start | Available::Never => None,
    };
    let waits = op.waits.iter().map(|&event| (recorder[event.index()], Need::Event(event)));
    op.inputs.iter().filter_map(made).chain(op.after.iter().map(|other| (other.0, Need::Order))).chain(waits)
}

/// Why an op needs another.
#[derive(Clone, Copy)]
enum Need {
    Tensor(TensorId),
    Order,
    Event(crate::EventId),
}

/// The first op that stands before one it needs, as an error to report unless there is a cycle. A tensor that is
/// nowhere made is an error at once.
fn issue_order(graph: &Graph, storages: &Storages, recorder: &[u32]) -> Result<Option<Error>, Error> {
    let missing = |id: TensorId| storages.available(id) == Available::Never;
    let never = |id, by| Error::NeverMade { tensor: TensorPlace::new(graph, id), by };
    let mut too_early = None;
    for (index, op) in graph.ops.iter().enumerate() {
        let place = |id: u32| OpPlace::new(graph, OpId(id));
        if let Some(&id) = op.inputs.iter().find(|&&id| missing(id)) {
            return Err(never(id, Mention::Input(place(index as u32))));
        }
        if too_early.is_some() {
            continue;
        }
        let late = stated_needs_of(op, storages, recorder).find(|&(other, _)| other >= index as u32);
        too_early = late.map(|(other, need)| match need {
            Need::Tensor(id) => Error::ReadBeforeMade {
                tensor: TensorPlace::new(graph, id),
                reader: place(index as u32),
                maker: place(other),
            },
            Need::Order => Error::IssuedTooEarly { op: place(index as u32), needs: place(other), event: None },
            Need::Event(event) => Error::IssuedTooEarly {
                op: place(index as u32),
                needs: place(other),
                event: Some(EventPlace::new(graph, event)),
            },
        });
    }
    match graph.results.iter().enumerate().find(|&(_, &id)| missing(id)) {
        Some((index, &id)) => Err(never(id, Mention::Result(index))),
        None => Ok(too_early),
    }
}

/// The needs of all ops as rows.
fn stated_needs(graph: &Graph, storages: &Storages, recorder: &[u32]) -> Csr {
    let mut rows = Csr::with_rows(graph.ops.len());
    for op in &graph.ops {
        rows.push_row(stated_needs_of(op, storages, recorder).map(|(other, _)| other));
    }
    rows
}

/// The storages each op reads or makes, each once.
fn touches(graph: &Graph, storages: &Storages) -> Csr {
    let mut rows = Csr::with_rows(graph.ops.len());
    let mut row = Vec::new();
    for op in &graph.ops {
        row.clear();
        row.extend(op.inputs.iter().chain(&op.outputs).map(|&tensor| storages.of(tensor)));
        row.sort_unstable();
        row.dedup();
        rows.push_row(row.drain(..));
    }
    rows
}

/// Which ops leave all bytes alone: every output lies in the storage of an input.
fn views(graph: &Graph, storages: &Storages) -> Vec<bool> {
    let mut read_by = vec![NONE; storages.len()];
    let is_view = |(index, op): (usize, &Op)| {
        for &input in &op.inputs {
            read_by[storages.of(input) as usize] = index as u32;
        }
        let in_an_input = |&output: &TensorId| read_by[storages.of(output) as usize] == index as u32;
        !op.mutates && op.workspace.0 == 0 && !op.outputs.is_empty() && op.outputs.iter().all(in_an_input)
    };
    graph.ops.iter().enumerate().map(is_view).collect()
}
