//! Streams and events as books: who may go on, who waits for whom. No threads and no time of its own here.
//!
//! A stream is a queue whose entries are numbered from 1. A [`Mark`] names an entry; an event is the mark of its last
//! record. Entries at the front are looked at whenever something changes (`advance`): records and waits are done at
//! once when they can be, copies and their like go to the list of what workers take.

use super::options::Completion;
use super::span::Span;
use crate::books::Refusal;
use hashbrown::HashMap;
use std::cmp::Reverse;
use std::collections::{BTreeSet, BinaryHeap, VecDeque};
use std::fmt;
use std::time::{Duration, Instant};

/// An entry of a stream's queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Mark {
    pub(super) stream: u64,
    pub(super) sequence: u64,
}

/// What a worker does.
pub(super) enum Work {
    Copy { to: Span, from: Span },
    Fill { to: Span, value: u8 },
    Launch(Box<dyn FnOnce() + Send>),
}

impl fmt::Debug for Work {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Work::Copy { .. } => "copy",
            Work::Fill { .. } => "fill",
            Work::Launch(_) => "launch",
        })
    }
}

#[derive(Debug)]
pub(super) enum Entry {
    /// An event was recorded.
    Record,
    Wait(Mark),
    Work(Work),
}

/// What the front of a queue waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Front {
    /// Nothing is queued, or it wasn't looked at yet.
    Fresh,
    /// Another stream.
    Parked,
    /// Somebody's word.
    Held,
    /// Its time.
    Due(Instant),
    /// Its time has come; it is to be done now.
    Ripe,
    /// A worker.
    Listed,
    /// A worker has it; it isn't in the queue any more.
    Running,
}

#[derive(Debug)]
struct Stream {
    /// Not destroyed.
    alive: bool,
    queue: VecDeque<Entry>,
    issued: u64,
    done: u64,
    /// Entries up to this one may be done.
    allowed: u64,
    front: Front,
    /// Who waits for which of our entries: (entry, stream).
    waiters: BTreeSet<(u64, u64)>,
}

#[derive(Debug)]
pub(super) struct Queues {
    completion: Completion,
    /// Those that exist, and those that have work left.
    streams: HashMap<u64, Stream>,
    events: HashMap<u64, Option<Mark>>,
    next_stream: u64,
    next_event: u64,
    listed: VecDeque<u64>,
    timers: BinaryHeap<Reverse<(Instant, u64)>>,
    /// Entries not done.
    pending: u64,
    /// Kept to save its memory.
    looking: Vec<u64>,
}

impl Queues {
    /// With the default stream, 0.
    pub(super) fn new(completion: Completion) -> Queues {
        let mut queues = Queues {
            completion,
            streams: HashMap::new(),
            events: HashMap::new(),
            next_stream: 0,
            next_event: 1,
            listed: VecDeque::new(),
            timers: BinaryHeap::new(),
            pending: 0,
            looking: Vec::new(),
        };
        queues.create_stream();
        queues
    }

    pub(super) fn is_manual(&self) -> bool {
        self.completion == Completion::Manual
    }

    // -- streams

    pub(super) fn create_stream(&mut self) -> u64 {
        let id = self.next_stream;
        self.next_stream += 1;
        let allowed = if self.is_manual() { 0 } else { u64::MAX };
        let stream = Stream {
            alive: true,
            queue: VecDeque::new(),
            issued: 0,
            done: 0,
            allowed,
            front: Front::Fresh,
            waiters: BTreeSet::new(),
        };
        self.streams.insert(id, stream);
        id
    }

    pub(super) fn destroy_stream(&mut self, id: u64) -> Result<(), Refusal> {
        let stream = self.stream_mut(id)?;
        stream.alive = false;
        if stream.done == stream.issued {
            self.streams.remove(&id);
        }
        Ok(())
    }

    fn stream_mut(&mut self, id: u64) -> Result<&mut Stream, Refusal> {
        self.streams.get_mut(&id).filter(|stream| stream.alive).ok_or(Refusal::Id("there is no such stream"))
    }

    /// The last entry of a stream.
    pub(super) fn last(&self, id: u64) -> Result<Mark, Refusal> {
        let stream = self.streams.get(&id).filter(|stream| stream.alive);
        let stream = stream.ok_or(Refusal::Id("there is no such stream"))?;
        Ok(Mark { stream: id, sequence: stream.issued })
    }

    /// The first entry of a stream that isn't done; the last one if all are.
    pub(super) fn next(&self, id: u64) -> Result<Mark, Refusal> {
        let last = self.last(id)?;
        let done = self.streams.get(&id).map_or(0, |stream| stream.done);
        Ok(Mark { stream: id, sequence: last.sequence.min(done + 1) })
    }

