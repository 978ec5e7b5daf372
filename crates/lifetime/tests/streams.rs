//! Several streams: what isn't proven to be over is kept apart.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod random;

use lifetime::{Analysis, AnalysisOptions, Buffer, BufferId, BufferSource, EventId, Graph, StreamId, Tier, analyse};
use proptest::prelude::*;
use random::{Builder, graphs};

fn two_streams() -> Builder {
    let mut b = Builder::default();
    b.graph.streams = vec!["compute".to_owned(), "copy".to_owned()];
    b
}

/// The pairs that need a separation, by looking at each pair of uses.
fn plain_separations(graph: &Graph, analysis: &Analysis) -> Vec<(BufferId, BufferId)> {
    let after = random::runs_after(graph);
    let users = |buffer: &Buffer| -> Vec<usize> {
        let uses = |op: &lifetime::Op| op.inputs.iter().chain(&op.outputs).any(|id| buffer.tensors.contains(id));
        match buffer.source {
            BufferSource::Workspace(op) => vec![op.index()],
            BufferSource::Storage(_) => (0..graph.ops.len()).filter(|&op| uses(&graph.ops[op])).collect(),
        }
    };
    let users: Vec<Vec<usize>> = analysis.buffers.iter().map(users).collect();
    let mut pairs = Vec::new();
    for (a, first) in analysis.buffers.iter().enumerate() {
        for (b, second) in analysis.buffers.iter().enumerate() {
            let is_earlier = first.range.death <= second.range.birth;
            let is_proven = users[a].iter().all(|&u| users[b].iter().all(|&v| after[v][u]));
            if is_earlier && !is_proven {
                pairs.push((BufferId(a.min(b) as u32), BufferId(a.max(b) as u32)));
            }
        }
    }
    pairs.sort();
    pairs
}

fn separated(analysis: &Analysis) -> Vec<(&str, &str)> {
    let name = |id: BufferId| analysis.buffers[id.index()].name.as_str();
    analysis.separations.iter().map(|&(a, b)| (name(a), name(b))).collect()
}

#[test]
fn without_an_event_a_buffer_of_another_stream_is_not_known_to_be_dead() {
    let mut b = two_streams();
    let x = b.op("x", &[], 8);
    b.op("copy of x", &[x], 8);
    b.last().stream = StreamId(1);
    b.op("y", &[], 8);
    let analysis = analyse(&b.graph, &AnalysisOptions::default()).unwrap();
    assert_eq!(separated(&analysis), [("x", "y"), ("copy of x", "y")]);
}

#[test]
fn an_event_proves_that_a_buffer_is_dead() {
    let mut b = two_streams();
    b.graph.events = vec!["copied".to_owned()];
    let x = b.op("x", &[], 8);
    b.op("copy of x", &[x], 8);
    b.last().stream = StreamId(1);
    b.last().records = vec![EventId(0)];
    b.op("y", &[], 8);
    b.last().waits = vec![EventId(0)];
    b.op("z", &[], 8);
    assert_eq!(separated(&analyse(&b.graph, &AnalysisOptions::default()).unwrap()), []);
}

#[test]
fn a_tensor_handed_to_another_stream_counts_as_a_wait() {
    let mut b = two_streams();
    b.op("before", &[], 8);
    let x = b.op("x", &[], 8);
    b.op("copy of x", &[x], 8);
    b.last().stream = StreamId(1);
    let analysis = analyse(&b.graph, &AnalysisOptions::default()).unwrap();
    assert_eq!(separated(&analysis), [], "`before` was over before x was made");
}

#[test]
fn parts_of_a_whole_are_separated_from_what_only_one_of_their_makers_knows_to_be_dead() {
    let mut b = two_streams();
    let before = b.op("before", &[], 8);
    let left = b.op("left", &[before], 4);
    let right = b.op("right", &[], 4);
    b.last().stream = StreamId(1);
    let whole = b.op("whole", &[left, right], 8);
    b.graph.tensors[left.index()].alias_of = Some(whole);
    b.graph.tensors[right.index()].alias_of = Some(whole);
    b.op("reader", &[whole], 8);
    let analysis = analyse(&b.graph, &AnalysisOptions::default()).unwrap();
    assert_eq!(separated(&analysis), [], "whole begins while `before` is live");
    b.graph.ops[1].inputs.clear();
    let analysis = analyse(&b.graph, &AnalysisOptions::default()).unwrap();
    assert_eq!(separated(&analysis), [("before", "whole")], "the maker of `right` knows nothing of `before`");
}

#[test]
fn one_stream_needs_no_separations_whatever_it_is_called() {
    let mut b = two_streams();
    b.op("x", &[], 8);
    b.last().stream = StreamId(1);
    b.op("y", &[], 8);
    b.last().stream = StreamId(1);
    assert_eq!(separated(&analyse(&b.graph, &AnalysisOptions::default()).unwrap()), []);
}

#[test]
fn past_the_limit_buffers_are_kept_longer_instead() {
    let mut b = two_streams();
    for i in 0..100 {
        b.op(&format!("op {i}"), &[], 8);
        b.last().stream = StreamId(i % 2);
    }
    let all = analyse(&b.graph, &AnalysisOptions::default()).unwrap();
    assert_eq!(all.separations.len(), 50 * 50, "each pair across the streams");
    let options = AnalysisOptions { max_separations: 1000, ..AnalysisOptions::default() };
    let limited = analyse(&b.graph, &options).unwrap();
    assert!(limited.separations.len() <= 1000 && limited.separations.len() > 800);
    let conflict = |analysis: &Analysis, a: usize, b: usize| {
        analysis.buffers[a].range.overlaps(analysis.buffers[b].range)
            || analysis.separations.contains(&(BufferId(a as u32), BufferId(b as u32)))
    };
    for (a, b) in (0..100).flat_map(|b| (0..b).map(move |a| (a, b))) {
        assert!(conflict(&limited, a, b) || !conflict(&all, a, b), "{a} and {b}");
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(1500))]

    #[test]
    fn exactly_the_unproven_pairs_are_separated(graph in graphs(24, 4), reuse_in_place in any::<bool>()) {
        let analysis = analyse(&graph, &AnalysisOptions { reuse_in_place, ..Default::default() }).unwrap();
        prop_assert_eq!(&analysis.separations, &plain_separations(&graph, &analysis));
    }

    #[test]
    fn limits_never_lose_a_conflict(graph in graphs(24, 4), max_separations in 0_usize..20) {
        let all = analyse(&graph, &AnalysisOptions::default()).unwrap();
        let limited = analyse(&graph, &AnalysisOptions { max_separations, ..Default::default() }).unwrap();
        prop_assert!(limited.separations.len() <= max_separations);
        for &(a, b) in &all.separations {
            let overlap = limited.buffers[a.index()].range.overlaps(limited.buffers[b.index()].range);
            prop_assert!(overlap || limited.separations.contains(&(a, b)));
        }
        for (all, limited) in all.buffers.iter().zip(&limited.buffers) {
            prop_assert!(limited.range.birth == all.range.birth && limited.range.death >= all.range.death);
            prop_assert!(limited.tier != Tier::Persistent || limited.range == all.range);
        }
    }
}
