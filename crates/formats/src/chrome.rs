//! A history as a trace of Chrome's, which Perfetto opens.

use std::borrow::Cow;
use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::io::{self, BufWriter, Write};

use records::{Action, Annotation, DeviceHistory, History, MemoryMap, Stage, Totals};
use serde::Serialize;

use crate::lives::{Life, Teller, lives, times};
use crate::{Error, Result};

/// Most stretches of a device's events for which sums are written, each with its last and its highest ones.
const MAX_STRETCHES: usize = 10_000;

/// Most blocks of a device: the largest ones.
const MAX_BLOCKS: usize = 20_000;

/// Most instants and annotations of a device.
const MAX_MARKS: usize = 20_000;

/// Where blocks and annotations go among the threads of a process.
const FIRST_BLOCK_LANE: u64 = 1000;
const FIRST_ANNOTATION_LANE: u64 = 1;

/// Writes a history in the JSON form of Chrome's trace events, for Perfetto or `chrome://tracing`.
///
/// Each device is a process. Its counters are the sums live, allocated, active and reserved; each thread is a lane of
/// blocks that don't overlap; failed requests, snapshots and steps are instants, annotations slices. So that a viewer
/// can open it whatever the history's length, sums are given for at most 10 000 stretches of events (the highest and
/// last of each), blocks for the 20 000 largest, and at most 20 000 instants and annotations; `otherData` says which.
/// Times count from the first event; where they run backwards, they stand still. Where none is known, an event takes a
/// microsecond.
///
/// # Errors
/// The writer failed.
pub fn write_chrome(history: &History, out: impl Write) -> Result<()> {
    let mut out = BufWriter::with_capacity(64 << 10, out);
    write_all(history, &mut out).map_err(|source| Error::Io { file: history.name.clone(), action: "write", source })
}

/// An event as Chrome has them.
#[derive(Serialize)]
struct Entry<'a> {
    name: &'a str,
    ph: &'a str,
    pid: u32,
    tid: u64,
    #[serde(serialize_with = "microseconds")]
    ts: u64,
    #[serde(skip_serializing_if = "Option::is_none", serialize_with = "some_microseconds")]
    dur: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    s: Option<&'a str>,
    args: Args<'a>,
}

#[derive(Serialize)]
#[serde(untagged)]
enum Args<'a> {
    Bytes {
        bytes: u64,
    },
    Name {
        name: &'a str,
    },
    Index {
        sort_index: u64,
    },
    Block {
        address: String,
        requested_bytes: u64,
        bytes: u64,
        stream: u64,
        #[serde(skip_serializing_if = "Option::is_none", serialize_with = "some_microseconds")]
        pending: Option<u64>,
        #[serde(skip_serializing_if = "str::is_empty")]
        from: &'a str,
    },
    None {},
}

/// Nanoseconds as microseconds with three digits.
fn microseconds<S: serde::Serializer>(ns: &u64, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_f64(*ns as f64 / 1000.0)
}

fn some_microseconds<S: serde::Serializer>(ns: &Option<u64>, serializer: S) -> Result<S::Ok, S::Error> {
    microseconds(&ns.unwrap_or_default(), serializer)
}

