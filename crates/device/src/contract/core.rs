//! Promises about plain memory, streams, events and copies.

use super::{Case, Kind, Needs, Outcome, cases, done, ensure, free_bytes, refused, same_free};
use crate::{AddressRange, Attempt, Device, DevicePtr, EventId, Place, StreamId};

cases! {
    Core: memory_is_aligned_and_never_overlaps, no_bytes_are_refused, more_than_there_is_runs_out,
        freed_memory_can_be_had_again, memory_in_use_is_not_free, only_what_is_live_can_be_freed,
        a_free_waits_for_queued_work, streams_are_new_and_idle, the_default_stream_stays,
        a_destroyed_stream_is_refused, an_event_that_was_never_recorded_has_happened,
        a_record_happens_once_its_stream_is_there, an_event_follows_its_last_record, a_destroyed_event_is_refused,
        a_wait_carries_order_on, waits_outlive_their_event, streams_can_be_ordered,
        the_host_can_wait_for_everything, threads_get_memory_of_their_own, copies_need_memory_at_both_ends, parts_are_those_of_the_info;
    Bytes: bytes_written_are_read, copies_follow_their_streams;
}

const MIB: u64 = 1 << 20;

fn memory_is_aligned_and_never_overlaps(device: &dyn Device) -> Outcome {
    let alignment = device.info().plain_alignment_bytes;
    let mut ranges: Vec<AddressRange> = Vec::new();
    for bytes in [1, 511, 512, MIB, 3 * MIB + 5, 1, 2 * MIB] {
        let ptr = done("alloc", device.alloc(bytes))?;
        ensure!(ptr.0 != 0 && ptr.0.is_multiple_of(alignment), "{ptr} is null or no multiple of {alignment}");
        let range = AddressRange::new(ptr, bytes);
        if let Some(other) = ranges.iter().find(|other| other.overlaps(&range)) {
            return Err(format!("{range} overlaps {other}"));
        }
        ranges.push(range);
    }
    // What is given back in the middle may come again, and nothing else.
    let middle = ranges.swap_remove(3);
    done("free", device.free(middle.start))?;
    let range = AddressRange::new(done("alloc", device.alloc(middle.bytes))?, middle.bytes);
    ensure!(!ranges.iter().any(|other| other.overlaps(&range)), "{range} overlaps live memory");
    Ok(())
}

fn no_bytes_are_refused(device: &dyn Device) -> Outcome {
    refused("alloc of 0 bytes", device.alloc(0), Kind::Invalid, &Attempt::Alloc { bytes: 0 })
}

fn more_than_there_is_runs_out(device: &dyn Device) -> Outcome {
    let before = free_bytes(device)?;
    for bytes in [device.info().total_bytes.saturating_add(1), u64::MAX, u64::MAX - 4095] {
        refused("alloc of too much", device.alloc(bytes), Kind::OutOfMemory, &Attempt::Alloc { bytes })?;
        same_free(device, before, "a refused alloc")?;
    }
    done("a small alloc after a refused one", device.alloc(MIB)).map(|_| ())
}

fn freed_memory_can_be_had_again(device: &dyn Device) -> Outcome {
    let before = free_bytes(device)?;
    let bytes = before / 4 * 3;
    for _ in 0..3 {
        let ptr = done("alloc of three quarters", device.alloc(bytes))?;
        done("free", device.free(ptr))?;
    }
    same_free(device, before, "all was freed")
}

fn memory_in_use_is_not_free(device: &dyn Device) -> Outcome {
    let state = done("asking for the free memory", device.memory())?;
    let total = device.info().total_bytes;
    ensure!(state.total_bytes == total && state.free_bytes <= total, "{state:?}, but the info says {total}");
    let bytes = state.free_bytes / 4;
    done("alloc", device.alloc(bytes))?;
    let now = free_bytes(device)?;
    ensure!(now <= state.free_bytes - bytes, "{now} of {} bytes are free with {bytes} in use", state.free_bytes);
    Ok(())
}

