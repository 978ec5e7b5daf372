//! What came of a replay.

use device::CallCounts;
use records::History;

/// The request at which a replay ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FailedRequest {
    /// Number of its row in the trace, from 0.
    pub row: u64,
    /// In which pass, from 0.
    pub pass: u32,
    /// The block that could not be had.
    pub id: u64,
    /// Bytes asked for.
    pub bytes: u64,
    /// On this stream, as the trace numbers it.
    pub stream: i64,
    /// Bytes live at that moment, without the request.
    pub live_bytes: u64,
    /// Bytes reserved at that moment, after all that the policy tried.
    pub reserved_bytes: u64,
    /// Largest hole at that moment.
    pub largest_free_bytes: u64,
}

/// How scattered the free bytes are, in percent: (1 - largest hole / free bytes) x 100.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct FragmentationFigures {
    /// After the last row.
    pub end: f64,
    /// The highest after any row.
    pub highest: f64,
}

/// Figures of one pass, or of all of them.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Figures {
    /// Requests served, those of no bytes included.
    pub allocs: u64,
    /// Blocks dropped by the trace.
    pub frees: u64,
    /// Most bytes asked for and not dropped. A property of the whole trace, wherever the replay ended.
    pub peak_live_bytes: u64,
    /// The same, each request rounded up to 512 bytes.
    pub peak_live_rounded_bytes: u64,
    /// The same, with what the host dropped while another stream that used it had no sync row since. A property of the
    /// trace: an allocator that goes by uses and syncs alone can't reserve less without waiting.
    pub peak_live_plus_held_bytes: u64,
    /// Most bytes held from the device.
    pub peak_reserved_bytes: u64,
    /// Scatter of the free bytes.
    pub fragmentation_percent: FragmentationFigures,
    /// Driver calls by kind.
    pub driver_calls: CallCounts,
    /// Times that the host waited for a stream, an event or the device because the policy asked, and work was unfinished.
    pub host_waits: u64,
    /// Times that a stream was made to wait for another because the policy asked.
    pub stream_waits: u64,
    /// Time from the first row to the end of all work, by the duration model; 0 if times aren't modelled.
    pub makespan_ns: u64,
    /// The same for the rows that were run, on a device without limit and an allocator that costs nothing and never waits.
    pub unlimited_makespan_ns: u64,
}

impl Figures {
    /// Reserved over live, both at their highest; 0 where nothing was live.
    pub fn reserved_over_live(&self) -> f64 {
        ratio(self.peak_reserved_bytes, self.peak_live_bytes)
    }

    /// How much longer the run takes than without an allocator; 0 if times aren't modelled.
    pub fn makespan_over_unlimited(&self) -> f64 {
        ratio(self.makespan_ns, self.unlimited_makespan_ns)
    }
}

fn ratio(above: u64, below: u64) -> f64 {
    if below == 0 { 0.0 } else { above as f64 / below as f64 }
}

/// What came of a replay.
#[derive(Clone, Debug)]
pub struct Outcome {
    /// Where it ended for lack of memory; `None` if every request was served.
    pub failed: Option<FailedRequest>,
    /// Figures of all passes together; peaks are the highest of any pass.
    pub all: Figures,
    /// Figures of the last pass alone, if there were several: what set-up left behind was given back before it.
    pub steady: Option<Figures>,
    /// Segments, blocks and addresses of the last pass that was run, if asked for.
    pub history: Option<History>,
}

impl Outcome {
    /// Whether every request was served.
    pub fn is_ok(&self) -> bool {
        self.failed.is_none()
    }
}
