//! Writing.

use std::io::{self, BufWriter, Write};

use records::{Operation, Row, Trace};

use super::Column;
use crate::csv::{Column as _, write_text};
use crate::{Error, Result};

/// Writes a trace as CSV, its comments first. The columns `device`, `thread`, `tag` and `time_ns` are there only if a
/// row needs them. Stacks are not written, nor whether the trace was cut.
///
/// # Errors
/// The writer failed.
pub fn write_trace_csv(trace: &Trace, out: impl Write) -> Result<()> {
    write_rows(trace, &mut BufWriter::with_capacity(64 << 10, out)).map_err(|source| Error::Io {
        file: trace.name.clone(),
        action: "write",
        source,
    })
}

fn write_rows(trace: &Trace, out: &mut impl Write) -> io::Result<()> {
    for line in trace.comments.iter().flat_map(|comment| comment.split(['\n', '\r'])) {
        writeln!(out, "# {line}")?;
    }
    let used = |column: Column| match column {
        Column::Op | Column::Id | Column::Bytes | Column::Stream => true,
        Column::Device => trace.rows.iter().any(|row| row.device != 0),
        Column::Thread => trace.rows.iter().any(|row| row.thread != 0),
        Column::Tag => trace.rows.iter().any(|row| !row.tag.is_empty()),
        Column::TimeNs => trace.rows.iter().any(|row| row.time_ns != 0),
        Column::TimeUs => false,
    };
    let columns: Vec<Column> = Column::ALL.iter().copied().filter(|&column| used(column)).collect();
    let names: Vec<&str> = columns.iter().map(|column| column.name()).collect();
    writeln!(out, "{}", names.join(","))?;
    for row in &trace.rows {
        for (index, &column) in columns.iter().enumerate() {
            if index > 0 {
                out.write_all(b",")?;
            }
            write_field(trace, row, column, out)?;
        }
        out.write_all(b"\n")?;
    }
    out.flush()
}

fn write_field(trace: &Trace, row: &Row, column: Column, out: &mut impl Write) -> io::Result<()> {
    match column {
        Column::Op => out.write_all(row.operation.name().as_bytes()),
        Column::Id if matches!(row.operation, Operation::SegmentAlloc | Operation::SegmentFree) => {
            write!(out, "s{:x}", row.id)
        }
        Column::Id => write!(out, "{}", row.id),
        Column::Bytes => write!(out, "{}", row.bytes),
        Column::Stream => write!(out, "{}", row.stream),
        Column::Device => write!(out, "{}", row.device),
        Column::Thread => write!(out, "{}", row.thread),
        Column::Tag => write_text(trace.names.get(row.tag), out),
        Column::TimeNs => write!(out, "{}", row.time_ns),
        Column::TimeUs => Ok(()),
    }
}
