//! A trace made ready to be run many times: blocks and streams by small numbers, soundness checked once.

use device::{Timeline, TimelineOptions};
use hashbrown::HashMap;
use records::{Operation, Row, Trace};

use crate::live::{Live, LivePeaks};
use crate::{Error, Result};

/// Most streams in a trace.
const MAX_STREAMS: usize = 4096;

/// A stream's place in [`Program::streams`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct StreamIndex(pub(crate) u32);

/// A block's place among the blocks that are live at a time.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Slot(pub(crate) u32);

/// What a row asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Ask {
    Alloc { slot: Slot, bytes: u64, stream: StreamIndex },
    Free { slot: Slot },
    Use { slot: Slot, bytes: u64, stream: StreamIndex },
    Wait { of: StreamIndex, by: StreamIndex },
    Work { stream: StreamIndex },
    Sync { stream: Option<StreamIndex> },
    Step,
}

/// A row that a replay has something to do for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Instruction {
    pub(crate) ask: Ask,
    /// Number of the row in the trace.
    pub(crate) row: u32,
}

/// A trace made ready.
#[derive(Clone, Debug)]
pub struct Program<'a> {
    pub(crate) trace: &'a Trace,
    pub(crate) device: u32,
    pub(crate) instructions: Vec<Instruction>,
    /// The trace's names of its streams.
    pub(crate) streams: Vec<i64>,
    pub(crate) has_syncs: bool,
    /// Slots of blocks that the trace leaves live.
    pub(crate) left_live: Vec<Slot>,
    pub(crate) slots: usize,
    pub(crate) peaks: LivePeaks,
}

impl<'a> Program<'a> {
    /// Makes the part of a trace that is about one device ready; `device` may be left out if there is but one.
    ///
    /// # Errors
    /// A block is named that isn't live, or a live block's id is given to another; several devices and none chosen;
    /// too many streams.
    pub fn new(trace: &'a Trace, device: Option<u32>) -> Result<Self> {
        let mut program = Self {
            trace,
            device: device.unwrap_or(0),
            instructions: Vec::with_capacity(trace.rows.len()),
            streams: Vec::new(),
            has_syncs: false,
            left_live: Vec::new(),
            slots: 0,
            peaks: LivePeaks::default(),
        };
        let mut chosen = device;
        let mut stream_indices: HashMap<i64, StreamIndex> = HashMap::new();
        let mut live: HashMap<u64, (Slot, u64)> = HashMap::new();
        let mut spare: Vec<Slot> = Vec::new();
        let mut sums = Live::default();
        for (number, row) in trace.rows.iter().enumerate() {
            let is_of_a_block = matches!(row.operation, Operation::Alloc | Operation::Free | Operation::Use);
            if device.is_none() && is_of_a_block {
                let first = *chosen.get_or_insert(row.device);
                if first != row.device {
                    return Err(Error::SeveralDevices { first, second: row.device });
                }
                program.device = first;
            }
            if device.is_some_and(|device| device != row.device) && row.operation != Operation::Step {
                continue;
            }
            let number = number as u64;
            let unsound = |fault| Error::UnsoundTrace { row: number, id: row.id, fault };
            let mut stream = |stream: i64| -> Result<StreamIndex> {
                if let Some(&index) = stream_indices.get(&stream) {
                    return Ok(index);
                }
                if program.streams.len() >= MAX_STREAMS {
                    return Err(Error::TooManyStreams { row: number, most: MAX_STREAMS });
                }
                let index = StreamIndex(program.streams.len() as u32);
                program.streams.push(stream);
                stream_indices.insert(stream, index);
                Ok(index)
            };
            let ask = match row.operation {
                Operation::Alloc => {
                    let slot = spare.pop().unwrap_or_else(|| {
                        program.slots += 1;
                        Slot(program.slots as u32 - 1)
                    });
                    if live.insert(row.id, (slot, row.bytes)).is_some() {
                        return Err(unsound("is live already"));
                    }
                    sums.alloc(slot.0 as usize, row.bytes, row.stream);
                    Ask::Alloc { slot, bytes: row.bytes, stream: stream(row.stream)? }
                }
                Operation::Free => {
                    let (slot, _) = live.remove(&row.id).ok_or_else(|| unsound("is freed and isn't live"))?;
                    sums.free(slot.0 as usize);
                    spare.push(slot);
                    Ask::Free { slot }
                }
                Operation::Use => {
                    let &(slot, bytes) = live.get(&row.id).ok_or_else(|| unsound("is used and isn't live"))?;
                    sums.record_use(slot.0 as usize, row.stream);
                    Ask::Use { slot, bytes, stream: stream(row.stream)? }
                }
                // A wait's id is a stream; streams of traces are small and those of records are addresses below 2^63.
                Operation::Wait => {
                    let of = i64::try_from(row.id).map_err(|_| unsound("is no stream to wait for"))?;
                    Ask::Wait { of: stream(of)?, by: stream(row.stream)? }
                }
                Operation::Work => Ask::Work { stream: stream(row.stream)? },
                Operation::Sync => {
                    program.has_syncs = true;
                    let of = (row.stream != Row::ALL_STREAMS).then_some(row.stream);
                    sums.synchronized(of);
                    Ask::Sync { stream: of.map(&mut stream).transpose()? }
                }
                Operation::Step => Ask::Step,
                _ => continue,
            };
            program.instructions.push(Instruction { ask, row: number as u32 });
        }
        program.peaks = sums.peaks;
        program.left_live = live.into_values().map(|(slot, _)| slot).collect();
        program.left_live.sort_by_key(|slot| slot.0);
        Ok(program)
    }

    /// Most bytes live at a time.
    pub fn peak_live_bytes(&self) -> u64 {
        self.peaks.live
    }

    /// Which device it is about.
    pub fn device(&self) -> u32 {
        self.device
    }

    /// How many streams it names.
    pub fn stream_count(&self) -> usize {
        self.streams.len()
    }

    /// How many rows a pass has something to do for.
    pub fn row_count(&self) -> usize {
        self.instructions.len()
    }

    /// Whether streams finish at sync rows; if not, by the passing of steps.
    pub fn has_syncs(&self) -> bool {
        self.has_syncs
    }

    /// How long the rows before row `end` take where no allocator costs or delays anything, in ns.
    pub(crate) fn unlimited_makespan_ns(&self, options: TimelineOptions, end: u64) -> u64 {
        let mut timeline = Timeline::new(options);
        for instruction in self.instructions.iter().take_while(|instruction| u64::from(instruction.row) < end) {
            timeline.host_row();
            match instruction.ask {
                Ask::Alloc { bytes, stream, .. } | Ask::Use { bytes, stream, .. } => {
                    timeline.work(stream.0 as usize, bytes);
                }
                Ask::Wait { of, by } => timeline.wait(by.0 as usize, timeline.stream_ns(of.0 as usize)),
                Ask::Sync { stream: Some(stream) } => timeline.host_wait(timeline.stream_ns(stream.0 as usize)),
                Ask::Sync { stream: None } => timeline.host_wait_all(),
                Ask::Free { .. } | Ask::Work { .. } | Ask::Step => {}
            }
        }
        timeline.makespan_ns()
    }
}

/// Takes the use rows of streams out of a trace: how programs run that keep a block until its user is waited for instead of
/// recording the use.
pub fn drop_uses(trace: &mut Trace, is_dropped: impl Fn(i64) -> bool) {
    trace.rows.retain(|row| row.operation != Operation::Use || !is_dropped(row.stream));
}
