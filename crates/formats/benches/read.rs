//! How fast files are read and written.
//!
//! The graph is the bundled example, repeated until its text has 34 MB (3.2 MB as gzip); the problem has a million
//! rows (35 MB).

#![allow(missing_docs, clippy::unwrap_used, clippy::expect_used, clippy::panic)]

#[path = "../tests/support/training_run.rs"]
mod training_run;

use std::fmt::Write as _;
use std::io::Write as _;
use std::path::Path;

use criterion::{Criterion, Throughput, criterion_group, criterion_main};
use flate2::write::GzEncoder;
use formats::{Content, Limits, read_bytes, read_path, write_csv, write_graph, write_snapshot};
use lifetime::{Graph, TensorId};

/// `graph`, `times` times, one copy after the other.
fn repeated(graph: &Graph, times: usize) -> Graph {
    let mut all = Graph { name: graph.name.clone(), ..Graph::default() };
    for _ in 0..times {
        let base = all.tensors.len() as u32;
        let moved = |id: &TensorId| TensorId(id.0 + base);
        all.tensors.extend(graph.tensors.iter().cloned().map(|mut tensor| {
            tensor.alias_of = tensor.alias_of.as_ref().map(moved);
            tensor
        }));
        all.ops.extend(graph.ops.iter().cloned().map(|mut op| {
            op.inputs = op.inputs.iter().map(moved).collect();
            op.outputs = op.outputs.iter().map(moved).collect();
            op
        }));
        all.results.extend(graph.results.iter().map(moved));
    }
    all
}

fn gzip(text: &[u8]) -> Vec<u8> {
    let mut encoder = GzEncoder::new(Vec::new(), flate2::Compression::default());
    encoder.write_all(text).unwrap();
    encoder.finish().unwrap()
}

fn read(bytes: &[u8]) -> Content {
    read_bytes("bench", bytes, &Limits::default()).unwrap().content
}

fn benches(criterion: &mut Criterion) {
    let example = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples/bert-large-train.graph.json.gz");
    let Content::Graph(graph) = read_path(&example, &Limits::default()).unwrap().content else { panic!("no graph") };
    let large = repeated(&graph, 18);
    let mut text = Vec::new();
    write_graph(&large, &mut text).unwrap();
    let packed = gzip(&text);
    println!("graph: {} tensors, {} bytes of text, {} as gzip", large.tensors.len(), text.len(), packed.len());

    let mut rows = String::from("id,lower,upper,size\n");
    for i in 0..1_000_000_u64 {
        writeln!(rows, "buffer-{i},{i},{},{}", i + 1 + i * 7919 % 1000, 1 + i * 104_729 % 100_000).unwrap();
    }
    let Content::Problem(problem) = read(rows.as_bytes()) else { panic!("no problem") };

    let mut group = criterion.benchmark_group("formats");
    group.sample_size(10);
    group.throughput(Throughput::Bytes(text.len() as u64));
    group.bench_function("read graph, plain", |b| b.iter(|| read(&text)));
    group.bench_function("read graph, gzip", |b| b.iter(|| read(&packed)));
    group.bench_function("write graph", |b| b.iter(|| write_graph(&large, std::io::sink()).unwrap()));
    group.throughput(Throughput::Bytes(rows.len() as u64));
    group.bench_function("read a million rows", |b| b.iter(|| read(rows.as_bytes())));
    group.bench_function("write a million rows", |b| b.iter(|| write_csv(&problem, std::io::sink()).unwrap()));
    let history = training_run::training_run(100_000, 1);
    let mut snapshot = Vec::new();
    write_snapshot(&history, &mut snapshot).unwrap();
    group.throughput(Throughput::Elements(100_000));
    group.bench_function("read a snapshot of 100 000 events", |b| b.iter(|| read(&snapshot)));
    group.bench_function("write a snapshot of 100 000 events", |b| {
        b.iter(|| write_snapshot(&history, std::io::sink()).unwrap())
    });
    group.finish();
}

criterion_group!(all, benches);
criterion_main!(all);
