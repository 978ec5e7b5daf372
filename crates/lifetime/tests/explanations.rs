//! What is said about a buffer.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod random;

use lifetime::{
    Analysis, AnalysisOptions, Bound, BufferId, Bytes, Error, Graph, InPlace, Subject, TensorId, TensorKind, Tier,
    TierRule, analyse, explain,
};
use random::Builder;

fn sample() -> (Graph, Analysis) {
    let mut b = Builder::default();
    let weight = b.input("weight", 8, TensorKind::Parameter);
    let x = b.op("x", &[weight], 8);
    let view = b.view("view of x", x);
    let y = b.in_place("y", &[view], 8);
    b.last().workspace = Bytes(3);
    let z = b.op("z", &[y], 5);
    let empty = b.op("empty", &[], 0);
    b.view("view of empty", empty);
    b.tensor("unused", 8);
    b.tensor("z", 8);
    b.op("last", &[y], 8);
    b.graph.results = vec![z];
    let options = AnalysisOptions { long_lived_share: 2.0, ..AnalysisOptions::default() };
    let analysis = analyse(&b.graph, &options).unwrap();
    (b.graph, analysis)
}

fn named(name: &str) -> Result<lifetime::Explanation, Error> {
    let (graph, analysis) = sample();
    explain(&graph, &analysis, Subject::Name(name))
}

#[test]
fn a_tensor_is_found_by_name_through_aliases_and_in_place_writes() {
    for name in ["x", "view of x", "y"] {
        let found = named(name).unwrap();
        assert_eq!(found.name, "x");
        let users: Vec<_> = found.used_by.iter().map(|op| (op.name.as_str(), op.position)).collect();
        assert_eq!(users, [("x", 0), ("view of x", 1), ("y", 2), ("z", 3), ("last", 6)]);
        assert_eq!(found.producer.as_ref().map(|op| op.name.as_str()), Some("x"));
        assert_eq!(found.in_place.len(), 1);
        assert_eq!(
            (found.in_place[0].op.name.as_str(), found.in_place[0].pair),
            ("y", InPlace { input: TensorId(2), output: TensorId(3) })
        );
    }
    assert_eq!(named("y").unwrap().tensor, Some(TensorId(3)));
}

#[test]
fn a_workspace_is_found_by_the_name_of_its_op() {
    let found = named("y.workspace").unwrap();
    assert_eq!((found.bytes, found.tensor, found.used_by.len()), (Bytes(3), None, 1));
    assert_eq!(found.used_by[0].name, "y");
}

#[test]
fn bounds_name_ops_with_their_places() {
    let found = named("y").unwrap();
    assert!(matches!(&found.born_by, Bound::Op(op) if (op.name.as_str(), op.position) == ("x", 0)));
    assert!(matches!(&found.dies_by, Bound::Op(op) if (op.name.as_str(), op.position) == ("last", 6)));
    let kept = named("z").unwrap();
    assert_eq!((kept.dies_by, kept.namesakes), (Bound::Step, 1));
    let weight = named("weight").unwrap();
    assert_eq!((weight.tier, weight.rule, weight.producer), (Tier::Persistent, TierRule::Kind, None));
}

#[test]
fn a_tensor_without_bytes_says_why() {
    for name in ["empty", "view of empty"] {
        assert!(matches!(named(name), Err(Error::NotPlaced { zero_byte: true, .. })));
    }
    assert!(matches!(named("unused"), Err(Error::NotPlaced { zero_byte: false, .. })));
}

#[test]
fn an_unknown_name_brings_similar_ones() {
    let Err(Error::UnknownName { similar, .. }) = named("WEIGHT_2") else { panic!("found") };
    assert_eq!(similar, ["weight"]);
    let Err(Error::UnknownName { similar, .. }) = named("vie") else { panic!("found") };
    assert_eq!(similar, ["view of x", "view of empty"]);
    let (graph, analysis) = sample();
    let unknown = explain(&graph, &analysis, Subject::Buffer(BufferId(99)));
    assert!(matches!(unknown, Err(Error::UnknownBuffer { id: 99, .. })));
    assert!(explain(&graph, &analysis, Subject::Tensor(TensorId(99))).is_err());
}

#[test]
fn every_buffer_and_every_tensor_in_it_has_the_same_explanation() {
    let (graph, analysis) = sample();
    let holders = analysis.buffer_of_tensor(graph.tensors.len());
    for id in (0..analysis.buffers.len() as u32).map(BufferId) {
        let whole = explain(&graph, &analysis, Subject::Buffer(id)).unwrap();
        for &tensor in &whole.tensors {
            assert_eq!(holders[tensor.index()], Some(id));
            let found = explain(&graph, &analysis, Subject::Tensor(tensor)).unwrap();
            assert_eq!((found.buffer, found.tensor), (id, Some(tensor)));
        }
    }
}
