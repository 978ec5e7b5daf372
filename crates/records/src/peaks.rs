//! When most bytes were taken.

use crate::Totals;

/// The most that was reached, and when first.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Peak {
    /// Bytes.
    pub bytes: u64,
    /// How many events had been played then; 0 is the state before the first one.
    pub events: u64,
    /// Time of that moment in ns; 0 if not known.
    pub time_ns: u64,
}

impl Peak {
    fn note(&mut self, bytes: u64, events: u64, time_ns: u64) {
        if bytes > self.bytes {
            *self = Self { bytes, events, time_ns };
        }
    }
}

/// Peaks of each sum, with no regard to the others.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Peaks {
    /// Of bytes asked for.
    pub live: Peak,
    /// Of bytes handed out.
    pub allocated: Peak,
    /// Of bytes handed out or waiting for streams.
    pub active: Peak,
    /// Of bytes held from the device.
    pub reserved: Peak,
    /// Of bytes waiting for streams.
    pub pending: Peak,
}

impl Peaks {
    /// Takes in the sums of a moment. Of equal ones the first counts.
    pub fn note(&mut self, totals: &Totals, events: u64, time_ns: u64) {
        self.live.note(totals.live, events, time_ns);
        self.allocated.note(totals.allocated, events, time_ns);
        self.active.note(totals.active, events, time_ns);
        self.reserved.note(totals.reserved, events, time_ns);
        self.pending.note(totals.pending(), events, time_ns);
    }
}
