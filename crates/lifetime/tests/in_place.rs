//! Which outputs take the bytes of an input.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod random;

use lifetime::{
    Analysis, AnalysisOptions, Bytes, EventId, HalfStep, InPlace, StreamId, TensorId, TensorKind, Tier, analyse,
};
use proptest::prelude::*;
use random::{Builder, graphs};

/// Sizes leave the long-lived rule out of the way.
fn options() -> AnalysisOptions {
    AnalysisOptions { long_lived_share: 2.0, ..AnalysisOptions::default() }
}

fn run(b: &Builder) -> Analysis {
    analyse(&b.graph, &options()).unwrap()
}

fn pair(input: TensorId, output: TensorId) -> InPlace {
    InPlace { input, output }
}

#[test]
fn a_chain_of_equal_sizes_becomes_one_buffer() {
    let mut b = Builder::default();
    let first = b.op("first", &[], 8);
    let second = b.in_place("second", &[first], 8);
    let third = b.in_place("third", &[second], 8);
    b.op("reader", &[third], 1);
    let analysis = run(&b);
    assert_eq!(analysis.in_place, [pair(first, second), pair(second, third)]);
    assert_eq!(analysis.buffers.len(), 2);
    assert_eq!(analysis.buffers[0].tensors, [first, second, third]);
    assert_eq!((analysis.buffers[0].range.birth, analysis.buffers[0].range.death), (HalfStep(0), HalfStep(7)));
    assert_eq!(analysis.max_load(|_| true), Bytes(9));
}

#[test]
fn switched_off_nothing_is_joined() {
    let mut b = Builder::default();
    let first = b.op("first", &[], 8);
    b.in_place("second", &[first], 8);
    let analysis = analyse(&b.graph, &AnalysisOptions { reuse_in_place: false, ..options() }).unwrap();
    assert_eq!((analysis.in_place.len(), analysis.buffers.len()), (0, 2));
}

#[test]
fn an_input_that_is_needed_later_is_kept() {
    let mut b = Builder::default();
    let first = b.op("first", &[], 8);
    let view = b.view("view", first);
    b.in_place("second", &[first], 8);
    b.op("reads the view later", &[view], 1);
    assert!(run(&b).in_place.is_empty());
}

#[test]
fn an_input_that_the_op_also_reads_through_a_view_is_kept() {
    let mut b = Builder::default();
    let x = b.op("x", &[], 8);
    let transposed = b.view("transposed", x);
    b.in_place("x + its transpose", &[x, transposed], 8);
    assert!(run(&b).in_place.is_empty());

    let mut b = Builder::default();
    let x = b.op("x", &[], 8);
    b.in_place("x + x", &[x, x], 8);
    assert_eq!(run(&b).in_place.len(), 1);
}

#[test]
fn an_input_of_which_the_op_reads_a_part_only_is_kept() {
    let mut b = Builder::default();
    let x = b.op("x", &[], 16);
    let part = b.view("part", x);
    b.in_place("op", &[part], 15);
    assert_eq!(run(&b).in_place.len(), 1);
    b.graph.tensors[part.index()].bytes = Bytes(15);
    assert!(run(&b).in_place.is_empty());
}

#[test]
fn results_weights_and_inputs_are_not_overwritten() {
    for kind in [TensorKind::Parameter, TensorKind::Input] {
        let mut b = Builder::default();
        let x = b.input("x", 8, kind);
        b.in_place("op", &[x], 8);
        assert!(run(&b).in_place.is_empty());
    }
    let mut b = Builder::default();
    let x = b.op("x", &[], 8);
    b.in_place("op", &[x], 8);
    b.graph.results = vec![x];
    assert!(run(&b).in_place.is_empty());
}

#[test]
fn a_result_may_take_the_bytes_of_an_input() {
    let mut b = Builder::default();
    let x = b.op("x", &[], 8);
    let y = b.in_place("y", &[x], 8);
    b.op("other", &[], 8);
    b.graph.results = vec![y];
    let analysis = run(&b);
    assert_eq!(analysis.in_place, [pair(x, y)]);
    assert_eq!(analysis.buffers[0].range.death, analysis.end);
}

#[test]
fn one_input_serves_one_output_and_one_output_takes_one_input() {
    let mut b = Builder::default();
    let (x, y) = (b.op("x", &[], 8), b.op("y", &[], 8));
    let sum = b.in_place("sum", &[x, y], 8);
    b.last().in_place.push(pair(y, sum));
    assert_eq!(run(&b).in_place, [pair(x, sum)]);

    let mut b = Builder::default();
    let x = b.op("x", &[], 8);
    let (left, right) = (b.tensor("left", 8), b.tensor("right", 8));
    b.push("split", &[x], &[left, right]);
    b.last().in_place = vec![pair(x, left), pair(x, right)];
    assert_eq!(run(&b).in_place, [pair(x, left)]);
}

