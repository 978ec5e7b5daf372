//! Live ranges, alias groups, results, inputs, workspaces and empty tensors.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod random;

use lifetime::{
    Analysis, AnalysisOptions, Buffer, BufferSource, Bytes, HalfStep, Limit, LiveRange, OpId, Order, TensorId,
    TensorKind, analyse,
};
use proptest::prelude::*;
use random::{Builder, graphs, owner};

fn run(b: &Builder) -> Analysis {
    analyse(&b.graph, &AnalysisOptions::default()).unwrap()
}

fn buffer<'a>(analysis: &'a Analysis, name: &str) -> &'a Buffer {
    analysis.buffers.iter().find(|buffer| buffer.name == name).unwrap()
}

fn range(birth: u64, death: u64) -> LiveRange {
    LiveRange::new(HalfStep(birth), HalfStep(death))
}

#[test]
fn an_input_and_an_output_of_one_op_overlap() {
    let mut b = Builder::default();
    let x = b.op("x", &[], 8);
    let y = b.op("y", &[x], 8);
    b.op("z", &[y], 8);
    let analysis = run(&b);
    assert_eq!(analysis.end, HalfStep(6));
    assert_eq!(buffer(&analysis, "x").range, range(0, 3));
    assert_eq!(buffer(&analysis, "y").range, range(2, 5));
    assert_eq!(buffer(&analysis, "z").range, range(4, 5), "never read, but needed while its op runs");
    assert_eq!(analysis.max_load(|_| true), Bytes(16));
}

#[test]
fn limits_name_the_ops_that_set_them() {
    let mut b = Builder::default();
    let weight = b.input("weight", 8, TensorKind::Parameter);
    let batch = b.input("batch", 8, TensorKind::Input);
    let x = b.op("x", &[weight, batch], 8);
    let y = b.op("y", &[x], 8);
    b.op("z", &[x], 8);
    b.graph.results = vec![y];
    let analysis = run(&b);
    let limits = |name| (buffer(&analysis, name).born_by, buffer(&analysis, name).dies_by);
    assert_eq!(limits("weight"), (Limit::Step, Limit::Step));
    assert_eq!(limits("batch"), (Limit::Step, Limit::Op(OpId(0))));
    assert_eq!(limits("x"), (Limit::Op(OpId(0)), Limit::Op(OpId(2))));
    assert_eq!(limits("y"), (Limit::Op(OpId(1)), Limit::Step));
    assert_eq!(buffer(&analysis, "weight").range, range(0, 6));
    assert_eq!(buffer(&analysis, "batch").range, range(0, 1));
    assert_eq!(buffer(&analysis, "y").range, range(2, 6));
}

#[test]
fn a_workspace_lives_while_its_op_runs() {
    let mut b = Builder::default();
    b.op("a", &[], 8);
    b.op("b", &[], 8);
    b.last().workspace = Bytes(100);
    let analysis = run(&b);
    let workspace = buffer(&analysis, "b.workspace");
    assert_eq!((workspace.range, workspace.bytes), (range(2, 3), Bytes(100)));
    assert_eq!(workspace.source, BufferSource::Workspace(OpId(1)));
    assert!(workspace.tensors.is_empty());
}

#[test]
fn views_keep_their_storage_alive_and_take_no_bytes() {
    let mut b = Builder::default();
    let x = b.op("x", &[], 8);
    let view = b.view("view", x);
    b.op("other", &[], 8);
    let late = b.view("view of the view", view);
    b.op("reader", &[late], 8);
    let analysis = run(&b);
    let x = buffer(&analysis, "x");
    assert_eq!(x.range, range(0, 9));
    assert_eq!(x.tensors, [TensorId(0), TensorId(1), TensorId(3)]);
    assert_eq!(analysis.buffers.len(), 3);
}

#[test]
fn a_view_of_a_weight_lies_in_the_weight() {
    let mut b = Builder::default();
    let weight = b.input("weight", 8, TensorKind::Parameter);
    let view = b.view("view", weight);
    b.op("reader", &[view], 8);
    let analysis = run(&b);
    assert_eq!(buffer(&analysis, "weight").tensors.len(), 2);
    assert!(analysis.buffers.iter().all(|buffer| buffer.name != "view"));
}

#[test]
fn parts_written_into_a_whole_that_is_made_later_share_its_buffer() {
    let mut b = Builder::default();
    let left = b.op("left", &[], 4);
    let right = b.op("right", &[], 4);
    let whole = b.op("whole", &[left, right], 8);
    b.graph.tensors[left.index()].alias_of = Some(whole);
    b.graph.tensors[right.index()].alias_of = Some(whole);
    b.op("reader", &[whole], 1);
    let analysis = run(&b);
    assert_eq!(buffer(&analysis, "whole").range, range(0, 7));
    assert_eq!(analysis.buffers.len(), 2);
}

#[test]
fn a_result_that_is_a_view_keeps_its_storage_to_the_end() {
    let mut b = Builder::default();
    let x = b.op("x", &[], 8);
    let view = b.view("view", x);
    b.op("other", &[], 8);
    b.graph.results = vec![view];
    assert_eq!(buffer(&run(&b), "x").range, range(0, 6));
}

