//! From a file to something that can be planned.

use std::path::Path;
use std::time::{Duration, Instant};

use coloring::{GRAPH_ALIGNMENT, PlacedBuffer, Request};
use formats::{Content, Document, Limits, NamedProblem, read_path};
use lifetime::{Analysis, AnalysisOptions, Bytes, Graph, Offset, Order, Tier, analyse};

use crate::failure::Failure;

/// A file read and made ready.
pub(crate) struct Loaded {
    /// The file as it was, without its content.
    pub(crate) source: Source,
    /// What is to be planned: all tiers.
    pub(crate) request: Request,
    /// The graph and its analysis, if the file was one.
    pub(crate) graph: Option<(Graph, Analysis)>,
    /// Highest load of non-persistent buffers in the order given, if another order was chosen.
    pub(crate) given_load: Option<Bytes>,
    /// Names of what has no bytes.
    pub(crate) zero_byte: Vec<String>,
    /// Things a person should know before trusting the figures.
    pub(crate) warnings: Vec<String>,
    /// Time spent on reading.
    pub(crate) read: Duration,
    /// Time spent on analysing.
    pub(crate) analysed: Duration,
}

/// What kind of file it was.
pub(crate) struct Source {
    /// As given on the command line.
    pub(crate) path: String,
    /// Name of the format.
    pub(crate) format: &'static str,
    /// How it was compressed.
    pub(crate) compression: &'static str,
    /// Bytes on disk.
    pub(crate) stored_bytes: u64,
    /// Bytes of text.
    pub(crate) text_bytes: u64,
}

impl Source {
    fn new(path: &Path, document: &Document) -> Self {
        Self {
            path: path.display().to_string(),
            format: document.format.name(),
            compression: document.compression.name(),
            stored_bytes: document.stored_bytes,
            text_bytes: document.text_bytes,
        }
    }
}

/// How to make a file ready.
#[derive(Clone, Copy, Debug)]
pub(crate) struct LoadOptions {
    /// Order of a graph's ops.
    pub(crate) order: Order,
    /// Alignment asked for.
    pub(crate) alignment: Option<u64>,
    /// Whether offsets that the file pins are forgotten.
    pub(crate) ignore_offsets: bool,
}

/// Reads and analyses the file at `path`.
pub(crate) fn load(path: &Path, options: LoadOptions) -> Result<Loaded, Failure> {
    let start = Instant::now();
    let document = read_path(path, &Limits::default())?;
    let read = start.elapsed();
    let source = Source::new(path, &document);
    let start = Instant::now();
    let mut loaded = match document.content {
        Content::Graph(graph) => of_graph(&source, graph, options)?,
        Content::Problem(problem) => of_problem(problem, options)?,
        Content::Plan(plan) => {
            let request = Request {
                name: plan.name,
                buffers: plan.buffers,
                separations: plan.separations,
                end: plan.end,
                capacity: None,
                order: plan.order,
            };
            Prepared { request, ..Prepared::default() }
        }
        other => {
            return Err(Failure::input(format!("{}: {} can't be planned", path.display(), other.kind())));
        }
    };
    for buffer in &mut loaded.request.buffers {
        buffer.fixed &= !options.ignore_offsets;
        if let Some(asked) = options.alignment {
            buffer.alignment = least_common_multiple(buffer.alignment, asked);
        }
    }
    let Prepared { request, graph, given_load, zero_byte, warnings } = loaded;
    Ok(Loaded { source, request, graph, given_load, zero_byte, warnings, read, analysed: start.elapsed() })
}

#[derive(Default)]
struct Prepared {
    request: Request,
    graph: Option<(Graph, Analysis)>,
    given_load: Option<Bytes>,
    zero_byte: Vec<String>,
    warnings: Vec<String>,
}

fn of_graph(source: &Source, graph: Graph, options: LoadOptions) -> Result<Prepared, Failure> {
    let refused = |error: lifetime::Error| Failure::from(error).in_file(Path::new(&source.path));
    let analysis_options = AnalysisOptions { order: options.order, ..AnalysisOptions::default() };
    let analysis = analyse(&graph, &analysis_options).map_err(refused)?;
    let given_load = match options.order {
        Order::Given => None,
        Order::Memory => {
            let given = analyse(&graph, &AnalysisOptions::default()).map_err(refused)?;
            Some(given.max_load(|b| b.tier != Tier::Persistent))
        }
    };
    let name =
        |id: &lifetime::TensorId| graph.tensors.get(id.index()).map_or_else(|| id.0.to_string(), |t| t.name.clone());
    Ok(Prepared {
        request: Request::from_analysis(&graph, &analysis, options.alignment.unwrap_or(GRAPH_ALIGNMENT)),
        given_load,
        zero_byte: analysis.zero_byte.iter().map(name).collect(),
        warnings: Vec::new(),
        graph: Some((graph, analysis)),
    })
}

fn of_problem(named: NamedProblem, options: LoadOptions) -> Result<Prepared, Failure> {
    let mut warnings = Vec::new();
    if !options.ignore_offsets && !named.ids.is_empty() && named.fixed_count() == named.ids.len() {
        warnings.push(
            "every row has an offset, so nothing is left to plan; --ignore-offsets plans them anew, `gpumem verify` \
             checks them as they are"
                .to_owned(),
        );
    }
    if options.order == Order::Memory {
        warnings.push("--order memory needs a graph: live ranges have no ops to reorder".to_owned());
    }
    // A mistyped `aligment` must not cost somebody a day.
    if !named.ignored_columns.is_empty() {
        warnings.push(format!("columns not looked at: {}", named.ignored_columns.join(", ")));
    }
    let zero_byte = named.zero_size.clone();
    Ok(Prepared { request: request_of(named), zero_byte, warnings, ..Prepared::default() })
}

/// The buffers of a CSV file, whose tiers are judged by their lives alone.
pub(crate) fn request_of(named: NamedProblem) -> Request {
    let NamedProblem { name, ids, problem, .. } = named;
    let first = problem.buffers.iter().map(|b| b.range.birth).min().unwrap_or_default();
    let end = problem.end();
    let span = (end.0 - first.0) as f64;
    let long_lived_share = AnalysisOptions::default().long_lived_share;
    let place = |(id, b): (String, coloring::Buffer)| PlacedBuffer {
        name: id.clone(),
        id,
        op: None,
        tier: match b.range.half_steps() as f64 >= long_lived_share * span {
            true => Tier::Cyclic,
            false => Tier::Temporary,
        },
        offset: b.fixed.unwrap_or(Offset(0)),
        bytes: b.size,
        alignment: b.alignment,
        range: b.range,
        fixed: b.fixed.is_some(),
        gaps: b.gaps,
    };
    let buffers: Vec<PlacedBuffer> = ids.into_iter().zip(problem.buffers).map(place).collect();
    Request { name, buffers, separations: problem.separations, end, capacity: problem.capacity, order: None }
}

fn least_common_multiple(a: u64, b: u64) -> u64 {
    let (mut x, mut y) = (a, b);
    while y != 0 {
        (x, y) = (y, x % y);
    }
    // Both are at least 1 and at most 2^62; a multiple out of range is refused as an alignment that can't be met.
    (a / x.max(1)).saturating_mul(b)
}
