//! `gpumem verify`.

use std::io::{self, Write};
use std::path::Path;

use coloring::{Plan, Request, Status, verify_plan};
use formats::{Content, Limits, read_path};

use crate::args::VerifyArgs;
use crate::convert::plan_of;
use crate::failure::Failure;
use crate::load::request_of;
use crate::quantity::Grouped;
use crate::tame::Tame;
use crate::words::defect_in_words;

/// Runs the command.
pub(crate) fn run(args: &VerifyArgs) -> Result<(), Failure> {
    let name = args.plan.display().to_string();
    let document = read_path(&args.plan, &Limits::default())?;
    let plan = match document.content {
        Content::Plan(plan) => plan,
        Content::Problem(problem) if problem.solution().is_some() => plan_of(problem, &name)?,
        Content::Problem(_) => {
            return Err(Failure::input(format!("{name}: not a plan: only some rows, or none, have an offset")));
        }
        _ => return Err(Failure::input(format!("{name}: not a plan but {}", document.format))),
    };
    let ids: Vec<String> = plan.buffers.iter().map(|b| b.id.clone()).collect();
    let check =
        verify_plan(&plan).map_err(|defect| Failure::no(format!("{name}: {}", defect_in_words(&defect, &ids))))?;
    let mut out = Tame(io::stdout().lock());
    if !args.quiet {
        let bound = match check.bound_is_checked {
            true => "recomputed",
            false => "found by a search, not repeated here",
        };
        writeln!(
            out,
            "{name}: {} buffers, none overlapping in time and bytes; peak {} B, max load {} B, lower bound {} B ({bound}), {}",
            Grouped(plan.buffers.len() as u64),
            Grouped(plan.peak.0),
            Grouped(plan.max_load.0),
            Grouped(plan.lower_bound.0),
            match (check.bound_is_checked, plan.status) {
                (false, Status::Optimal) => "optimal if that search was right",
                (_, status) => status.name(),
            },
        )?;
    }
    if let Some(file) = &args.file {
        let left_out = compare(&plan, file, args.ignore_offsets)?;
        if !args.quiet {
            let file = file.display();
            write!(out, "{file}: every buffer of the plan is there, with the same bytes and live range")?;
            match left_out {
                0 => writeln!(out, ", and no other")?,
                n => writeln!(out, "; {} buffers of tiers the plan leaves out", Grouped(n as u64))?,
            }
        }
    }
    Ok(())
}

/// Derives the buffers anew and holds them against the plan; returns how many belong to tiers the plan doesn't have.
fn compare(plan: &Plan, file: &Path, ignore_offsets: bool) -> Result<usize, Failure> {
    let name = file.display();
    let document = read_path(file, &Limits::default())?;
    let request = match document.content {
        Content::Graph(graph) => {
            lifetime::check(&graph).map_err(|error| Failure::from(error).in_file(file))?;
            Request::in_order_of(&graph, plan).map_err(|why| Failure::no(format!("{name}: {why}")))?
        }
        Content::Problem(named) => request_of(named),
        Content::Plan(other) => {
            Request { buffers: other.buffers, separations: other.separations, ..Request::default() }
        }
        other => return Err(Failure::input(format!("{name}: {} can't be compared with a plan", other.kind()))),
    };
    coloring::compare(plan, &request, ignore_offsets).map_err(|why| Failure::no(format!("{name}: {why}")))
}
