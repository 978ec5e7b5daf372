//! Writing, one placement a line, without holding more than one of them.

use std::io::{self, BufWriter, Write};

use coloring::{PlacedBuffer, Plan};
use serde::Serialize;

use crate::gpumem_graph::write_list;
use crate::{Error, Format, Result};

/// Writes a plan as `gpumem-plan/1`. Reading it back gives the same plan.
///
/// # Errors
/// The writer failed.
pub fn write_plan(plan: &Plan, out: impl Write) -> Result<()> {
    write_all(plan, &mut BufWriter::new(out)).map_err(|source| Error::Io {
        file: plan.name.clone(),
        action: "write",
        source,
    })
}

#[derive(Serialize)]
struct Head<'a> {
    format: &'static str,
    name: &'a str,
    peak_bytes: u64,
    max_load_bytes: u64,
    lower_bound_bytes: u64,
    bound_kind: &'static str,
    status: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    capacity_bytes: Option<u64>,
    solver: &'a str,
    end: u64,
}

#[derive(Serialize)]
struct Row<'a> {
    id: &'a str,
    name: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    op: Option<&'a str>,
    offset: u64,
    bytes: u64,
    birth: u64,
    death: u64,
    tier: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    alignment: Option<u64>,
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    fixed: bool,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    gaps: Vec<GapRow>,
}

#[derive(Serialize)]
struct GapRow {
    birth: u64,
    death: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    kept: Option<(u64, u64)>,
}

impl<'a> Row<'a> {
    fn new(buffer: &'a PlacedBuffer) -> Self {
        let gap_row = |gap: &coloring::Gap| GapRow {
            birth: gap.range.birth.0,
            death: gap.range.death.0,
            kept: gap.kept.map(|(from, to)| (from.0, to.0)),
        };
        Self {
            id: &buffer.id,
            name: &buffer.name,
            op: buffer.op.as_deref(),
            offset: buffer.offset.0,
            bytes: buffer.bytes.0,
            birth: buffer.range.birth.0,
            death: buffer.range.death.0,
            tier: buffer.tier.name(),
            alignment: (buffer.alignment != 1).then_some(buffer.alignment),
            fixed: buffer.fixed,
            gaps: buffer.gaps.iter().map(gap_row).collect(),
        }
    }
}

fn write_all(plan: &Plan, out: &mut impl Write) -> io::Result<()> {
    let head = Head {
        format: Format::Plan.name(),
        name: &plan.name,
        peak_bytes: plan.peak.0,
        max_load_bytes: plan.max_load.0,
        lower_bound_bytes: plan.lower_bound.0,
        bound_kind: plan.bound_kind.name(),
        status: plan.status.name(),
        capacity_bytes: plan.capacity.map(|bytes| bytes.0),
        solver: &plan.solver,
        end: plan.end.0,
    };
    let mut head = serde_json::to_vec(&head)?;
    // The lists follow inside the same object.
    head.pop();
    out.write_all(&head)?;
    if let Some(order) = &plan.order {
        write_numbers(out, "order", order.iter().map(|op| op.0.to_string()))?;
    }
    if !plan.separations.is_empty() {
        write_numbers(out, "separations", plan.separations.iter().map(|(a, b)| format!("[{a},{b}]")))?;
    }
    out.write_all(b",\n\"placements\":[")?;
    write_list(out, plan.buffers.iter().map(Row::new))?;
    out.write_all(b"]}\n")?;
    out.flush()
}

fn write_numbers(out: &mut impl Write, field: &str, items: impl Iterator<Item = String>) -> io::Result<()> {
    write!(out, ",\n\"{field}\":[")?;
    for (index, item) in items.enumerate() {
        let comma = if index > 0 { "," } else { "" };
        write!(out, "{comma}{item}")?;
    }
    out.write_all(b"]")
}
