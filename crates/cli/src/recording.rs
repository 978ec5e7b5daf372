//! From a file to the history of a run: read as it is, or made by replaying a trace.

use std::collections::BTreeSet;
use std::path::Path;

use formats::{Content, Limits, read_path};
use records::{Action, DeviceHistory, History, Operation, Row, Trace};
use replay::{Policy, Program, Settings, replay};
use serde::Serialize;

use crate::failure::Failure;
use crate::progress::Spinner;

/// What kind of file it was.
#[derive(Clone, Debug, Default, Serialize)]
pub(crate) struct Input {
    /// As given on the command line.
    pub(crate) path: String,
    /// Name of the format.
    pub(crate) format: &'static str,
    /// How it was compressed.
    pub(crate) compression: &'static str,
    /// Bytes on disk.
    pub(crate) stored_bytes: u64,
}

/// A history that isn't what an allocator did but what a model of one would have done.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct Modelled {
    /// What it was replayed on, in words.
    pub(crate) policy: &'static str,
    /// Bytes of the device it was given, if any.
    pub(crate) capacity_bytes: Option<u64>,
}

/// Requests of which a trace says that they failed. It doesn't say what the device had left.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub(crate) struct StatedFailures {
    /// How many.
    pub(crate) count: u64,
    /// Bytes that the last one asked for.
    pub(crate) last_bytes: u64,
    /// On which stream.
    pub(crate) last_stream: i64,
}

impl StatedFailures {
    /// Those on one device.
    fn of(trace: &Trace, device: u32) -> Self {
        let is_failure = |row: &&Row| row.operation == Operation::OutOfMemory && row.device == device;
        trace.rows.iter().filter(is_failure).fold(Self::default(), |sum, row| Self {
            count: sum.count + 1,
            last_bytes: row.bytes,
            last_stream: row.stream,
        })
    }
}

/// A run.
#[derive(Debug, Default)]
pub(crate) struct Recording {
    /// The file.
    pub(crate) input: Input,
    /// What happened.
    pub(crate) history: History,
    /// How that was made, if the file only says what was asked for.
    pub(crate) modelled: Option<Modelled>,
    /// What was asked for, if that is all the file says.
    pub(crate) trace: Option<Trace>,
}

impl Recording {
    /// What a trace says of requests that failed on a device; none where the history itself has them.
    pub(crate) fn stated_failures(&self, device: u32) -> StatedFailures {
        self.trace.as_ref().map_or_else(StatedFailures::default, |trace| StatedFailures::of(trace, device))
    }

    /// The device asked for; by default the one on which a request failed (of several the one that failed last in time),
    /// else the one with most events.
    pub(crate) fn device_that_failed(&self, wanted: Option<u32>) -> Result<&DeviceHistory, Failure> {
        let failures = self.history.devices.iter().rev().filter_map(|device| {
            let failure = device.events.iter().rev().find(|event| event.action == Action::OutOfMemory)?;
            Some((failure.time_ns, device.device))
        });
        let last = failures.max_by_key(|(time_ns, _)| *time_ns).map(|(_, number)| number);
        self.device(wanted.or(last))
    }

    /// The device asked for; by default the one with most events, of equal ones the first.
    pub(crate) fn device(&self, wanted: Option<u32>) -> Result<&DeviceHistory, Failure> {
        let devices = &self.history.devices;
        let found = match wanted {
            Some(number) => devices.iter().find(|device| device.device == number),
            None => devices.iter().rev().max_by_key(|device| (device.events.len(), device.end.len())),
        };
        found.ok_or_else(|| {
            let known: Vec<String> = devices.iter().map(|device| device.device.to_string()).collect();
            let path = &self.input.path;
            Failure::input(match wanted {
                Some(number) if !known.is_empty() => {
                    format!("{path}: nothing is known of device {number}; there is {}", known.join(", "))
                }
                _ => format!("{path}: nothing happened on any device: there are no events and no segments"),
            })
        })
    }
}

