//! Where events go while they happen.

use std::sync::{Mutex, PoisonError};

use crate::Event;

/// Is told of events as they happen. Called by whichever thread causes them, outside every lock of the allocator's; two
/// threads' events may come in either order. Should be quick, and never asks the allocator for memory.
pub trait Sink: Send + Sync {
    /// Something happened.
    fn record(&self, event: &Event);
}

/// Keeps all events, for tests and short recordings.
#[derive(Debug, Default)]
pub struct Recorder(Mutex<Vec<Event>>);

impl Recorder {
    /// Takes what was recorded so far.
    pub fn take(&self) -> Vec<Event> {
        std::mem::take(&mut *self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

impl Sink for Recorder {
    fn record(&self, event: &Event) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).push(*event);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_recorder_gives_events_once_and_in_order() {
        let recorder = Recorder::default();
        for bytes in [1, 2] {
            recorder.record(&Event { bytes, ..Event::default() });
        }
        assert_eq!(recorder.take().iter().map(|event| event.bytes).collect::<Vec<_>>(), [1, 2]);
        assert!(recorder.take().is_empty());
    }
}
