//! Tiers and the turning point, on small graphs.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod random;

use lifetime::{
    Analysis, AnalysisOptions, DType, HalfStep, OpId, TensorId, TensorKind, Tier, TierRule, TurningPoint, analyse,
};
use random::Builder;

/// A training step of a few layers: forward, loss, backward, updates.
struct Training {
    b: Builder,
    weights: Vec<TensorId>,
    batch: TensorId,
    /// What each layer makes, which backward reads.
    activations: Vec<TensorId>,
    loss: TensorId,
    gradients: Vec<TensorId>,
}

impl Training {
    fn new(layers: usize) -> Self {
        let mut b = Builder::default();
        let weights: Vec<_> = (0..layers).map(|i| b.input(&format!("w{i}"), 100, TensorKind::Parameter)).collect();
        let batch = b.input("batch", 64, TensorKind::Input);
        let mut x = batch;
        let mut activations = Vec::new();
        for (i, &weight) in weights.iter().enumerate() {
            let sum = b.op(&format!("matmul{i}"), &[x, weight], 64);
            x = b.op(&format!("relu{i}"), &[sum], 64);
            activations.push(x);
        }
        let loss = b.op("loss", &[x], 4);
        b.graph.results = vec![loss];
        Self { b, weights, batch, activations, loss, gradients: Vec::new() }
    }

    fn backward(mut self) -> Self {
        let mut gradient = self.b.op("loss_backward", &[*self.activations.last().unwrap()], 64);
        for i in (0..self.weights.len()).rev() {
            let masked = self.b.op(&format!("relu{i}_backward"), &[gradient, self.activations[i]], 64);
            let input = if i == 0 { self.batch } else { self.activations[i - 1] };
            self.gradients.push(self.b.op(&format!("gradient{i}"), &[masked, input], 100));
            gradient = self.b.op(&format!("matmul{i}_backward"), &[masked, self.weights[i]], 64);
        }
        self
    }

    fn updates(mut self) -> Self {
        for (i, &gradient) in self.gradients.clone().iter().rev().enumerate() {
            self.b.mutate(&format!("update{i}"), self.weights[i], &[gradient]);
        }
        self
    }

    fn op(&self, name: &str) -> OpId {
        OpId(self.b.graph.ops.iter().position(|op| op.name == name).unwrap() as u32)
    }
}

/// The long-lived rule is left out: on a few ops everything lives long.
fn run(b: &Builder) -> Analysis {
    analyse(&b.graph, &AnalysisOptions { long_lived_share: 2.0, ..AnalysisOptions::default() }).unwrap()
}

fn rule(analysis: &Analysis, name: &str) -> (Tier, TierRule) {
    let buffer = analysis.buffers.iter().find(|buffer| buffer.name == name).unwrap();
    (buffer.tier, buffer.rule)
}

/// Names of the cyclic buffers.
fn cyclic(analysis: &Analysis) -> Vec<&str> {
    analysis.buffers.iter().filter(|b| b.tier == Tier::Cyclic).map(|b| b.name.as_str()).collect()
}

#[test]
fn what_backward_reads_is_cyclic_and_the_rest_temporary() {
    let t = Training::new(3).backward().updates();
    let analysis = run(&t.b);
    assert_eq!(cyclic(&analysis), ["batch", "relu0", "relu1", "relu2"]);
    let across = TierRule::AcrossTurningPoint {
        producer: Some(t.op("relu1")),
        reader: t.op("gradient2").max(t.op("relu1_backward")),
    };
    assert_eq!(rule(&analysis, "relu1"), (Tier::Cyclic, across));
    assert_eq!(rule(&analysis, "w0"), (Tier::Persistent, TierRule::Kind));
    for name in ["matmul1", "loss", "gradient0"] {
        assert_eq!(rule(&analysis, name), (Tier::Temporary, TierRule::Rest), "{name}");
    }
    let loss = t.op("loss");
    let at = HalfStep(2 * u64::from(loss.0) + 2);
    assert_eq!(analysis.turning_point, Some(TurningPoint { op: loss, loss: t.loss, at }));
}

#[test]
fn a_batch_is_never_persistent() {
    let t = Training::new(2).backward();
    let handed_in = TierRule::AcrossTurningPoint { producer: None, reader: t.op("gradient0") };
    assert_eq!(rule(&run(&t.b), "batch"), (Tier::Cyclic, handed_in));
    let forward = Training::new(2);
    assert_eq!(rule(&run(&forward.b), "batch"), (Tier::Temporary, TierRule::Rest));
}

