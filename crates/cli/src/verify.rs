//! `gpumem verify`.

use std::collections::HashMap;
use std::io::{self, Write};
use std::path::Path;

use coloring::{PlacedBuffer, Plan, Request, Status, verify_plan};
use formats::{Content, Limits, read_path};
use lifetime::{AnalysisOptions, Graph, OpId, analyse};

use crate::args::VerifyArgs;
use crate::convert::plan_of;
use crate::failure::Failure;
use crate::load::{range_in_words, request_of};
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
            derive(&graph, plan).map_err(|why| Failure::no(format!("{name}: {why}")))?
        }
        Content::Problem(named) => request_of(named),
        Content::Plan(other) => {
            Request { buffers: other.buffers, separations: other.separations, ..Request::default() }
        }
        other => return Err(Failure::input(format!("{name}: {} can't be compared with a plan", other.kind()))),
    };
    let differs = |what: String| Failure::no(format!("{name}: {what}"));
    let mut planned: HashMap<&str, &PlacedBuffer> = plan.buffers.iter().map(|b| (b.id.as_str(), b)).collect();
    let (mut left_out, mut planned_tiers) = (Vec::new(), Vec::new());
    for b in &request.buffers {
        let Some(p) = planned.remove(b.id.as_str()) else {
            left_out.push(b);
            continue;
        };
        if !planned_tiers.contains(&b.tier) {
            planned_tiers.push(b.tier);
        }
        if p.bytes != b.bytes || p.range != b.range || p.gaps != b.gaps {
            return Err(differs(format!(
                "buffer `{}` ({}) has {} bytes and lives {}; the plan has {} bytes, {}",
                b.id,
                b.name,
                b.bytes.0,
                range_in_words(b.range.birth, b.range.death, &b.gaps),
                p.bytes.0,
                range_in_words(p.range.birth, p.range.death, &p.gaps)
            )));
        }
        if p.fixed && !b.fixed {
            return Err(differs(format!("buffer `{}` is not pinned there, as the plan claims", b.id)));
        }
        if b.fixed && !ignore_offsets && b.offset != p.offset {
            return Err(differs(format!(
                "buffer `{}` is pinned at {} but planned at {}",
                b.id, b.offset.0, p.offset.0
            )));
        }
        if !p.offset.0.is_multiple_of(b.alignment) {
            return Err(differs(format!(
                "buffer `{}` must be aligned to {} but lies at {}",
                b.id, b.alignment, p.offset.0
            )));
        }
    }
    if let Some(id) = planned.into_keys().min() {
        return Err(differs(format!("the plan has a buffer `{id}` that isn't there")));
    }
    // A plan of some tiers leaves the others out, but never a part of one. What the plan calls them doesn't count.
    if let Some(b) = left_out.iter().find(|b| planned_tiers.contains(&b.tier)) {
        return Err(differs(format!("buffer `{}` ({}, {}) is missing from the plan", b.id, b.name, b.tier)));
    }
    check_separations(plan, &request).map_err(differs)?;
    Ok(left_out.len())
}

/// Buffers that only streams keep apart must not share bytes, whether the plan says so or not.
fn check_separations(plan: &Plan, request: &Request) -> Result<(), String> {
    let planned: HashMap<&str, &PlacedBuffer> = plan.buffers.iter().map(|b| (b.id.as_str(), b)).collect();
    for &(a, b) in &request.separations {
        let (a, b) = (&request.buffers[a as usize].id, &request.buffers[b as usize].id);
        let (Some(x), Some(y)) = (planned.get(a.as_str()), planned.get(b.as_str())) else { continue };
        if x.offset.0 < y.offset.0 + y.bytes.0 && y.offset.0 < x.offset.0 + x.bytes.0 {
            return Err(format!("buffers `{a}` and `{b}` share bytes, and nothing orders their streams"));
        }
    }
    Ok(())
}

/// The buffers of a graph in the plan's order of ops, which is checked like any other.
fn derive(graph: &Graph, plan: &Plan) -> Result<Request, String> {
    let given: Vec<OpId> = (0..graph.ops.len() as u32).map(OpId).collect();
    let order = plan.order.clone().unwrap_or_else(|| given.clone());
    let mut sorted = order.clone();
    sorted.sort_unstable();
    if sorted != given {
        return Err(format!("the plan's order is not one of this graph's {} ops", graph.ops.len()));
    }
    // The graph as if it had been issued in that order.
    let mut place = vec![0_u32; order.len()];
    for (at, op) in order.iter().enumerate() {
        place[op.index()] = at as u32;
    }
    let mut issued = graph.clone();
    issued.ops = order.iter().map(|op| graph.ops[op.index()].clone()).collect();
    for op in &mut issued.ops {
        for before in &mut op.after {
            *before = OpId(place[before.index()]);
        }
    }
    // Ops keep their names: identifiers of workspaces are made of them.
    issued.op_ids = order.iter().map(|&op| graph.op_id(op).into_owned()).collect();
    let analysis = analyse(&issued, &AnalysisOptions::default()).map_err(|error| error.to_string())?;
    Ok(Request::from_analysis(&issued, &analysis, 1))
}
