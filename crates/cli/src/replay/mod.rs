//! `gpumem replay`.

mod args;
mod contents;
mod json;
mod log;
mod table;

use std::io::{self, Write};
use std::path::Path;
use std::time::{Duration, Instant};

use device::CostModel;
use formats::{Content, Limits, Output, read_path, write_snapshot};
use memviz::{HistoryOptions, write_history_html};
use records::{History, Trace};
use replay::{CachingSettings, GpumemSettings, Outcome, Program, Settings, drop_uses, min_capacity, replay_observed};

pub(crate) use self::args::ReplayArgs;
use self::log::Log;
use crate::answer::answer_with;
use crate::failure::Failure;
use crate::progress::{Bar, Spinner};
use crate::targets::{check_targets, is_stdout};

/// Everything that is reported, in words or as JSON.
struct Report<'a> {
    path: String,
    format: &'static str,
    trace: &'a Trace,
    device: u32,
    streams: usize,
    has_syncs: bool,
    settings: Settings,
    /// Most bytes live at a time in the whole trace, wherever the replay ended.
    peak_live_bytes: u64,
    outcome: Outcome,
    /// What the search came to, if asked for: `None` inside if even many times peak live were not enough.
    min_capacity: Option<Option<u64>>,
    wall: Duration,
}

/// Runs the command.
pub(crate) fn run(args: &ReplayArgs) -> Result<(), Failure> {
    let start = Instant::now();
    let targets =
        [("--log", &args.log), ("--html", &args.html), ("--snapshot", &args.snapshot), ("--json", &args.json)];
    let targets: Vec<(&str, &Path)> = targets
        .into_iter()
        .filter_map(|(option, path)| Some((option, path.as_deref()?)))
        .filter(|(option, path)| *option != "--json" || !is_stdout(Some(path)))
        .collect();
    check_targets(&[&args.trace], &targets)?;
    let (trace, format) = read(args)?;
    let refused = |error: replay::Error| Failure::from(error).in_file(&args.trace);
    let program = Program::new(&trace, args.device).map_err(refused)?;
    if args.contents {
        return contents::run(args, &program);
    }
    let settings = settings(args, &program);
    let outcome = run_once(args, &program, &settings)?;
    let min_capacity = match args.min_capacity {
        true => Some(search(args, &program, &settings).map_err(refused)?),
        false => None,
    };
    let report = Report {
        path: args.trace.display().to_string(),
        format,
        trace: &trace,
        device: program.device(),
        streams: program.stream_count(),
        has_syncs: program.has_syncs(),
        settings,
        peak_live_bytes: program.peak_live_bytes(),
        outcome,
        min_capacity,
        wall: start.elapsed(),
    };
    write(args, &report)?;
    match report.outcome.failed {
        Some(failed) => Err(Failure::no(table::failure_in_words(&failed, &report))),
        None => Ok(()),
    }
}

fn read(args: &ReplayArgs) -> Result<(Trace, &'static str), Failure> {
    let spinner = Spinner::new(!args.quiet);
    let document = read_path(&args.trace, &Limits::default())?;
    drop(spinner);
    let format = document.format.name();
    let mut trace = match document.content {
        Content::Trace(trace) => trace,
        Content::History(history) => history.to_trace(args.device),
        _ => {
            let path = args.trace.display();
            return Err(Failure::input(format!("{path}: {format} says nothing of who asked for memory when")));
        }
    };
    drop_uses(&mut trace, |stream| args.drop_use.iter().any(|streams| streams.contains(stream)));
    Ok((trace, format))
}

fn settings(args: &ReplayArgs, program: &Program<'_>) -> Settings {
    Settings {
        caching: CachingSettings {
            max_split_bytes: args.max_split_size.map(|size| size.0),
            roundup_power2_divisions: args.roundup_power2_divisions,
            ..CachingSettings::default()
        },
        gpumem: GpumemSettings {
            reading: args.reading,
            hand_over: args.hand_over,
            backing: args.backing,
            hard_bytes: args.hard_budget.map(|size| size.0),
            soft_bytes: args.soft_budget.map(|size| size.0),
        },
        capacity_bytes: args.capacity.map(|capacity| capacity.bytes(program.peak_live_bytes())),
        passes: args.passes,
        lag_steps: args.lag,
        costs: args.prices.iter().fold(CostModel::default(), |costs, (call, price)| costs.with_price(*call, *price)),
        keeps_history: args.html.is_some() || args.snapshot.is_some(),
        ..Settings::new(args.policy)
    }
}

fn run_once(args: &ReplayArgs, program: &Program<'_>, settings: &Settings) -> Result<Outcome, Failure> {
    let rows = program.row_count() as u64 * u64::from(settings.passes);
    let bar = Bar::new(!args.quiet, rows, "replaying");
    let out = args.log.as_deref().map(Output::create).transpose()?;
    let begun = Log::new(out.map(io::BufWriter::new), &bar);
    let path = args.log.as_deref().unwrap_or(Path::new("-"));
    let mut log = begun.map_err(|source| Failure::unwritten(path, &source))?;
    let outcome = replay_observed(program, settings, &mut log).map_err(|error| match error {
        replay::Error::Log { what } => Failure::input(format!("{}: can't write: {what}", path.display())),
        error => Failure::from(error).in_file(&args.trace),
    })?;
    if let Some(out) = log.into_inner() {
        let out = out.into_inner().map_err(|error| Failure::unwritten(path, error.error()))?;
        out.finish().map_err(Failure::writing(path))?;
    }
    Ok(outcome)
}

/// The files that show what the policy did.
fn write_history(args: &ReplayArgs, history: &History) -> Result<(), Failure> {
    let _spinner = Spinner::new(!args.quiet);
    if let Some(path) = args.html.as_deref() {
        let mut out = Output::create(path)?;
        write_history_html(history, &HistoryOptions::default(), &mut out).map_err(Failure::drawing(path))?;
        out.finish().map_err(Failure::writing(path))?;
    }
    if let Some(path) = args.snapshot.as_deref() {
        let mut out = Output::create(path)?;
        write_snapshot(history, &mut out).map_err(Failure::writing(path))?;
        out.finish().map_err(Failure::writing(path))?;
    }
    Ok(())
}

fn search(args: &ReplayArgs, program: &Program<'_>, settings: &Settings) -> replay::Result<Option<u64>> {
    let spinner = Spinner::new(!args.quiet);
    min_capacity(program, settings, |capacity| {
        spinner.say(&format!("searching the smallest capacity: {}", lifetime::Bytes(capacity)));
    })
}

fn write(args: &ReplayArgs, report: &Report<'_>) -> Result<(), Failure> {
    if let Some(history) = &report.outcome.history {
        write_history(args, history)?;
    }
    let text = |out: &mut dyn Write| if args.quiet { Ok(()) } else { table::write(report, out) };
    answer_with(args.json.as_deref(), |out| json::write(report, out), text)
}
