#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use super::*;

fn clocks<const N: usize>() -> (Clocks, [u32; N]) {
    let clocks = Clocks::new(ClockSettings::default());
    let streams = std::array::from_fn(|id| clocks.resolve(StreamId(id as u64)));
    (clocks, streams)
}

fn seeing() -> Clocks {
    Clocks::new(ClockSettings { sees_all_work: true, ..ClockSettings::default() })
}

const E: u64 = 70;
const F: u64 = 71;

#[test]
fn a_use_before_a_record_is_covered_behind_its_wait_and_one_after_it_is_not() {
    let (clocks, [a, b]) = clocks();
    let early = clocks.current(a);
    clocks.event_record(E, a);
    let late = clocks.current(a);
    assert_eq!((early, late), (1, 2));
    assert!(!clocks.covers(b, a, early));
    clocks.event_wait(E, b);
    assert!(clocks.covers(b, a, early));
    assert!(!clocks.covers(b, a, late));
    assert!(clocks.covers(a, a, late), "a stream is ordered behind itself");
    assert!(!clocks.seen(a, early), "the host has seen nothing");
}

#[test]
fn a_record_ticks_before_the_driver_is_called() {
    let (clocks, [a, b]) = clocks();
    let notice = clocks.begin_record(E, a);
    let meanwhile = clocks.current(a);
    clocks.commit(notice);
    clocks.event_wait(E, b);
    assert!(clocks.covers(b, a, meanwhile - 1));
    assert!(!clocks.covers(b, a, meanwhile), "a use during the call may come after the record");
}

#[test]
fn a_synchronize_ticks_before_the_driver_is_called() {
    let (clocks, [a, b]) = clocks();
    for begin in
        [|clocks: &Clocks, a| clocks.begin_synchronize(a), |clocks: &Clocks, _| clocks.begin_synchronize_device()]
    {
        let notice = begin(&clocks, a);
        let meanwhile = clocks.current(a);
        clocks.commit(notice);
        assert!(clocks.covers(b, a, meanwhile - 1));
        assert!(!clocks.covers(b, a, meanwhile));
    }
}

#[test]
fn order_passes_on_from_stream_to_stream() {
    let (clocks, [a, b, c]) = clocks();
    let used = clocks.current(a);
    clocks.event_record(E, a);
    clocks.event_wait(E, b);
    clocks.event_record(F, b);
    clocks.event_wait(F, c);
    assert!(clocks.covers(c, a, used));
}

#[test]
fn what_the_host_has_seen_is_covered_for_every_stream_and_so_is_what_came_before_it() {
    let (clocks, [a, b, c]) = clocks();
    let (on_a, on_b) = (clocks.current(a), clocks.current(b));
    clocks.event_record(E, a);
    clocks.event_wait(E, b);
    clocks.event_record(F, b);
    clocks.event_synchronized(F);
    assert!(clocks.seen(a, on_a) && clocks.seen(b, on_b));
    assert!(clocks.covers(c, a, on_a) && clocks.covers(c, b, on_b));
    assert!(!clocks.seen(b, clocks.current(b)));
}

#[test]
fn a_stream_wait_orders_as_a_record_and_a_wait_do() {
    let (clocks, [a, b]) = clocks();
    let used = clocks.current(a);
    clocks.stream_wait(a, b);
    assert!(clocks.covers(b, a, used));
    assert!(!clocks.covers(b, a, clocks.current(a)));
    assert!(!clocks.covers(a, b, clocks.current(b)));
}

#[test]
fn a_device_synchronize_covers_streams_that_are_gone() {
    let (clocks, [a, b]) = clocks();
    let used = clocks.current(a);
    clocks.stream_destroyed(StreamId(0));
    clocks.device_synchronized();
    assert!(clocks.covers(b, a, used));
    assert!(clocks.covers(b, a, clocks.current(a)), "a free after the stream's end frees what was queued before it");
}

#[test]
fn an_event_never_recorded_credits_nothing() {
    let (clocks, [a, b]) = clocks();
    clocks.event_wait(E, b);
    clocks.event_synchronized(E);
    assert!(!clocks.covers(b, a, 1) && !clocks.seen(a, 1));
}

#[test]
fn a_destroyed_event_carries_nothing_when_its_handle_comes_back() {
    let (clocks, [a, b]) = clocks();
    clocks.event_record(E, a);
    clocks.event_emptied(E);
    clocks.event_wait(E, b);
    assert!(!clocks.covers(b, a, 1));
}

#[test]
fn a_record_that_is_not_modelled_empties_the_event() {
    let (clocks, [a, b]) = clocks();
    clocks.event_record(E, a);
    clocks.commit(clocks.begin_unmodelled_record(E));
    clocks.event_wait(E, b);
    assert!(!clocks.covers(b, a, 1));
}