#[test]
fn every_kind_of_state_is_persistent() {
    let mut b = Builder::default();
    for (name, kind) in [
        ("parameter", TensorKind::Parameter),
        ("module state", TensorKind::ModuleState),
        ("optimizer state", TensorKind::OptimizerState),
        ("constant", TensorKind::Constant),
    ] {
        let x = b.input(name, 8, kind);
        b.op("reader", &[x], 8);
        assert_eq!(rule(&run(&b), name), (Tier::Persistent, TierRule::Kind));
    }
}

#[test]
fn a_forward_pass_has_nothing_cyclic() {
    let t = Training::new(4);
    assert_eq!(cyclic(&run(&t.b)), Vec::<&str>::new());
    let mut without_loss = Training::new(4);
    without_loss.b.graph.ops.pop();
    without_loss.b.graph.results = vec![without_loss.activations[3]];
    let analysis = run(&without_loss.b);
    assert_eq!((cyclic(&analysis).len(), analysis.turning_point), (0, None));
}

#[test]
fn the_norm_of_the_gradients_is_not_taken_for_the_loss() {
    let mut t = Training::new(4).backward();
    let norm = t.b.op("norm", &t.gradients, 4);
    t.b.graph.results.push(norm);
    let t = t.updates();
    let analysis = run(&t.b);
    assert_eq!(analysis.turning_point.unwrap().loss, t.loss);
    assert_eq!(cyclic(&analysis), ["batch", "relu0", "relu1", "relu2", "relu3"]);
}

#[test]
fn a_loss_on_the_way_is_not_taken_for_the_whole() {
    let mut b = Builder::default();
    let weights: Vec<_> = (0..6).map(|i| b.input(&format!("w{i}"), 100, TensorKind::Parameter)).collect();
    let mut x = b.input("batch", 64, TensorKind::Input);
    let mut auxiliary = Vec::new();
    for (i, &weight) in weights.iter().enumerate() {
        x = b.op(&format!("layer{i}"), &[x, weight], 64);
        if i == 2 {
            auxiliary.push(b.op("auxiliary loss", &[x], 4));
        }
    }
    let own = b.op("own loss", &[x], 4);
    let loss = b.op("loss", &[own, auxiliary[0]], 4);
    b.graph.results = vec![auxiliary[0], loss];
    assert_eq!(run(&b).turning_point.unwrap().loss, loss);
}

#[test]
fn the_losses_of_the_steps_of_a_recurrent_network_are_not_taken_for_its_loss() {
    let mut b = Builder::default();
    let weights: Vec<_> = (0..2).map(|i| b.input(&format!("w{i}"), 100, TensorKind::Parameter)).collect();
    let mut states = [b.op("first state", &[], 64), b.op("first state", &[], 64)];
    let mut losses = Vec::new();
    for step in 0..10 {
        for layer in 0..2 {
            let below = states[layer.max(1) - 1];
            states[layer] = b.op(&format!("step {step}"), &[weights[layer], states[layer], below], 64);
        }
        losses.push(b.op("loss of a step", &[states[1]], 4));
    }
    let loss = b.op("loss", &losses, 4);
    b.graph.results = losses;
    b.graph.results.push(loss);
    assert_eq!(run(&b).turning_point.unwrap().loss, loss);
}

#[test]
fn a_loss_between_the_halves_of_a_u_net_is_not_taken_for_the_whole() {
    let mut b = Builder::default();
    let weights: Vec<_> = (0..8).map(|i| b.input(&format!("w{i}"), 100, TensorKind::Parameter)).collect();
    let mut x = b.input("batch", 64, TensorKind::Input);
    let mut skipped = Vec::new();
    for &weight in &weights[..4] {
        x = b.op("down", &[x, weight], 64);
        skipped.push(x);
    }
    let middle = b.op("loss in the middle", &[x], 4);
    for &weight in &weights[4..] {
        x = b.op("up", &[x, weight, skipped.pop().unwrap()], 64);
    }
    let loss = b.op("loss", &[x], 4);
    b.graph.results = vec![middle, loss];
    assert_eq!(run(&b).turning_point.unwrap().loss, loss);
}

#[test]
fn a_counter_of_the_optimizer_is_not_the_loss() {
    let mut t = Training::new(2).backward().updates();
    let step = t.b.input("step", 4, TensorKind::OptimizerState);
    let counted = t.b.mutate("count", step, &[t.gradients[0]]);
    t.b.graph.results.push(counted);
    assert_eq!(run(&t.b).turning_point.unwrap().loss, t.loss);
}

#[test]
fn a_loss_that_a_compiler_sank_to_the_end_turns_where_its_last_large_part_is() {
    let mut t = Training::new(4).backward().updates();
    let sunk = t.op("loss").index();
    // The softmax is large and stays; the mean over it is small and sinks.
    t.b.graph.tensors[t.loss.index()].bytes.0 = 64;
    t.b.graph.tensors[t.loss.index()].shape = vec![64];
    let logits = t.loss;
    let mean = t.b.op("mean", &[logits], 4);
    t.b.graph.results = vec![mean];
    let analysis = run(&t.b);
    let point = analysis.turning_point.unwrap();
    assert_eq!((point.loss, point.op), (mean, t.op("mean")));
    assert_eq!(point.at, HalfStep(2 * sunk as u64 + 2));
    assert_eq!(cyclic(&analysis), ["batch", "relu0", "relu1", "relu2", "relu3"]);
}

