//! `gpumem-graph/1`: what is read, what is refused, and that it comes back as it was.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod support;

use formats::{Error, write_graph};
use lifetime::{Bytes, DType, EventId, Graph, InPlace, Op, OpId, StreamId, Tensor, TensorId, TensorKind, Tier};
use proptest::prelude::*;
use support::schema::validate;
use support::{graph, refusal};

fn written(graph: &Graph) -> String {
    let mut text = Vec::new();
    write_graph(graph, &mut text).unwrap();
    String::from_utf8(text).unwrap()
}

fn schema() -> serde_json::Value {
    let text = std::fs::read(support::root().join("docs/gpumem-graph-1.schema.json")).unwrap();
    serde_json::from_slice(&text).unwrap()
}

/// A file with these tensors and ops.
fn file(tensors: &str, ops: &str) -> String {
    format!(r#"{{"format":"gpumem-graph/1","tensors":[{tensors}],"ops":[{ops}]}}"#)
}

#[test]
fn everything_the_form_can_say_is_read() {
    let read = graph(
        r#"{"format": "gpumem-graph/1", "name": "all", "streams": ["main", "side"], "events": ["go", "done"],
            "meta": {"any": [1, null]}, "x-mine": 2,
            "tensors": [
              {"id": "w", "name": "weight", "dtype": "bf16", "shape": [3, 5], "kind": "parameter", "alignment": 256, "x-t": 0},
              {"id": 7, "dtype": "i4", "shape": [3], "tier_hint": "cyclic"},
              {"id": "v", "dtype": "opaque", "shape": [], "bytes": 12, "alias_of": 7, "kind": null}],
            "ops": [
              {"id": "a", "kind": "k", "inputs": ["w"], "outputs": [7], "records": ["go"], "meta": 1},
              {"id": 0, "name": "b", "kind": "", "inputs": [7, 7, "w"], "outputs": ["v"], "stream": "side", "waits": ["go"],
               "records": ["done"], "after": ["a"], "mutates": true, "workspace_bytes": 9, "duration_ns": 5,
               "in_place": [{"input": "w", "output": "v"}]}],
            "results": ["v"], "loss": 7}"#,
    );
    let tensor = |name: &str, dtype, shape: &[u64], bytes, kind| Tensor {
        name: name.to_owned(),
        dtype,
        shape: shape.to_vec(),
        bytes: Bytes(bytes),
        kind,
        alias_of: None,
        alignment: None,
        tier_hint: None,
    };
    let op = |name: &str, kind: &str, inputs: &[u32], outputs: &[u32]| {
        let ids = |ids: &[u32]| ids.iter().copied().map(TensorId).collect();
        Op::new(name, kind, ids(inputs), ids(outputs))
    };
    let expected = Graph {
        name: "all".to_owned(),
        tensors: vec![
            Tensor { alignment: Some(256), ..tensor("weight", DType::Bf16, &[3, 5], 30, TensorKind::Parameter) },
            // Three elements of four bits.
            Tensor { tier_hint: Some(Tier::Cyclic), ..tensor("7", DType::I4, &[3], 2, TensorKind::Intermediate) },
            Tensor { alias_of: Some(TensorId(1)), ..tensor("v", DType::Opaque, &[], 12, TensorKind::Intermediate) },
        ],
        ops: vec![
            Op { records: vec![EventId(0)], ..op("a", "k", &[0], &[1]) },
            Op {
                stream: StreamId(1),
                waits: vec![EventId(0)],
                records: vec![EventId(1)],
                after: vec![OpId(0)],
                mutates: true,
                workspace: Bytes(9),
                duration_ns: Some(5),
                in_place: vec![InPlace { input: TensorId(0), output: TensorId(2) }],
                ..op("b", "", &[1, 1, 0], &[2])
            },
        ],
        results: vec![TensorId(2)],
        loss: Some(TensorId(1)),
        streams: vec!["main".to_owned(), "side".to_owned()],
        events: vec!["go".to_owned(), "done".to_owned()],
        tensor_ids: ["w", "7", "v"].map(str::to_owned).to_vec(),
        op_ids: ["a", "0"].map(str::to_owned).to_vec(),
    };
    assert_eq!(read, expected);
    assert_eq!(graph(written(&expected)), expected);
}

