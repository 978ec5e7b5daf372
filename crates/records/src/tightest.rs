//! The request that came closest to failing, or failed.

use crate::{Action, DeviceHistory, MemoryMap, NameId, StackId};

/// Why a request is the one to look at.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[non_exhaustive]
pub enum Tightness {
    /// The record says that it failed.
    Failed,
    /// The first one for which more was reserved than the capacity that was asked about.
    OverCapacity,
    /// The one for which most was reserved: with one byte less it would have failed.
    MostReserved,
    /// Nothing was reserved for any request of the record: the one that took most bytes in use.
    MostActive,
}

impl Tightness {
    /// A word for it in JSON.
    pub fn key(self) -> &'static str {
        match self {
            Self::Failed => "failed",
            Self::OverCapacity => "over_capacity",
            Self::MostReserved => "most_reserved",
            Self::MostActive => "most_active",
        }
    }
}

/// A request, and the moment before it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct TightRequest {
    /// Why it is this one.
    pub why: Tightness,
    /// Number of its event: an alloc, or a failure.
    pub event: u64,
    /// How many events to play for the state in which it was made: before anything was reserved for it.
    pub events_before: u64,
    /// Bytes asked for.
    pub bytes: u64,
    /// On which stream.
    pub stream: u64,
    /// From where.
    pub stack: StackId,
    /// By whom.
    pub tag: NameId,
    /// When, in ns; 0 if not known.
    pub time_ns: u64,
    /// Bytes that the device had left, if the record says so.
    pub device_free: Option<u64>,
}

/// The request to look at: the last that failed; else, with a `capacity`, the first for which more was reserved than that;
/// else the one for which most was reserved; else the one that took most bytes in use. `None` without any request.
pub fn tightest_request(history: &DeviceHistory, capacity: Option<u64>) -> Option<TightRequest> {
    let events = &history.events;
    let request = |why, at: usize, before: usize| {
        let event = events[at];
        TightRequest {
            why,
            event: at as u64,
            events_before: before as u64,
            bytes: event.bytes,
            stream: event.stream,
            stack: event.stack,
            tag: event.tag,
            time_ns: event.time_ns,
            device_free: (event.action == Action::OutOfMemory).then_some(event.address),
        }
    };
    if let Some(at) = events.iter().rposition(|event| event.action == Action::OutOfMemory) {
        return Some(request(Tightness::Failed, at, at));
    }
    let mut map = MemoryMap::new(history);
    let mut most_reserved = map.totals().reserved;
    let (mut grown, mut over) = (None, None);
    let (mut most_active, mut fullest) = (0, None);
    // Where the growth that the next request waits for began.
    let mut growth = None;
    for (at, event) in events.iter().enumerate() {
        let is_growth = matches!(event.action, Action::SegmentAlloc | Action::SegmentMap);
        if is_growth && growth.is_none() {
            growth = Some(at);
        }
        map.apply(event);
        if event.action != Action::Alloc {
            continue;
        }
        let totals = map.totals();
        if let Some(before) = growth.take() {
            if totals.reserved > most_reserved {
                most_reserved = totals.reserved;
                grown = Some((at, before));
            }
            if over.is_none() && capacity.is_some_and(|capacity| totals.reserved > capacity) {
                over = Some((at, before));
            }
        }
        if totals.active > most_active {
            most_active = totals.active;
            fullest = Some((at, at));
        }
    }
    let (why, (at, before)) = over
        .map(|found| (Tightness::OverCapacity, found))
        .or(grown.map(|found| (Tightness::MostReserved, found)))
        .or(fullest.map(|found| (Tightness::MostActive, found)))?;
    Some(request(why, at, before))
}

#[cfg(test)]
#[allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]
mod tests {
    use super::*;
    use crate::Event;

    fn event(action: Action, address: u64, bytes: u64) -> Event {
        Event { action, address, bytes, ..Event::default() }
    }

    #[test]
    fn the_request_is_the_one_that_failed_or_would_fail_first() {
        let mut events = vec![
            event(Action::SegmentAlloc, 0, 100),
            event(Action::Alloc, 0, 90),
            event(Action::SegmentAlloc, 1000, 200),
            event(Action::Alloc, 1000, 150),
            event(Action::Alloc, 1150, 50),
            event(Action::FreeCompleted, 1000, 150),
            event(Action::SegmentAlloc, 2000, 50),
            event(Action::Alloc, 2000, 40),
        ];
        let history = |events: &[Event]| DeviceHistory { events: events.to_vec(), ..DeviceHistory::default() };
        let found = tightest_request(&history(&events), None).unwrap();
        assert_eq!((found.why, found.event, found.events_before), (Tightness::MostReserved, 7, 6));
        let found = tightest_request(&history(&events), Some(299)).unwrap();
        assert_eq!((found.why, found.event, found.events_before, found.bytes), (Tightness::OverCapacity, 3, 2, 150));
        let found = tightest_request(&history(&events), Some(350)).unwrap();
        assert_eq!(found.why, Tightness::MostReserved);
        let no_growth: Vec<Event> =
            events.iter().filter(|event| event.action != Action::SegmentAlloc).copied().collect();
        let found = tightest_request(&history(&no_growth), None).unwrap();
        assert_eq!((found.why, found.event), (Tightness::MostActive, 2));
        events.insert(6, event(Action::OutOfMemory, 17, 170));
        let found = tightest_request(&history(&events), Some(1)).unwrap();
        assert_eq!((found.why, found.event, found.device_free), (Tightness::Failed, 6, Some(17)));
        assert_eq!(tightest_request(&DeviceHistory::default(), Some(1)), None);
    }
}
