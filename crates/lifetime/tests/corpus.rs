//! Real graphs: loads, tiers against the phases that the corpus knows, and what is said about activations.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod common;

use common::{Phase, Sample, files, hlo, name, owner, torch, touches};
use lifetime::{
    Analysis, AnalysisOptions, Buffer, BufferSource, Order, Subject, TensorId, TensorKind, Tier, TierRule, analyse,
    explain,
};

fn run(graph: &lifetime::Graph) -> Analysis {
    analyse(graph, &AnalysisOptions::default()).unwrap()
}

/// What the design's rule says, read off the corpus' phases: persistent by kind; cyclic if made in forward, or handed
/// in, and last read later, or if live over a quarter of the step. `None` where an op that matters has no phase.
fn truth(sample: &Sample, analysis: &Analysis) -> Vec<Option<Tier>> {
    let graph = &sample.graph;
    let touches = touches(graph);
    let tier = |buffer: &Buffer| {
        let BufferSource::Storage(owner) = buffer.source else { return Some(Tier::Temporary) };
        let phases: Vec<Phase> = touches[owner.index()].iter().map(|op| sample.phases[op.index()]).collect();
        let kind = graph.tensors[owner.index()].kind;
        if !matches!(kind, TensorKind::Intermediate | TensorKind::Input) {
            return Some(Tier::Persistent);
        }
        if 4 * buffer.range.half_steps() >= analysis.end.0 {
            return Some(Tier::Cyclic);
        }
        let first = if kind == TensorKind::Input { Some(Phase::Forward) } else { phases.first().copied() };
        match (first, phases.last().copied()) {
            (Some(Phase::Unknown), _) | (_, Some(Phase::Unknown)) => None,
            (Some(Phase::Forward), Some(Phase::Backward | Phase::Optimizer)) => Some(Tier::Cyclic),
            _ => Some(Tier::Temporary),
        }
    };
    analysis.buffers.iter().map(tier).collect()
}

/// Shares of the tensors, and of the bytes, whose tiers agree. `strict` counts as temporary what has no phase.
fn agreement(sample: &Sample, strict: bool) -> (f64, f64) {
    let analysis = run(&sample.graph);
    let truth = truth(sample, &analysis);
    let (mut agree, mut all) = ((0_u64, 0_u64), (0_u64, 0_u64));
    for (buffer, truth) in analysis.buffers.iter().zip(&truth) {
        let Some(truth) = truth.or(strict.then_some(Tier::Temporary)) else { continue };
        all = (all.0 + 1, all.1 + buffer.bytes.0);
        if buffer.tier == truth {
            agree = (agree.0 + 1, agree.1 + buffer.bytes.0);
        }
    }
    let shares = (agree.0 as f64 / all.0 as f64, agree.1 as f64 / all.1 as f64);
    println!("{}: {:.3} % of tensors, {:.3} % of bytes", sample.graph.name, 100.0 * shares.0, 100.0 * shares.1);
    shares
}

#[test]
fn tiers_of_torch_graphs_agree_with_their_phases() {
    for path in files("torch") {
        let (tensors, bytes) = agreement(&torch::read(&path), true);
        assert!(tensors >= 0.999 && bytes >= 0.999, "{}", name(&path));
    }
}

#[test]
fn tiers_of_xla_graphs_agree_with_their_phases() {
    for path in files("xla") {
        let sample = hlo::read(&path);
        agreement(&sample, true);
        let (tensors, bytes) = agreement(&sample, false);
        // On the CPU the barrier that keeps a block's second forward pass behind the loss is dropped. Its schedule makes
        // parts of that pass before the loss, where by the design's rule they are cyclic.
        if !name(&path).starts_with("xla-cpu") || !name(&path).ends_with("-remat") {
            assert!(tensors >= 0.98 && bytes >= 0.99, "{}", name(&path));
        }
    }
}

#[test]
fn loads_of_torch_graphs_are_those_of_the_corpus() {
    for path in files("torch") {
        let sample = torch::read(&path);
        let analysis = run(&sample.graph);
        let graph = &sample.graph;
        let is_temp = |buffer: &Buffer| graph.tensors[buffer.tensors[0].index()].kind == TensorKind::Intermediate;
        let rows = common::csv(&path.with_file_name(format!("{}.temp.csv.gz", name(&path))));
        let mut events: Vec<(u64, i128)> = Vec::new();
        for row in &rows {
            events.extend([(row[1], i128::from(row[3])), (row[2], -i128::from(row[3]))]);
        }
        events.sort_unstable();
        let (mut live, mut peak) = (0, 0);
        for (_, change) in events {
            live += change;
            peak = peak.max(live);
        }
        assert_eq!(i128::from(analysis.max_load(is_temp).0), peak, "{}", name(&path));
        assert_eq!(analysis.buffers.iter().filter(|&buffer| is_temp(buffer)).count(), rows.len());
    }
}

/// The storages that a ReLU writes, in place as torch does.
fn relu_outputs(graph: &lifetime::Graph) -> Vec<TensorId> {
    graph.ops.iter().filter(|op| op.kind.starts_with("aten.relu")).map(|op| op.outputs[0]).collect()
}

#[test]
fn in_a_forward_only_resnet_every_relu_output_is_temporary() {
    for path in files("torch").into_iter().filter(|path| name(path).contains("resnet")) {
        let graph = torch::forward_only(&torch::read(&path));
        let analysis = run(&graph);
        assert_eq!(analysis.turning_point, None);
        let holders = analysis.buffer_of_tensor(graph.tensors.len());
        let outputs = relu_outputs(&graph);
        assert_eq!(outputs.len(), 49);
        for output in outputs {
            assert_eq!(analysis.buffers[holders[output.index()].unwrap().index()].tier, Tier::Temporary);
        }
    }
}

#[test]
fn in_training_the_explanation_names_the_backward_op_that_holds_a_relu_output() {
    for path in files("torch").into_iter().filter(|path| name(path).contains("resnet")) {
        let sample = torch::read(&path);
        let graph = &sample.graph;
        let analysis = run(graph);
        for output in relu_outputs(graph) {
            let found = explain(graph, &analysis, Subject::Tensor(output)).unwrap();
            assert_eq!(found.tier, Tier::Cyclic);
            let TierRule::AcrossTurningPoint { reader, .. } = found.rule else { panic!("{:?}", found.rule) };
            assert_eq!(sample.phases[reader.index()], Phase::Backward);
            let reads = graph.ops[reader.index()].inputs.iter().any(|&id| owner(graph, id) == owner(graph, output));
            assert!(reads, "{} reads it", found.decided_by[2].name);
            assert_eq!(found.decided_by[2].op, reader);
            let loss = &found.decided_by[1];
            assert!(loss.kind.contains("nll_loss_forward"), "{}", loss.kind);
        }
    }
}

#[test]
fn a_memory_order_of_a_real_graph_is_never_worse() {
    let load = |analysis: &Analysis| analysis.max_load(|buffer| buffer.tier != Tier::Persistent).0;
    let samples = files("torch").into_iter().map(|path| torch::read(&path));
    for sample in samples.chain(files("xla").into_iter().map(|path| hlo::read(&path))) {
        let given = run(&sample.graph);
        let options = AnalysisOptions { order: Order::Memory, ..AnalysisOptions::default() };
        let found = analyse(&sample.graph, &options).unwrap();
        println!("{}: {:.4}", sample.graph.name, load(&found) as f64 / load(&given) as f64);
        assert!(load(&found) <= load(&given));
    }
}
