//! `gpumem memviz`: a recorded run as a picture, or for other viewers.

use std::path::Path;

use ::memviz::{HistoryOptions, PictureOptions, write_history_html};
use formats::Output;
use records::find_steps;

use crate::args::MemvizArgs;
use crate::failure::Failure;
use crate::progress::Spinner;
use crate::recording::{self, Recording};
use crate::targets::check_targets;

/// Numbers of the first and the last step wanted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct StepRange(pub(crate) u64, pub(crate) u64);

impl std::str::FromStr for StepRange {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let range = match text.split_once("..") {
            Some((first, last)) => first.parse().ok().zip(last.parse().ok()),
            None => text.parse().ok().map(|step| (step, step)),
        };
        match range {
            Some((first, last)) if first <= last => Ok(Self(first, last)),
            _ => Err("steps are a number, or two with `..` between them: the first and the last".to_owned()),
        }
    }
}

/// Runs the command.
pub(crate) fn run(args: &MemvizArgs) -> Result<(), Failure> {
    let targets: [(&str, &Path); 1] = [("--output", &args.output)];
    check_targets(&[&args.file], &targets)?;
    let spinner = Spinner::new(true);
    let recording = recording::open(&args.file, args.capacity.map(|size| size.0), &spinner)?;
    let options = options(args, &recording)?;
    spinner.say("drawing");
    let mut whole = Vec::new();
    for (_, path) in targets {
        let mut out = Output::create(path)?;
        write_history_html(&recording.history, &options, &mut out).map_err(Failure::drawing(path))?;
        whole.push((path, out));
    }
    for (path, out) in whole {
        out.finish().map_err(Failure::writing(path))?;
    }
    Ok(())
}

/// What is shown: steps that are not marked by events are turned into numbers of events first.
fn options(args: &MemvizArgs, recording: &Recording) -> Result<HistoryOptions, Failure> {
    let mut options = HistoryOptions {
        picture: PictureOptions::default().with_theme(args.theme),
        devices: args.device.map(|device| vec![device]),
        from: args.from,
        to: args.to,
        color_by: args.color_by,
        ..HistoryOptions::default()
    };
    if let Some(device) = args.device {
        recording.device(Some(device))?;
    }
    let Some(StepRange(first, last)) = args.steps else { return Ok(options) };
    let device = recording.device(args.device)?;
    let history = &recording.history;
    let path = &recording.input.path;
    let Some(steps) = find_steps(device, &history.annotations, &history.names) else {
        return Err(Failure::input(format!(
            "{path}: --steps: no steps are marked on device {} and no sequence of requests repeats",
            device.device
        )));
    };
    let mut wanted = steps.steps.iter().filter(|step| (first..=last).contains(&step.number));
    let Some(begin) = wanted.next() else {
        let known = steps.steps.iter().map(|step| step.number);
        return Err(Failure::input(format!(
            "{path}: --steps {first}..{last}: there are steps {} to {}",
            known.clone().min().unwrap_or(0),
            known.max().unwrap_or(0)
        )));
    };
    let end = wanted.next_back().unwrap_or(begin).end;
    options.devices = Some(vec![device.device]);
    options.from = Some(options.from.map_or(begin.start, |from| from.max(begin.start)));
    options.to = Some(options.to.map_or(end, |to| to.min(end)));
    Ok(options)
}
