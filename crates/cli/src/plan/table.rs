//! The report as a person reads it.

use std::io::{self, Write};

use comfy_table::{CellAlignment, Table, presets};
use lifetime::{Bytes, Tier};

use super::{Report, json, took};
use crate::quantity::Grouped;

/// Most names listed on one line.
const LISTED: usize = 8;

/// Writes the whole report.
pub(super) fn write(report: &Report<'_>, out: &mut impl Write) -> io::Result<()> {
    let (loaded, planned, plan) = (report.loaded, report.planned, &report.planned.plan);
    let source = &loaded.source;
    writeln!(out, "{}", plan.name)?;
    let stored = Bytes(source.stored_bytes);
    write!(out, "  read      {} ({}, {stored})", source.path, source.format)?;
    match &loaded.graph {
        Some((graph, _)) => {
            write!(out, ": {} tensors, {} ops", Grouped(graph.tensors.len() as u64), Grouped(graph.ops.len() as u64))?;
            if graph.streams.len() > 1 {
                write!(out, ", {} streams", graph.streams.len())?;
            }
            writeln!(out, ", {} buffers", Grouped(plan.buffers.len() as u64))?;
        }
        None => writeln!(out, ": {} buffers", Grouped(plan.buffers.len() as u64))?,
    }
    write_zero_bytes(&loaded.zero_byte, out)?;
    if let Some((graph, analysis)) = &loaded.graph
        && let Some(turn) = analysis.turning_point
        && let Some(op) = graph.ops.get(turn.op.index())
    {
        writeln!(out, "  turns     from forward to backward at {} (half-step {})", op.name, turn.at.0)?;
    }
    if let Some(given) = loaded.given_load
        && let Some((_, analysis)) = &loaded.graph
    {
        if analysis.order.iter().enumerate().all(|(at, op)| op.index() == at) {
            writeln!(out, "  order     as given: no better one was found")?;
        } else {
            let now = analysis.max_load(|b| b.tier != Tier::Persistent);
            let change = (now.0 as f64 / given.0.max(1) as f64 - 1.0) * 100.0;
            writeln!(
                out,
                "  order     chosen for memory: max load {given} -> {now} ({change:+.2} %), persistent apart"
            )?;
        }
    }
    writeln!(out)?;
    write_tiers(report, out)?;
    writeln!(out)?;
    let edges = report.conflict_edges.map_or_else(|| "not counted".to_owned(), |n| Grouped(n).to_string());
    let mut figures = Table::new();
    figures.load_style(presets::NOTHING);
    let mut line = |name: &str, bytes: Bytes, note: String| {
        figures.add_row(vec![format!(" {name}"), bytes.to_string(), format!("{} B", Grouped(bytes.0)), note]);
    };
    line("max load", plan.max_load, format!("most bytes live at one moment; {edges} conflicts"));
    line("lower bound", plan.lower_bound, bound_in_words(plan.bound_kind).to_owned());
    line("peak", plan.peak, status_in_words(report));
    if let Some(capacity) = plan.capacity {
        let left = match capacity.0.checked_sub(plan.peak.0) {
            Some(left) => format!("fits, {} left", Bytes(left)),
            None => format!("does not fit, {} short", Bytes(plan.peak.0 - capacity.0)),
        };
        line("capacity", capacity, left);
    }
    align(&mut figures, &[1, 2]);
    writeln!(out, "{figures}")?;
    writeln!(out)?;
    let (before, after) = (planned.holes_before, planned.holes_after);
    writeln!(
        out,
        "  holes     {:.2} -> {:.2} pieces at a time on average; largest never below {} -> {}",
        before.pieces_mean,
        after.pieces_mean,
        Bytes(before.largest_free_min_bytes),
        Bytes(after.largest_free_min_bytes)
    )?;
    let repeatable = if planned.is_deterministic { "deterministic" } else { "not deterministic (time limit)" };
    writeln!(out, "  found by  {}, {} nodes, {repeatable}", plan.solver, Grouped(planned.nodes))?;
    writeln!(out)?;
    write_baselines(report, out)?;
    writeln!(out, "  {}", took(report))
}