/// Something to be written at a time.
enum Item<'a> {
    Sum(&'static str, u64),
    Block(&'a Life, u64, u64),
    Instant(String),
    Annotation(Cow<'a, str>, u64, u64),
}

fn write_all(history: &History, out: &mut impl Write) -> io::Result<()> {
    let teller = Teller::new(history);
    let all_times: Vec<Vec<u64>> = history.devices.iter().map(times).collect();
    let start_ns = all_times.iter().filter_map(|times| times.first()).min().copied().unwrap_or_default();
    let mut said = Vec::new();
    write!(out, "{{\"displayTimeUnit\":\"ns\",\"traceEvents\":[")?;
    let mut list = List { out, is_first: true };
    for (device, times) in history.devices.iter().zip(&all_times) {
        let lives = lives(device, times);
        let end_ns = times.last().copied().unwrap_or(start_ns);
        let (block_limit, chosen) = largest(&lives);
        let mut items = sums(device, times, start_ns);
        let lanes = add_blocks(&chosen, start_ns, end_ns, &mut items);
        let marks = add_instants(&teller, device, times, &mut items);
        let annotation_lanes = add_annotations(history, &teller, device.device, start_ns, end_ns, &mut items);
        // Stable, so that what belongs together stays so.
        items.sort_by_key(|(ts, _)| *ts);
        list.name_process(history, device.device, lanes, annotation_lanes)?;
        for (ts, item) in &items {
            list.write(device.device, ts.saturating_sub(start_ns), item, &teller)?;
        }
        said.push(format!(
            "device {}: {} of {} blocks, those of {block_limit} bytes and more; {marks} instants",
            device.device,
            chosen.len(),
            lives.len()
        ));
    }
    let out = list.out;
    write!(out, "\n],\"otherData\":")?;
    let other =
        serde_json::json!({"writer": "gpumem", "run": history.name, "allocator": history.allocator, "shown": said});
    serde_json::to_writer(&mut *out, &other)?;
    out.write_all(b"}\n")?;
    out.flush()
}

/// The largest blocks, in order of birth, and the size from which on they are shown.
fn largest(lives: &[Life]) -> (u64, Vec<&Life>) {
    let mut sizes: Vec<u64> = lives.iter().map(|life| life.bytes).collect();
    sizes.sort_unstable_by_key(|&bytes| Reverse(bytes));
    // Of blocks of one size either all are shown or none.
    let limit = sizes.get(MAX_BLOCKS).map_or(0, |bytes| bytes + 1);
    (limit, lives.iter().filter(|life| life.bytes >= limit).collect())
}

/// Sums over time: every change, or of each stretch of events the highest of each sum and the last.
fn sums<'a>(device: &DeviceHistory, times: &[u64], start_ns: u64) -> Vec<(u64, Item<'a>)> {
    let parts = |totals: &Totals| {
        [
            ("live", totals.live),
            ("allocated", totals.allocated),
            ("active", totals.active),
            ("reserved", totals.reserved),
        ]
    };
    let mut items = Vec::new();
    let mut map = MemoryMap::new(device);
    let mut told = parts(&map.totals()).map(|(name, bytes)| {
        items.push((start_ns, Item::Sum(name, bytes)));
        bytes
    });
    let stretch = device.events.len().div_ceil(MAX_STRETCHES).max(1);
    for (events, times) in device.events.chunks(stretch).zip(times.chunks(stretch)) {
        let mut highest = [(0, 0); 4];
        let mut last = parts(&map.totals());
        for (event, &time_ns) in events.iter().zip(times) {
            map.apply(event);
            last = parts(&map.totals());
            for ((_, bytes), highest) in last.iter().zip(&mut highest) {
                if *bytes > highest.1 {
                    *highest = (time_ns, *bytes);
                }
            }
        }
        let end_ns = times.last().copied().unwrap_or(start_ns);
        for (((name, bytes), highest), told) in last.into_iter().zip(highest).zip(&mut told) {
            if highest.1 > bytes.max(*told) {
                items.push((highest.0, Item::Sum(name, highest.1)));
                *told = highest.1;
            }
            if bytes != *told {
                items.push((end_ns, Item::Sum(name, bytes)));
                *told = bytes;
            }
        }
    }
    items
}

/// Adds blocks, each to the first lane that is free at its birth; returns how many lanes there are.
fn add_blocks<'a>(chosen: &[&'a Life], start_ns: u64, end_ns: u64, items: &mut Vec<(u64, Item<'a>)>) -> u64 {
    let mut lanes = Lanes::default();
    for life in chosen {
        let from = life.born.map_or(start_ns, |when| when.time_ns);
        let to = life.ended.or(life.dropped).map_or(end_ns, |when| when.time_ns);
        let lane = lanes.take(from, to);
        items.push((from, Item::Block(life, to.saturating_sub(from), FIRST_BLOCK_LANE + lane)));
    }
    lanes.count
}

/// Lanes in which one thing follows another.
#[derive(Default)]
struct Lanes {
    /// When each lane that is taken will be free.
    taken: BinaryHeap<Reverse<(u64, u64)>>,
    free: BinaryHeap<Reverse<u64>>,
    count: u64,
}

impl Lanes {
    /// The lowest lane that is free at `from`, taken until `to`. Calls have to come in order of `from`.
    fn take(&mut self, from: u64, to: u64) -> u64 {
        while let Some(&Reverse((until, lane))) = self.taken.peek() {
            if until > from {
                break;
            }
            self.taken.pop();
            self.free.push(Reverse(lane));
        }
        let lane = self.free.pop().map_or_else(
            || {
                self.count += 1;
                self.count - 1
            },
            |Reverse(lane)| lane,
        );
        // What begins and ends at once takes its lane for that moment.
        self.taken.push(Reverse((to.max(from.saturating_add(1)), lane)));
        lane
    }
}