fn only_what_is_live_can_be_freed(device: &dyn Device) -> Outcome {
    let free = |what: &str, ptr| refused(what, device.free(ptr), Kind::Invalid, &Attempt::Free { ptr });
    let ptr = done("alloc", device.alloc(2 * MIB))?;
    let before = free_bytes(device)?;
    free("free of a pointer that was never given out", DevicePtr(1))?;
    free("free of an address inside", DevicePtr(ptr.0 + 512))?;
    same_free(device, before, "refused frees")?;
    done("free", device.free(ptr))?;
    free("a second free", ptr)
}

/// A mark behind everything on the stream.
fn mark(device: &dyn Device, stream: StreamId) -> std::result::Result<EventId, String> {
    let event = done("making an event", device.create_event())?;
    done("recording it", device.record_event(event, stream))?;
    Ok(event)
}

fn has_happened(device: &dyn Device, event: EventId, what: &str) -> Outcome {
    let happened = done("asking an event", device.query_event(event))?;
    ensure!(happened, "{what} has not happened");
    Ok(())
}

fn stream(device: &dyn Device) -> std::result::Result<StreamId, String> {
    done("making a stream", device.create_stream())
}

fn a_free_waits_for_queued_work(device: &dyn Device) -> Outcome {
    let ptr = done("alloc", device.alloc(MIB))?;
    let mark = mark(device, stream(device)?)?;
    done("free", device.free(ptr))?;
    has_happened(device, mark, "what was queued before a free")
}

fn streams_are_new_and_idle(device: &dyn Device) -> Outcome {
    let mut streams = vec![StreamId::DEFAULT];
    for _ in 0..8 {
        let stream = stream(device)?;
        ensure!(!streams.contains(&stream), "{stream} was given out twice");
        ensure!(done("asking a stream", device.query_stream(stream))?, "a new stream is busy");
        streams.push(stream);
    }
    let last = stream(device)?;
    done("destroying a stream", device.destroy_stream(last))?;
    let next = stream(device)?;
    ensure!(next != last, "{next} was given out again");
    Ok(())
}

fn the_default_stream_stays(device: &dyn Device) -> Outcome {
    let stream = StreamId::DEFAULT;
    let attempt = Attempt::DestroyStream { stream };
    refused("destroying the default stream", device.destroy_stream(stream), Kind::Invalid, &attempt)?;
    let mark = mark(device, stream)?;
    done("waiting for the default stream", device.synchronize_stream(stream))?;
    has_happened(device, mark, "a record on the default stream")
}

fn a_destroyed_stream_is_refused(device: &dyn Device) -> Outcome {
    let stream = stream(device)?;
    let event = done("making an event", device.create_event())?;
    done("destroying a stream", device.destroy_stream(stream))?;
    let kind = Kind::Invalid;
    refused("asking it", device.query_stream(stream), kind, &Attempt::QueryStream { stream })?;
    refused("waiting for it", device.synchronize_stream(stream), kind, &Attempt::SynchronizeStream { stream })?;
    refused("recording on it", device.record_event(event, stream), kind, &Attempt::RecordEvent { event, stream })?;
    refused("making it wait", device.wait_event(stream, event), kind, &Attempt::WaitEvent { stream, event })?;
    refused("destroying it again", device.destroy_stream(stream), kind, &Attempt::DestroyStream { stream })?;
    has_happened(device, event, "an event whose record was refused")
}

fn an_event_that_was_never_recorded_has_happened(device: &dyn Device) -> Outcome {
    let event = done("making an event", device.create_event())?;
    has_happened(device, event, "an event without a record")?;
    done("waiting for it", device.synchronize_event(event))?;
    done("making a stream wait for it", device.wait_event(stream(device)?, event))
}

fn a_record_happens_once_its_stream_is_there(device: &dyn Device) -> Outcome {
    let stream = stream(device)?;
    let first = mark(device, stream)?;
    let second = mark(device, stream)?;
    done("waiting for the second record", device.synchronize_event(second))?;
    has_happened(device, second, "a record that was waited for")?;
    has_happened(device, first, "an earlier record of the same stream")?;
    let third = mark(device, stream)?;
    done("waiting for the stream", device.synchronize_stream(stream))?;
    has_happened(device, third, "a record on a stream that was waited for")?;
    ensure!(done("asking the stream", device.query_stream(stream))?, "a stream that was waited for is busy");
    Ok(())
}

