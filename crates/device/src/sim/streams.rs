//! Streams, events and who is ordered behind whom.
//!
//! A stream's queue is numbered. Its *clock* says, for each stream, up to which entry that stream's work lies before
//! whatever is queued here next; its own entries always do. *Seen* is the same for the host. An event carries the clock
//! of its record; a wait joins it into the waiting stream's, a successful query or synchronize into what is seen.

use crate::books::{Slab, join, split};
use std::collections::VecDeque;
use std::sync::Arc;

/// Most streams at a time, and most places for them: a clock has an entry for each place.
const MAX_STREAMS: u32 = 4096;

/// Entries of other streams that lie before something, by the stream's place. Missing ones are 0.
type Clock = Arc<Vec<u64>>;

/// A stream's place and an entry of its queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Entry {
    pub(super) place: u32,
    pub(super) sequence: u64,
}

/// What a device may know before it may touch bytes again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Standard {
    /// The work has finished.
    Finished,
    /// The host has seen it finish.
    Seen,
}

#[derive(Debug)]
struct Stream {
    generation: u32,
    alive: bool,
    issued: u64,
    done: u64,
    /// Entries of this queue that wait for entries of others, in order: (own entry, what it waits for).
    waits: VecDeque<(u64, Entry)>,
    clock: Clock,
}

/// A record of an event.
#[derive(Clone, Debug)]
pub(super) struct Mark {
    pub(super) entry: Entry,
    clock: Clock,
    /// When it happens, by the timeline.
    pub(super) ns: u64,
}

#[derive(Debug)]
pub(super) struct Streams {
    /// Whether finishing a stream finishes what it waited for.
    waits_finish: bool,
    streams: Vec<Stream>,
    /// Places of streams that were destroyed.
    left: Vec<u32>,
    events: Slab<Option<Mark>>,
    seen: Vec<u64>,
    /// Kept to save its memory.
    stack: Vec<Entry>,
}

impl Streams {
    pub(super) fn new(waits_finish: bool) -> Streams {
        let (events, stack) = (Slab::new(), Vec::new());
        let mut streams =
            Streams { waits_finish, streams: Vec::new(), left: Vec::new(), events, seen: Vec::new(), stack };
        streams.add();
        streams
    }

    fn add(&mut self) {
        self.streams.push(Stream {
            generation: 0,
            alive: true,
            issued: 0,
            done: 0,
            waits: VecDeque::new(),
            clock: Arc::default(),
        });
        self.seen.push(0);
    }

    // -- streams

    pub(super) fn create(&mut self) -> Option<u64> {
        // Another stream may take a place, and go on with its numbers, once the host has seen all of the old one finish.
        let is_over = |place: &u32| {
            let stream = &self.streams[*place as usize];
            self.seen[*place as usize] == stream.issued && stream.generation < u32::MAX
        };
        if let Some(index) = self.left.iter().position(is_over) {
            let place = self.left.swap_remove(index);
            let stream = &mut self.streams[place as usize];
            stream.alive = true;
            stream.generation += 1;
            return Some(join(place, stream.generation));
        }
        let place = u32::try_from(self.streams.len()).ok().filter(|place| *place < MAX_STREAMS)?;
        self.add();
        Some(join(place, 0))
    }

    /// The place of a stream that exists.
    pub(super) fn place(&self, id: u64) -> Option<u32> {
        let (place, generation) = split(id);
        let stream = self.streams.get(place as usize)?;
        (stream.alive && stream.generation == generation).then_some(place)
    }

    pub(super) fn destroy(&mut self, place: u32) {
        self.streams[place as usize].alive = false;
        self.left.push(place);
    }

    pub(super) fn id(&self, place: u32) -> u64 {
        join(place, self.streams[place as usize].generation)
    }

    /// Puts something on the stream's queue.
    pub(super) fn issue(&mut self, place: u32) -> Entry {
        let stream = &mut self.streams[place as usize];
        stream.issued += 1;
        Entry { place, sequence: stream.issued }
    }

    pub(super) fn last(&self, place: u32) -> Entry {
        Entry { place, sequence: self.streams[place as usize].issued }
    }

    pub(super) fn finished(&self, place: u32) -> u64 {
        self.streams[place as usize].done
    }

    pub(super) fn seen(&self, place: u32) -> u64 {
        self.seen[place as usize]
    }

    pub(super) fn is_finished(&self, entry: Entry) -> bool {
        self.finished(entry.place) >= entry.sequence
    }

    pub(super) fn all_finished(&self) -> bool {
        self.streams.iter().all(|stream| stream.done == stream.issued)
    }

    /// Finishes a stream up to an entry, and with it whatever that waited for. Each wait is looked at once in its life.
    pub(super) fn finish(&mut self, entry: Entry) {
        self.stack.push(entry);
        while let Some(Entry { place, sequence }) = self.stack.pop() {
            let stream = &mut self.streams[place as usize];
            let upto = sequence.min(stream.issued);
            if upto <= stream.done {
                continue;
            }
            stream.done = upto;
            while let Some((at, before)) = stream.waits.front().copied() {
                if at > upto {
                    break;
                }
                stream.waits.pop_front();
                self.stack.push(before);
            }
        }
    }