/// Adds failed requests, snapshots and steps; returns how many.
fn add_instants<'a>(
    teller: &Teller<'_>,
    device: &DeviceHistory,
    times: &[u64],
    items: &mut Vec<(u64, Item<'a>)>,
) -> usize {
    let before = items.len();
    for (event, &time_ns) in device.events.iter().zip(times) {
        if items.len() - before == MAX_MARKS {
            break;
        }
        let text = match event.action {
            Action::OutOfMemory => format!("out of memory: {} bytes asked for", event.bytes),
            Action::Snapshot => "snapshot".to_owned(),
            Action::Step if event.tag.is_empty() => "step".to_owned(),
            Action::Step => format!("step {}", teller.name(event.tag)),
            _ => continue,
        };
        items.push((time_ns, Item::Instant(text)));
    }
    items.len() - before
}

/// Adds what the program said about itself, beginnings with their ends; returns how many lanes that takes.
fn add_annotations<'a>(
    history: &'a History,
    teller: &Teller<'a>,
    device: u32,
    start_ns: u64,
    end_ns: u64,
    items: &mut Vec<(u64, Item<'a>)>,
) -> u64 {
    let mut open: Vec<&Annotation> = Vec::new();
    let mut whole: Vec<(u64, u64, &Annotation)> = Vec::new();
    let within = |time_ns: u64| time_ns.clamp(start_ns, end_ns.max(start_ns));
    for annotation in history.annotations.iter().filter(|annotation| annotation.device == device).take(2 * MAX_MARKS) {
        match annotation.stage {
            Stage::Start => open.push(annotation),
            Stage::End => {
                if let Some(index) = open.iter().rposition(|start| start.name == annotation.name) {
                    let start = open.remove(index);
                    whole.push((within(start.time_ns), within(annotation.time_ns), start));
                }
            }
        }
    }
    whole.extend(open.into_iter().map(|start| (within(start.time_ns), end_ns.max(start_ns), start)));
    whole.sort_by_key(|&(from, to, _)| (from, Reverse(to)));
    let mut lanes = Lanes::default();
    for (from, to, annotation) in whole {
        let lane = FIRST_ANNOTATION_LANE + lanes.take(from, to);
        items.push((from, Item::Annotation(teller.name(annotation.name), to.saturating_sub(from), lane)));
    }
    lanes.count
}

struct List<'a, W> {
    out: &'a mut W,
    is_first: bool,
}

impl<W: Write> List<'_, W> {
    fn put(&mut self, entry: &Entry<'_>) -> io::Result<()> {
        self.out.write_all(if self.is_first { b"\n" } else { b",\n" })?;
        self.is_first = false;
        Ok(serde_json::to_writer(&mut *self.out, entry)?)
    }

    fn put_name(&mut self, name: &str, pid: u32, tid: u64, args: Args<'_>) -> io::Result<()> {
        self.put(&Entry { name, ph: "M", pid, tid, ts: 0, dur: None, s: None, args })
    }

    fn name_process(&mut self, history: &History, pid: u32, blocks: u64, annotations: u64) -> io::Result<()> {
        let process = format!("device {pid}: {}", history.name);
        self.put_name("process_name", pid, 0, Args::Name { name: &process })?;
        for lane in 0..annotations {
            self.put_name("thread_name", pid, FIRST_ANNOTATION_LANE + lane, Args::Name { name: "annotations" })?;
        }
        for lane in 0..blocks {
            let (tid, name) = (FIRST_BLOCK_LANE + lane, format!("blocks {}", lane + 1));
            self.put_name("thread_name", pid, tid, Args::Name { name: &name })?;
            self.put_name("thread_sort_index", pid, tid, Args::Index { sort_index: tid })?;
        }
        Ok(())
    }

    fn write(&mut self, pid: u32, ts: u64, item: &Item<'_>, teller: &Teller<'_>) -> io::Result<()> {
        let entry = Entry { name: "", ph: "X", pid, tid: 0, ts, dur: None, s: None, args: Args::None {} };
        match item {
            Item::Sum(name, bytes) => self.put(&Entry { name, ph: "C", args: Args::Bytes { bytes: *bytes }, ..entry }),
            Item::Instant(text) => self.put(&Entry { name: text, ph: "i", s: Some("p"), ..entry }),
            Item::Annotation(name, dur, tid) => self.put(&Entry { name, tid: *tid, dur: Some(*dur), ..entry }),
            Item::Block(life, dur, tid) => {
                let pending = life.dropped.zip(life.ended).map(|(from, to)| to.time_ns.saturating_sub(from.time_ns));
                let args = Args::Block {
                    address: format!("{:#x}", life.address),
                    requested_bytes: life.requested_bytes,
                    bytes: life.bytes,
                    stream: life.stream,
                    pending: pending.filter(|&ns| ns > 0),
                    from: &teller.calls(life.stack, 8),
                };
                self.put(&Entry { name: &teller.label(life), tid: *tid, dur: Some(*dur), args, ..entry })
            }
        }
    }
}