fn an_event_follows_its_last_record(device: &dyn Device) -> Outcome {
    let (first, second) = (stream(device)?, stream(device)?);
    let event = mark(device, first)?;
    let witness = mark(device, second)?;
    done("recording again, elsewhere", device.record_event(event, second))?;
    done("waiting for the event", device.synchronize_event(event))?;
    has_happened(device, witness, "what was before the last record")
}

fn a_destroyed_event_is_refused(device: &dyn Device) -> Outcome {
    let stream = StreamId::DEFAULT;
    let event = mark(device, stream)?;
    done("destroying an event", device.destroy_event(event))?;
    let kind = Kind::Invalid;
    refused("asking it", device.query_event(event), kind, &Attempt::QueryEvent { event })?;
    refused("waiting for it", device.synchronize_event(event), kind, &Attempt::SynchronizeEvent { event })?;
    refused("recording it", device.record_event(event, stream), kind, &Attempt::RecordEvent { event, stream })?;
    refused("waiting on a stream", device.wait_event(stream, event), kind, &Attempt::WaitEvent { stream, event })?;
    refused("destroying it again", device.destroy_event(event), kind, &Attempt::DestroyEvent { event })?;
    let next = done("making an event", device.create_event())?;
    ensure!(next != event, "{next} was given out again");
    Ok(())
}

fn a_wait_carries_order_on(device: &dyn Device) -> Outcome {
    let (first, second, third) = (stream(device)?, stream(device)?, stream(device)?);
    let start = mark(device, first)?;
    done("making the second wait", device.wait_event(second, start))?;
    let middle = mark(device, second)?;
    done("making the third wait", device.wait_event(third, middle))?;
    done("waiting for the third", device.synchronize_stream(third))?;
    has_happened(device, middle, "what a stream that was waited for waits for")?;
    has_happened(device, start, "what that waited for")
}

fn waits_outlive_their_event(device: &dyn Device) -> Outcome {
    for destroy in [true, false] {
        let (first, second) = (stream(device)?, stream(device)?);
        let witness = mark(device, first)?;
        let event = mark(device, first)?;
        done("making the second wait", device.wait_event(second, event))?;
        if destroy {
            done("destroying the event", device.destroy_event(event))?;
        } else {
            done("recording the event again", device.record_event(event, stream(device)?))?;
        }
        done("waiting for the second", device.synchronize_stream(second))?;
        has_happened(device, witness, "what a stream was made to wait for")?;
    }
    Ok(())
}

fn streams_can_be_ordered(device: &dyn Device) -> Outcome {
    let (first, then) = (stream(device)?, stream(device)?);
    let witness = mark(device, first)?;
    done("ordering streams", device.order_streams(first, then))?;
    done("waiting for the second", device.synchronize_stream(then))?;
    has_happened(device, witness, "what a stream was ordered behind")
}

fn the_host_can_wait_for_everything(device: &dyn Device) -> Outcome {
    let mut marks = vec![mark(device, StreamId::DEFAULT)?];
    for _ in 0..3 {
        marks.push(mark(device, stream(device)?)?);
    }
    done("waiting for the device", device.synchronize())?;
    marks.into_iter().try_for_each(|mark| has_happened(device, mark, "a record on a device that was waited for"))
}

fn threads_get_memory_of_their_own(device: &dyn Device) -> Outcome {
    let work = || -> Result<Vec<AddressRange>, String> {
        let mut kept = Vec::new();
        for round in 0..16 {
            let range = AddressRange::new(done("alloc", device.alloc(MIB))?, MIB);
            mark(device, StreamId::DEFAULT)?;
            if round % 2 == 0 {
                kept.push(range);
            } else {
                done("free", device.free(range.start))?;
            }
        }
        Ok(kept)
    };
    let of_threads: Vec<_> = std::thread::scope(|scope| {
        let threads: Vec<_> = (0..4).map(|_| scope.spawn(work)).collect();
        threads.into_iter().map(|thread| thread.join().unwrap_or(Err("a thread panicked".to_owned()))).collect()
    });
    let mut ranges = of_threads.into_iter().collect::<Result<Vec<_>, _>>()?.concat();
    ranges.sort_unstable();
    for pair in ranges.windows(2) {
        ensure!(!pair[0].overlaps(&pair[1]), "{} and {} overlap", pair[0], pair[1]);
    }
    Ok(())
}

