//! Which op must come before which.

use crate::{
    Graph, OpId, StreamId,
    csr::Csr,
    storage::{Available, NONE, Storages},
};

/// For each op the ops it needs, all of them earlier in issue order.
#[derive(Clone, Debug)]
pub(crate) struct Dependencies {
    /// Those whose results it reads, through tensors or through a storage written in place.
    pub(crate) data: Csr,
    /// All of them.
    pub(crate) all: Csr,
    /// Whether ops run on more than one stream.
    pub(crate) several_streams: bool,
}

impl Dependencies {
    /// Reads them off a graph whose issue order has been checked. `touched_by` lists each storage's ops in issue
    /// order, `recorder` the op that records each event.
    pub(crate) fn new(graph: &Graph, storages: &Storages, touched_by: &Csr, recorder: &[u32]) -> Self {
        let writes = Writes::new(graph, storages, touched_by);
        let several_streams = graph.ops.windows(2).any(|pair| pair[0].stream != pair[1].stream);
        let mut previous = PreviousOnStream::new(graph, several_streams);
        let (mut data, mut all) = (Csr::with_rows(graph.ops.len()), Csr::with_rows(graph.ops.len()));
        let (mut needs, mut order) = (Vec::new(), Vec::new());
        for (id, op) in graph.ops.iter().enumerate() {
            let earlier = |other: u32| other < id as u32;
            needs.clear();
            needs.extend(op.inputs.iter().filter_map(|&input| maker(storages, input)));
            // A view is there once the tensor it looks at is, even where the op doesn't list that as an input.
            let bases = op.outputs.iter().filter_map(|output| graph.tensors[output.index()].alias_of);
            needs.extend(bases.filter_map(|base| maker(storages, base)).filter(|&other| earlier(other)));
            needs.extend_from_slice(writes.data.row(id));
            order.clear();
            order.extend_from_slice(&needs);
            order.extend(op.after.iter().map(|other| other.0));
            order.extend(op.waits.iter().map(|event| recorder[event.index()]));
            order.extend_from_slice(writes.order.row(id));
            order.extend(previous.replace(op.stream, id as u32));
            for (rows, list) in [(&mut data, &mut needs), (&mut all, &mut order)] {
                list.sort_unstable();
                list.dedup();
                debug_assert!(list.iter().all(|&other| earlier(other)), "issue order was checked");
                rows.push_row(list.drain(..));
            }
        }
        Self { data, all, several_streams }
    }
}

fn maker(storages: &Storages, tensor: crate::TensorId) -> Option<u32> {
    match storages.available(tensor) {
        Available::By(op) => Some(op.0),
        Available::Start | Available::Never => None,
    }
}

/// The last op seen on each stream.
struct PreviousOnStream {
    last: Vec<u32>,
}

impl PreviousOnStream {
    /// With one stream there is no order to keep beyond the other dependencies, so none is reported.
    fn new(graph: &Graph, several_streams: bool) -> Self {
        Self { last: if several_streams { vec![NONE; graph.streams.len().max(1)] } else { Vec::new() } }
    }

    fn replace(&mut self, stream: StreamId, op: u32) -> Option<u32> {
        let last = self.last.get_mut(stream.index())?;
        Some(std::mem::replace(last, op)).filter(|&other| other != NONE)
    }
}

/// Dependencies that come from ops writing into storages that others use too.
struct Writes {
    data: Csr,
    order: Csr,
}

impl Writes {
    /// For every storage that an op writes in place: a use after a write needs the write, a write needs all uses since
    /// the write before it.
    fn new(graph: &Graph, storages: &Storages, touched_by: &Csr) -> Self {
        let (mut data, mut order) = (vec![], vec![]);
        let mut written = vec![false; storages.len()];
        for op in graph.ops.iter().filter(|op| op.mutates) {
            for &output in &op.outputs {
                written[storages.of(output) as usize] = true;
            }
        }
        for (storage, _) in written.iter().enumerate().filter(|&(_, &written)| written) {
            let ops = touched_by.row(storage);
            let (mut last_write, mut first_since) = (None, 0);
            for (i, &id) in ops.iter().enumerate() {
                if let Some(write) = last_write {
                    data.push((id, write));
                }
                let op = &graph.ops[id as usize];
                if op.mutates && op.outputs.iter().any(|&output| storages.of(output) as usize == storage) {
                    order.extend(ops[first_since..i].iter().map(|&other| (id, other)));
                    (last_write, first_since) = (Some(id), i + 1);
                }
            }
        }
        Self { data: by_op(&mut data, graph.ops.len()), order: by_op(&mut order, graph.ops.len()) }
    }
}

/// Pairs `(op, other)` as rows by op.
fn by_op(pairs: &mut [(u32, u32)], ops: usize) -> Csr {
    pairs.sort_unstable();
    let mut rows = Csr::with_rows(ops);
    let mut rest = &*pairs;
    for op in 0..ops as u32 {
        let (row, others) = rest.split_at(rest.partition_point(|&(id, _)| id == op));
        rows.push_row(row.iter().map(|&(_, other)| other));
        rest = others;
    }
    rows
}

