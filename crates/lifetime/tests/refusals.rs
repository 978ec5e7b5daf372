//! What is wrong with a graph is said with the place and the reason.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod random;

use lifetime::{
    AnalysisOptions, Bytes, Error, EventId, Graph, InPlace, InPlaceFault, Mention, OpId, Order, StreamId, TensorId,
    TensorKind, analyse, check,
};
use proptest::prelude::*;
use random::{Builder, graphs};

/// Three ops in a row: a -> b -> c.
fn chain() -> Builder {
    let mut b = Builder::default();
    let a = b.op("a", &[], 8);
    let mid = b.op("b", &[a], 8);
    let end = b.op("c", &[mid], 8);
    b.graph.results = vec![end];
    b
}

fn refusal(graph: &Graph) -> Error {
    let error = check(graph).unwrap_err();
    for order in [Order::Given, Order::Memory] {
        assert_eq!(analyse(graph, &AnalysisOptions { order, ..Default::default() }).unwrap_err(), error);
    }
    error
}

#[test]
fn a_valid_graph_passes() {
    assert_eq!(check(&chain().graph), Ok(()));
    assert_eq!(check(&Graph::default()), Ok(()));
}

#[test]
fn dangling_ids_are_named_with_who_names_them() {
    let mut b = chain();
    b.graph.ops[1].inputs.push(TensorId(9));
    let error = refusal(&b.graph);
    assert!(
        matches!(&error, Error::UnknownTensor { id: TensorId(9), tensors: 3, by: Mention::Input(op) } if op.name == "b")
    );
    assert_eq!(error.to_string(), "tensor 9 is named by op 1 (\"b\"), as an input, but the graph has 3 tensors");

    let mut b = chain();
    b.graph.ops[2].outputs.push(TensorId(3));
    assert!(matches!(refusal(&b.graph), Error::UnknownTensor { by: Mention::Output(_), .. }));

    let mut b = chain();
    b.graph.tensors[1].alias_of = Some(TensorId(u32::MAX));
    assert!(
        matches!(refusal(&b.graph), Error::UnknownTensor { by: Mention::AliasOf(tensor), .. } if tensor.name == "b")
    );

    let mut b = chain();
    b.graph.results.push(TensorId(7));
    assert!(matches!(refusal(&b.graph), Error::UnknownTensor { by: Mention::Result(1), .. }));

    let mut b = chain();
    b.graph.loss = Some(TensorId(7));
    assert!(matches!(refusal(&b.graph), Error::UnknownTensor { by: Mention::Loss, .. }));

    let mut b = chain();
    b.last().after.push(OpId(3));
    assert!(matches!(refusal(&b.graph), Error::UnknownOp { id: OpId(3), ops: 3, .. }));

    let mut b = chain();
    b.last().stream = StreamId(1);
    assert!(matches!(refusal(&b.graph), Error::UnknownStream { id: StreamId(1), streams: 1, .. }));

    let mut b = chain();
    b.last().waits.push(EventId(0));
    assert!(matches!(refusal(&b.graph), Error::UnknownEvent { recorded: false, events: 0, .. }));
    b.last().waits.clear();
    b.last().records.push(EventId(0));
    assert!(matches!(refusal(&b.graph), Error::UnknownEvent { recorded: true, .. }));
}

