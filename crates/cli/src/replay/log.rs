//! The log of a replay, as CSV: `op,row,id,address,bytes,stream,waits,handle`.

use std::io::Write;

use replay::{LogEntry, Observer};

use crate::progress::Bar;

/// Writes the log, if one is asked for, and moves the bar.
pub(super) struct Log<'a, W> {
    out: Option<W>,
    bar: &'a Bar,
}

impl<'a, W: Write> Log<'a, W> {
    /// Begins the log.
    pub(super) fn new(mut out: Option<W>, bar: &'a Bar) -> std::io::Result<Self> {
        if let Some(out) = &mut out {
            writeln!(out, "op,row,id,address,bytes,stream,waits,handle")?;
        }
        Ok(Self { out, bar })
    }

    /// What it was written to.
    pub(super) fn into_inner(self) -> Option<W> {
        self.out
    }
}

impl<W: Write> Observer for Log<'_, W> {
    fn entry(&mut self, entry: &LogEntry<'_>) -> Result<(), String> {
        let Some(out) = &mut self.out else { return Ok(()) };
        let written = match *entry {
            LogEntry::Alloc { row, id, address, bytes, stream, waits } => {
                let waits: Vec<String> = waits.iter().map(i64::to_string).collect();
                writeln!(out, "alloc,{row},{id},{address},{bytes},{stream},{},", waits.join(";"))
            }
            LogEntry::Map { row, handle, address, bytes } => writeln!(out, "map,{row},,{address},{bytes},,,{handle}"),
            LogEntry::Unmap { row, handle, address, bytes } => {
                writeln!(out, "unmap,{row},,{address},{bytes},,,{handle}")
            }
            _ => Ok(()),
        };
        written.map_err(|error| error.to_string())
    }

    fn wants_entries(&self) -> bool {
        self.out.is_some()
    }

    fn rows_done(&mut self, rows: u64) {
        self.bar.set(rows);
    }
}