/// A ring among rows of needs, if there is one, as ops of which each is needed by the next; the smallest id comes
/// first.
pub(crate) fn find_cycle(needs: &Csr) -> Option<Vec<OpId>> {
    let ops = needs.rows();
    let needed_by = needs.transposed(ops);
    let mut missing: Vec<usize> = (0..ops).map(|op| needs.row(op).len()).collect();
    let mut ready: Vec<u32> = (0..ops as u32).filter(|&op| missing[op as usize] == 0).collect();
    while let Some(op) = ready.pop() {
        for &next in needed_by.row(op as usize) {
            missing[next as usize] -= 1;
            if missing[next as usize] == 0 {
                ready.push(next);
            }
        }
    }
    // What is left needs something that is left, so walking from need to need comes round.
    let mut at = missing.iter().position(|&missing| missing > 0)?;
    let mut step = vec![usize::MAX; ops];
    let mut walk = Vec::new();
    while step[at] == usize::MAX {
        step[at] = walk.len();
        walk.push(OpId(at as u32));
        at = needs.row(at).iter().map(|&need| need as usize).find(|&need| missing[need] > 0)?;
    }
    let mut cycle = walk.split_off(step[at]);
    cycle.reverse();
    let first = cycle.iter().enumerate().min_by_key(|&(_, id)| *id).map_or(0, |(i, _)| i);
    cycle.rotate_left(first);
    Some(cycle)
}

#[cfg(test)]
#[allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]
mod tests {
    use super::*;
    use crate::{EventId, TensorKind, check::Scan, testing::Builder};

    fn all(graph: &Graph) -> Vec<Vec<u32>> {
        let scan = Scan::new(graph).unwrap();
        (0..graph.ops.len()).map(|op| scan.dependencies.all.row(op).to_vec()).collect()
    }

    #[test]
    fn writes_in_place_keep_their_place_among_reads_of_the_old_and_the_new_value() {
        let mut b = Builder::default();
        let weight = b.input("weight", 8, TensorKind::Parameter);
        b.op("reads the old value", &[weight], 8);
        b.op("reads it too", &[weight], 8);
        b.mutate("update", weight, &[]);
        b.op("reads the new value", &[weight], 8);
        b.mutate("second update", weight, &[]);
        assert_eq!(all(&b.graph), [vec![], vec![], vec![0, 1], vec![2], vec![2, 3]]);
    }

    #[test]
    fn views_of_a_storage_nobody_writes_are_free_of_each_other() {
        let mut b = Builder::default();
        let x = b.op("make", &[], 8);
        let view = b.view("view", x);
        b.op("read", &[x], 8);
        b.op("read the view", &[view], 8);
        assert_eq!(all(&b.graph), [vec![], vec![0], vec![0], vec![1]]);
    }

    #[test]
    fn a_view_needs_its_base_even_where_the_op_does_not_list_it() {
        let mut b = Builder::default();
        let x = b.op("make", &[], 8);
        b.view("view", x);
        b.last().inputs.clear();
        assert_eq!(all(&b.graph), [vec![], vec![0]]);
    }

    #[test]
    fn streams_events_and_after_order_ops_without_data() {
        let mut b = Builder::default();
        b.graph.streams = vec!["a".into(), "b".into()];
        b.graph.events = vec!["e".into()];
        b.op("0", &[], 8);
        b.op("1", &[], 8);
        b.last().stream = StreamId(1);
        b.last().records = vec![EventId(0)];
        b.op("2", &[], 8);
        b.op("3", &[], 8);
        b.last().waits = vec![EventId(0)];
        b.op("4", &[], 8);
        b.last().stream = StreamId(1);
        b.last().after = vec![OpId(3)];
        assert_eq!(all(&b.graph), [vec![], vec![], vec![0], vec![1, 2], vec![1, 3]]);
    }

    #[test]
    fn a_single_stream_orders_nothing_by_itself() {
        let mut b = Builder::default();
        b.op("0", &[], 8);
        b.op("1", &[], 8);
        assert_eq!(all(&b.graph), [vec![], vec![0_u32; 0]]);
    }

    #[test]
    fn a_cycle_is_reported_in_the_order_in_which_its_ops_feed_each_other() {
        let mut needs = Csr::with_rows(5);
        needs.push_row([4]);
        needs.push_row([3, 0]);
        needs.push_row([1]);
        needs.push_row([2]);
        needs.push_row([]);
        assert_eq!(find_cycle(&needs), Some(vec![OpId(1), OpId(2), OpId(3)]));
        assert_eq!(find_cycle(&needs.transposed(5).transposed(5)), find_cycle(&needs));
    }

    #[test]
    fn no_cycle_is_seen_where_there_is_none() {
        let mut needs = Csr::with_rows(4);
        needs.push_row([]);
        needs.push_row([0]);
        needs.push_row([0]);
        needs.push_row([1, 2]);
        assert_eq!(find_cycle(&needs), None);
    }
}