#[test]
fn a_ring_of_aliases_is_printed() {
    let mut b = chain();
    b.graph.tensors[0].alias_of = Some(TensorId(2));
    b.graph.tensors[2].alias_of = Some(TensorId(0));
    let text = refusal(&b.graph).to_string();
    assert!(text.ends_with(r#"tensor 0 ("a") -> tensor 2 ("c") -> tensor 0 ("a")"#), "{text}");
}

#[test]
fn a_tensor_made_twice_is_refused_with_both_makers() {
    let mut b = chain();
    b.graph.ops[2].outputs.push(TensorId(0));
    let text = refusal(&b.graph).to_string();
    assert_eq!(text, r#"tensor 0 ("a") is made twice: by op 0 ("a") and by op 2 ("c")"#);
    let mut b = chain();
    b.graph.ops[0].outputs.push(TensorId(0));
    assert!(matches!(refusal(&b.graph), Error::MadeTwice { first, second, .. } if first == second));
}

#[test]
fn a_tensor_that_nobody_makes_cannot_be_read_or_returned() {
    let mut b = chain();
    let ghost = b.tensor("ghost", 8);
    assert_eq!(check(&b.graph), Ok(()), "as long as nobody needs it");
    b.graph.ops[1].inputs.push(ghost);
    assert!(matches!(refusal(&b.graph), Error::NeverMade { by: Mention::Input(op), .. } if op.name == "b"));
    b.graph.ops[1].inputs.pop();
    b.graph.results.push(ghost);
    assert!(matches!(refusal(&b.graph), Error::NeverMade { by: Mention::Result(1), .. }));
    b.graph.tensors[ghost.index()].kind = TensorKind::Input;
    assert_eq!(check(&b.graph), Ok(()));
}

#[test]
fn reading_before_making_names_both_ops() {
    let mut b = chain();
    b.graph.ops.swap(1, 2);
    let error = refusal(&b.graph);
    assert_eq!(error.to_string(), r#"op 1 ("c") reads tensor 1 ("b") before op 2 ("b") makes it"#);
    assert!(matches!(error, Error::ReadBeforeMade { .. }));
}

#[test]
fn an_order_that_after_or_an_event_forbids_is_refused() {
    let mut b = chain();
    b.graph.ops[0].after = vec![OpId(2)];
    b.graph.ops[1].inputs.clear();
    assert!(matches!(refusal(&b.graph), Error::IssuedTooEarly { event: None, .. }));

    let mut b = chain();
    b.graph.events = vec!["done".to_owned()];
    b.graph.ops[0].waits = vec![EventId(0)];
    assert!(matches!(refusal(&b.graph), Error::EventNeverRecorded { .. }));
    b.graph.ops[2].records = vec![EventId(0)];
    b.graph.ops[1].inputs.clear();
    let text = refusal(&b.graph).to_string();
    assert_eq!(text, r#"op 0 ("a") must come after op 2 ("c"), which records event 0 ("done"), but stands before it"#);
    b.graph.ops[1].records = vec![EventId(0)];
    assert!(matches!(refusal(&b.graph), Error::EventRecordedTwice { .. }));
}

#[test]
fn a_cycle_is_printed_op_by_op() {
    let mut b = chain();
    b.graph.ops[0].inputs = vec![TensorId(2)];
    let text = refusal(&b.graph).to_string();
    assert!(text.ends_with(r#"op 0 ("a") -> op 1 ("b") -> op 2 ("c") -> op 0 ("a")"#), "{text}");
    let mut b = chain();
    b.graph.ops[1].inputs = vec![TensorId(1)];
    assert!(refusal(&b.graph).to_string().ends_with(r#": op 1 ("b") -> op 1 ("b")"#));
}

#[test]
fn a_long_cycle_is_cut_to_a_readable_length() {
    let mut b = Builder::default();
    let mut x = b.op("op 0", &[], 8);
    for i in 1..100_000 {
        x = b.op(&format!("op {i}"), &[x], 8);
    }
    b.graph.ops[0].inputs = vec![x];
    let Error::Cycle { cycle } = refusal(&b.graph) else { panic!("no cycle") };
    assert_eq!((cycle.places.len(), cycle.more), (12, 99_988));
    assert!(cycle.to_string().contains("-> 99988 more -> op 0"));
}

#[test]
fn a_name_of_a_megabyte_does_not_fill_the_message() {
    let mut b = chain();
    b.graph.ops[2].name = "x".repeat(1 << 20);
    b.graph.ops.swap(1, 2);
    assert!(refusal(&b.graph).to_string().len() < 500);
}

#[test]
fn sizes_that_add_up_past_64_bits_are_refused() {
    let mut b = chain();
    b.graph.tensors[0].bytes = Bytes(u64::MAX - 10);
    assert!(matches!(refusal(&b.graph), Error::TooManyBytes { .. }));
    b.graph.tensors[0].bytes = Bytes(u64::MAX - 16);
    assert_eq!(check(&b.graph), Ok(()));
    b.last().workspace = Bytes(1);
    let text = refusal(&b.graph).to_string();
    assert!(text.contains(r#"workspace of op 2 ("c")"#), "{text}");
}

#[test]
fn the_largest_sizes_that_fit_are_analysed_without_overflow() {
    let mut b = chain();
    b.graph.tensors[0].bytes = Bytes(u64::MAX - 16);
    for order in [Order::Given, Order::Memory] {
        let analysis = analyse(&b.graph, &AnalysisOptions { order, ..Default::default() }).unwrap();
        assert_eq!(analysis.max_load(|_| true), Bytes(u64::MAX - 8));
    }
}

#[test]
fn in_place_pairs_must_be_an_input_and_a_fitting_output() {
    let pair = |input, output| InPlace { input: TensorId(input), output: TensorId(output) };
    let mut b = chain();
    b.graph.ops[1].in_place = vec![pair(2, 1)];
    assert!(matches!(refusal(&b.graph), Error::BadInPlace { fault: InPlaceFault::InputNotRead, .. }));
    b.graph.ops[1].in_place = vec![pair(0, 2)];
    assert!(matches!(refusal(&b.graph), Error::BadInPlace { fault: InPlaceFault::OutputNotMade, .. }));
    b.graph.ops[1].in_place = vec![pair(0, 1)];
    assert_eq!(check(&b.graph), Ok(()));
    b.graph.tensors[1].bytes = Bytes(9);
    assert_eq!(
        refusal(&b.graph).to_string(),
        r#"op 1 ("b") can't write tensor 1 ("b") into tensor 0 ("a"): the output needs 9 bytes and the input has 8"#
    );
    b.graph.ops[1].in_place = vec![pair(0, 9)];
    assert!(matches!(refusal(&b.graph), Error::UnknownTensor { by: Mention::InPlace(_), .. }));
}

#[test]
fn alignments_must_be_powers_of_two() {
    for (alignment, is_fine) in [(1, true), (256, true), (1 << 63, true), (0, false), (48, false)] {
        let mut b = chain();
        b.graph.tensors[1].alignment = Some(alignment);
        assert_eq!(check(&b.graph).is_ok(), is_fine, "{alignment}");
    }
}

#[test]
fn a_loss_must_be_made_by_an_op() {
    let mut b = chain();
    b.graph.loss = Some(b.input("batch", 4, TensorKind::Input));
    assert!(matches!(refusal(&b.graph), Error::LossNotMade { .. }));
}

#[test]
fn a_share_that_is_no_number_is_refused() {
    for (share, is_fine) in [(0.0, true), (2.0, true), (f64::INFINITY, true), (f64::NAN, false), (-0.1, false)] {
        let options = AnalysisOptions { long_lived_share: share, ..Default::default() };
        assert_eq!(analyse(&chain().graph, &options).is_ok(), is_fine, "{share}");
    }
}

/// Breaks a valid graph in some way.
fn broken() -> impl Strategy<Value = Graph> {
    (graphs(12, 3), any::<prop::sample::Index>(), 0_u32..40, 0_u8..12).prop_map(|(mut graph, index, id, way)| {
        let at = index.index(graph.ops.len());
        let tensor = index.index(graph.tensors.len());
        match way {
            0 => graph.ops[at].inputs.push(TensorId(id)),
            1 => graph.ops[at].outputs.push(TensorId(id)),
            2 => graph.ops[at].after.push(OpId(id)),
            3 => graph.ops[at].waits.push(EventId(id % 8)),
            4 => graph.ops[at].records.push(EventId(id % 8)),
            5 => graph.ops[at].stream = StreamId(id % 6),
            6 => graph.tensors[tensor].alias_of = Some(TensorId(id)),
            7 => graph.tensors[tensor].bytes = Bytes(u64::MAX >> (id % 3)),
            8 => graph.results.push(TensorId(id)),
            9 => graph.loss = Some(TensorId(id)),
            10 => graph.ops[at].in_place.push(InPlace { input: TensorId(id), output: TensorId(id / 2) }),
            _ => graph.ops.reverse(),
        }
        graph
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2000))]

    #[test]
    fn what_passes_the_check_can_be_analysed_and_nothing_panics(graph in broken()) {
        let verdict = check(&graph);
        for order in [Order::Given, Order::Memory] {
            let analysis = analyse(&graph, &AnalysisOptions { order, ..Default::default() });
            prop_assert_eq!(analysis.map(drop), verdict.clone());
        }
    }
}
