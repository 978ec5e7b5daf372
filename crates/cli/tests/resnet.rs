//! Tiers of a network whose answers are known: in a forward pass nothing waits for a backward op, in training each
//! ReLU's output does.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod support;

use std::collections::HashSet;

use serde_json::Value;
use support::{Folder, Report, gunzip, shared, text_of};

const TRAINING: &str = "graphs/torch/torch-resnet50-b64-fp32.graph.json.gz";

/// The corpus' training graph, cut down to its forward pass: the ops up to the logits, the logits the only result.
/// `phase` is used for nothing but the cut, and taken out.
fn forward_only(training: &str) -> Value {
    let mut graph: Value = serde_json::from_str(training).unwrap();
    let mut nodes = graph["nodes"].as_array().unwrap().clone();
    nodes.retain(|node| node["phase"] == "forward");
    let log_softmax = nodes.iter().position(|node| node["op"] == "aten._log_softmax.default").unwrap();
    let logits = nodes[log_softmax]["inputs"][0].clone();
    nodes.truncate(log_softmax);
    assert!(nodes.last().unwrap()["outputs"].as_array().unwrap().contains(&logits));
    for node in &mut nodes {
        node.as_object_mut().unwrap().remove("phase");
    }
    // What only the backward pass and the optimizer made is gone with them.
    let made = nodes.iter().flat_map(|node| node["outputs"].as_array().unwrap());
    let made: HashSet<u64> = made.map(|id| id.as_u64().unwrap()).collect();
    graph["tensors"]
        .as_array_mut()
        .unwrap()
        .retain(|tensor| tensor["kind"] != "temp" || made.contains(&tensor["id"].as_u64().unwrap()));
    graph["name"] = "resnet50, forward only".into();
    graph["nodes"] = nodes.into();
    graph["results"] = Value::Array(vec![logits]);
    graph
}

/// Names of all ReLU outputs.
fn relus(graph: &Value) -> Vec<String> {
    let names = graph["nodes"].as_array().unwrap().iter().filter(|node| node["op"] == "aten.relu_.default");
    names.map(|node| node["name"].as_str().unwrap().to_owned()).collect()
}

fn explain(folder: &Folder, file: &str, names: &[String]) -> Vec<(String, String)> {
    let mut args = vec!["plan", file, "--no-baselines", "--node-limit", "0", "--quiet"];
    args.extend(names.iter().flat_map(|name| ["--explain", name]));
    let ran = support::Ran::of(folder.command(&args).output().unwrap()).ok();
    let sections: Vec<&str> = ran.stdout.trim().split("\n\n").collect();
    assert_eq!(sections.len(), names.len());
    let found = sections.into_iter().zip(names).map(|(section, name)| {
        assert_eq!(section.lines().next(), Some(name.as_str()));
        let tier = section.lines().find_map(|line| line.trim().strip_prefix("tier ")).unwrap();
        (name.clone(), tier.trim().to_owned())
    });
    found.collect()
}

#[test]
fn every_relu_of_a_forward_only_network_is_temporary() {
    let Some(path) = shared("graphs").map(|_| shared(".").unwrap().join(TRAINING)) else { return };
    let folder = Folder::new();
    let graph = forward_only(&gunzip(&path));
    folder.write("forward.json", graph.to_string());
    let names = relus(&graph);
    assert_eq!(names.len(), 49);
    for (name, tier) in explain(&folder, "forward.json", &names) {
        assert!(tier.starts_with("temporary: "), "{name}: {tier}");
    }
    let report: Report = folder.run("plan forward.json --json - --no-baselines").ok().report();
    let persistent = report.placements.iter().filter(|p| p.tier == "persistent");
    let names: HashSet<&str> = persistent.map(|p| p.name.as_str()).collect();
    assert!(!names.contains("x:0"), "the batch is persistent");
    assert!(names.len() > 200, "weights are not persistent: {names:?}");
}

#[test]
fn in_training_the_backward_op_that_holds_a_relu_is_named() {
    let Some(path) = shared("graphs").map(|_| shared(".").unwrap().join(TRAINING)) else { return };
    let folder = Folder::new();
    let names = relus(&serde_json::from_str(&gunzip(&path)).unwrap());
    assert!(names.contains(&"relu_".to_owned()));
    for (name, tier) in explain(&folder, &text_of(&path), &names) {
        assert!(tier.starts_with("cyclic: made by "), "{name}: {tier}");
        assert!(tier.contains("before the loss nll_loss_forward"), "{name}: {tier}");
        assert!(tier.contains("held for threshold_backward"), "{name}: {tier}");
    }
}