fn write_zero_bytes(names: &[String], out: &mut impl Write) -> io::Result<()> {
    if names.is_empty() {
        return Ok(());
    }
    let listed: Vec<&str> = names.iter().take(LISTED).map(String::as_str).collect();
    let more = match names.len().saturating_sub(LISTED) {
        0 => String::new(),
        more => format!(" and {more} more (all of them with --json)"),
    };
    writeln!(out, "  no bytes  {} tensors take no range: {}{more}", names.len(), listed.join(", "))
}

fn write_tiers(report: &Report<'_>, out: &mut impl Write) -> io::Result<()> {
    let plan = &report.planned.plan;
    let mut tiers = Table::new();
    tiers.load_style(presets::NOTHING);
    tiers.set_header(vec![" tier", "buffers", "bytes", "", ""]);
    for tier in Tier::ALL {
        let (count, bytes) = json::count(&plan.buffers, tier);
        let place = match tier {
            Tier::Persistent if count > 0 && report.planned.base.0 > 0 => {
                format!("packed on its own, up to {}", Bytes(report.planned.base.0))
            }
            _ => String::new(),
        };
        tiers.add_row(vec![
            format!(" {tier}"),
            Grouped(count as u64).to_string(),
            Bytes(bytes).to_string(),
            format!("{} B", Grouped(bytes)),
            place,
        ]);
    }
    align(&mut tiers, &[1, 2, 3]);
    writeln!(out, "{tiers}")
}

fn write_baselines(report: &Report<'_>, out: &mut impl Write) -> io::Result<()> {
    if let Some(reason) = report.baselines.missing {
        return writeln!(out, "  baselines {reason}\n");
    }
    let plan = &report.planned.plan;
    let mut table = Table::new();
    table.load_style(presets::NOTHING);
    table.set_header(vec![" other planners' rules", "peak", "over the bound", "over this plan"]);
    let over = |peak: Bytes, base: Bytes| format!("{:.3} %", (peak.0 as f64 / base.0.max(1) as f64 - 1.0) * 100.0);
    for (baseline, peak) in &report.baselines.peaks {
        table.add_row(vec![
            format!(" {}", baseline.name().replace('_', " ")),
            peak.to_string(),
            over(*peak, plan.lower_bound),
            over(*peak, plan.peak),
        ]);
    }
    table.add_row(vec![
        " this plan".to_owned(),
        plan.peak.to_string(),
        over(plan.peak, plan.lower_bound),
        String::new(),
    ]);
    align(&mut table, &[1, 2, 3]);
    writeln!(out, "{table}\n")
}

fn align(table: &mut Table, right: &[usize]) {
    for &column in right {
        if let Some(column) = table.column_mut(column) {
            column.set_cell_alignment(CellAlignment::Right);
        }
    }
}

fn bound_in_words(kind: coloring::BoundKind) -> &'static str {
    match kind {
        coloring::BoundKind::Load => "no plan can take less: that much is live at one moment",
        coloring::BoundKind::AlignedLoad => "no plan can take less: the load with sizes rounded to the alignment",
        coloring::BoundKind::Fixed => "no plan can take less: a fixed buffer ends there",
        coloring::BoundKind::Search => "no plan can take less: a search went through everything below",
    }
}

fn status_in_words(report: &Report<'_>) -> String {
    let plan = &report.planned.plan;
    let over = plan.gap() * 100.0;
    match plan.status {
        coloring::Status::Optimal => "proved optimal, gap 0".to_owned(),
        coloring::Status::Feasible => format!("{over:.3} % over the bound; not proved optimal"),
        coloring::Status::Infeasible => format!("{over:.3} % over the bound"),
    }
}
