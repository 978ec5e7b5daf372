//! `gpumem plan`.

mod conflicts;
mod explain;
mod files;
mod json;
mod table;

use std::io::{self, Write};
use std::time::{Duration, Instant};

use coloring::{Baseline, Options, Planned, Status, baselines, count_conflicts, tightest_moment};
use lifetime::{Bytes, Order};

use crate::args::PlanArgs;
use crate::failure::{Failure, say};
use crate::load::{LoadOptions, Loaded, load};
use crate::progress::Spinner;
use crate::quantity::Took;
use crate::tame::{Tame, TameJson};
use crate::targets::is_stdout;
use crate::words::error_in_words;

/// Baselines place every buffer eight times over; above this many they would take longer than the plan.
const BASELINE_BUFFERS: usize = 100_000;

/// Everything that is reported, in words or as JSON.
struct Report<'a> {
    loaded: &'a Loaded,
    planned: &'a Planned,
    baselines: Baselines,
    conflict_edges: Option<u64>,
    planning: Duration,
    wall: Duration,
    cpu: Duration,
}

/// What other planners' rules come to.
struct Baselines {
    peaks: Vec<(Baseline, Bytes)>,
    /// Why there are none.
    missing: Option<&'static str>,
}

/// Runs the command.
pub(crate) fn run(args: &PlanArgs) -> Result<(), Failure> {
    let start = Instant::now();
    files::check(args)?;
    let spinner = Spinner::new(!args.quiet);
    let Attempt { loaded, subjects, planned, planning } = best_attempt(args, &spinner)?;
    let baselines = compare(args, &planned, &spinner)?;
    drop(spinner);
    let conflict_edges = count_conflicts(&planned.plan.problem())?;
    let report = Report {
        loaded: &loaded,
        planned: &planned,
        baselines,
        conflict_edges,
        planning,
        wall: start.elapsed(),
        cpu: processor_time(),
    };
    files::write(args, &report)?;
    if is_stdout(args.json.as_deref()) {
        let mut out = TameJson(io::BufWriter::new(io::stdout().lock()));
        json::write(&report, &mut out)?;
        out.flush()?;
        // What else was asked for must not stand among the JSON, and is no reason to fail.
        let _ = explain::write_all(&subjects, &report, &mut Tame(io::stderr().lock()));
    } else {
        let mut out = Tame(io::BufWriter::new(io::stdout().lock()));
        if !args.quiet {
            table::write(&report, &mut out)?;
        }
        explain::write_all(&subjects, &report, &mut out)?;
        out.flush()?;
    }
    match (planned.plan.status, planned.plan.capacity) {
        (Status::Infeasible, Some(capacity)) => Err(Failure::no(does_not_fit(&report, capacity))),
        _ => Ok(()),
    }
}

/// A file read and planned, and what was asked about it.
struct Attempt {
    loaded: Loaded,
    subjects: Vec<explain::Subject>,
    planned: Planned,
    planning: Duration,
}

/// The plan in the order asked for; in the order given, if one chosen for memory has the higher peak after all: its load
/// is lower, but that is not all that decides.
fn best_attempt(args: &PlanArgs, spinner: &Spinner) -> Result<Attempt, Failure> {
    let chosen = attempt(args, args.order, Duration::ZERO, spinner)?;
    let Some(given_load) = chosen.loaded.given_load else { return Ok(chosen) };
    // Of some tiers only, the load is another one, and perhaps lower in the order given.
    if args.tiers.is_empty() && chosen.planned.plan.peak.0 <= chosen.planned.base.0 + given_load.0 {
        return Ok(chosen);
    }
    let mut given = attempt(args, Order::Given, chosen.planning, spinner)?;
    given.planning += chosen.planning;
    if given.planned.plan.peak < chosen.planned.plan.peak {
        given.loaded.given_load = Some(given_load);
        return Ok(given);
    }
    Ok(Attempt { planning: given.planning, ..chosen })
}