#[test]
fn a_failed_call_credits_nothing_and_a_failed_record_empties_the_event() {
    let (clocks, [a, b]) = clocks();
    clocks.event_record(E, a);
    drop(clocks.begin_wait(E, b));
    drop(clocks.begin_event_synchronize(E));
    drop(clocks.begin_synchronize(a));
    drop(clocks.begin_synchronize_device());
    drop(clocks.begin_stream_wait(a, b));
    assert!(!clocks.covers(b, a, 1));
    drop(clocks.begin_record(E, a));
    clocks.event_wait(E, b);
    assert!(!clocks.covers(b, a, 1));
    clocks.event_record(E, a);
    clocks.event_wait(E, b);
    assert!(clocks.covers(b, a, 1), "the event works again after that");
}

#[test]
fn a_notice_of_other_clocks_counts_as_dropped() {
    let (clocks, [a, b]) = clocks();
    let other = Clocks::new(ClockSettings::default());
    other.commit(clocks.begin_stream_wait(a, b));
    assert!(!clocks.covers(b, a, 1));
    clocks.event_record(E, a);
    other.commit(clocks.begin_record(E, a));
    clocks.event_wait(E, b);
    assert!(!clocks.covers(b, a, 1));
}

#[test]
fn nothing_is_credited_while_the_event_is_being_recorded() {
    let (clocks, [a, b]) = clocks();
    clocks.event_record(E, a);
    let before = clocks.begin_wait(E, b);
    let record = clocks.begin_record(E, b);
    let during = clocks.begin_wait(E, b);
    clocks.commit(before);
    clocks.commit(record);
    clocks.commit(during);
    assert!(!clocks.covers(b, a, 1));
}

#[test]
fn nothing_is_credited_if_the_event_changed_during_the_call() {
    let (clocks, [a, b, c]) = clocks();
    clocks.event_record(E, a);
    let (wait, seen) = (clocks.begin_wait(E, c), clocks.begin_event_synchronize(E));
    clocks.event_record(E, b);
    clocks.commit(wait);
    clocks.commit(seen);
    assert!(!clocks.covers(c, a, 1) && !clocks.covers(c, b, 1));
    let wait = clocks.begin_wait(E, c);
    clocks.event_emptied(E);
    clocks.event_record(E, b);
    clocks.commit(wait);
    assert!(!clocks.covers(c, b, 1));
}

#[test]
fn two_records_of_one_event_at_once_leave_it_empty() {
    let (clocks, [a, b, c]) = clocks();
    let (first, second) = (clocks.begin_record(E, a), clocks.begin_record(E, b));
    clocks.commit(first);
    clocks.event_wait(E, c);
    clocks.commit(second);
    clocks.event_wait(E, c);
    assert!(!clocks.covers(c, a, 1) && !clocks.covers(c, b, 1));
    clocks.event_record(E, a);
    clocks.event_wait(E, c);
    assert!(clocks.covers(c, a, 1), "the doubt ends with the last of them");
}

#[test]
fn an_event_destroyed_during_its_record_stays_empty() {
    let (clocks, [a, b]) = clocks();
    let record = clocks.begin_record(E, a);
    clocks.event_emptied(E);
    clocks.commit(record);
    clocks.event_wait(E, b);
    assert!(!clocks.covers(b, a, 1));
}

#[test]
fn a_handle_that_comes_back_is_another_stream() {
    let (clocks, [a, b]) = clocks();
    clocks.event_record(E, b);
    clocks.event_wait(E, a);
    let used = clocks.current(a);
    let generation = clocks.generation();
    let wait = clocks.begin_wait(E, a);
    assert_eq!(clocks.stream_destroyed(StreamId(0)), Some(a));
    assert_eq!(clocks.stream_destroyed(StreamId(0)), None);
    clocks.commit(wait);
    assert!(clocks.generation() > generation);
    let again = clocks.resolve(StreamId(0));
    assert_ne!(again, a);
    assert!(!clocks.covers(again, a, used), "its work may still be running");
    assert!(!clocks.covers(again, b, 1), "what the old one waited for is not the new one's");
    clocks.check().unwrap();
}

#[test]
fn knowledge_rises_exactly_when_more_may_be_covered() {
    let (clocks, [a, b, c]) = clocks();
    let known = || (clocks.knowledge(b), clocks.knowledge(c));
    let start = known();
    clocks.event_record(E, a);
    assert_eq!(known(), start, "a record orders nobody");
    clocks.event_wait(E, b);
    assert_eq!(known(), (start.0 + 1, start.1));
    clocks.event_wait(E, b);
    assert_eq!(known(), (start.0 + 1, start.1), "the second wait is no news");
    clocks.event_synchronized(E);
    assert_eq!(known(), (start.0 + 2, start.1 + 1), "what the host sees counts for all");
    clocks.event_synchronized(E);
    assert_eq!(known(), (start.0 + 2, start.1 + 1));
}

#[test]
fn a_view_holds_what_was_known_and_sees_what_the_host_sees() {
    let (clocks, [a, b, c]) = clocks();
    clocks.event_record(E, a);
    let view = clocks.view(b);
    clocks.event_wait(E, b);
    assert!(!view.covers(a, 1) && clocks.view(b).covers(a, 1));
    assert!(clocks.knowledge(b) > view.knowledge());
    clocks.synchronized(c);
    assert!(view.covers(c, 1));
}