    /// The last entries of all streams that have work left.
    pub(super) fn all_pending(&self) -> Vec<Mark> {
        let pending = self.streams.iter().filter(|(_, stream)| stream.done < stream.issued);
        pending.map(|(&id, stream)| Mark { stream: id, sequence: stream.issued }).collect()
    }

    pub(super) fn is_done(&self, mark: Mark) -> bool {
        self.streams.get(&mark.stream).is_none_or(|stream| stream.done >= mark.sequence)
    }

    /// Entries of a stream that aren't done.
    pub(super) fn backlog(&self, id: u64) -> u64 {
        self.streams.get(&id).map_or(0, |stream| stream.issued - stream.done)
    }

    /// Entries of all streams that aren't done.
    pub(super) fn pending(&self) -> u64 {
        self.pending
    }

    // -- events

    pub(super) fn create_event(&mut self) -> u64 {
        let id = self.next_event;
        self.next_event += 1;
        self.events.insert(id, None);
        id
    }

    pub(super) fn destroy_event(&mut self, id: u64) -> Result<(), Refusal> {
        self.events.remove(&id).map(|_| ()).ok_or(NO_EVENT)
    }

    /// The event's last record.
    pub(super) fn mark(&self, id: u64) -> Result<Option<Mark>, Refusal> {
        self.events.get(&id).copied().ok_or(NO_EVENT)
    }

    pub(super) fn record(&mut self, event: u64, stream: u64) -> Result<(), Refusal> {
        self.mark(event)?;
        let mark = self.push(stream, Entry::Record)?;
        self.events.insert(event, Some(mark));
        Ok(())
    }

    pub(super) fn wait(&mut self, stream: u64, event: u64) -> Result<(), Refusal> {
        let mark = self.mark(event)?;
        match mark.filter(|mark| mark.stream != stream && !self.is_done(*mark)) {
            Some(mark) => self.push(stream, Entry::Wait(mark)).map(|_| ()),
            // It has happened, or lies before us anyway.
            None => self.stream_mut(stream).map(|_| ()),
        }
    }

    // -- what is done when

    pub(super) fn push(&mut self, id: u64, entry: Entry) -> Result<Mark, Refusal> {
        let stream = self.stream_mut(id)?;
        stream.queue.push_back(entry);
        stream.issued += 1;
        let mark = Mark { stream: id, sequence: stream.issued };
        self.pending += 1;
        self.look_at(id);
        Ok(mark)
    }

    /// Lets an entry be done, and all that it waits for.
    pub(super) fn allow(&mut self, mark: Mark) {
        let mut open = vec![mark];
        while let Some(Mark { stream: id, sequence }) = open.pop() {
            let Some(stream) = self.streams.get_mut(&id) else { continue };
            let before = stream.allowed;
            if sequence <= before {
                continue;
            }
            stream.allowed = sequence;
            let first = stream.done + 1 + u64::from(stream.front == Front::Running);
            for (sequence, entry) in (first..=sequence).zip(&stream.queue) {
                if let Entry::Wait(mark) = entry
                    && sequence > before
                {
                    open.push(*mark);
                }
            }
            self.look_at(id);
        }
    }

    /// Nothing is held back from now on.
    pub(super) fn allow_all(&mut self) {
        self.completion = Completion::Prompt;
        for id in self.streams.keys().copied().collect::<Vec<_>>() {
            self.allow(Mark { stream: id, sequence: u64::MAX });
        }
    }

    /// Looks at the front of a stream, and of those who waited for what is done now.
    fn look_at(&mut self, id: u64) {
        let looking = std::mem::take(&mut self.looking);
        self.look_on(looking, id);
    }

    fn look_on(&mut self, mut looking: Vec<u64>, id: u64) {
        looking.push(id);
        while let Some(id) = looking.pop() {
            while self.advance(id, &mut looking) {}
        }
        self.looking = looking;
    }

    /// Does the first entry of a stream, if nothing but books is to be done and nothing stands before it.
    fn advance(&mut self, id: u64, looking: &mut Vec<u64>) -> bool {
        let Some(stream) = self.streams.get(&id) else { return false };
        if matches!(stream.front, Front::Listed | Front::Running | Front::Due(_)) {
            return false;
        }
        let sequence = stream.done + 1;
        let Some(entry) = stream.queue.front() else { return false };
        let is_work = matches!(entry, Entry::Work(_));
        let open = if let Entry::Wait(mark) = entry { Some(*mark).filter(|mark| !self.is_done(*mark)) } else { None };
        let takes_time = !matches!(entry, Entry::Wait(_)) && stream.front != Front::Ripe;
        let front = if sequence > stream.allowed {
            Front::Held
        } else if let Some(mark) = open {
            if let Some(other) = self.streams.get_mut(&mark.stream) {
                other.waiters.insert((mark.sequence, id));
            }
            Front::Parked
        } else {
            match time_of(self.completion, id, sequence) {
                time if takes_time && time > Duration::ZERO => Front::Due(Instant::now() + time),
                _ if is_work => Front::Listed,
                _ => Front::Ripe,
            }
        };
        let Some(stream) = self.streams.get_mut(&id) else { return false };
        stream.front = front;
        match front {
            Front::Due(time) => self.timers.push(Reverse((time, id))),
            Front::Listed => self.listed.push_back(id),
            Front::Ripe => {
                stream.queue.pop_front();
                self.finish(id, looking);
                return true;
            }
            _ => {}
        }
        false
    }

