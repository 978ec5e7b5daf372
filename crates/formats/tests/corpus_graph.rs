//! `gpumem-corpus-graph/1`: how a framework's graph becomes ours.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod support;

use lifetime::{Bytes, DType, TensorId, TensorKind};
use support::{graph, names, refusal};

fn file(tensors: &str, nodes: &str, results: &str) -> String {
    format!(
        r#"{{"format":"gpumem-corpus-graph/1","name":"n","tensors":[{tensors}],"nodes":[{nodes}],"results":[{results}]}}"#
    )
}

fn tensor(id: u32, bytes: u64, rest: &str) -> String {
    format!(r#"{{"id":{id},"name":"t{id}","dtype":"f32","shape":[{bytes}],"bytes":{bytes},"kind":"temp"{rest}}}"#)
}

#[test]
fn kinds_of_tensors_are_the_corpus_words() {
    let kinds = ["param", "buffer", "optimizer_state", "input", "constant", "temp"];
    let tensors: Vec<String> = (0..).zip(kinds).map(|(id, kind)| tensor(id, 4, "").replace("temp", kind)).collect();
    let read = graph(file(&tensors.join(","), "", "5"));
    let found: Vec<TensorKind> = read.tensors.iter().map(|tensor| tensor.kind).collect();
    use TensorKind::{Constant, Input, Intermediate, ModuleState, OptimizerState, Parameter};
    assert_eq!(found, [Parameter, ModuleState, OptimizerState, Input, Constant, Intermediate]);
    assert_eq!(read.results, [TensorId(5)]);
    assert_eq!(read.name, "n");
}

#[test]
fn ids_need_not_be_positions() {
    let read = graph(file(
        &[tensor(70, 4, ""), tensor(3, 8, r#","alias_of":70"#)].join(","),
        r#"{"name":"op","op":"aten.view.default","inputs":[70],"outputs":[3]}"#,
        "3",
    ));
    assert_eq!(read.tensors[1].alias_of, Some(TensorId(0)));
    assert_eq!(names(&read, &read.ops[0].inputs), ["t70"]);
    assert_eq!(names(&read, &read.ops[0].outputs), ["t3"]);
    assert_eq!(names(&read, &read.results), ["t3"]);
}

#[test]
fn an_alias_needs_no_more_than_its_storage_has() {
    // An expanded view: 400 bytes of elements on a storage of 4.
    let read = graph(file(&[tensor(0, 4, ""), tensor(1, 400, r#","alias_of":0"#)].join(","), "", ""));
    assert_eq!(read.tensors[1].bytes, Bytes(4));
    // A slice that keeps a larger storage alive, as stated on any of its tensors.
    let whole = r#","alias_of":0,"storage_bytes":64"#;
    let read = graph(file(&[tensor(0, 4, ""), tensor(1, 400, whole)].join(","), "", ""));
    assert_eq!(read.tensors[0].bytes, Bytes(64));
    assert_eq!(read.tensors[1].bytes, Bytes(64));
}

#[test]
fn an_underscore_means_that_the_op_writes_into_its_argument() {
    let tensors =
        [tensor(0, 4, ""), tensor(1, 4, r#","alias_of":0"#), tensor(2, 4, r#","alias_of":1"#), tensor(3, 4, "")];
    let mutates = |op: &str, output: u32| {
        let node = format!(r#"{{"name":"op","op":"{op}","inputs":[1],"outputs":[{output}]}}"#);
        graph(file(&tensors.join(","), &node, "")).ops[0].mutates
    };
    assert!(mutates("aten.add_.Tensor", 2));
    assert!(mutates("relu_", 2));
    assert!(!mutates("aten.add.Tensor", 2));
    assert!(!mutates("aten.view.default_", 2));
    assert!(!mutates("aten.add_.Tensor", 3), "a result of its own");
    assert!(!mutates("aten.__and__.Tensor", 2));
}

#[test]
fn the_phase_leaves_no_trace() {
    let with = |phase: &str| {
        let node = format!(r#"{{"id":0,"name":"op","op":"aten.mm","phase":"{phase}","inputs":[],"outputs":[0]}}"#);
        graph(file(&tensor(0, 4, ""), &node, ""))
    };
    assert_eq!(with("forward"), with("backward"));
}

#[test]
fn an_unknown_type_counts_with_its_bytes() {
    let read = graph(file(&tensor(0, 12, "").replace("f32", "qint3"), "", ""));
    assert_eq!((read.tensors[0].dtype, read.tensors[0].bytes), (DType::Opaque, Bytes(12)));
}

#[test]
fn errors_name_the_place_the_name_and_the_reason() {
    let one = tensor(0, 4, "");
    let node = |inputs: &str, outputs: &str| {
        file(&one, &format!(r#"{{"name":"mm","op":"aten.mm","inputs":[{inputs}],"outputs":[{outputs}]}}"#), "")
    };
    for (text, message) in [
        (node("0,0,9", ""), "f: nodes[0].inputs[2] (op `mm`): there is no tensor `9`"),
        (node("", "1"), "f: nodes[0].outputs[0] (op `mm`): there is no tensor `1`"),
        (node("-1", ""), "nodes[0].inputs[0]: invalid type: integer `-1`, expected an identifier"),
        (file(&one, "", "4"), "f: results[0]: there is no tensor `4`"),
        (file(&format!("{one},{one}"), "", ""), "f: tensors[1].id: tensor `0` is already tensors[0]"),
        (
            file(&tensor(0, 4, r#","alias_of":7"#), "", ""),
            "f: tensors[0].alias_of (tensor `t0`): there is no tensor `7`",
        ),
        (
            file(&tensor(0, 4, r#","alias_of":0"#), "", ""),
            "f: tensors[0].alias_of (tensor `t0`): its aliases form a cycle: t0 -> t0",
        ),
        (file(&one.replace("temp", "tmp"), "", ""), "tensors[0].kind: unknown kind `tmp`; known are param, buffer"),
        (
            file(&tensor(0, 1 << 63, ""), "", ""),
            "f: tensors[0].bytes (tensor `t0`): 9223372036854775808 is above the limit",
        ),
        (
            file(&tensor(0, 4, r#","storage_bytes":9223372036854775808"#), "", ""),
            "tensors[0].bytes (tensor `t0`): 9223372036854775808 is above",
        ),
        (file("{}", "", ""), "tensors[0]: missing field `id`"),
        (node("", "").replace("graph/1", "graph/3"), "f: format `gpumem-corpus-graph/3` is unknown"),
    ] {
        let error = refusal(&text);
        assert!(error.starts_with("f: ") && error.contains(message), "{text}\n gave {error:?}\n not {message:?}");
    }
}