/// Reads the file at `path`. A trace is replayed on a model of PyTorch's caching allocator, on a device of `capacity`
/// bytes if given; where memory runs out, the history ends.
pub(crate) fn open(path: &Path, capacity: Option<u64>, spinner: &Spinner) -> Result<Recording, Failure> {
    spinner.say("reading");
    let document = read_path(path, &Limits::default())?;
    let input = Input {
        path: path.display().to_string(),
        format: document.format.name(),
        compression: document.compression.name(),
        stored_bytes: document.stored_bytes,
    };
    let mut recording = match document.content {
        Content::History(history) => Recording { input, history, ..Recording::default() },
        Content::Trace(mut trace) => {
            if capacity.is_some() {
                ask_again(&mut trace);
            }
            spinner.say("replaying on a model of PyTorch's caching allocator");
            let history = replayed(&trace, capacity).map_err(|failure| failure.in_file(path))?;
            let modelled = Modelled { policy: Policy::Caching.in_words(), capacity_bytes: capacity };
            Recording { input, history, modelled: Some(modelled), trace: Some(trace) }
        }
        other => {
            return Err(Failure::input(format!(
                "{}: {} says nothing of what happened at run time; a PyTorch memory snapshot or a trace of requests does",
                path.display(),
                other.kind()
            )));
        }
    };
    // A reader may have put its notes into both.
    for note in document.notes {
        if !recording.history.notes.contains(&note) {
            recording.history.notes.push(note);
        }
    }
    if recording.history.name.is_empty() {
        recording.history.name = path.file_name().unwrap_or(path.as_os_str()).to_string_lossy().into_owned();
    }
    Ok(recording)
}

/// Turns requests that failed when the trace was made into ones that are asked and dropped at once: on a device of stated
/// size, whether a model can serve them is the question.
fn ask_again(trace: &mut Trace) {
    let is_failure = |row: &Row| row.operation == Operation::OutOfMemory && row.bytes > 0 && row.stream >= 0;
    let highest = trace.rows.iter().map(|row| row.id).max().unwrap_or(0);
    let failures = trace.rows.iter().filter(|row| is_failure(row)).count() as u64;
    if failures == 0 || highest.checked_add(failures).is_none() {
        return;
    }
    let mut next = highest;
    let rows = std::mem::take(&mut trace.rows);
    trace.rows = Vec::with_capacity(rows.len() + failures as usize);
    for row in rows {
        if is_failure(&row) {
            next += 1;
            trace.rows.push(Row { operation: Operation::Alloc, id: next, ..row });
            trace.rows.push(Row { operation: Operation::Free, id: next, bytes: 0, ..row });
        } else {
            trace.rows.push(row);
        }
    }
}

/// What a model of PyTorch's caching allocator would have done, on each device of the trace.
fn replayed(trace: &Trace, capacity: Option<u64>) -> Result<History, Failure> {
    let is_of_a_block = |operation| matches!(operation, Operation::Alloc | Operation::Free | Operation::Use);
    let devices: BTreeSet<u32> =
        trace.rows.iter().filter(|row| is_of_a_block(row.operation)).map(|row| row.device).collect();
    let mut whole: Option<History> = None;
    for device in devices {
        let program = Program::new(trace, Some(device))?;
        let settings = Settings {
            capacity_bytes: capacity,
            keeps_history: true,
            measures_fragmentation: false,
            models_time: false,
            checks_order: false,
            ..Settings::new(Policy::Caching)
        };
        let Some(history) = replay(&program, &settings)?.history else {
            return Err(Failure::internal("a replay lost its history".to_owned()));
        };
        match &mut whole {
            Some(whole) => whole.devices.extend(history.devices),
            None => whole = Some(history),
        }
    }
    Ok(whole.unwrap_or_else(|| History { name: trace.name.clone(), ..History::default() }))
}