fn copies_need_memory_at_both_ends(device: &dyn Device) -> Outcome {
    let stream = StreamId::DEFAULT;
    let bytes = MIB;
    let room = device.info().plain_granule_bytes.max(bytes);
    let (one, two) = (done("alloc", device.alloc(room))?, done("alloc", device.alloc(2 * room))?);
    let copy = |what: &str, to: u64, from: u64| {
        let (to, from) = (Place::Device(DevicePtr(to)), Place::Device(DevicePtr(from)));
        refused(what, device.copy(to, from, bytes, stream), Kind::Invalid, &Attempt::Copy { to, from, bytes, stream })
    };
    done("a copy", device.copy(Place::Device(one), Place::Device(two), bytes, stream))?;
    copy("a copy to nowhere", 1, two.0)?;
    copy("a copy beyond the end of all addresses", u64::MAX - 8, two.0)?;
    copy("a copy beyond the end of memory", two.0 + 2 * room - bytes + 1, one.0)?;
    copy("a copy onto itself", two.0, two.0 + 1)?;
    done("waiting", device.synchronize_stream(stream))?;
    done("free", device.free(one))?;
    copy("a copy from freed memory", two.0, one.0)
}

fn parts_are_those_of_the_info(device: &dyn Device) -> Outcome {
    let page = device.info().page_bytes;
    ensure!(page.is_some() == device.vmm().is_some(), "the info says pages of {page:?} bytes, vmm() says otherwise");
    ensure!(page.is_none_or(u64::is_power_of_two), "pages of {page:?} bytes");
    let bytes = device.info().has_bytes;
    if !bytes {
        let to = Place::Device(done("alloc", device.alloc(MIB))?);
        let attempt = Attempt::Write { to, bytes: 4 };
        refused("writing where no bytes are kept", device.write(to, &[1; 4]), Kind::Unsupported, &attempt)?;
        let attempt = Attempt::Read { from: to, bytes: 4 };
        refused("reading where no bytes are kept", device.read(to, &mut [0; 4]), Kind::Unsupported, &attempt)?;
    }
    Ok(())
}

/// Bytes that differ from place to place.
pub(super) fn pattern(seed: u8, bytes: usize) -> Vec<u8> {
    (0..bytes).map(|index| (index as u8).wrapping_mul(31).wrapping_add(seed)).collect()
}

/// The place holds this pattern.
pub(super) fn holds(device: &dyn Device, place: Place, expected: &[u8]) -> Outcome {
    let mut found = vec![0; expected.len()];
    done("reading", device.read(place, &mut found))?;
    match found.iter().zip(expected).position(|(found, expected)| found != expected) {
        None => Ok(()),
        Some(at) => Err(format!("byte {at} at {place} is {}, not {}", found[at], expected[at])),
    }
}

fn bytes_written_are_read(device: &dyn Device) -> Outcome {
    let (one, two) = (done("alloc", device.alloc(MIB))?, done("alloc", device.alloc(MIB))?);
    let (first, second) = (pattern(1, MIB as usize), pattern(2, MIB as usize));
    done("writing", device.write(Place::Device(one), &first))?;
    done("writing", device.write(Place::Device(two), &second))?;
    holds(device, Place::Device(one), &first)?;
    holds(device, Place::Device(two), &second)?;
    let inside = Place::Device(DevicePtr(one.0 + 1000));
    done("writing inside", device.write(inside, &second[..100]))?;
    holds(device, inside, &second[..100])?;
    holds(device, Place::Device(DevicePtr(one.0 + 1100)), &first[1100..])
}

fn copies_follow_their_streams(device: &dyn Device) -> Outcome {
    let places: Vec<Place> =
        (0..3).map(|_| done("alloc", device.alloc(MIB)).map(Place::Device)).collect::<Result<_, _>>()?;
    let bytes = pattern(3, MIB as usize);
    let (first, second) = (stream(device)?, stream(device)?);
    done("writing", device.write(places[0], &bytes))?;
    done("a copy", device.copy(places[1], places[0], MIB, first))?;
    done("ordering streams", device.order_streams(first, second))?;
    done("a copy", device.copy(places[2], places[1], MIB, second))?;
    done("waiting", device.synchronize_stream(second))?;
    holds(device, places[2], &bytes)
}
