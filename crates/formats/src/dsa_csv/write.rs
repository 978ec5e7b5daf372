//! Writing.

use std::io::{self, BufWriter, Write};

use coloring::Gap;

use super::Column;
use crate::csv::{Column as _, write_text};
use crate::{Error, Format, NamedProblem, Result};

/// Writes a problem as DSA CSV. The columns `alignment`, `offset` and `gaps` are there only if a buffer needs them.
///
/// # Errors
/// The writer failed, or the problem has separations, which this format has no place for. A capacity is not written.
pub fn write_csv(problem: &NamedProblem, out: impl Write) -> Result<()> {
    let count = problem.problem.separations.len();
    if count > 0 {
        let what = format!("the {count} separations between streams");
        return Err(Error::NotCarried { format: Format::DsaCsv, what });
    }
    write_rows(problem, &mut BufWriter::new(out)).map_err(|source| Error::Io {
        file: problem.name.clone(),
        action: "write",
        source,
    })
}

fn write_rows(problem: &NamedProblem, out: &mut impl Write) -> io::Result<()> {
    let buffers = &problem.problem.buffers;
    let used = |column: Column| match column {
        Column::Alignment => buffers.iter().any(|b| b.alignment != 1),
        Column::Offset => buffers.iter().any(|b| b.fixed.is_some()),
        Column::Gaps => buffers.iter().any(|b| !b.gaps.is_empty()),
        _ => true,
    };
    let columns: Vec<Column> = Column::ALL.iter().copied().filter(|&column| used(column)).collect();
    let names: Vec<&str> = columns.iter().map(|column| column.name()).collect();
    writeln!(out, "{}", names.join(","))?;
    for (id, buffer) in problem.ids.iter().zip(buffers) {
        for (index, column) in columns.iter().enumerate() {
            if index > 0 {
                out.write_all(b",")?;
            }
            match column {
                Column::Id => write_text(id, out)?,
                Column::Lower => write!(out, "{}", buffer.range.birth.0)?,
                Column::Upper => write!(out, "{}", buffer.range.death.0)?,
                Column::Size => write!(out, "{}", buffer.size.0)?,
                Column::Alignment => write!(out, "{}", buffer.alignment)?,
                Column::Offset => {
                    if let Some(offset) = buffer.fixed {
                        write!(out, "{}", offset.0)?;
                    }
                }
                Column::Gaps => write_gaps(&buffer.gaps, out)?,
            }
        }
        out.write_all(b"\n")?;
    }
    out.flush()
}

fn write_gaps(gaps: &[Gap], out: &mut impl Write) -> io::Result<()> {
    for (index, gap) in gaps.iter().enumerate() {
        let space = if index > 0 { " " } else { "" };
        write!(out, "{space}{}-{}", gap.range.birth.0, gap.range.death.0)?;
        if let Some((from, to)) = gap.kept {
            write!(out, "@{}:{}", from.0, to.0)?;
        }
    }
    Ok(())
}
