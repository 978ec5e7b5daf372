//! The threads that do the work of all streams, and the host's waits for them.
//!
//! A few workers serve all streams: a stream whose first entry can be done is on a list, and whoever is free takes it
//! from there. A stream is served by one worker at a time, so its entries keep their order; one that waits for another
//! stream takes no worker, so streams can't block each other. Nobody polls: workers and hosts sleep on conditions.

use super::limits;
use super::options::Completion;
use super::queues::{Entry, Mark, Queues, Work};
use crate::books::Refusal;
use crate::error::codes;
use crate::{Attempt, Error, Failure, StreamId};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::Instant;

/// Entries that a stream may have waiting. Then whoever queues more waits until half of them are done, as with a GPU.
const MOST_WAITING: u64 = 1 << 16;

#[derive(Debug)]
struct State {
    queues: Queues,
    threads: Vec<JoinHandle<()>>,
    /// Workers asleep, or started and not there yet.
    idle: usize,
    /// Hosts asleep.
    waiting: usize,
    /// Workers leave once nothing is left to do.
    closing: bool,
    /// Why the device is of no use any more.
    lost: Option<Box<Error>>,
}

#[derive(Debug)]
pub(super) struct Engine {
    state: Mutex<State>,
    /// There may be something for a worker.
    work: Condvar,
    /// Something was done.
    done: Condvar,
    most_threads: usize,
    needs_clock: bool,
}

/// Why a call failed: refused, or the device is lost.
pub(super) enum Stop {
    Refused(Refusal),
    Lost(Box<Error>),
}

impl From<Refusal> for Stop {
    fn from(refusal: Refusal) -> Stop {
        Stop::Refused(refusal)
    }
}

type Outcome<T> = Result<T, Stop>;

