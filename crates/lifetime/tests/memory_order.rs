//! `Order::Memory`: valid, never worse, close to the best order where that can be found, good where branches are wide.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod random;

use lifetime::{Analysis, AnalysisOptions, Graph, Order, TensorId, Tier, analyse};
use proptest::prelude::*;
use random::{Builder, graphs};

fn run(graph: &Graph, order: Order) -> Analysis {
    analyse(graph, &AnalysisOptions { order, ..AnalysisOptions::default() }).unwrap()
}

fn load(analysis: &Analysis) -> u64 {
    analysis.max_load(|buffer| buffer.tier != Tier::Persistent).0
}

/// The lowest load any order reaches, by trying every set of ops that may have run.
fn best_load(graph: &Graph) -> u64 {
    let ops = graph.ops.len();
    let after = random::comes_after(graph);
    let storages = random::storages(graph);
    let mut best = vec![u64::MAX; 1 << ops];
    best[0] = 0;
    for done in 0..1_usize << ops {
        if best[done] == u64::MAX {
            continue;
        }
        for op in (0..ops).filter(|&op| done & (1 << op) == 0) {
            if (0..ops).any(|other| after[op][other] && done & (1 << other) == 0) {
                continue;
            }
            let with = done | (1 << op);
            let live = storages.iter().filter(|storage| storage.is_live(done, with));
            let during = live.map(|storage| storage.bytes).sum::<u64>() + graph.ops[op].workspace.0;
            best[with] = best[with].min(best[done].max(during));
        }
    }
    best[(1 << ops) - 1]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]

    #[test]
    fn the_order_keeps_every_dependency_and_is_never_worse(graph in graphs(40, 3)) {
        let (given, found) = (run(&graph, Order::Given), run(&graph, Order::Memory));
        prop_assert!(load(&found) <= load(&given));
        let after = random::comes_after(&graph);
        let mut has_run = vec![false; graph.ops.len()];
        for op in &found.order {
            for other in 0..graph.ops.len() {
                prop_assert!(!after[op.index()][other] || has_run[other], "op {} runs before op {other}", op.0);
            }
            prop_assert!(!std::mem::replace(&mut has_run[op.index()], true));
        }
        prop_assert!(has_run.iter().all(|&run| run));
        prop_assert_eq!(found, run(&graph, Order::Memory));
    }

    #[test]
    fn no_order_is_better_than_the_best(graph in graphs(9, 1)) {
        let mut graph = graph;
        graph.ops.iter_mut().for_each(|op| op.in_place.clear());
        prop_assert!(load(&run(&graph, Order::Memory)) >= best_load(&graph));
    }
}

#[test]
fn the_best_order_of_a_small_graph_is_found_nearly_always() {
    use proptest::{strategy::ValueTree, test_runner::TestRunner};
    let mut runner = TestRunner::deterministic();
    let (mut best_found, mut given_best, mut worst, cases) = (0, 0, 1.0_f64, 1500);
    for _ in 0..cases {
        let mut graph = graphs(11, 1).new_tree(&mut runner).unwrap().current();
        graph.ops.iter_mut().for_each(|op| op.in_place.clear());
        // Inputs that nobody uses count at whichever op comes first, and the search doesn't look at them.
        for id in 0..graph.tensors.len() as u32 {
            if random::touching(&graph, TensorId(id)) == 0 {
                graph.tensors[id as usize].bytes.0 = 0;
            }
        }
        let (best, found) = (best_load(&graph), load(&run(&graph, Order::Memory)));
        best_found += u32::from(found == best);
        given_best += u32::from(load(&run(&graph, Order::Given)) == best);
        if best > 0 {
            worst = worst.max(found as f64 / best as f64);
        }
    }
    println!(
        "best order found in {best_found} of {cases} (given order: {given_best}), at worst {worst:.3} of the best"
    );
    assert!(best_found * 100 >= cases * 99);
    assert!(worst <= 1.2);
}

#[test]
fn independent_branches_run_one_after_another() {
    let mut b = Builder::default();
    let large: Vec<_> = (0..200).map(|i| b.op(&format!("make {i}"), &[], 1000)).collect();
    let small: Vec<_> = (0..200).map(|i| b.op(&format!("reduce {i}"), &[large[i]], 1)).collect();
    let sum = b.op("sum", &small, 1);
    b.graph.results = vec![sum];
    assert_eq!(load(&run(&b.graph, Order::Given)), 200 * 1000 + 1);
    assert_eq!(load(&run(&b.graph, Order::Memory)), 1000 + 200);
}

#[test]
fn deep_branches_that_grow_before_they_shrink_run_one_after_another() {
    let mut b = Builder::default();
    let mut ends: Vec<_> = (0..50).map(|i| b.op(&format!("make {i}"), &[], 10)).collect();
    // All branches take each step together, as a breadth-first schedule would.
    for (step, bytes) in [100, 1000, 4000, 1000, 100, 10].into_iter().enumerate() {
        ends = ends.iter().enumerate().map(|(i, &x)| b.op(&format!("step {step} of {i}"), &[x], bytes)).collect();
    }
    let sum = b.op("sum", &ends, 1);
    b.graph.results = vec![sum];
    assert_eq!(load(&run(&b.graph, Order::Given)), 50 * 4000 + 1000);
    assert_eq!(load(&run(&b.graph, Order::Memory)), 5000 + 49 * 10);
}

#[test]
fn what_nothing_can_improve_keeps_the_given_order() {
    let mut b = Builder::default();
    let mut x = b.op("first", &[], 100);
    for i in 0..20 {
        x = b.op(&format!("op {i}"), &[x], 100);
    }
    b.graph.results = vec![x];
    let (given, found) = (run(&b.graph, Order::Given), run(&b.graph, Order::Memory));
    assert_eq!(given, found);
}

#[test]
fn without_a_budget_the_given_order_stands() {
    let mut b = Builder::default();
    let large: Vec<_> = (0..20).map(|i| b.op(&format!("make {i}"), &[], 1000)).collect();
    for x in large {
        b.op("reduce", &[x], 1);
    }
    let options = AnalysisOptions { order: Order::Memory, order_budget: 0, ..AnalysisOptions::default() };
    assert_eq!(analyse(&b.graph, &options).unwrap(), run(&b.graph, Order::Given));
}