#[test]
fn inputs_are_there_from_the_start_and_until_their_last_use() {
    let mut b = Builder::default();
    let batch = b.input("batch", 8, TensorKind::Input);
    b.input("unused", 8, TensorKind::Input);
    let kept = b.input("kept", 8, TensorKind::Input);
    b.input("unused weight", 8, TensorKind::Parameter);
    b.op("a", &[], 8);
    b.op("b", &[batch], 8);
    b.op("c", &[], 8);
    b.graph.results = vec![kept];
    let analysis = run(&b);
    assert_eq!(buffer(&analysis, "batch").range, range(0, 3));
    assert_eq!(buffer(&analysis, "unused").range, range(0, 1));
    assert_eq!(buffer(&analysis, "kept").range, range(0, 6));
    assert_eq!(buffer(&analysis, "unused weight").range, range(0, 6));
}

#[test]
fn a_graph_without_ops_has_one_half_step() {
    let mut b = Builder::default();
    b.input("weight", 8, TensorKind::Parameter);
    b.input("batch", 8, TensorKind::Input);
    for order in [Order::Given, Order::Memory] {
        let analysis = analyse(&b.graph, &AnalysisOptions { order, ..Default::default() }).unwrap();
        assert_eq!(analysis.end, HalfStep(1));
        assert!(analysis.buffers.iter().all(|buffer| buffer.range == range(0, 1)));
    }
}

#[test]
fn empty_storages_are_listed_and_take_no_range() {
    let mut b = Builder::default();
    let none = b.op("none", &[], 0);
    let view = b.view("view of none", none);
    b.op("reader", &[view], 8);
    b.tensor("never made", 0);
    b.tensor("never made, not empty", 8);
    let analysis = run(&b);
    assert_eq!(analysis.zero_byte, [TensorId(0), TensorId(3)]);
    assert_eq!(analysis.buffers.len(), 1);
}

#[test]
fn a_write_in_place_needs_no_second_buffer() {
    let mut b = Builder::default();
    let x = b.op("x", &[], 8);
    let written = b.mutate("relu_", x, &[]);
    b.op("reader", &[written], 8);
    let analysis = run(&b);
    assert_eq!(buffer(&analysis, "x").range, range(0, 5));
    assert_eq!(analysis.max_load(|_| true), Bytes(16));
}

#[test]
fn the_graphs_alignment_reaches_the_buffer() {
    let mut b = Builder::default();
    let x = b.op("x", &[], 8);
    let view = b.view("view", x);
    b.graph.tensors[x.index()].alignment = Some(16);
    b.graph.tensors[view.index()].alignment = Some(512);
    assert_eq!(buffer(&run(&b), "x").alignment, Some(512));
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(500))]

    #[test]
    fn every_use_falls_into_the_live_range_of_its_buffer(
        graph in graphs(30, 3),
        memory in any::<bool>(),
        reuse_in_place in any::<bool>(),
    ) {
        let order = if memory { Order::Memory } else { Order::Given };
        let analysis = analyse(&graph, &AnalysisOptions { order, reuse_in_place, ..Default::default() }).unwrap();
        let holder = analysis.buffer_of_tensor(graph.tensors.len());
        for (position, op) in analysis.order.iter().enumerate() {
            let during = range(2 * position as u64, 2 * position as u64 + 1);
            let op = &graph.ops[op.index()];
            for &id in op.inputs.iter().chain(&op.outputs) {
                let bytes = graph.tensors[owner(&graph, id).index()].bytes;
                match holder[id.index()] {
                    None => prop_assert_eq!(bytes, Bytes(0)),
                    Some(buffer) => {
                        let buffer = &analysis.buffers[buffer.index()];
                        prop_assert!(buffer.range.birth <= during.birth && buffer.range.death >= during.death);
                        prop_assert!(buffer.bytes >= bytes && buffer.bytes >= graph.tensors[id.index()].bytes);
                    }
                }
            }
        }
        for &result in &graph.results {
            if let Some(buffer) = holder[result.index()] {
                prop_assert_eq!(analysis.buffers[buffer.index()].range.death, analysis.end);
            }
        }
        for (index, buffer) in analysis.buffers.iter().enumerate() {
            prop_assert!(buffer.bytes.0 > 0);
            prop_assert!(buffer.range.birth < buffer.range.death && buffer.range.death <= analysis.end);
            for &id in &buffer.tensors {
                prop_assert_eq!(holder[id.index()].map(|b| b.index()), Some(index), "each tensor lies in one buffer");
                let owner = owner(&graph, id);
                prop_assert_eq!(holder[owner.index()], holder[id.index()], "an alias lies where its owner does");
            }
        }
    }

    #[test]
    fn ranges_end_no_later_than_the_last_use(graph in graphs(30, 1)) {
        let analysis = analyse(&graph, &AnalysisOptions { reuse_in_place: false, ..Default::default() }).unwrap();
        for buffer in &analysis.buffers {
            let is_kept = matches!((buffer.born_by, buffer.dies_by), (_, Limit::Step));
            let used = |op: &lifetime::Op| {
                op.inputs.iter().chain(&op.outputs).any(|id| buffer.tensors.contains(id))
            };
            let position = |last: bool| {
                let mut users = graph.ops.iter().enumerate().filter(|(_, op)| used(op)).map(|(i, _)| i as u64);
                if last { users.next_back() } else { users.next() }
            };
            if let (BufferSource::Storage(_), Some(last), false) = (buffer.source, position(true), is_kept) {
                prop_assert_eq!(buffer.range.death, HalfStep(2 * last + 1));
            }
            if let (BufferSource::Storage(_), Some(first), Limit::Op(_)) = (buffer.source, position(false), buffer.born_by) {
                prop_assert_eq!(buffer.range.birth, HalfStep(2 * first));
            }
        }
    }
}
