//! What one walk over a history tells.

use crate::{Action, Course, Defects, DeviceHistory, MemoryMap, Peaks, Scatter, Totals};

/// Figures over all events of a device.
#[derive(Clone, Debug, Default)]
pub struct Survey {
    /// How many events there are of each action, in the order of [`Action::ALL`].
    pub counts: [u64; Action::ALL.len()],
    /// Highest sums.
    pub peaks: Peaks,
    /// Sums before the first event.
    pub start: Totals,
    /// Sums after the last event.
    pub end: Totals,
    /// How scattered free bytes are after the last event.
    pub end_scatter: Scatter,
    /// The most scattered moment; of equal ones that with most free bytes.
    pub most_scattered: Scatter,
    /// Sums and scatter over time.
    pub course: Course,
    /// Bytes of all requests that were served.
    pub requested_bytes: u64,
    /// Largest request that was served.
    pub largest_request_bytes: u64,
    /// First and last time in ns, if any event has one.
    pub times_ns: Option<(u64, u64)>,
    /// Number of the last event that says a request failed.
    pub last_out_of_memory: Option<u64>,
    /// What contradicts itself: found while reading or while walking, and at the end against what the file states.
    pub defects: Defects,
}

impl Survey {
    /// Walks over the whole history once; the course gets at most `columns` columns.
    pub fn new(history: &DeviceHistory, columns: usize) -> Self {
        let mut map = MemoryMap::new(history);
        let mut survey = Self {
            start: map.totals(),
            course: Course::new(history.events.len() as u64, columns),
            defects: history.defects.clone(),
            ..Self::default()
        };
        survey.note(&map, 0);
        let mut time_ns = 0;
        for event in &history.events {
            map.apply(event);
            if event.time_ns != 0 {
                time_ns = event.time_ns;
                let (first, last) = survey.times_ns.unwrap_or((time_ns, time_ns));
                survey.times_ns = Some((first.min(time_ns), last.max(time_ns)));
            }
            survey.counts[event.action as usize] += 1;
            match event.action {
                Action::Alloc => {
                    survey.requested_bytes = survey.requested_bytes.saturating_add(event.bytes);
                    survey.largest_request_bytes = survey.largest_request_bytes.max(event.bytes);
                }
                Action::OutOfMemory => survey.last_out_of_memory = Some(map.event() - 1),
                _ => {}
            }
            survey.note(&map, time_ns);
        }
        survey.end = map.totals();
        survey.end_scatter = Scatter::new(&map.totals(), map.largest_free(), map.event(), time_ns);
        if !history.end.is_empty() {
            map.compare(&history.end);
        }
        // A reader may have walked over it as well.
        survey.defects.cover(map.defects());
        survey
    }

    /// How many events of this action there are.
    pub fn count(&self, action: Action) -> u64 {
        self.counts[action as usize]
    }

    fn note(&mut self, map: &MemoryMap, time_ns: u64) {
        let totals = map.totals();
        let scatter = Scatter::new(&totals, map.largest_free(), map.event(), time_ns);
        self.peaks.note(&totals, map.event(), time_ns);
        self.course.note(&totals, &scatter);
        let is_worse = |old: &Scatter| (scatter.percent, scatter.free_bytes) > (old.percent, old.free_bytes);
        if is_worse(&self.most_scattered) {
            self.most_scattered = scatter;
        }
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]
mod tests {
    use super::*;
    use crate::{Defect, Event, Moment, NameId, holders};

    fn event(action: Action, address: u64, bytes: u64, time_ns: u64) -> Event {
        Event { action, address, bytes, time_ns, tag: NameId(bytes as u32 % 2), ..Event::default() }
    }

    #[test]
    fn one_walk_tells_peaks_scatter_and_contradictions() {
        let history = DeviceHistory {
            granule_bytes: 16,
            events: vec![
                event(Action::SegmentAlloc, 0, 160, 5),
                event(Action::Alloc, 0, 30, 6),
                event(Action::Alloc, 32, 17, 7),
                event(Action::FreeRequested, 0, 30, 8),
                event(Action::FreeCompleted, 0, 30, 9),
                event(Action::Alloc, 64, 96, 0),
                event(Action::FreeCompleted, 999, 1, 4),
                event(Action::OutOfMemory, 3, 64, 12),
            ],
            ..DeviceHistory::default()
        };
        let survey = Survey::new(&history, 3);
        let peaks = survey.peaks;
        assert_eq!((peaks.live.bytes, peaks.live.events, peaks.live.time_ns), (113, 6, 9));
        assert_eq!((peaks.active.bytes, peaks.reserved.bytes, peaks.reserved.events), (128, 160, 1));
        assert_eq!((peaks.pending.bytes, peaks.pending.events), (32, 4));
        assert_eq!((survey.count(Action::Alloc), survey.requested_bytes, survey.largest_request_bytes), (3, 143, 96));
        assert_eq!((survey.times_ns, survey.last_out_of_memory), (Some((4, 12)), Some(7)));
        // 128 bytes free after the fifth event, 96 of them in one piece.
        let worst = survey.most_scattered;
        assert_eq!((worst.percent, worst.free_bytes, worst.events), (25.0, 128, 5));
        assert_eq!((survey.end_scatter.percent, survey.end_scatter.free_bytes), (0.0, 32));
        assert_eq!(survey.defects.total(), 2);
        // Who has read it has seen the same, and more.
        let mut read = DeviceHistory { defects: survey.defects.clone(), ..history };
        read.defects.note(Defect::StartUnclear, 0);
        assert_eq!(Survey::new(&read, 3).defects.total(), 3);
        let columns = survey.course.columns();
        assert_eq!((columns.len(), survey.course.events_per_column()), (3, 3));
        assert_eq!(columns.iter().map(|c| c.most_scattered.percent).collect::<Vec<_>>(), [0.0, 25.0, 0.0]);
        assert_eq!(columns.iter().map(|c| c.highest.live).collect::<Vec<_>>(), [30, 47, 113]);
    }

    #[test]
    fn a_moment_says_who_holds_what_since_when() {
        let history = DeviceHistory {
            events: vec![
                event(Action::SegmentAlloc, 0, 160, 1),
                event(Action::Alloc, 0, 30, 2),
                event(Action::Alloc, 32, 17, 3),
                event(Action::FreeCompleted, 0, 30, 4),
                event(Action::Alloc, 0, 31, 5),
                event(Action::Alloc, 64, 8, 6),
                event(Action::FreeRequested, 64, 8, 7),
            ],
            ..DeviceHistory::default()
        };
        let moment = Moment::after(&history, 99);
        assert_eq!((moment.birth(0), moment.birth(32), moment.birth(5)), (Some(4), Some(2), None));
        assert_eq!((moment.time_ns(), moment.map().event()), (7, 7));
        let found = holders(moment.map().blocks(), |block| block.tag);
        let told: Vec<_> = found.iter().map(|h| (h.key.0, h.live_bytes, h.live_count, h.pending_bytes)).collect();
        assert_eq!(told, [(1, 48, 2, 0), (0, 0, 0, 8)]);
        assert_eq!(Moment::after(&history, 2).map().totals().live, 30);
    }
}