    pub(super) fn finish_all(&mut self) {
        for stream in &mut self.streams {
            stream.done = stream.issued;
            stream.waits.clear();
        }
    }

    // -- what the host sees

    /// The host has seen the stream finish up to `entry`. The stream's clock counts only if that is all of its queue.
    pub(super) fn see_stream(&mut self, entry: Entry) {
        let stream = &self.streams[entry.place as usize];
        if entry.sequence >= stream.issued {
            let clock = Arc::clone(&stream.clock);
            raise_all(&mut self.seen, &clock);
        }
        raise(&mut self.seen, entry);
    }

    pub(super) fn see_mark(&mut self, mark: &Mark) {
        raise_all(&mut self.seen, &mark.clock);
        raise(&mut self.seen, mark.entry);
    }

    pub(super) fn see_all(&mut self) {
        for (seen, stream) in self.seen.iter_mut().zip(&self.streams) {
            *seen = stream.done;
        }
    }

    // -- events

    pub(super) fn create_event(&mut self) -> Option<u64> {
        self.events.insert(None)
    }

    pub(super) fn destroy_event(&mut self, id: u64) -> bool {
        self.events.remove(id).is_some()
    }

    /// The event's last record, if the event exists.
    pub(super) fn mark(&self, id: u64) -> Option<Option<&Mark>> {
        self.events.get(id).map(Option::as_ref)
    }

    /// Records an event that exists. The record is an entry of the queue like any other: it happens once the device has
    /// come that far.
    pub(super) fn record(&mut self, id: u64, place: u32, ns: u64) {
        let mark = self.mark_here(place, ns);
        if let Some(event) = self.events.get_mut(id) {
            *event = Some(mark);
        }
    }

    /// A mark behind all that is queued on the stream.
    pub(super) fn mark_here(&mut self, place: u32, ns: u64) -> Mark {
        let entry = self.issue(place);
        Mark { entry, clock: Arc::clone(&self.streams[place as usize].clock), ns }
    }

    pub(super) fn wait(&mut self, place: u32, mark: &Mark) {
        let at = self.issue(place).sequence;
        if mark.entry.place == place {
            return;
        }
        let pending = self.waits_finish && !self.is_finished(mark.entry);
        let stream = &mut self.streams[place as usize];
        if pending {
            stream.waits.push_back((at, mark.entry));
        }
        let clock = Arc::make_mut(&mut stream.clock);
        raise_all(clock, &mark.clock);
        raise(clock, mark.entry);
    }

    // -- order

    /// Up to which entry of `other` work queued on `place` from now on is ordered behind it, not counting what the host
    /// has seen.
    pub(super) fn waits_for(&self, place: u32, other: u32) -> u64 {
        self.streams[place as usize].clock.get(other as usize).copied().unwrap_or(0)
    }

    /// Whether an entry lies before whatever the host does next.
    pub(super) fn is_over(&self, entry: Entry, standard: Standard) -> bool {
        self.seen(entry.place) >= entry.sequence || (standard == Standard::Finished && self.is_finished(entry))
    }

    /// Whether an entry lies before whatever is queued on `place` next.
    pub(super) fn is_before(&self, entry: Entry, place: u32, standard: Standard) -> bool {
        entry.place == place || self.waits_for(place, entry.place) >= entry.sequence || self.is_over(entry, standard)
    }

    /// Names the invariant that doesn't hold.
    pub(super) fn check(&self) -> Result<(), String> {
        for (place, stream) in self.streams.iter().enumerate() {
            if stream.done > stream.issued {
                return Err(format!("stream {place} finished {} of {} entries", stream.done, stream.issued));
            }
            if self.seen[place] > stream.done {
                return Err(format!(
                    "the host saw {} entries of stream {place}, {} finished",
                    self.seen[place], stream.done
                ));
            }
            if stream.waits.front().is_some_and(|(at, _)| *at <= stream.done) {
                return Err(format!("stream {place} finished with a wait still open"));
            }
            for (other, &upto) in stream.clock.iter().enumerate() {
                if upto > self.streams[other].issued {
                    return Err(format!("stream {place} waits for entry {upto} of stream {other}, which isn't queued"));
                }
            }
        }
        Ok(())
    }
}

fn raise(clock: &mut Vec<u64>, entry: Entry) {
    let place = entry.place as usize;
    if clock.len() <= place {
        clock.resize(place + 1, 0);
    }
    clock[place] = clock[place].max(entry.sequence);
}

fn raise_all(clock: &mut Vec<u64>, other: &[u64]) {
    if clock.len() < other.len() {
        clock.resize(other.len(), 0);
    }
    for (mine, theirs) in clock.iter_mut().zip(other) {
        *mine = (*mine).max(*theirs);
    }
}