impl Engine {
    pub(super) fn new(completion: Completion, most_threads: usize) -> Engine {
        let queues = Queues::new(completion);
        let state = State { queues, threads: Vec::new(), idle: 0, waiting: 0, closing: false, lost: None };
        let needs_clock = matches!(completion, Completion::Late { .. });
        Engine { state: Mutex::new(state), work: Condvar::new(), done: Condvar::new(), most_threads, needs_clock }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        // No code of others runs under the lock, and each change is whole before the next thing that could panic.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Something with the books, on a device that isn't lost.
    pub(super) fn with<T>(&self, body: impl FnOnce(&mut Queues) -> Result<T, Refusal>) -> Outcome<T> {
        let mut state = self.lock();
        state.check()?;
        Ok(body(&mut state.queues)?)
    }

    /// The device is of no use from now on.
    pub(super) fn lose(&self, error: Box<Error>) {
        self.lock().lost.get_or_insert(error);
        self.done.notify_all();
    }

    pub(super) fn check(&self) -> Outcome<()> {
        self.lock().check()
    }

    // -- queueing

    /// Queues something on a stream by `queue`. `has_work`: a worker has to do it.
    pub(super) fn queue(
        self: &Arc<Engine>,
        stream: StreamId,
        has_work: bool,
        queue: impl FnOnce(&mut Queues) -> Result<(), Refusal>,
    ) -> Outcome<()> {
        let mut state = self.lock();
        state.check()?;
        if state.threads.is_empty() && (has_work || self.needs_clock) {
            self.start_worker(&mut state)?;
        }
        let backlog = state.queues.backlog(stream.0);
        if backlog >= MOST_WAITING && !state.queues.is_manual() {
            let last = state.queues.last(stream.0)?;
            let half = Mark { sequence: last.sequence - MOST_WAITING / 2, ..last };
            state = self.wait_in(state, half)?;
        }
        let before = state.before();
        queue(&mut state.queues)?;
        self.settle(&mut state, before, 0);
        Ok(())
    }

    pub(super) fn push(self: &Arc<Engine>, stream: StreamId, work: Work) -> Outcome<()> {
        self.queue(stream, true, |queues| queues.push(stream.0, Entry::Work(work)).map(|_| ()))
    }

    /// Wakes whoever has something to do after a change. `before`: how things stood before it. `mine`: how many of the
    /// listed entries the caller takes itself.
    fn settle(self: &Arc<Engine>, state: &mut State, before: Before, mine: usize) {
        let listed = state.queues.listed().saturating_sub(mine);
        if listed > state.idle && state.threads.len() < self.most_threads && !state.closing {
            // Without it the others do the work.
            let _ = self.start_worker(state);
        }
        if state.idle > 0 {
            match listed {
                0 if state.queues.next_time() == before.next_time => {}
                0 | 1 => self.work.notify_one(),
                _ => self.work.notify_all(),
            }
        }
        if state.waiting > 0 && state.queues.pending() < before.pending {
            self.done.notify_all();
        }
    }

    fn start_worker(self: &Arc<Engine>, state: &mut State) -> Result<(), Refusal> {
        let engine = Arc::clone(self);
        let name = format!("gpumem-host-{}", state.threads.len());
        let thread = thread::Builder::new().name(name).spawn(move || engine.serve());
        state.threads.push(thread.map_err(|error| limits::of_threads(&error))?);
        state.idle += 1;
        Ok(())
    }

    // -- waiting

    /// The host waits for an entry. On a manual device it is done then.
    pub(super) fn wait(self: &Arc<Engine>, mark: Mark) -> Outcome<()> {
        self.wait_for(&[mark])
    }

    /// The host waits for all work queued so far.
    pub(super) fn wait_for_all(self: &Arc<Engine>) -> Outcome<()> {
        let marks = self.with(|queues| Ok(queues.all_pending()))?;
        self.wait_for(&marks)
    }

    fn wait_for(self: &Arc<Engine>, marks: &[Mark]) -> Outcome<()> {
        let mut state = self.lock();
        state.check()?;
        if state.queues.is_manual() {
            let before = state.before();
            marks.iter().for_each(|mark| state.queues.allow(*mark));
            self.settle(&mut state, before, 0);
        }
        for mark in marks {
            state = self.wait_in(state, *mark)?;
        }
        Ok(())
    }

    fn wait_in<'a>(&'a self, mut state: MutexGuard<'a, State>, mark: Mark) -> Outcome<MutexGuard<'a, State>> {
        while !state.queues.is_done(mark) {
            state.check()?;
            state.waiting += 1;
            state = self.done.wait(state).unwrap_or_else(PoisonError::into_inner);
            state.waiting -= 1;
        }
        state.check()?;
        Ok(state)
    }

    // -- workers

    fn serve(self: Arc<Engine>) {
        let mut state = self.lock();
        state.idle -= 1;
        loop {
            let before = state.before();
            let next_time = state.queues.tick(Instant::now());
            self.settle(&mut state, before, 1);
            if let Some((stream, work)) = state.queues.start() {
                drop(state);
                let result = run(work, stream);
                state = self.lock();
                let before = state.before();
                state.queues.finished(stream);
                if let Err(error) = result {
                    state.lost.get_or_insert(error);
                    self.done.notify_all();
                }
                self.settle(&mut state, before, 1);
                continue;
            }
            if state.closing && state.queues.pending() == 0 {
                self.work.notify_all();
                return;
            }
            state.idle += 1;
            state = match next_time.map(|time| time.saturating_duration_since(Instant::now())) {
                None => self.work.wait(state).unwrap_or_else(PoisonError::into_inner),
                Some(time) => self.work.wait_timeout(state, time).unwrap_or_else(PoisonError::into_inner).0,
            };
            state.idle -= 1;
        }
    }

    /// Lets all work be done, and waits until it is and the workers are gone. Called by a worker: they go later.
    pub(super) fn close(self: &Arc<Engine>) {
        let mut state = self.lock();
        let before = state.before();
        if state.queues.is_manual() {
            state.queues.allow_all();
        }
        self.settle(&mut state, before, 0);
        state.closing = true;
        let threads = std::mem::take(&mut state.threads);
        drop(state);
        self.work.notify_all();
        // Work that drops the device can't wait for itself, nor for workers that wait for it.
        let own = thread::current().id();
        if threads.iter().all(|worker| worker.thread().id() != own) {
            for worker in threads {
                let _ = worker.join();
            }
        }
    }
}

/// How things stood before a change.
struct Before {
    next_time: Option<Instant>,
    pending: u64,
}

impl State {
    fn before(&self) -> Before {
        Before { next_time: self.queues.next_time(), pending: self.queues.pending() }
    }

    fn check(&self) -> Outcome<()> {
        match &self.lost {
            Some(error) => Err(Stop::Lost(error.clone())),
            None => Ok(()),
        }
    }
}

/// Does the work; it holds no memory any more when this returns.
fn run(work: Work, stream: u64) -> Result<(), Box<Error>> {
    let is_done = match work {
        Work::Copy { to, from } => to.copy(&from),
        Work::Fill { to, value } => to.fill(value),
        Work::Launch(work) => {
            return catch_unwind(AssertUnwindSafe(work)).map_err(|payload| {
                let attempt = Attempt::Launch { stream: StreamId(stream) };
                let said = payload.downcast_ref::<&str>().map(|text| (*text).to_owned());
                let said = said.or_else(|| payload.downcast_ref::<String>().cloned()).unwrap_or_default();
                let failure = Failure::new(attempt, codes::LAUNCH_FAILED, format!("the work panicked: {said}"));
                Box::new(Error::Device(Box::new(failure.with_sticky(true))))
            });
        }
    };
    if is_done {
        return Ok(());
    }
    // Memory that work may use neither goes nor loses access: memory.rs refuses that.
    Err(Box::new(Error::Internal { what: "queued work lost its memory".to_owned() }))
}
