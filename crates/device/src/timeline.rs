//! How long a run would take: a host that queues work, streams that do it.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

/// The constants of the duration model.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TimelineOptions {
    /// Nanoseconds that each piece of work takes besides its bytes. Default 5 us.
    pub work_ns: u64,
    /// Bytes that work gets through in a second. Default 10^12. 0 counts as 1.
    pub bytes_per_second: u64,
    /// Nanoseconds of host time for each row of a trace. Default 2 us.
    pub host_row_ns: u64,
    /// How many pieces of work may be queued and not finished; with that many the host waits for one to finish.
    /// Default 448, the depth that fits the published reserved bytes of large-model runs best (between 384 and 512).
    /// 0 counts as 1.
    pub work_ahead: usize,
}

impl Default for TimelineOptions {
    fn default() -> TimelineOptions {
        TimelineOptions { work_ns: 5_000, bytes_per_second: 1_000_000_000_000, host_row_ns: 2_000, work_ahead: 448 }
    }
}

/// The clock of the host and of each stream. All times are nanoseconds since the start, whole numbers, so that the same
/// calls give the same times on any machine.
///
/// Work starts once it is queued, its stream has finished what is before it, and what the stream waits for has happened.
/// [`SimDevice`](crate::SimDevice) keeps one and adds what driver calls cost. The base of a comparison, a run on an
/// unlimited device whose allocator costs nothing and never waits, is the same rows on a timeline alone:
///
/// ```
/// use device::{Timeline, TimelineOptions};
///
/// let mut base = Timeline::new(TimelineOptions::default());
/// base.host_row();
/// base.work(0, 4 << 20);
/// let marked = base.stream_ns(0);
/// base.wait(1, marked); // stream 1 waits for what stream 0 has queued
/// base.work(1, 0);
/// assert_eq!(base.makespan_ns(), 2_000 + 5_000 + 4_194 + 5_000);
/// ```
#[derive(Clone, Debug)]
pub struct Timeline {
    options: TimelineOptions,
    host_ns: u64,
    /// When each stream will have finished what it has queued; streams are small numbers.
    streams_ns: Vec<u64>,
    /// The highest of `streams_ns` ever: ends never fall, so it needs no search.
    latest_ns: u64,
    /// Ends of the work that may not have finished at `host_ns`.
    unfinished: BinaryHeap<Reverse<u64>>,
}

impl Timeline {
    /// All clocks at 0.
    #[must_use]
    pub fn new(options: TimelineOptions) -> Timeline {
        Timeline { options, host_ns: 0, streams_ns: Vec::new(), latest_ns: 0, unfinished: BinaryHeap::new() }
    }

    /// The host does one row of a trace.
    pub fn host_row(&mut self) {
        self.host_busy(self.options.host_row_ns);
    }

    /// The host is busy with something else.
    pub fn host_busy(&mut self, ns: u64) {
        self.host_ns = self.host_ns.saturating_add(ns);
    }

    /// The host queues work over `bytes` bytes on a stream, waiting first if too much is queued. Returns its end.
    pub fn work(&mut self, stream: usize, bytes: u64) -> u64 {
        while self.unfinished.peek().is_some_and(|end| end.0 <= self.host_ns) {
            self.unfinished.pop();
        }
        while self.unfinished.len() >= self.options.work_ahead.max(1) {
            let Some(Reverse(end)) = self.unfinished.pop() else { break };
            self.host_ns = self.host_ns.max(end);
        }
        let end = self.stream_ns(stream).max(self.host_ns).saturating_add(self.duration_ns(bytes));
        self.raise(stream, end);
        self.unfinished.push(Reverse(end));
        end
    }

    /// How long work over `bytes` bytes takes.
    #[must_use]
    pub fn duration_ns(&self, bytes: u64) -> u64 {
        let per_second = self.options.bytes_per_second.max(1);
        let moved = match bytes.checked_mul(1_000_000_000) {
            Some(scaled) => scaled / per_second,
            None => {
                let moved = u128::from(bytes) * 1_000_000_000 / u128::from(per_second);
                u64::try_from(moved).unwrap_or(u64::MAX)
            }
        };
        self.options.work_ns.saturating_add(moved)
    }

    /// When the stream will have finished what it has queued. Recording an event is keeping this number.
    #[must_use]
    pub fn stream_ns(&self, stream: usize) -> u64 {
        self.streams_ns.get(stream).copied().unwrap_or(0)
    }

    /// Later work of the stream starts at `ns` at the earliest.
    pub fn wait(&mut self, stream: usize, ns: u64) {
        self.raise(stream, ns);
    }

    /// The host waits until `ns`, for an event say.
    pub fn host_wait(&mut self, ns: u64) {
        self.host_ns = self.host_ns.max(ns);
    }

    /// The host waits until everything queued has finished.
    pub fn host_wait_all(&mut self) {
        self.host_wait(self.latest_ns);
    }

    /// The host's clock.
    #[must_use]
    pub fn host_ns(&self) -> u64 {
        self.host_ns
    }

    /// When host and all streams are done. Only grows, so that the difference of two calls is the time of what came
    /// between them.
    #[must_use]
    pub fn makespan_ns(&self) -> u64 {
        self.host_ns.max(self.latest_ns)
    }

    fn raise(&mut self, stream: usize, ns: u64) {
        if self.streams_ns.len() <= stream {
            self.streams_ns.resize(stream + 1, 0);
        }
        let clock = &mut self.streams_ns[stream];
        *clock = (*clock).max(ns);
        self.latest_ns = self.latest_ns.max(ns);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn timeline(work_ahead: usize) -> Timeline {
        Timeline::new(TimelineOptions { work_ns: 100, bytes_per_second: 1_000_000_000, host_row_ns: 10, work_ahead })
    }

    #[test]
    fn work_starts_when_queued_and_when_its_stream_is_free() {
        let mut t = timeline(448);
        t.host_row();
        assert_eq!(t.work(0, 50), 160);
        t.host_row();
        assert_eq!(t.work(0, 0), 260, "behind the first");
        assert_eq!(t.work(1, 0), 120, "another stream starts at once");
        t.host_busy(1_000);
        assert_eq!(t.work(0, 0), 1_120, "an idle stream waits for the host");
    }

    #[test]
    fn waits_order_streams_and_the_host() {
        let mut t = timeline(448);
        let end = t.work(0, 900);
        t.wait(1, end);
        assert_eq!(t.work(1, 0), 1_100);
        assert_eq!(t.host_ns(), 0);
        t.host_wait(end);
        assert_eq!(t.host_ns(), 1_000);
        t.host_wait_all();
        assert_eq!(t.host_ns(), 1_100);
        assert_eq!(t.makespan_ns(), 1_100);
    }

    #[test]
    fn the_host_is_held_back_when_too_much_is_queued() {
        let mut t = timeline(2);
        t.work(0, 0);
        t.work(0, 0);
        assert_eq!(t.host_ns(), 0);
        t.work(0, 0);
        assert_eq!(t.host_ns(), 100, "the third waits for the first");
        t.work(1, 0);
        assert_eq!(t.host_ns(), 200, "and the fourth for the second, on whatever stream");
    }

    #[test]
    fn extreme_values_stop_at_the_end_of_numbers() {
        let mut t = Timeline::new(TimelineOptions { bytes_per_second: 0, work_ahead: 0, ..TimelineOptions::default() });
        assert_eq!(t.work(3, u64::MAX), u64::MAX);
        assert_eq!(t.work(3, u64::MAX), u64::MAX);
        assert_eq!(t.makespan_ns(), u64::MAX);
    }
}
