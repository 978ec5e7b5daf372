//! `gpumem convert`.

use coloring::{BoundKind, PlacedBuffer, Plan, Request, Status, verify};
use formats::{
    Content, Limits, NamedProblem, Output, read_path, write_csv, write_graph, write_plan, write_snapshot, write_trace,
    write_trace_csv,
};
use lifetime::{AnalysisOptions, Graph, Offset, Tier, analyse};
use records::Trace;

use crate::args::ConvertArgs;
use crate::failure::{Failure, say};
use crate::words::defect_in_words;

/// What a file is to become.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Target {
    Csv,
    Json,
    /// Our binary trace.
    Trace,
    /// A snapshot of PyTorch's.
    Pickle,
}

/// The endings by which a file's name says what it is to become.
const ENDINGS: [(&str, Target); 4] =
    [(".csv", Target::Csv), (".json", Target::Json), (".gmtrace", Target::Trace), (".pickle", Target::Pickle)];

/// Runs the command.
pub(crate) fn run(args: &ConvertArgs) -> Result<(), Failure> {
    let target = target(args)?;
    let document = read_path(&args.input, &Limits::default())?;
    let input = args.input.display();
    for note in &document.notes {
        say(&format!("{input}: {note}"));
    }
    if !args.tiers.is_empty() && !matches!((&document.content, target), (Content::Graph(_), Target::Csv)) {
        return Err(Failure::input("--tiers only narrows a graph that becomes a CSV file".to_owned()));
    }
    match (document.content, target) {
        (Content::Graph(graph), Target::Json) => {
            lifetime::check(&graph).map_err(|error| Failure::from(error).in_file(&args.input))?;
            save(args, |out| write_graph(&graph, out))?;
        }
        (Content::Graph(graph), Target::Csv) => {
            let problem = live_ranges(&graph, &args.tiers).map_err(|failure| failure.in_file(&args.input))?;
            save_rows(args, &problem)?;
        }
        (Content::Problem(problem), Target::Csv) => save_rows(args, &problem)?,
        (Content::Plan(plan), Target::Csv) => save_rows(args, &NamedProblem::from(&plan))?,
        (Content::Problem(problem), Target::Json) => {
            if problem.solution().is_none() {
                return Err(Failure::input(format!(
                    "{input}: a list of live ranges has no ops, so it can't become a graph, and not every row has an \
                     offset, so it isn't a plan; `gpumem plan --plan-out` makes one"
                )));
            }
            let plan = plan_of(problem, &input.to_string())?;
            save(args, |out| write_plan(&plan, out))?;
        }
        (Content::Plan(plan), Target::Json) => save(args, |out| write_plan(&plan, out))?,
        (Content::Trace(trace), Target::Csv | Target::Trace) => save_trace(args, &trace, target)?,
        (Content::History(history), Target::Csv | Target::Trace) => {
            save_trace(args, &history.to_trace(None), target)?;
        }
        (Content::History(history), Target::Pickle) => save(args, |out| write_snapshot(&history, out))?,
        (Content::Trace(_), Target::Pickle) => {
            let output = args.output.display();
            return Err(Failure::input(format!(
                "{input}: a trace has no addresses, which a snapshot is made of; `gpumem replay {input} --snapshot \
                 {output}` gives every block one and writes it"
            )));
        }
        (other, _) => {
            let output = args.output.display();
            return Err(Failure::input(format!("{input}: {} can't become {output}", other.kind())));
        }
    }
    Ok(())
}

fn target(args: &ConvertArgs) -> Result<Target, Failure> {
    let name = args.output.file_name().and_then(|name| name.to_str()).unwrap_or_default();
    let name = name.strip_suffix(".gz").or_else(|| name.strip_suffix(".zst")).unwrap_or(name);
    let found = ENDINGS.into_iter().find(|(ending, _)| name.ends_with(ending));
    found.map(|(_, target)| target).ok_or_else(|| {
        let endings = ENDINGS.map(|(ending, _)| ending).join(", ");
        let name = args.output.display();
        Failure::input(format!("{name}: the ending says the format: {endings}, then .gz or .zst if wanted"))
    })
}

fn save_trace(args: &ConvertArgs, trace: &Trace, target: Target) -> Result<(), Failure> {
    if target == Target::Trace {
        return save(args, |out| write_trace(trace, out));
    }
    if trace.rows.is_empty() {
        let input = args.input.display();
        return Err(Failure::input(format!("{input}: there are no rows to write, and a CSV file has at least one")));
    }
    save(args, |out| write_trace_csv(trace, out))
}

fn save_rows(args: &ConvertArgs, problem: &NamedProblem) -> Result<(), Failure> {
    if problem.ids.is_empty() {
        let input = args.input.display();
        return Err(Failure::input(format!(
            "{input}: there are no buffers to write, and a CSV file has at least one row"
        )));
    }
    save(args, |out| write_csv(problem, out))
}

fn save(args: &ConvertArgs, write: impl FnOnce(&mut Output) -> formats::Result<()>) -> Result<(), Failure> {
    let mut out = Output::create(&args.output)?;
    write(&mut out).map_err(Failure::writing(&args.output))?;
    out.finish().map_err(Failure::writing(&args.output))
}

/// A graph's buffers with their live ranges in half-steps, sizes as they are.
fn live_ranges(graph: &Graph, tiers: &[Tier]) -> Result<NamedProblem, Failure> {
    let analysis = analyse(graph, &AnalysisOptions::default())?;
    if !analysis.separations.is_empty() {
        return Err(Failure::input(format!(
            "{} pairs of buffers conflict only because their streams are not ordered, which a CSV file can't say",
            analysis.separations.len()
        )));
    }
    let mut request = Request::from_analysis(graph, &analysis, 1);
    if !tiers.is_empty() {
        request = request.of_tiers(tiers);
    }
    Ok(NamedProblem {
        name: request.name,
        ids: request.buffers.iter().map(|b| b.id.clone()).collect(),
        problem: coloring::Problem {
            buffers: request.buffers.iter().map(PlacedBuffer::to_buffer).collect(),
            ..coloring::Problem::default()
        },
        zero_size: Vec::new(),
        ignored_columns: Vec::new(),
    })
}

/// A CSV file whose every row has an offset, as a plan; its figures are worked out by the verifier.
pub(crate) fn plan_of(problem: NamedProblem, input: &str) -> Result<Plan, Failure> {
    let NamedProblem { name, ids, mut problem, .. } = problem;
    let offsets: Vec<Offset> = problem.buffers.iter().map(|b| b.fixed.unwrap_or_default()).collect();
    let found = verify(&problem, &offsets)
        .map_err(|defect| Failure::no(format!("{input}: {}", defect_in_words(&defect, &ids))))?;
    let end = problem.end();
    // Its author chose these offsets; a plan made of them says so by not calling them fixed.
    let buffers = ids.into_iter().zip(problem.buffers.drain(..)).zip(offsets).map(|((id, b), offset)| PlacedBuffer {
        name: id.clone(),
        id,
        op: None,
        tier: Tier::Temporary,
        offset,
        bytes: b.size,
        alignment: b.alignment,
        range: b.range,
        fixed: false,
        gaps: b.gaps,
    });
    Ok(Plan {
        name,
        buffers: buffers.collect(),
        separations: problem.separations,
        end,
        peak: found.peak,
        max_load: found.max_load,
        lower_bound: found.max_load,
        bound_kind: BoundKind::Load,
        status: if found.peak == found.max_load { Status::Optimal } else { Status::Feasible },
        capacity: problem.capacity,
        order: None,
        solver: "given".to_owned(),
    })
}
