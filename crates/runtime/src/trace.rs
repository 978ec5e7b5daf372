//! A trace of all requests, written while they happen.

use std::fs::File;
use std::io::{self, BufWriter};
use std::sync::{Mutex, MutexGuard, PoisonError};

use records::{Action, Event, NameId, Operation, Row, Sink, TraceWriter};

use crate::{Error, Result};

/// A file that events are written to as gpumem-trace/1, chunk by chunk and at each step: what a dead process wrote can be
/// read up to there.
///
/// Blocks are named by their address, which no two live blocks have. Requests carry the operator of their thread's tag.
#[derive(Debug)]
pub struct TraceFile {
    path: String,
    state: Mutex<State>,
}

#[derive(Debug)]
struct State {
    /// `None` once finished.
    writer: Option<TraceWriter<BufWriter<File>>>,
    /// The first error; nothing is written after it.
    failure: Option<io::Error>,
    steps: u64,
}

impl TraceFile {
    /// Begins a trace at `path`, in place of what was there.
    ///
    /// # Errors
    /// The file can't be created.
    pub fn create(path: &str) -> Result<Self> {
        let failed = |source| Error::Trace { file: path.to_owned(), action: "created", source };
        let file = BufWriter::new(File::create(path).map_err(failed)?);
        let name = path.rsplit('/').next().unwrap_or(path);
        let writer = TraceWriter::new(file, name, &[]).map_err(failed)?;
        let state = State { writer: Some(writer), failure: None, steps: 0 };
        Ok(Self { path: path.to_owned(), state: Mutex::new(state) })
    }

    /// Writes a row about something that only the program knows: a use, a wait, work, a synchronization. After an error
    /// nothing is written; [`finish`](Self::finish) returns it.
    pub fn tell(&self, row: &Row) {
        let mut state = self.lock();
        state.push(row);
    }

    /// Writes what is held and marks the trace as whole. Later events are dropped.
    ///
    /// # Errors
    /// Some of it couldn't be written, now or earlier.
    pub fn finish(&self) -> Result<()> {
        let mut state = self.lock();
        let finished = state.writer.take().map_or(Ok(()), |writer| writer.finish().map(drop));
        match state.failure.take().map_or(finished, Err) {
            Ok(()) => Ok(()),
            Err(source) => Err(Error::Trace { file: self.path.clone(), action: "written", source }),
        }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    fn push(&mut self, row: &Row) {
        let result = self.writer.as_mut().map_or(Ok(()), |writer| writer.push(row));
        self.note(result);
    }

    fn note(&mut self, result: io::Result<()>) {
        if let Err(error) = result {
            // A chunk behind a torn one could not be found.
            self.writer = None;
            self.failure.get_or_insert(error);
        }
    }

    /// The operator of this thread's tag.
    fn tag(&mut self) -> NameId {
        let Some(name) = pools::tag_current().op_name() else { return NameId::EMPTY };
        let interned = self.writer.as_mut().map_or(Ok(NameId::EMPTY), |writer| writer.intern(&name));
        interned.unwrap_or_else(|error| {
            self.note(Err(error));
            NameId::EMPTY
        })
    }
}

impl Sink for TraceFile {
    fn record(&self, event: &Event) {
        let mut state = self.lock();
        let row = |operation, id| Row {
            operation,
            id,
            bytes: event.bytes,
            stream: i64::try_from(event.stream).unwrap_or(0),
            time_ns: event.time_ns,
            ..Row::default()
        };
        let row = match event.action {
            Action::Alloc => Row { tag: state.tag(), ..row(Operation::Alloc, event.address) },
            Action::FreeRequested => row(Operation::Free, event.address),
            Action::SegmentAlloc | Action::SegmentMap => row(Operation::SegmentAlloc, event.address),
            Action::SegmentFree | Action::SegmentUnmap => row(Operation::SegmentFree, event.address),
            Action::OutOfMemory => Row { tag: state.tag(), ..row(Operation::OutOfMemory, 0) },
            Action::Step => {
                let step = row(Operation::Step, state.steps);
                state.steps += 1;
                step
            }
            // When streams let go of blocks a replay works out for itself.
            _ => return,
        };
        state.push(&row);
        if event.action == Action::Step {
            let flushed = state.writer.as_mut().map_or(Ok(()), TraceWriter::flush);
            state.note(flushed);
        }
    }
}
