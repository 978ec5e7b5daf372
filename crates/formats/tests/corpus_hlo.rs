//! `gpumem-corpus-hlo/1`: how a scheduled HLO computation becomes a graph.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod support;

use lifetime::{DType, Graph, TensorKind};
use support::{graph, names, refusal, storage, tensor};

/// Writes a file node by node.
#[derive(Default)]
struct File {
    donated: Vec<u64>,
    nodes: Vec<String>,
}

/// An output of `elements` floats; with a place, the index of its allocation.
fn out(elements: u64, alloc: Option<u64>) -> String {
    let place = alloc.map(|alloc| format!(r#","alloc":{alloc},"offset":0"#)).unwrap_or_default();
    format!(r#"{{"dtype":"f32","shape":[{elements}],"bytes":{}{place}}}"#, elements * 4)
}

impl File {
    fn node(&mut self, name: &str, op: &str, inputs: &[&str], outputs: &[String], rest: &str) -> &mut Self {
        let inputs: Vec<String> = inputs.iter().map(|input| format!("\"{input}\"")).collect();
        self.nodes.push(format!(
            r#"{{"name":"{name}","op":"{op}","inputs":[{}],"outputs":[{}]{rest}}}"#,
            inputs.join(","),
            outputs.join(",")
        ));
        self
    }

    fn parameter(&mut self, number: u64, elements: u64, is_donated: bool) -> &mut Self {
        if is_donated {
            self.donated.push(number);
        }
        let rest = format!(r#","parameter":{number}"#);
        self.node(&format!("p{number}"), "parameter", &[], &[out(elements, Some(number))], &rest)
    }

    fn op(&mut self, name: &str, inputs: &[&str], outputs: &[u64]) -> &mut Self {
        let outputs: Vec<String> = outputs.iter().map(|&elements| out(elements, None)).collect();
        self.node(name, "fusion", inputs, &outputs, "")
    }

    fn alias(&mut self, name: &str, op: &str, inputs: &[&str], outputs: &[u64]) -> &mut Self {
        let outputs: Vec<String> = outputs.iter().map(|&elements| out(elements, None)).collect();
        self.node(name, op, inputs, &outputs, r#","alias":true"#)
    }

    fn take(&mut self, name: &str, tuple: &str, elements: u64) -> &mut Self {
        self.alias(name, "get-tuple-element", &[tuple], &[elements])
    }

    fn text(&self) -> String {
        let (donated, nodes) = (&self.donated, self.nodes.join(","));
        format!(r#"{{"format":"gpumem-corpus-hlo/1","name":"n","donated_parameters":{donated:?},"nodes":[{nodes}]}}"#)
    }

    fn graph(&self) -> Graph {
        graph(self.text())
    }
}

fn inputs_of<'g>(graph: &'g Graph, op: &str) -> Vec<&'g str> {
    let op = graph.ops.iter().find(|other| other.name == op).expect("the op");
    names(graph, &op.inputs)
}

fn owner<'g>(graph: &'g Graph, name: &str) -> &'g str {
    &graph.tensors[storage(graph, tensor(graph, name)).index()].name
}

#[test]
fn parameters_and_constants_are_there_from_the_start_and_are_no_ops() {
    let mut file = File::default();
    file.node("early", "fusion", &["p0", "c"], &[out(8, None)], "").parameter(0, 8, true);
    file.parameter(1, 4, false).node("c", "constant", &[], &[out(1, None)], "").op("last", &["early", "p1"], &[2]);
    let read = file.graph();
    let kinds: Vec<_> = read.tensors.iter().map(|tensor| (tensor.name.as_str(), tensor.kind)).collect();
    use TensorKind::{Constant, Input, Intermediate, Parameter};
    assert_eq!(
        kinds,
        [("early", Intermediate), ("p0", Parameter), ("p1", Input), ("c", Constant), ("last", Intermediate)]
    );
    assert_eq!(read.ops.iter().map(|op| op.name.as_str()).collect::<Vec<_>>(), ["early", "last"]);
    assert_eq!(inputs_of(&read, "early"), ["p0", "c"]);
    // Without a mark the last node is the root.
    assert_eq!(names(&read, &read.results), ["last"]);
}

#[test]
fn aliases_vanish_and_their_readers_read_what_is_behind() {
    let mut file = File::default();
    file.parameter(0, 8, false).op("a", &["p0"], &[8]).alias("cast", "bitcast", &["a"], &[8]);
    file.alias("pair", "tuple", &["cast", "p0"], &[8, 8]).alias("nested", "tuple", &["pair", "a"], &[8, 8, 8]);
    file.op("reads all", &["nested"], &[1]);
    let read = file.graph();
    assert_eq!(read.ops.len(), 2);
    assert_eq!(inputs_of(&read, "reads all"), ["a", "p0", "a"]);
}

#[test]
fn an_element_that_only_one_fits_is_that_one() {
    let mut file = File::default();
    file.op("f", &[], &[1, 2, 3]).take("third", "f", 3).take("again", "f", 3).op("r", &["third", "again"], &[9]);
    let read = file.graph();
    assert_eq!(inputs_of(&read, "r"), ["f{2}", "f{2}"]);
}

#[test]
fn elements_that_are_alike_are_shared_out_and_named_after_their_takers() {
    let mut file = File::default();
    file.op("f", &[], &[7, 7, 7]).take("x", "f", 7).take("y", "f", 7).op("rx", &["x"], &[1]).op("ry", &["y"], &[1]);
    let read = file.graph();
    assert_eq!(inputs_of(&read, "rx"), ["x"]);
    assert_eq!(inputs_of(&read, "ry"), ["y"]);
    assert_eq!(read.ops[0].outputs.len(), 3);
}

#[test]
fn more_takers_than_elements_read_every_one_that_may_be_meant() {
    let mut file = File::default();
    file.op("f", &[], &[7, 7, 5]).take("x", "f", 7).take("y", "f", 7).take("z", "f", 7).op("r", &["y"], &[1]);
    assert_eq!(inputs_of(&file.graph(), "r"), ["f{0}", "f{1}"]);
}

#[test]
fn values_taken_out_of_a_made_up_tuple_are_not_mistaken_for_each_other() {
    let mut file = File::default();
    file.op("a", &[], &[7]).op("b", &[], &[7]).op("c", &[], &[3]).alias("t", "tuple", &["a", "b", "c"], &[7, 7, 3]);
    file.take("x", "t", 7).take("y", "t", 7).take("z", "t", 3).op("r", &["x"], &[1]).op("s", &["z"], &[1]);
    let read = file.graph();
    // a and b may be of different age, so either may be meant.
    assert_eq!(inputs_of(&read, "r"), ["a", "b"]);
    assert_eq!(inputs_of(&read, "s"), ["c"]);
}

#[test]
fn a_loop_carries_its_state_in_place() {
    let mut file = File::default();
    file.op("i", &[], &[1]).op("a", &[], &[7]).op("b", &[], &[7]).alias("init", "tuple", &["i", "a", "b"], &[1, 7, 7]);
    let outputs = [out(1, None), out(7, None), out(7, None)];
    file.node("loop", "while", &["init"], &outputs, "").take("x", "loop", 7).op("r", &["x"], &[1]);
    let read = file.graph();
    assert_eq!(owner(&read, "loop{0}"), "i");
    assert_eq!(owner(&read, "loop{1}"), "a");
    assert_eq!(owner(&read, "loop{2}"), "b");
    assert!(read.ops[3].mutates);
    // Which of the two is taken isn't known, and they are not alike.
    assert_eq!(inputs_of(&read, "r"), ["loop{1}", "loop{2}"]);
}

#[test]
fn two_values_of_a_loop_that_begin_as_one_do_not_share_its_bytes() {
    let mut file = File::default();
    file.op("a", &[], &[7]).alias("init", "tuple", &["a", "a"], &[7, 7]);
    file.node("loop", "while", &["init"], &[out(7, None), out(7, None)], "");
    let read = file.graph();
    assert_eq!(owner(&read, "loop{0}"), "a");
    assert_eq!(owner(&read, "loop{1}"), "loop{1}");
}

#[test]
fn a_result_in_a_donated_parameters_place_is_its_new_value() {
    let mut file = File::default();
    file.parameter(0, 8, true).parameter(1, 8, false).parameter(2, 4, true);
    file.node("new", "fusion", &["p0"], &[out(8, Some(0))], "");
    file.node("other", "fusion", &["p1"], &[out(8, Some(1))], "");
    file.node("smaller", "fusion", &["p2"], &[out(3, Some(2))], "");
    file.node("temp", "fusion", &["p0"], &[out(8, Some(0))], "");
    file.alias("out", "tuple", &["new", "other", "smaller"], &[8, 8, 3]);
    let read = file.graph();
    assert_eq!(owner(&read, "new"), "p0");
    assert_eq!(owner(&read, "other"), "other", "p1 is not donated");
    assert_eq!(owner(&read, "smaller"), "smaller", "of another size");
    assert_eq!(owner(&read, "temp"), "temp", "not a result");
    assert_eq!(read.ops.iter().map(|op| op.mutates).collect::<Vec<_>>(), [true, false, false, false]);
    assert_eq!(names(&read, &read.results), ["new", "other", "smaller"]);
}

#[test]
fn new_values_find_their_own_parameters_among_elements_that_are_alike() {
    let mut file = File::default();
    file.parameter(0, 8, true).parameter(1, 8, true);
    file.node("step", "fusion", &["p0", "p1"], &[out(8, None), out(8, Some(1)), out(8, Some(0))], "");
    file.take("scratch", "step", 8).take("first", "step", 8).take("second", "step", 8).op("r", &["scratch"], &[1]);
    file.alias("cast", "bitcast", &["first"], &[8]).alias("out", "tuple", &["cast", "second"], &[8, 8]);
    let read = file.graph();
    assert_eq!(owner(&read, "first"), "p0");
    assert_eq!(owner(&read, "second"), "p1");
    assert_eq!(owner(&read, "scratch"), "scratch");
    assert_eq!(inputs_of(&read, "r"), ["scratch"]);
    assert_eq!(names(&read, &read.ops[0].outputs), ["scratch", "second", "first"]);
}

#[test]
fn what_an_asynchronous_op_reads_stays_until_it_is_done() {
    let mut file = File::default();
    file.node("a", "fusion", &[], &[out(8, Some(5))], "");
    file.node("start", "copy-start", &["a"], &[out(8, Some(6)), out(8, Some(5)), out(1, Some(7))], "");
    file.op("between", &[], &[8]).node("done", "copy-done", &["start"], &[out(8, Some(6))], "").op(
        "r",
        &["done"],
        &[1],
    );
    let read = file.graph();
    assert_eq!(owner(&read, "start{1}"), "a");
    assert_eq!(owner(&read, "done"), "start{0}");
    assert_eq!(inputs_of(&read, "done"), ["start{0}", "start{1}", "start{2}", "a"]);
    assert_eq!(inputs_of(&read, "r"), ["done"]);
}

#[test]
fn targets_and_unknown_types_are_kept_in_words() {
    let mut file = File::default();
    let output = r#"{"dtype":"token","shape":[],"bytes":0}"#.to_owned();
    file.node("c", "custom-call", &[], &[output], r#","target":"__cublas$gemm""#);
    let read = file.graph();
    assert_eq!(read.ops[0].kind, "custom-call(__cublas$gemm)");
    assert_eq!(read.tensors[0].dtype, DType::Opaque);
}

#[test]
fn an_op_that_reads_what_comes_later_is_left_for_the_analysis_to_refuse() {
    let mut file = File::default();
    file.op("a", &["b"], &[8]).op("b", &["a"], &[8]);
    assert_eq!(inputs_of(&file.graph(), "a"), ["b"]);
}

#[test]
fn errors_name_the_place_the_name_and_the_reason() {
    let with = |make: fn(&mut File) -> &mut File| {
        let mut file = File::default();
        file.op("a", &[], &[8]);
        make(&mut file);
        refusal(file.text())
    };
    for (error, message) in [
        (with(|f| f.op("b", &["a", "zz"], &[1])), "f: nodes[1].inputs[1] (node `b`): there is no node `zz`"),
        (with(|f| f.op("a", &[], &[1])), "f: nodes[1].name: node `a` is already nodes[0]"),
        (
            with(|f| f.alias("t", "tuple", &["a"], &[8, 8])),
            "f: nodes[1].outputs (node `t`): the inputs bring 1 values and the node lists 2 outputs",
        ),
        (with(|f| f.take("g", "a", 9)), "f: nodes[1].outputs[0] (node `g`): no value of `a` has this type and shape"),
        (
            with(|f| f.alias("g", "get-tuple-element", &[], &[9])),
            "f: nodes[1].inputs (node `g`): the inputs bring 0 values",
        ),
        (
            with(|f| f.alias("x", "bitcast", &["y"], &[8]).alias("y", "bitcast", &["x"], &[8])),
            "f: nodes[1].inputs (node `x`): its aliases form a cycle: x -> y -> x",
        ),
        (with(|f| f.node("b", "fusion", &[], &["{}".to_owned()], "")), "nodes[1].outputs[0]: missing field `bytes`"),
        (
            with(|f| f.node("b", "fusion", &[], &[r#"{"bytes":9223372036854775808}"#.to_owned()], "")),
            "f: nodes[1].outputs[0].bytes (tensor `b`): 9223372036854775808 is above the limit",
        ),
    ] {
        assert!(error.contains(message), "{error:?}\n not {message:?}");
    }
}

#[test]
fn tuples_that_grow_faster_than_the_file_are_refused() {
    // Each line lists what it claims, so doubling costs the file as much; reading it over and over does not.
    let mut file = File::default();
    let wide: Vec<String> = (0..20_000).map(|_| out(8, None)).collect();
    file.node("wide", "fusion", &[], &wide, "");
    for i in 0..1000 {
        file.op(&format!("reader{i}"), &["wide"], &[1]);
    }
    let error = refusal(file.text());
    assert!(error.contains("more than 16777216 tensors read by all nodes"), "{error}");
    let mut file = File::default();
    file.op("t0", &[], &[8]);
    file.alias("t1", "tuple", &["t0", "t0"], &[8, 8]);
    for i in 2..60 {
        let before = format!("t{}", i - 1);
        file.alias(&format!("t{i}"), "tuple", &[&before, &before], &[8]);
    }
    let error = refusal(file.text());
    assert!(error.contains("the inputs bring 4 values and the node lists 1 outputs"), "{error}");
}

#[test]
fn long_chains_of_aliases_need_no_deep_stack() {
    let mut file = File::default();
    for i in 0..50_000 {
        file.alias(&format!("c{i}"), "bitcast", &[&format!("c{}", i + 1)], &[8]);
    }
    file.op("c50000", &[], &[8]).op("r", &["c0"], &[1]);
    assert_eq!(inputs_of(&file.graph(), "r"), ["c50000"]);
}

#[test]
fn a_module_without_nodes_is_a_graph_without_ops() {
    let read = graph(r#"{"format":"gpumem-corpus-hlo/1","name":"x","nodes":[]}"#);
    assert_eq!((read.tensors.len(), read.ops.len(), read.results.len()), (0, 0, 0));
}
