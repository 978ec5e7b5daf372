//! `gpumem memviz`: a recorded run as a picture, or for other viewers.

use std::borrow::Cow;
use std::path::Path;

use ::memviz::{HistoryOptions, PictureOptions, write_history_html, write_history_png, write_history_svg};
use clap::ValueEnum;
use formats::{Output, write_chrome, write_sqlite};
use records::{DeviceHistory, History, Moment, find_steps};

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

/// What the file that `--output` names is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum View {
    /// A page for a browser.
    Html,
    /// Events for Perfetto and Chrome's tracing page.
    Chrome,
    /// Tables for SQLite.
    Sqlite,
}

impl View {
    /// The one asked for, or the one that the name's ending tells.
    fn of(args: &MemvizArgs, path: &Path) -> Self {
        let name = path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
        let name = name.strip_suffix(".gz").unwrap_or(name);
        args.format.unwrap_or(match name.rsplit('.').next() {
            Some("json") => Self::Chrome,
            Some("sqlite" | "sqlite3" | "db") => Self::Sqlite,
            _ => Self::Html,
        })
    }
}

/// Runs the command.
pub(crate) fn run(args: &MemvizArgs) -> Result<(), Failure> {
    let targets = [("--output", &args.output), ("--png", &args.png), ("--svg", &args.svg)];
    let targets: Vec<(&str, &Path)> =
        targets.into_iter().filter_map(|(option, path)| Some((option, path.as_deref()?))).collect();
    if targets.is_empty() {
        return Err(Failure::input("nothing to write: --output, --png or --svg says what and where".to_owned()));
    }
    check_targets(&[&args.file], &targets)?;
    let spinner = Spinner::new(true);
    let recording = recording::open(&args.file, args.capacity.map(|size| size.0), &spinner)?;
    let options = options(args, &recording)?;
    let history = &recording.history;
    let mut whole = Vec::new();
    for (option, path) in targets {
        spinner.say(&format!("drawing {}", path.display()));
        let view = View::of(args, path);
        if option == "--output" && view == View::Sqlite {
            write_sqlite(part(history, &options)?.as_ref(), path)?;
            continue;
        }
        let mut out = Output::create(path)?;
        let drawing = Failure::drawing(path);
        match (option, view) {
            ("--png", _) => write_history_png(history, &options, &mut out).map_err(drawing)?,
            ("--svg", _) => write_history_svg(history, &options, &mut out).map_err(drawing)?,
            (_, View::Chrome) => {
                write_chrome(part(history, &options)?.as_ref(), &mut out).map_err(Failure::writing(path))?
            }
            _ => write_history_html(history, &options, &mut out).map_err(drawing)?,
        }
        whole.push((path, out));
    }
    for (path, out) in whole {
        out.finish().map_err(Failure::writing(path))?;
    }
    Ok(())
}

/// The devices and events asked for, as a history of their own: what came before is its start.
fn part<'a>(history: &'a History, options: &HistoryOptions) -> Result<Cow<'a, History>, Failure> {
    if options.devices.is_none() && options.from.is_none() && options.to.is_none() {
        return Ok(Cow::Borrowed(history));
    }
    let is_wanted = |device: &&DeviceHistory| options.devices.as_ref().is_none_or(|d| d.contains(&device.device));
    let devices: Vec<DeviceHistory> =
        history.devices.iter().filter(is_wanted).map(|device| cut(device, options)).collect();
    if devices.iter().all(|device| device.events.is_empty()) {
        return Err(Failure::input("no event lies in the range that --from, --to and --steps give".to_owned()));
    }
    let times = devices.iter().flat_map(|device| &device.events).map(|event| event.time_ns).filter(|ns| *ns != 0);
    let (first, last) = (times.clone().min().unwrap_or(0), times.max().unwrap_or(u64::MAX));
    let annotations = history.annotations.iter().filter(|a| (first..=last).contains(&a.time_ns));
    Ok(Cow::Owned(History {
        name: history.name.clone(),
        allocator: history.allocator.clone(),
        settings: history.settings.clone(),
        devices,
        annotations: annotations.copied().collect(),
        notes: history.notes.clone(),
        names: history.names.clone(),
        stacks: history.stacks.clone(),
    }))
}

fn cut(device: &DeviceHistory, options: &HistoryOptions) -> DeviceHistory {
    let count = device.events.len();
    let place = |event: u64| usize::try_from(event).unwrap_or(usize::MAX).min(count);
    let from = options.from.map_or(0, place);
    let to = options.to.map_or(count, place).max(from);
    let state = |events: usize| Moment::after(device, events as u64).map().segments().collect();
    DeviceHistory {
        device: device.device,
        capacity_bytes: device.capacity_bytes,
        granule_bytes: device.granule_bytes,
        start: if from == 0 { device.start.clone() } else { state(from) },
        events: device.events[from..to].to_vec(),
        end: if to == count { device.end.clone() } else { state(to) },
        defects: device.defects.clone(),
    }
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
