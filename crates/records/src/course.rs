//! Sums and fragmentation over time, in few columns.

use crate::{Totals, fragmentation_percent};

/// How scattered the free bytes were at a moment.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Scatter {
    /// [`fragmentation_percent`] of all holes.
    pub percent: f64,
    /// Bytes of all holes.
    pub free_bytes: u64,
    /// Bytes of the largest.
    pub largest_free_bytes: u64,
    /// How many events had been played.
    pub events: u64,
    /// Time in ns; 0 if not known.
    pub time_ns: u64,
}

impl Scatter {
    /// Of the sums and the largest hole of a moment.
    pub fn new(totals: &Totals, largest_free_bytes: u64, events: u64, time_ns: u64) -> Self {
        let free_bytes = totals.free();
        Self {
            percent: fragmentation_percent(largest_free_bytes, free_bytes),
            free_bytes,
            largest_free_bytes,
            events,
            time_ns,
        }
    }
}

/// A stretch of events, summed up.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Column {
    /// Highest sums in it, each for itself.
    pub highest: Totals,
    /// The most scattered moment in it.
    pub most_scattered: Scatter,
}

/// What happened over all events, in at most so many columns of equally many events.
#[derive(Clone, Debug, Default)]
pub struct Course {
    columns: Vec<Column>,
    events_per_column: u64,
}

impl Course {
    /// For a record of `events` events (and the moment before the first) in at most `columns` columns.
    pub fn new(events: u64, columns: usize) -> Self {
        let moments = events.saturating_add(1);
        let events_per_column = moments.div_ceil((columns as u64).max(1));
        let count = moments.div_ceil(events_per_column);
        Self { columns: vec![Column::default(); usize::try_from(count).unwrap_or(0)], events_per_column }
    }

    /// Takes in a moment. One past the last column is left out.
    pub fn note(&mut self, totals: &Totals, scatter: &Scatter) {
        let index = scatter.events / self.events_per_column.max(1);
        let Some(column) = usize::try_from(index).ok().and_then(|index| self.columns.get_mut(index)) else { return };
        let highest = &mut column.highest;
        highest.live = highest.live.max(totals.live);
        highest.allocated = highest.allocated.max(totals.allocated);
        highest.active = highest.active.max(totals.active);
        highest.reserved = highest.reserved.max(totals.reserved);
        if scatter.percent > column.most_scattered.percent || column.most_scattered == Scatter::default() {
            column.most_scattered = *scatter;
        }
    }

    /// The columns in order.
    pub fn columns(&self) -> &[Column] {
        &self.columns
    }

    /// How many events a column stands for.
    pub fn events_per_column(&self) -> u64 {
        self.events_per_column
    }
}
