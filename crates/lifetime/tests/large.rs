//! Graphs of extreme shape. Nothing is timed: what is quadratic in one of these sizes doesn't end.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod random;

use lifetime::{AnalysisOptions, EventId, Graph, InPlace, Order, StreamId, TensorKind, analyse};
use random::Builder;

const MANY: usize = 100_000;

fn survives(graph: &Graph) {
    for order in [Order::Given, Order::Memory] {
        let options =
            AnalysisOptions { order, order_budget: 3_000_000, max_separations: 100_000, ..Default::default() };
        let analysis = analyse(graph, &options).unwrap();
        assert_eq!(analysis.order.len(), graph.ops.len());
        assert!(analysis.separations.len() <= 100_000);
    }
}

#[test]
fn a_long_chain_in_place() {
    let mut b = Builder::default();
    let mut x = b.op("first", &[], 8);
    for _ in 0..MANY {
        x = b.in_place("next", &[x], 8);
    }
    b.graph.results = vec![x];
    survives(&b.graph);
}

#[test]
fn one_tensor_read_by_all_and_one_op_that_reads_all() {
    let mut b = Builder::default();
    let x = b.op("first", &[], 8);
    let all: Vec<_> = (0..MANY).map(|_| b.op("reader", &[x], 8)).collect();
    let sum = b.op("sum", &all, 4);
    b.graph.results = vec![sum];
    survives(&b.graph);
}

#[test]
fn one_op_with_many_outputs_and_pairs() {
    let mut b = Builder::default();
    let inputs: Vec<_> = (0..MANY).map(|_| b.op("make", &[], 8)).collect();
    let outputs: Vec<_> = (0..MANY).map(|_| b.tensor("made", 8)).collect();
    b.push("all at once", &inputs, &outputs);
    b.last().in_place = inputs.iter().zip(&outputs).map(|(&input, &output)| InPlace { input, output }).collect();
    survives(&b.graph);
}

#[test]
fn a_storage_with_many_views_reads_and_writes() {
    let mut b = Builder::default();
    let mut x = b.input("weight", 8, TensorKind::Parameter);
    for i in 0..MANY / 4 {
        let view = b.view("view", x);
        b.op("reader", &[view], 8);
        b.op("other reader", &[x], 8);
        x = if i % 2 == 0 { b.mutate("write", view, &[]) } else { view };
    }
    survives(&b.graph);
}

#[test]
fn many_results_of_one_number() {
    let mut b = Builder::default();
    let mut x = b.op("first", &[], 8);
    for _ in 0..MANY {
        x = b.op("number", &[x], 4);
        b.graph.results.push(x);
    }
    survives(&b.graph);
}

#[test]
fn streams_without_order_between_them() {
    let mut b = Builder::default();
    b.graph.streams = (0..8).map(|stream| format!("stream {stream}")).collect();
    for i in 0..MANY {
        b.op("op", &[], 8);
        b.last().stream = StreamId(i as u32 % 8);
    }
    survives(&b.graph);
}

#[test]
fn a_stream_for_every_op_and_an_event_between_each_two() {
    let mut b = Builder::default();
    let many = MANY / 10;
    b.graph.streams = (0..many).map(|stream| format!("stream {stream}")).collect();
    b.graph.events = (0..many).map(|event| format!("event {event}")).collect();
    for i in 0..many as u32 {
        b.op("op", &[], 8);
        b.last().stream = StreamId(i);
        b.last().records = vec![EventId(i)];
        if i > 0 {
            b.last().waits = vec![EventId(i - 1)];
        }
    }
    let analysis = analyse(&b.graph, &AnalysisOptions::default()).unwrap();
    // Clocks of so many streams would fill memory, so nothing counts as over before the end.
    assert!(analysis.buffers.iter().all(|buffer| buffer.range.death == analysis.end));
    survives(&b.graph);
}
