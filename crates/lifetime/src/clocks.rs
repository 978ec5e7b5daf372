//! Which ops of several streams are known to have finished before which others start.
//!
//! An op comes after another when it runs later on the same stream, waits for an event recorded after it, is listed
//! `after` it, or needs what it made or wrote; and so on from op to op. A need between streams without an event counts
//! as if it had one: whoever runs the graph has to wait there to run it correctly.
//!
//! Vector clocks (Fidge 1988, Mattern 1989) answer that: for each op and each stream, how many ops of that stream are
//! known to be over. An op shares its clock with the op before it on its stream unless it learns of another stream, so
//! the table has a row for each such meeting only.

use crate::{OpId, check::Scan};

/// Most entries of the table of clocks, 256 MiB.
const MAX_ENTRIES: usize = 1 << 26;

/// The clocks of all ops.
#[derive(Clone, Debug)]
pub(crate) struct Clocks {
    streams: usize,
    /// The stream of each op, as a column of the table.
    stream: Vec<u32>,
    /// The op's number on its stream, from 1.
    number: Vec<u32>,
    /// Row of the table that holds what the op knows of other streams.
    row: Vec<u32>,
    table: Vec<u32>,
}

impl Clocks {
    /// Computes them; `None` if the table would grow out of bounds. `order` is a valid order of the ops.
    pub(crate) fn new(scan: &Scan<'_>, order: &[OpId]) -> Option<Self> {
        let graph = scan.graph;
        let mut column = vec![u32::MAX; graph.streams.len().max(1)];
        let mut streams = 0;
        let mut stream = vec![0; order.len()];
        for (index, op) in graph.ops.iter().enumerate() {
            let column = &mut column[op.stream.index()];
            if *column == u32::MAX {
                *column = streams;
                streams += 1;
            }
            stream[index] = *column;
        }
        let streams = streams as usize;
        let ops = order.len();
        let mut clocks = Self { streams, stream, number: vec![0; ops], row: vec![0; ops], table: vec![0; streams] };
        let mut latest = vec![(0_u32, 0_u32); streams];
        for op in order {
            let id = op.index();
            let own = clocks.stream[id] as usize;
            let (number, mut row) = latest[own];
            let shared = row;
            for &need in scan.dependencies.all.row(id) {
                if clocks.stream[need as usize] as usize != own && !clocks.row_covers(row, need) {
                    if row == shared {
                        row = clocks.copy_row(row)?;
                    }
                    clocks.learn(row, need);
                }
            }
            (clocks.number[id], clocks.row[id]) = (number + 1, row);
            latest[own] = (number + 1, row);
        }
        Some(clocks)
    }

    /// How many streams have ops.
    pub(crate) fn streams(&self) -> usize {
        self.streams
    }

    /// The stream of an op, as a number below [`Clocks::streams`].
    pub(crate) fn stream(&self, op: u32) -> usize {
        self.stream[op as usize] as usize
    }

    /// The op's number on its stream, from 1.
    pub(crate) fn number(&self, op: u32) -> u32 {
        self.number[op as usize]
    }

    /// Whether the first `number` ops of a stream are over when `op` starts, `op` itself taken as over.
    pub(crate) fn covers(&self, op: u32, stream: usize, number: u32) -> bool {
        let known = if stream == self.stream(op) { self.number(op) } else { self.entry(self.row[op as usize], stream) };
        known >= number
    }

    /// Whether `earlier` is over when `op` starts, or is `op`.
    pub(crate) fn is_after(&self, op: u32, earlier: u32) -> bool {
        self.covers(op, self.stream(earlier), self.number(earlier))
    }

    fn entry(&self, row: u32, stream: usize) -> u32 {
        self.table[row as usize * self.streams + stream]
    }

    fn row_covers(&self, row: u32, op: u32) -> bool {
        self.entry(row, self.stream(op)) >= self.number(op)
    }

    fn copy_row(&mut self, row: u32) -> Option<u32> {
        if self.table.len() + self.streams > MAX_ENTRIES {
            return None;
        }
        let start = row as usize * self.streams;
        self.table.extend_from_within(start..start + self.streams);
        u32::try_from(self.table.len() / self.streams - 1).ok()
    }

    /// Adds to a row all that is known once `op` is over.
    fn learn(&mut self, row: u32, op: u32) {
        for stream in 0..self.streams {
            let known = self.entry(self.row[op as usize], stream);
            let entry = &mut self.table[row as usize * self.streams + stream];
            *entry = known.max(*entry);
        }
        let (stream, number) = (self.stream(op), self.number(op));
        let entry = &mut self.table[row as usize * self.streams + stream];
        *entry = number.max(*entry);
    }
}
