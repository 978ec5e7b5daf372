//! Every graph and problem of the shared data is read, and means what its statistics say.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use std::path::{Path, PathBuf};

use formats::{Content, Format, Limits, NamedProblem, read_path};
use lifetime::{Graph, TensorId, TensorKind};

/// The folder of shared data; `None`, with a note, where there is none.
fn shared(folder: &str) -> Option<PathBuf> {
    let base = std::env::var_os("GPUMEM_SHARED").map_or_else(
        || Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../shared/data"),
        PathBuf::from,
    );
    let path = base.join(folder);
    if !path.is_dir() {
        println!("not run: shared data absent");
        return None;
    }
    Some(path)
}

fn files(folder: &Path, ending: &str) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            found.extend(files(&path, ending));
        } else if path.to_str().unwrap().ends_with(ending) {
            found.push(path);
        }
    }
    found.sort();
    assert!(!found.is_empty(), "no {ending} in {}", folder.display());
    found
}

fn graph(path: &Path, format: Format) -> Graph {
    let document = read_path(path, &Limits::default()).unwrap_or_else(|error| panic!("{error}"));
    assert_eq!(document.format, format);
    match document.content {
        Content::Graph(graph) => graph,
        other => panic!("{}: {other:?}", path.display()),
    }
}

fn problem(path: &Path) -> NamedProblem {
    let document = read_path(path, &Limits::default()).unwrap_or_else(|error| panic!("{error}"));
    assert_eq!(document.format, Format::DsaCsv);
    match document.content {
        Content::Problem(problem) => problem,
        other => panic!("{}: {other:?}", path.display()),
    }
}

fn storage(graph: &Graph, mut id: TensorId) -> TensorId {
    while let Some(next) = graph.tensors[id.index()].alias_of {
        id = next;
    }
    id
}

/// Most bytes live at one moment of the given order, over storages that ops make, and their sum and count. Written
/// anew here so that it shares nothing with the crate that analyses graphs.
fn temporaries(graph: &Graph) -> (u64, u64, usize) {
    let end = 2 * graph.ops.len();
    let mut life = vec![None::<(usize, usize)>; graph.tensors.len()];
    for (index, op) in graph.ops.iter().enumerate() {
        for &id in op.outputs.iter().chain(&op.inputs) {
            let life = life[storage(graph, id).index()].get_or_insert((2 * index, 2 * index + 2));
            life.1 = 2 * index + 2;
        }
    }
    for &id in &graph.results {
        if let Some(life) = &mut life[storage(graph, id).index()] {
            life.1 = end;
        }
    }
    let mut change = vec![0_i64; end + 1];
    let (mut sum, mut count) = (0, 0);
    for (tensor, life) in graph.tensors.iter().zip(life) {
        if let (TensorKind::Intermediate, None, Some((birth, death))) = (tensor.kind, tensor.alias_of, life) {
            change[birth] += tensor.bytes.0 as i64;
            change[death] -= tensor.bytes.0 as i64;
            sum += tensor.bytes.0;
            count += usize::from(tensor.bytes.0 > 0);
        }
    }
    let (mut load, mut peak) = (0, 0);
    for change in change {
        load += change;
        peak = peak.max(load);
    }
    (peak as u64, sum, count)
}

fn load_of(problem: &NamedProblem) -> u64 {
    let mut events: Vec<(u64, i64)> = Vec::new();
    for buffer in &problem.problem.buffers {
        events.push((buffer.range.birth.0, buffer.size.0 as i64));
        events.push((buffer.range.death.0, -(buffer.size.0 as i64)));
    }
    events.sort_unstable();
    let (mut load, mut peak) = (0, 0);
    for (_, change) in events {
        load += change;
        peak = peak.max(load);
    }
    peak as u64
}

fn with_ending(path: &Path, ending: &str) -> PathBuf {
    PathBuf::from(path.to_str().unwrap().replace(".graph.json.gz", ending))
}

#[test]
fn every_hlo_file_needs_at_least_what_xla_needed() {
    let Some(folder) = shared("graphs/xla") else { return };
    for path in files(&folder, ".graph.json.gz") {
        let graph = graph(&path, Format::CorpusHlo);
        let (load, sum, count) = temporaries(&graph);
        let xla = problem(&with_ending(&path, ".temp.csv.gz"));
        let bound = load_of(&xla);
        println!(
            "{}: load {load} = {:.4} of XLA's {bound}; sum {:.4}; {count} against {} buffers",
            graph.name,
            load as f64 / bound as f64,
            sum as f64 / xla.problem.buffers.iter().map(|b| b.size.0).sum::<u64>() as f64,
            xla.ids.len()
        );
    }
}

#[test]
fn every_torch_file_needs_exactly_what_its_statistics_say() {
    let Some(folder) = shared("graphs/torch") else { return };
    for path in files(&folder, ".graph.json.gz") {
        let graph = graph(&path, Format::CorpusGraph);
        let (load, sum, count) = temporaries(&graph);
        let temp = problem(&with_ending(&path, ".temp.csv.gz"));
        println!("{} load {load} {} sum {sum} {} {count} {}", graph.name, load_of(&temp), temp.problem.buffers.iter().map(|b| b.size.0).sum::<u64>(), temp.ids.len());
    }
}