#[test]
fn a_late_read_by_the_forward_pass_itself_holds_nothing() {
    let mut t = Training::new(3).backward();
    let late = t.b.op("late part of the loss", &[t.activations[0], t.loss], 4);
    t.b.graph.results = vec![late];
    // relu0 is read by its own backward before.
    let analysis = run(&t.b);
    let reader = t.op("gradient1");
    let across =
        TierRule::AcrossTurningPoint { producer: Some(t.op("relu0")), reader: reader.max(t.op("relu0_backward")) };
    assert_eq!(rule(&analysis, "relu0").1, across);
    assert_eq!(rule(&analysis, "loss"), (Tier::Temporary, TierRule::Rest));
}

#[test]
fn the_graphs_own_loss_decides() {
    let mut t = Training::new(3).backward().updates();
    t.b.graph.results.clear();
    assert_eq!(run(&t.b).turning_point, None);
    t.b.graph.loss = Some(t.loss);
    assert_eq!(cyclic(&run(&t.b)), ["batch", "relu0", "relu1", "relu2"]);
    t.b.graph.loss = Some(t.activations[1]);
    let analysis = run(&t.b);
    assert_eq!(analysis.turning_point.unwrap().op, t.op("relu1"));
}

#[test]
fn views_made_after_the_turning_point_hold_nothing() {
    let t = Training::new(2).backward();
    let early = TensorId(t.b.graph.tensors.iter().position(|tensor| tensor.name == "matmul0").unwrap() as u32);
    let mut b = t.b;
    let mut written = Builder { graph: b.graph.clone() };
    written.mutate("late write", early, &[]);
    assert_eq!(rule(&run(&written), "matmul0").0, Tier::Cyclic);
    let view = b.view("late view", early);
    assert_eq!(rule(&run(&b), "matmul0"), (Tier::Temporary, TierRule::Rest));
    b.op("reads the late view", &[view], 8);
    assert_eq!(rule(&run(&b), "matmul0").0, Tier::Cyclic);
}

#[test]
fn a_number_that_is_not_floating_point_is_not_the_loss() {
    let mut t = Training::new(2);
    let count = t.b.op("count", &[t.loss], 4);
    t.b.graph.results.push(count);
    assert_eq!(run(&t.b).turning_point.unwrap().loss, count);
    t.b.graph.tensors[count.index()].dtype = DType::I64;
    assert_eq!(run(&t.b).turning_point.unwrap().loss, t.loss);
}

#[test]
fn hints_decide_over_every_rule() {
    for tier in Tier::ALL {
        let mut t = Training::new(2).backward().updates();
        for id in [t.weights[0], t.activations[0], t.gradients[0]] {
            t.b.graph.tensors[id.index()].tier_hint = Some(tier);
        }
        let analysis = run(&t.b);
        for name in ["w0", "relu0", "gradient1"] {
            assert_eq!(rule(&analysis, name), (tier, TierRule::Hint));
        }
    }
}

#[test]
fn a_buffer_that_lives_over_the_share_is_cyclic() {
    let mut b = Builder::default();
    let long = b.op("long", &[], 8);
    let short = b.op("short", &[], 8);
    b.op("reads short", &[short], 8);
    for i in 0..5 {
        b.op(&format!("filler {i}"), &[], 8);
    }
    b.op("reads long", &[long], 8);
    b.op("last", &[], 8);
    let at = |share: f64| {
        analyse(&b.graph, &AnalysisOptions { long_lived_share: share, ..AnalysisOptions::default() }).unwrap()
    };
    // 17 of 20 half-steps, and 3 of 20.
    assert_eq!(rule(&at(0.85), "long"), (Tier::Cyclic, TierRule::LongLived { share_ppm: 850_000 }));
    assert_eq!(rule(&at(0.86), "long"), (Tier::Temporary, TierRule::Rest));
    assert_eq!(cyclic(&at(0.25)), ["long"]);
    assert_eq!(rule(&at(0.15), "short").0, Tier::Cyclic);
}

#[test]
fn a_workspace_is_temporary_however_short_the_step() {
    let mut b = Builder::default();
    b.op("only", &[], 8);
    b.last().workspace.0 = 100;
    let analysis = analyse(&b.graph, &AnalysisOptions::default()).unwrap();
    assert_eq!(rule(&analysis, "only.workspace"), (Tier::Temporary, TierRule::Rest));
}