#[test]
fn a_graph_without_a_name_is_called_after_its_file() {
    let text = file("", "");
    let named = formats::read_bytes("folder/net.graph.json.gz", text.as_bytes(), &formats::Limits::default()).unwrap();
    assert_eq!(support::as_graph(named).name, "net");
}

#[test]
fn errors_name_the_place_the_name_and_the_reason() {
    let t = r#"{"id":"t","name":"T","dtype":"f32","shape":[]}"#;
    let op = |fields: &str| file(t, &format!(r#"{{"id":0,"name":"O","kind":"k","inputs":[],"outputs":[],{fields}}}"#));
    let tensor = |fields: &str| file(&format!(r#"{t},{{"id":1,"dtype":"f32","shape":[2],{fields}}}"#), "");
    for (text, message) in [
        (op(r#""x":1"#), "ops[0]: unknown field `x`, expected one of `id`, `name`"),
        (op(r#""kind":"k""#), "ops[0]: duplicate field `kind`"),
        (op(r#""workspace_bytes":-1"#), "ops[0].workspace_bytes: invalid value: integer `-1`, expected u64"),
        (
            op(r#""workspace_bytes":4611686018427387905"#),
            "f: ops[0].workspace_bytes (op `O`): 4611686018427387905 is above the limit",
        ),
        (op(r#""after":[0,"q"]"#), "f: ops[0].after[1] (op `O`): there is no op `q`"),
        (op(r#""stream":"s""#), "f: ops[0].stream (op `O`): there is no stream `s`"),
        (op(r#""waits":["e"]"#), "f: ops[0].waits[0] (op `O`): there is no event `e`"),
        (op(r#""records":["e"]"#), "f: ops[0].records[0] (op `O`): there is no event `e`"),
        (
            op(r#""in_place":[{"input":"t","output":"t"}]"#),
            "f: ops[0].in_place[0].input (op `O`): tensor `t` is not an input of the op",
        ),
        (
            op(r#""in_place":[{"input":"u","output":"t"}]"#),
            "f: ops[0].in_place[0].input (op `O`): there is no tensor `u`",
        ),
        (
            file(t, r#"{"id":0,"kind":"k","inputs":["t","t",3],"outputs":[]}"#),
            "f: ops[0].inputs[2] (op `0`): there is no tensor `3`",
        ),
        (
            file(t, r#"{"id":0,"kind":"k","inputs":[],"outputs":["T"]}"#),
            "f: ops[0].outputs[0] (op `0`): there is no tensor `T`",
        ),
        (
            file(t, r#"{"id":0,"kind":"k","inputs":[],"outputs":[1.5]}"#),
            "ops[0].outputs[0]: invalid type: floating point `1.5`, expected an identifier",
        ),
        (file(t, r#"{"id":0,"kind":"k","inputs":[]}"#), "ops[0]: missing field `outputs`"),
        (
            file(t, r#"{"id":0,"kind":"k","inputs":[],"outputs":[]},{"id":0,"kind":"k","inputs":[],"outputs":[]}"#),
            "f: ops[1].id: op `0` is already ops[0]",
        ),
        (file(&format!("{t},{t}"), ""), "f: tensors[1].id: tensor `t` is already tensors[0]"),
        (tensor(r#""alias_of":"w""#), "f: tensors[1].alias_of (tensor `1`): there is no tensor `w`"),
        (tensor(r#""alias_of":1"#), "f: tensors[1].alias_of (tensor `1`): its aliases form a cycle: 1 -> 1"),
        (tensor(r#""alignment":24"#), "f: tensors[1].alignment (tensor `1`): 24 is not a power of two"),
        (tensor(r#""alignment":0"#), "f: tensors[1].alignment (tensor `1`): 0 is not a power of two"),
        (
            tensor(r#""bytes":4611686018427387905"#),
            "f: tensors[1].bytes (tensor `1`): 4611686018427387905 is above the limit",
        ),
        (
            tensor(r#""kind":"weight""#),
            "tensors[1].kind: unknown kind `weight`; known are parameter, module_state, optimizer_state, constant, input, intermediate",
        ),
        (
            tensor(r#""tier_hint":"hot""#),
            "tensors[1].tier_hint: unknown tier `hot`; known are persistent, cyclic, temporary",
        ),
        (file(r#"{"id":0,"dtype":"f33","shape":[]}"#, ""), "tensors[0].dtype: unknown dtype `f33`; known are bool, i4"),
        (
            file(r#"{"id":0,"dtype":"opaque","shape":[2]}"#, ""),
            "f: tensors[0].bytes (tensor `0`): the size of a tensor of type `opaque` can't be worked out",
        ),
        (
            file(r#"{"id":0,"dtype":"f32","shape":[4294967296,4294967296]}"#, ""),
            "f: tensors[0].bytes (tensor `0`): the elements of this shape come to more than 2^64 - 1 bytes",
        ),
        (
            file(r#"{"id":0,"dtype":"f32","shape":[1,"n"]}"#, ""),
            "tensors[0].shape[1]: invalid type: string \"n\", expected u64",
        ),
        (file("3", ""), "tensors[0]: invalid type: integer `3`, expected an object"),
        (r#"{"format":"gpumem-graph/1","tensors":[]}"#.to_owned(), "f: line 1, column 40: missing field `ops`"),
        (
            r#"{"format":"gpumem-graph/1","tensors":{},"ops":[]}"#.to_owned(),
            "tensors: invalid type: map, expected a list",
        ),
        (
            r#"{"format":"gpumem-graph/1","streams":["a","a"],"tensors":[],"ops":[]}"#.to_owned(),
            "f: streams[1]: stream `a` is already streams[0]",
        ),
        (
            r#"{"format":"gpumem-graph/1","tensors":[],"ops":[],"results":[0]}"#.to_owned(),
            "f: results[0]: there is no tensor `0`",
        ),
        (
            r#"{"format":"gpumem-graph/1","tensors":[],"ops":[],"loss":"l"}"#.to_owned(),
            "f: loss: there is no tensor `l`",
        ),
        (
            r#"{"format":"gpumem-graph/2","tensors":[],"ops":[]}"#.to_owned(),
            "f: format `gpumem-graph/2` is unknown; gpumem reads DSA CSV, trace CSV, gpumem-trace/1, gpumem-graph/1",
        ),
    ] {
        let error = refusal(&text);
        assert!(error.starts_with("f: ") && error.contains(message), "{text}\n gave {error:?}\n not {message:?}");
    }
}

#[test]
fn a_ring_of_aliases_is_printed() {
    let alias = |id: u32, of: u32| format!(r#"{{"id":{id},"name":"t{id}","dtype":"f32","shape":[],"alias_of":{of}}}"#);
    let error = refusal(file(&[alias(0, 1), alias(1, 2), alias(2, 3), alias(3, 1)].join(","), ""));
    assert_eq!(error, "f: tensors[1].alias_of (tensor `t1`): its aliases form a cycle: t1 -> t2 -> t3 -> t1");
    let long: Vec<String> = (0..100_000).map(|id| alias(id, (id + 1) % 100_000)).collect();
    let error = refusal(file(&long.join(","), ""));
    assert!(error.contains("t14 -> t15 -> ...") && error.len() < 300, "{error}");
    let chain: Vec<String> = (1..100_000).map(|id| alias(id, id - 1)).collect();
    let first = r#"{"id":0,"dtype":"f32","shape":[]}"#;
    assert_eq!(graph(file(&format!("{first},{}", chain.join(",")), "")).tensors.len(), 100_000);
}

#[test]
fn a_zero_in_the_shape_makes_no_bytes_however_large_the_rest() {
    let read = graph(file(r#"{"id":0,"dtype":"f64","shape":[18446744073709551615,18446744073709551615,0]}"#, ""));
    assert_eq!(read.tensors[0].bytes, Bytes(0));
}

#[test]
fn sizes_that_add_up_out_of_reach_are_refused_and_aliases_do_not_count() {
    let big = |id: u32, rest: &str| format!(r#"{{"id":{id},"dtype":"u8","shape":[{}]{rest}}}"#, 1_u64 << 62);
    let two: Vec<String> = (0..2).map(|id| big(id, "")).collect();
    let error = refusal(file(&two.join(","), ""));
    assert_eq!(
        error,
        "f: tensors[1].bytes (tensor `1`): the sizes of all tensors and workspaces up to here come to 2^63 bytes or more"
    );
    let aliases: Vec<String> = (1..9).map(|id| big(id, r#","alias_of":0"#)).collect();
    assert_eq!(graph(file(&format!("{},{}", big(0, ""), aliases.join(",")), "")).tensors.len(), 9);
    let workspace =
        |id: u32| format!(r#"{{"id":{id},"kind":"k","inputs":[],"outputs":[],"workspace_bytes":{}}}"#, 1_u64 << 62);
    let ops: Vec<String> = (0..2).map(workspace).collect();
    let error = refusal(file(&big(0, ""), &ops.join(",")));
    assert!(error.starts_with("f: ops[0].workspace_bytes (op `0`): the sizes of all tensors"), "{error}");
}

#[test]
fn a_graph_that_could_not_be_read_back_is_not_written() {
    let base = graph(file(r#"{"id":0,"dtype":"f32","shape":[]}"#, r#"{"id":0,"kind":"k","inputs":[0],"outputs":[]}"#));
    let refused = |change: &dyn Fn(&mut Graph)| {
        let mut graph = base.clone();
        change(&mut graph);
        let mut text = Vec::new();
        let error = write_graph(&graph, &mut text).unwrap_err();
        assert!(text.is_empty(), "something was written");
        error
    };
    assert!(matches!(refused(&|g| g.ops[0].inputs[0] = TensorId(1)), Error::NotCarried { .. }));
    assert!(matches!(refused(&|g| g.ops[0].stream = StreamId(1)), Error::NotCarried { .. }));
    assert!(matches!(refused(&|g| g.ops[0].waits.push(EventId(0))), Error::NotCarried { .. }));
    assert!(matches!(refused(&|g| g.ops[0].after.push(OpId(1))), Error::NotCarried { .. }));
    assert!(matches!(refused(&|g| g.results.push(TensorId(1))), Error::NotCarried { .. }));
    assert!(matches!(refused(&|g| g.tensors[0].alias_of = Some(TensorId(5))), Error::NotCarried { .. }));
    assert!(matches!(refused(&|g| g.tensors[0].alias_of = Some(TensorId(0))), Error::Invalid(_)));
    assert!(matches!(refused(&|g| g.tensors[0].bytes = Bytes(u64::MAX)), Error::Invalid(_)));
    let pair = InPlace { input: TensorId(0), output: TensorId(0) };
    assert!(matches!(refused(&|g| g.ops[0].in_place.push(pair)), Error::NotCarried { .. }));
    let error = refused(&|g| g.streams = vec!["s".to_owned(), "s".to_owned()]);
    assert_eq!(error.to_string(), "gpumem-graph/1 can't carry two streams or two events called `s`");
}

fn any_tensor(index: u32) -> impl Strategy<Value = Tensor> {
    let alias = prop::option::weighted(0.3, any::<prop::sample::Index>());
    let kinds = prop::sample::select(vec![
        TensorKind::Parameter,
        TensorKind::ModuleState,
        TensorKind::OptimizerState,
        TensorKind::Constant,
        TensorKind::Input,
        TensorKind::Intermediate,
    ]);
    let shape = prop::collection::vec(any::<u64>(), 0..3);
    let (dtype, tier) = (prop::sample::select(DType::ALL), prop::option::of(prop::sample::select(Tier::ALL.to_vec())));
    (any::<String>(), dtype, shape, 0_u64..1 << 40, kinds, alias, prop::option::of(0_u32..64), tier).prop_map(
        move |(name, dtype, shape, bytes, kind, alias, alignment, tier_hint)| Tensor {
            name,
            dtype,
            shape,
            bytes: Bytes(bytes),
            kind,
            alias_of: alias.filter(|_| index > 0).map(|alias| TensorId(alias.index(index as usize) as u32)),
            alignment: alignment.map(|bits| 1 << bits),
            tier_hint,
        },
    )
}

fn any_op(tensors: u32, ops: u32, streams: u32, events: u32) -> impl Strategy<Value = Op> {
    let ids =
        move |count: u32, most: usize| prop::collection::vec(0..count.max(1), 0..if count > 0 { most } else { 1 });
    let lists = (ids(tensors, 4), ids(tensors, 3), ids(events, 3), ids(events, 3), ids(ops, 3));
    let pairs = prop::collection::vec((any::<prop::sample::Index>(), any::<prop::sample::Index>()), 0..2);
    (any::<(String, String, bool, Option<u64>)>(), lists, 0..streams.max(1), 0_u64..1 << 40, pairs).prop_map(
        |((name, kind, mutates, duration_ns), (inputs, outputs, waits, records, after), stream, workspace, pairs)| {
            let inputs: Vec<TensorId> = inputs.into_iter().map(TensorId).collect();
            let outputs: Vec<TensorId> = outputs.into_iter().map(TensorId).collect();
            let is_possible = !inputs.is_empty() && !outputs.is_empty();
            let pairs = pairs.into_iter().filter(|_| is_possible);
            let in_place = pairs.map(|(i, o)| InPlace { input: *i.get(&inputs), output: *o.get(&outputs) }).collect();
            Op {
                name,
                kind,
                inputs,
                outputs,
                in_place,
                mutates,
                workspace: Bytes(workspace),
                stream: StreamId(stream),
                waits: waits.into_iter().map(EventId).collect(),
                records: records.into_iter().map(EventId).collect(),
                after: after.into_iter().map(OpId).collect(),
                duration_ns,
            }
        },
    )
}

fn any_graph() -> impl Strategy<Value = Graph> {
    let names = || prop::collection::hash_set(any::<String>(), 0..3).prop_map(|names| names.into_iter().collect());
    (0_u32..6, 0_u32..5, names(), names()).prop_flat_map(
        |(tensors, ops, streams, events): (_, _, Vec<String>, Vec<String>)| {
            let op = any_op(tensors, ops, streams.len() as u32, events.len() as u32);
            let lists = (
                (0..tensors).map(any_tensor).collect::<Vec<_>>(),
                prop::collection::vec(op, ops as usize),
                prop::collection::vec(0..tensors.max(1), 0..if tensors > 0 { 3 } else { 1 }),
                prop::option::of(0..tensors.max(1)),
            );
            let (tensor_count, op_count) = (tensors, ops);
            (any::<String>(), any::<bool>(), lists).prop_map(move |(name, own_ids, (tensors, ops, results, loss))| {
                Graph {
                    name,
                    results: results.into_iter().map(TensorId).collect(),
                    loss: loss.filter(|_| !tensors.is_empty()).map(TensorId),
                    tensors,
                    ops,
                    streams: streams.clone(),
                    events: events.clone(),
                    tensor_ids: if own_ids { (0..tensor_count).map(|i| format!("t{i}")).collect() } else { Vec::new() },
                    op_ids: if own_ids { (0..op_count).rev().map(|i| i.to_string()).collect() } else { Vec::new() },
                }
            })
        },
    )
}

proptest! {
    #[test]
    fn what_is_written_is_read_back_and_fits_the_schema(before in any_graph()) {
        let text = written(&before);
        prop_assert_eq!(&graph(&text), &before);
        prop_assert_eq!(written(&before), &text[..]);
        prop_assert_eq!(validate(&schema(), &serde_json::from_str(&text).unwrap()), Ok(()));
    }
}

#[test]
fn the_schema_refuses_what_the_reader_refuses() {
    for text in [
        file(r#"{"id":0,"dtype":"f32","shape":[],"tier":"cyclic"}"#, ""),
        file(r#"{"id":0,"dtype":"f33","shape":[]}"#, ""),
        file(r#"{"id":-1,"dtype":"f32","shape":[]}"#, ""),
        file(r#"{"id":0,"dtype":"f32"}"#, ""),
        file("", r#"{"id":0,"kind":"k","inputs":[],"outputs":[],"mutates":1}"#),
        file("", r#"{"id":0,"kind":"k","inputs":0,"outputs":[]}"#),
        file("", r#"{"id":0,"kind":"k","inputs":[],"outputs":[],"in_place":[{"input":0}]}"#),
        r#"{"format":"gpumem-graph/1","ops":[]}"#.to_owned(),
        r#"{"format":"gpumem-graph/1","tensors":[],"ops":[],"events":["a","a"]}"#.to_owned(),
    ] {
        refusal(&text);
        assert!(validate(&schema(), &serde_json::from_str(&text).unwrap()).is_err(), "{text}");
    }
}

#[test]
fn the_schema_and_the_reader_know_the_same_types() {
    let schema = schema();
    let listed = schema["$defs"]["tensor"]["properties"]["dtype"]["enum"].as_array().unwrap();
    assert!(listed.iter().all(|name| DType::from_name(name.as_str().unwrap()).is_some()));
    assert!(DType::ALL.iter().all(|dtype| listed.iter().any(|name| name == dtype.name())));
}

#[test]
fn a_number_and_its_text_are_one_identifier() {
    let t = |id: &str| format!(r#"{{"id":{id},"dtype":"f32","shape":[]}}"#);
    let error = refusal(file(&format!("{},{}", t("7"), t(r#""7""#)), ""));
    assert!(error.contains("tensors[1].id") && error.contains("tensors[0]"), "{error}");
}