/// Reads and plans the file; `spent` of the time limit is already gone.
fn attempt(args: &PlanArgs, order: Order, spent: Duration, spinner: &Spinner) -> Result<Attempt, Failure> {
    let options = LoadOptions { order, alignment: args.alignment, ignore_offsets: args.ignore_offsets };
    let mut loaded = load(&args.file, options)?;
    for warning in loaded.warnings.iter().filter(|_| !args.quiet) {
        spinner.aside(|| say(warning));
    }
    let mut request = std::mem::take(&mut loaded.request);
    if !args.tiers.is_empty() {
        request = request.of_tiers(&args.tiers);
    }
    request.capacity = args.capacity.map(|size| Bytes(size.0)).or(request.capacity);
    // For messages about single buffers; a million of them that none will be about needn't be copied.
    let may_be_refused = request.buffers.iter().any(|b| b.fixed || !b.gaps.is_empty());
    let ids: Vec<String> = match may_be_refused || !args.explain.is_empty() {
        true => request.buffers.iter().map(|b| b.id.clone()).collect(),
        false => Vec::new(),
    };
    let subjects = explain::find(&args.explain, &loaded, &ids, &request)?;
    let planning = Instant::now();
    let solver_options = Options {
        node_limit: args.node_limit,
        time_limit: args.time_limit.map(|limit| limit.0.saturating_sub(spent)),
        threads: usize::from(args.threads),
        seed: args.seed,
        ..Options::default()
    };
    let planned = coloring::plan(request, &solver_options, &mut |progress| spinner.show(&progress))
        .map_err(|error| refused(error, &ids).in_file(&args.file))?;
    Ok(Attempt { loaded, subjects, planned, planning: planning.elapsed() })
}

fn compare(args: &PlanArgs, planned: &Planned, spinner: &Spinner) -> Result<Baselines, Failure> {
    let none = |reason| Ok(Baselines { peaks: Vec::new(), missing: Some(reason) });
    if args.no_baselines {
        return none("not asked for");
    }
    if planned.arena.buffers.len() > BASELINE_BUFFERS {
        return none("not run: more than 100 000 buffers");
    }
    spinner.say("comparing with other planners' rules");
    let above =
        |peak: Bytes| if planned.arena.buffers.is_empty() { planned.plan.peak } else { Bytes(planned.base.0 + peak.0) };
    let peaks = baselines(&planned.arena)?.into_iter().map(|(name, peak)| (name, above(peak))).collect();
    Ok(Baselines { peaks, missing: None })
}

/// What the planner refuses, with identifiers in place of numbers.
fn refused(error: coloring::Error, ids: &[String]) -> Failure {
    match error {
        coloring::Error::Internal { .. } => Failure::from(error),
        error => Failure::input(error_in_words(&error, ids)),
    }
}

/// Most buffers listed of those live at an overloaded moment.
const LISTED: usize = 20;

/// What stands in the way of a capacity.
fn does_not_fit(report: &Report<'_>, capacity: Bytes) -> String {
    let plan = &report.planned.plan;
    let (moment, live) = tightest_moment(&plan.problem());
    let verdict = if plan.lower_bound > capacity {
        format!("no plan can fit into {} bytes: {} are needed at least", capacity.0, plan.lower_bound.0)
    } else {
        format!(
            "no plan within {} bytes was found (the best takes {}, none takes less than {}); a larger --node-limit \
             searches longer",
            capacity.0, plan.peak.0, plan.lower_bound.0
        )
    };
    let at = explain::moment_in_words(report.loaded, moment);
    let mut text = format!("{verdict}\nlive at {at}: {} buffers, {} bytes", live.len(), plan.max_load.0);
    for &i in live.iter().take(LISTED) {
        let b = &plan.buffers[i as usize];
        let op = b.op.as_ref().map(|op| format!(" by {op}")).unwrap_or_default();
        text.push_str(&format!("\n  {:>16} bytes  {:<10} {}{op}", b.bytes.0, b.tier.name(), b.name));
    }
    if live.len() > LISTED {
        text.push_str(&format!("\n  and {} more", live.len() - LISTED));
    }
    text
}

/// Processor time of this process so far, all threads.
fn processor_time() -> Duration {
    let now = rustix::time::clock_gettime(rustix::time::ClockId::ProcessCPUTime);
    Duration::try_from(now).unwrap_or_default()
}

/// How long the whole command took, in words.
fn took(report: &Report<'_>) -> String {
    let loaded = report.loaded;
    format!(
        "{} in all: read {}, analysed {}, planned {}; {} of processor time",
        Took(report.wall),
        Took(loaded.read),
        Took(loaded.analysed),
        Took(report.planning),
        Took(report.cpu),
    )
}
