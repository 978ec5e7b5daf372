//! `gpumem plan`.

mod conflicts;
mod explain;
mod json;
mod progress;
mod table;

use std::io::{self, Write};
use std::path::Path;
use std::time::{Duration, Instant};

use coloring::{Baseline, Options, Planned, Status, baselines, count_conflicts, tightest_moment};
use formats::{Output, write_plan};
use lifetime::Bytes;
use memviz::{PictureOptions, write_html, write_png, write_svg};

use crate::args::PlanArgs;
use crate::failure::Failure;
use crate::load::{LoadOptions, Loaded, load};
use crate::plan::progress::Spinner;
use crate::quantity::Took;

/// Baselines place every buffer eight times over; above this many they would take longer than the plan.
const BASELINE_BUFFERS: usize = 100_000;

/// Everything that is reported, in words or as JSON.
struct Report<'a> {
    loaded: &'a Loaded,
    planned: &'a Planned,
    baselines: Vec<(Baseline, Bytes)>,
    /// Why there are none.
    no_baselines: Option<&'static str>,
    conflict_edges: Option<u64>,
    planning: Duration,
    wall: Duration,
    cpu: Duration,
}

/// Runs the command.
pub(crate) fn run(args: &PlanArgs) -> Result<(), Failure> {
    let start = Instant::now();
    let options = LoadOptions { order: args.order, alignment: args.alignment, ignore_offsets: args.ignore_offsets };
    let mut loaded = load(&args.file, options)?;
    for warning in loaded.warnings.iter().filter(|_| !args.quiet) {
        eprintln!("gpumem: {warning}");
    }
    let mut request = std::mem::take(&mut loaded.request);
    if !args.tiers.is_empty() {
        request = request.of_tiers(&args.tiers);
    }
    request.capacity = args.capacity.map(|size| Bytes(size.0)).or(request.capacity);
    let capacity = request.capacity;
    let ids: Vec<String> = match args.explain.is_empty() {
        true => Vec::new(),
        false => request.buffers.iter().map(|b| b.id.clone()).collect(),
    };
    let subjects = explain::find(&args.explain, &loaded, &ids, &request)?;
    let planning = Instant::now();
    let solver_options = Options {
        node_limit: args.node_limit,
        time_limit: args.time_limit.map(|limit| limit.0),
        threads: usize::from(args.threads),
        seed: args.seed,
        ..Options::default()
    };
    let spinner = Spinner::new(!args.quiet);
    let planned = coloring::plan(request, &solver_options, &mut |progress| spinner.show(&progress))
        .map_err(|error| Failure::from(error).in_file(&args.file))?;
    let planning = planning.elapsed();
    let (baselines, no_baselines) = compare(args, &planned, &spinner)?;
    drop(spinner);
    let conflict_edges = count_conflicts(&planned.plan.problem())?;
    let report = Report {
        loaded: &loaded,
        planned: &planned,
        baselines,
        no_baselines,
        conflict_edges,
        planning,
        wall: start.elapsed(),
        cpu: processor_time(),
    };
    write_files(args, &report)?;
    let json_on_stdout = args.json.as_deref() == Some(Path::new("-"));
    if !json_on_stdout {
        let mut out = io::stdout().lock();
        if !args.quiet {
            table::write(&report, &mut out)?;
        }
        for subject in &subjects {
            explain::write(subject, &report, &mut out)?;
        }
        out.flush()?;
    }
    match (planned.plan.status, capacity) {
        (Status::Infeasible, Some(capacity)) => Err(Failure::no(does_not_fit(&report, capacity))),
        _ => Ok(()),
    }
}

fn compare(
    args: &PlanArgs,
    planned: &Planned,
    spinner: &Spinner,
) -> Result<(Vec<(Baseline, Bytes)>, Option<&'static str>), Failure> {
    if args.no_baselines {
        return Ok((Vec::new(), Some("not asked for")));
    }
    if planned.arena.buffers.len() > BASELINE_BUFFERS {
        return Ok((Vec::new(), Some("not run: more than 100 000 buffers")));
    }
    spinner.say("comparing with other planners' rules");
    let above =
        |peak: Bytes| if planned.arena.buffers.is_empty() { planned.plan.peak } else { Bytes(planned.base.0 + peak.0) };
    Ok((baselines(&planned.arena)?.into_iter().map(|(name, peak)| (name, above(peak))).collect(), None))
}

fn write_files(args: &PlanArgs, report: &Report<'_>) -> Result<(), Failure> {
    let plan = &report.planned.plan;
    if let Some(path) = &args.plan_out {
        let mut out = Output::create(path)?;
        write_plan(plan, &mut out)?;
        out.finish()?;
    }
    if let Some(path) = &args.conflicts {
        conflicts::write(path, plan)?;
    }
    let picture = PictureOptions::default();
    if let Some(path) = &args.html {
        let mut out = Output::create(path)?;
        write_html(plan, &picture, &mut out)?;
        out.finish()?;
    }
    if let Some(path) = &args.png {
        let mut out = Output::create(path)?;
        write_png(plan, &picture, &mut out)?;
        out.finish()?;
    }
    if let Some(path) = &args.svg {
        let mut out = Output::create(path)?;
        write_svg(plan, &picture, &mut out)?;
        out.finish()?;
    }
    match args.json.as_deref() {
        None => {}
        Some(path) if path == Path::new("-") => {
            let mut out = io::BufWriter::new(io::stdout().lock());
            json::write(report, &mut out)?;
            out.flush()?;
        }
        Some(path) => {
            let mut out = Output::create(path)?;
            json::write(report, &mut out).map_err(|error| Failure::input(format!("{}: {error}", path.display())))?;
            out.finish()?;
        }
    }
    Ok(())
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