#[test]
fn an_output_that_is_read_first_elsewhere_is_left_alone() {
    // The "output" is a view of what an earlier op has made.
    let mut b = Builder::default();
    let (x, y) = (b.op("x", &[], 8), b.op("y", &[], 8));
    let view = b.view("view", y);
    b.last().inputs.push(x);
    b.last().in_place = vec![pair(x, view)];
    assert!(run(&b).in_place.is_empty());
}

#[test]
fn an_input_that_the_op_also_writes_in_place_is_kept() {
    let mut b = Builder::default();
    let x = b.op("x", &[], 8);
    let written = b.mutate("op", x, &[]);
    let y = b.tensor("y", 8);
    b.last().outputs.push(y);
    b.last().in_place = vec![pair(x, y)];
    b.op("reader", &[y], 8);
    assert!(run(&b).in_place.is_empty(), "{written:?} and y would be written over each other");
}

#[test]
fn a_much_smaller_output_does_not_keep_a_large_input_alive() {
    for (bytes, is_taken) in [(100, true), (88, true), (87, false), (1, false)] {
        let mut b = Builder::default();
        let x = b.op("x", &[], 100);
        let y = b.in_place("y", &[x], bytes);
        b.op("reader", &[y], 1);
        assert_eq!(run(&b).in_place.len(), usize::from(is_taken), "{bytes}");
    }
}

#[test]
fn a_smaller_output_is_not_joined_where_that_raises_the_peak() {
    let mut b = Builder::default();
    let x = b.op("x", &[], 100);
    let y = b.in_place("y", &[x], 90);
    let large = b.op("large", &[], 1000);
    b.op("reader", &[y, large], 1);
    let analysis = run(&b);
    assert!(analysis.in_place.is_empty());
    assert_eq!(analysis.max_load(|_| true), Bytes(1091));
}

#[test]
fn storages_of_different_tiers_are_joined_where_that_lowers_the_peak_only() {
    // Two branches of the forward pass, each with a temporary input and an output kept for backward.
    let mut b = Builder::default();
    let weight = b.input("weight", 8, TensorKind::Parameter);
    let mut kept = Vec::new();
    for bytes in [10, 1000] {
        let x = b.op("temporary", &[weight], bytes);
        kept.push(b.in_place("kept", &[x], bytes));
    }
    let loss = b.op("loss", &kept, 4);
    let gradient = b.op("backward", &[kept[0], kept[1]], 8);
    b.mutate("update", weight, &[gradient]);
    b.graph.results = vec![loss];
    let analysis = run(&b);
    assert_eq!(analysis.in_place.len(), 1);
    let joined = analysis.buffers.iter().find(|buffer| buffer.bytes == Bytes(1000)).unwrap();
    assert_eq!((joined.tensors.len(), joined.tier), (2, Tier::Cyclic));
}

#[test]
fn hints_of_different_tiers_keep_storages_apart() {
    let mut b = Builder::default();
    let x = b.op("x", &[], 1000);
    let y = b.in_place("y", &[x], 1000);
    b.op("reader", &[y], 1);
    assert_eq!(run(&b).in_place.len(), 1);
    b.graph.tensors[x.index()].tier_hint = Some(Tier::Cyclic);
    assert!(run(&b).in_place.is_empty());
}

#[test]
fn bytes_another_stream_may_still_read_are_not_written_over() {
    let mut b = Builder::default();
    b.graph.streams = vec!["compute".to_owned(), "copy".to_owned()];
    b.graph.events = vec!["copied".to_owned()];
    let x = b.op("x", &[], 8);
    b.op("copy", &[x], 8);
    b.last().stream = StreamId(1);
    b.last().records = vec![EventId(0)];
    b.in_place("y", &[x], 8);
    assert!(run(&b).in_place.is_empty(), "nothing orders y after the copy");
    b.last().waits = vec![EventId(0)];
    assert_eq!(run(&b).in_place.len(), 1);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(1000))]

    #[test]
    fn joining_never_raises_the_load(graph in graphs(30, 3)) {
        let apart = analyse(&graph, &AnalysisOptions { reuse_in_place: false, ..options() }).unwrap();
        let joined = analyse(&graph, &options()).unwrap();
        let load = |analysis: &Analysis| analysis.max_load(|buffer| buffer.tier != Tier::Persistent);
        prop_assert!(load(&joined) <= load(&apart));
        prop_assert_eq!(joined.buffers.len() + joined.in_place.len(), apart.buffers.len());
    }

    #[test]
    fn what_is_written_over_is_never_needed_again(graph in graphs(30, 3)) {
        let joined = analyse(&graph, &options()).unwrap();
        let after = random::runs_after(&graph);
        for pair in &joined.in_place {
            let writer = graph.ops.iter().position(|op| op.outputs.contains(&pair.output)).unwrap();
            let storage = random::owner(&graph, pair.input);
            for (index, op) in graph.ops.iter().enumerate().filter(|&(index, _)| index != writer) {
                let touches = op.inputs.iter().chain(&op.outputs).any(|&id| random::owner(&graph, id) == storage);
                prop_assert!(!touches || after[writer][index], "op {index} may run with or after op {writer}");
            }
            prop_assert!(graph.results.iter().all(|&result| random::owner(&graph, result) != storage));
        }
    }
}