    /// The first entry of a stream is done, and out of its queue.
    fn finish(&mut self, id: u64, looking: &mut Vec<u64>) {
        let Some(stream) = self.streams.get_mut(&id) else { return };
        stream.done += 1;
        stream.front = Front::Fresh;
        self.pending -= 1;
        while let Some(&(sequence, waiter)) = stream.waiters.first() {
            if sequence > stream.done {
                break;
            }
            stream.waiters.pop_first();
            looking.push(waiter);
        }
        if !stream.alive && stream.done == stream.issued {
            self.streams.remove(&id);
        }
    }

    /// Names the invariant that doesn't hold.
    pub(super) fn check(&self) -> Result<(), String> {
        let mut pending = 0;
        for (id, stream) in &self.streams {
            let running = u64::from(stream.front == Front::Running);
            if stream.done + running + stream.queue.len() as u64 != stream.issued {
                let queued = stream.queue.len();
                return Err(format!("stream {id}: {} of {} done, {queued} queued", stream.done, stream.issued));
            }
            pending += stream.issued - stream.done;
            if (stream.front == Front::Listed) != self.listed.contains(id) {
                return Err(format!("stream {id} is {:?}, the list of workers says otherwise", stream.front));
            }
            if stream.front == Front::Fresh && !stream.queue.is_empty() {
                return Err(format!("nobody looked at the front of stream {id}"));
            }
            if let (Front::Parked, Some(Entry::Wait(mark))) = (stream.front, stream.queue.front()) {
                let other = self.streams.get(&mark.stream);
                if other.is_none_or(|other| !other.waiters.contains(&(mark.sequence, *id))) {
                    return Err(format!("stream {id} waits for {mark:?} unnoticed"));
                }
            }
        }
        if pending != self.pending {
            return Err(format!("{pending} entries are not done, the books say {}", self.pending));
        }
        Ok(())
    }

    // -- for workers

    /// Takes note of the time; says when to do it next.
    pub(super) fn tick(&mut self, now: Instant) -> Option<Instant> {
        while let Some(&Reverse((time, id))) = self.timers.peek() {
            if time > now {
                return Some(time);
            }
            self.timers.pop();
            if let Some(stream) = self.streams.get_mut(&id)
                && stream.front == Front::Due(time)
            {
                stream.front = Front::Ripe;
                self.look_at(id);
            }
        }
        None
    }

    /// Streams whose first entry waits for a worker.
    pub(super) fn listed(&self) -> usize {
        self.listed.len()
    }

    /// When the next entry's time comes.
    pub(super) fn next_time(&self) -> Option<Instant> {
        self.timers.peek().map(|Reverse((time, _))| *time)
    }

    /// Work to do now. To be followed by [`finished`](Self::finished).
    pub(super) fn start(&mut self) -> Option<(u64, Work)> {
        while let Some(id) = self.listed.pop_front() {
            let Some(stream) = self.streams.get_mut(&id) else { continue };
            if let Some(Entry::Work(work)) = stream.queue.pop_front() {
                stream.front = Front::Running;
                return Some((id, work));
            }
        }
        None
    }

    pub(super) fn finished(&mut self, id: u64) {
        let mut looking = std::mem::take(&mut self.looking);
        self.finish(id, &mut looking);
        self.look_on(looking, id);
    }
}

const NO_EVENT: Refusal = Refusal::Id("there is no such event");

/// How much longer an entry takes than it has to.
fn time_of(completion: Completion, stream: u64, sequence: u64) -> Duration {
    let Completion::Late { longest, seed } = completion else { return Duration::ZERO };
    // splitmix64 of where the entry is (Steele, Lea and Flood 2014).
    let mut x = seed ^ stream.wrapping_mul(0x9e37_79b9_7f4a_7c15) ^ sequence.wrapping_mul(0xbf58_476d_1ce4_e5b9);
    for factor in [0xbf58_476d_1ce4_e5b9, 0x94d0_49bb_1331_11eb] {
        x = (x ^ (x >> 30)).wrapping_mul(factor);
    }
    let share = u128::from(x ^ (x >> 31));
    let nanoseconds = (longest.as_nanos().min(u128::from(u64::MAX)) * share) >> 64;
    Duration::from_nanos(u64::try_from(nanoseconds).unwrap_or(u64::MAX))
}