#[test]
fn blindly_a_use_counts_as_of_now_even_right_after_a_record() {
    let (clocks, [a]) = clocks();
    clocks.event_record(E, a);
    assert_eq!(clocks.use_component(a), clocks.current(a));
}

#[test]
fn where_all_work_is_seen_a_use_without_work_since_counts_as_of_the_last_record() {
    let clocks = seeing();
    let (a, b) = (clocks.resolve(StreamId(0)), clocks.resolve(StreamId(1)));
    assert!(clocks.covers(b, a, clocks.use_component(a)), "a stream without any work");
    clocks.work_queued(a);
    clocks.stream_wait(a, b);
    assert!(clocks.covers(b, a, clocks.use_component(a)));
    assert!(!clocks.covers(b, a, clocks.current(a)), "a free on its home stream counts as of now");
    clocks.work_queued(a);
    assert!(!clocks.covers(b, a, clocks.use_component(a)));
}

#[test]
fn streams_beyond_the_bound_are_never_covered() {
    let clocks = Clocks::new(ClockSettings { most_streams: 1, ..ClockSettings::default() });
    let (a, beyond) = (clocks.resolve(StreamId(0)), clocks.resolve(StreamId(1)));
    assert_eq!(beyond, NO_STREAM);
    clocks.stream_wait(a, beyond);
    clocks.stream_wait(beyond, a);
    clocks.event_record(E, beyond);
    clocks.event_wait(E, a);
    clocks.synchronized(beyond);
    clocks.device_synchronized();
    clocks.work_queued(beyond);
    for component in [0, 1, clocks.current(beyond), clocks.use_component(beyond)] {
        assert!(!clocks.covers(a, beyond, component.max(1)) && !clocks.covers(beyond, beyond, component));
        assert!(!clocks.view(beyond).covers(beyond, component));
    }
    assert!(!clocks.covers(beyond, a, clocks.current(a)));
    clocks.check().unwrap();
}

#[test]
fn many_short_lived_streams_and_events_keep_memory_bounded() {
    let settings = ClockSettings { most_entries: 64, most_events: 128, ..ClockSettings::default() };
    let clocks = Clocks::new(settings);
    let main = clocks.resolve(StreamId(0));
    for id in 1..=200_000_u64 {
        let short = clocks.resolve(StreamId(id % 8 + 1));
        clocks.event_record(2 * id, main);
        clocks.event_wait(2 * id, short);
        clocks.event_record(2 * id + 1, short);
        clocks.event_wait(2 * id + 1, main);
        assert!(clocks.covers(main, short, 1), "what was just waited for is known");
        clocks.stream_destroyed(StreamId(id % 8 + 1));
    }
    clocks.check().unwrap();
    let figures = clocks.figures();
    assert_eq!((figures.streams, figures.live_streams), (200_001, 1));
    assert!(figures.entries <= 64 && figures.events <= 128, "{figures:?}");
    assert!(figures.dropped_entries > 0 && figures.dropped_events > 0);
    clocks.device_synchronized();
    assert!(clocks.seen(1, 1), "a device-wide wait brings back what was forgotten");
}

#[test]
fn what_the_host_has_seen_leaves_the_clocks() {
    let (clocks, [main]) = clocks();
    for id in 1..1_000 {
        let short = clocks.resolve(StreamId(id));
        clocks.stream_wait(short, main);
        clocks.synchronized(main);
        clocks.stream_destroyed(StreamId(id));
    }
    assert!(clocks.figures().entries <= 1 && clocks.figures().dropped_entries == 0);
}

#[test]
fn clocks_and_notices_travel_between_threads() {
    fn travels<T: Send>() {}
    fn is_shared<T: Send + Sync>() {}
    travels::<Notice>();
    is_shared::<Clocks>();
}

#[test]
fn a_ring_of_threads_never_covers_ahead_of_the_records() {
    // Each thread owns a stream, frees on it and records; its neighbour waits. A component counts as covered only if a
    // record that began after it was current has been committed, which `recorded` remembers.
    let (clocks, streams) = clocks::<4>();
    let recorded: [AtomicU64; 4] = Default::default();
    std::thread::scope(|scope| {
        for (at, &stream) in streams.iter().enumerate() {
            let (clocks, recorded) = (&clocks, &recorded);
            scope.spawn(move || {
                let (next, key) = (streams[(at + 1) % 4], at as u64);
                for _ in 0..2_000 {
                    let component = clocks.current(stream);
                    recorded[at].store(component, Ordering::SeqCst);
                    clocks.event_record(key, stream);
                    clocks.event_wait(key, next);
                    let before = (at + 3) % 4;
                    let probe = recorded[before].load(Ordering::SeqCst) + 2;
                    let is_covered = clocks.covers(stream, streams[before], probe);
                    assert!(!is_covered || recorded[before].load(Ordering::SeqCst) >= probe);
                }
            });
        }
    });
    clocks.check().unwrap();
    for (at, &stream) in streams.iter().enumerate() {
        assert_eq!(clocks.current(stream), 2_001);
        assert!(clocks.covers(streams[(at + 1) % 4], stream, 2_000));
    }
}
