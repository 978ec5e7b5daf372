//! The summary as a person reads it, within 100 columns.

use std::io::{self, Write};
use std::time::Duration;

use comfy_table::{CellAlignment, Table, presets};

use super::facts::{PeakFacts, Summary};
use crate::quantity::{Grouped, Took};
use crate::report::{HolderFacts, StackLabel, bars, count, cut, size};

/// Columns of the screen.
const WIDTH: usize = 100;
/// Rows of each list.
const LISTED: usize = 5;

/// Writes it.
pub(super) fn write(summary: &Summary, out: &mut dyn Write) -> io::Result<()> {
    head(summary, out)?;
    peaks(summary, out)?;
    course(summary, out)?;
    holders(summary, out)?;
    holes(summary, out)?;
    steps(summary, out)?;
    failures(summary, out)
}

fn head(summary: &Summary, out: &mut dyn Write) -> io::Result<()> {
    let input = &summary.input;
    writeln!(out, "{}", cut(&summary.name, WIDTH))?;
    let span = summary.span_ns.filter(|ns| *ns > 0).map(|ns| format!(" in {}", Took(Duration::from_nanos(ns))));
    writeln!(
        out,
        "  read        {} ({}): {} events{}",
        input.format,
        size(input.stored_bytes),
        Grouped(summary.events),
        span.unwrap_or_default()
    )?;
    let others: Vec<String> = summary
        .devices
        .iter()
        .filter(|device| device.device != summary.device)
        .map(|device| format!("{} ({} events)", device.device, Grouped(device.events as u64)))
        .collect();
    let others = match others.is_empty() {
        true => String::new(),
        false => cut(&format!("; --device shows {}", others.join(", ")), 70),
    };
    let capacity = summary.capacity_bytes.map(|bytes| format!(" of {}", size(bytes))).unwrap_or_default();
    writeln!(out, "  device      {}{capacity}{others}", summary.device)?;
    match &summary.modelled {
        Some(modelled) => writeln!(
            out,
            "  allocator   modelled: the file says what was asked for, not where it lay. It was replayed on a\n              \
             {}; only live bytes don't depend on that",
            modelled.policy
        )?,
        None => {
            let settings: Vec<String> = (summary.settings.iter())
                .filter(|(_, value)| !matches!(value.as_str(), "" | "0" | "0.0" | "-1" | "False" | "false" | "{}"))
                .map(|(key, value)| format!("{key} {value}"))
                .collect();
            let settings = if settings.is_empty() { String::new() } else { format!(": {}", settings.join(", ")) };
            writeln!(out, "  allocator   {}", cut(&format!("{}{settings}", summary.allocator), WIDTH - 14))?;
        }
    }
    for note in &summary.notes {
        writeln!(out, "  note        {}", cut(note, WIDTH - 14))?;
    }
    writeln!(out)
}

fn peaks(summary: &Summary, out: &mut dyn Write) -> io::Result<()> {
    let mut table = Table::new();
    table.load_style(presets::NOTHING);
    table.set_header(vec!["", "peak", "", "when first", "at the end"]);
    let end = &summary.end;
    let rows = [
        ("live", "live", end.live_bytes),
        ("allocated", "allocated", end.allocated_bytes),
        ("active", "active", end.active_bytes),
        ("reserved", "reserved", end.reserved_bytes),
        ("pending", "pending", end.pending_bytes),
    ];
    for (key, name, at_end) in rows {
        let Some(PeakFacts { bytes, when }) = summary.peaks.get(key) else { continue };
        if key == "pending" && *bytes == 0 {
            continue;
        }
        table.add_row(vec![
            format!(" {name}"),
            size(*bytes),
            format!("{} B", Grouped(*bytes)),
            when.to_string(),
            size(at_end),
        ]);
    }
    for column in [1, 2, 4] {
        if let Some(column) = table.column_mut(column) {
            column.set_cell_alignment(CellAlignment::Right);
        }
    }
    writeln!(out, "{table}\n")
}

fn course(summary: &Summary, out: &mut dyn Write) -> io::Result<()> {
    let columns = &summary.course;
    let highest = columns.iter().map(|column| column.reserved_bytes.max(column.active_bytes)).max().unwrap_or(0);
    let reserved = bars(columns.iter().map(|column| column.reserved_bytes as f64), highest as f64);
    let live = bars(columns.iter().map(|column| column.live_bytes as f64), highest as f64);
    let scatter = bars(columns.iter().map(|column| column.fragmentation_percent), 100.0);
    writeln!(out, "  reserved    {reserved}  of {}", size(highest))?;
    writeln!(out, "  live        {live}  of the same")?;
    writeln!(out, "  scattered   {scatter}  of 100 %")?;
    let (end, worst) = (&summary.fragmentation.end, &summary.fragmentation.highest);
    writeln!(
        out,
        "  fragmentation {:.1} % at the end ({} free, largest {});",
        end.percent,
        size(end.free_bytes),
        size(end.largest_free_bytes)
    )?;
    writeln!(
        out,
        "                {:.1} % at worst ({} free, largest {}; {})\n",
        worst.percent,
        size(worst.free_bytes),
        size(worst.largest_free_bytes),
        worst.when
    )
}

fn holders(summary: &Summary, out: &mut dyn Write) -> io::Result<()> {
    let held = &summary.holders_at_peak;
    writeln!(
        out,
        "  who holds the {} live at the peak, in {}",
        size(held.live_bytes),
        count(held.live_blocks, "block")
    )?;
    if held.live_blocks == 0 {
        return writeln!(out);
    }
    group("by stack", &held.by_stack, held.stacks, StackLabel::line, out)?;
    let is_untagged = held.by_tag.iter().all(|holder| holder.label.is_empty());
    if is_untagged {
        writeln!(out, "  by tag: no block has one\n")
    } else {
        let tag = |tag: &String| if tag.is_empty() { "(no tag)".to_owned() } else { tag.clone() };
        group("by tag", &held.by_tag, held.tags, tag, out)?;
        writeln!(out)
    }
}

fn group<L>(
    title: &str,
    holders: &[HolderFacts<L>],
    all: usize,
    label: impl Fn(&L) -> String,
    out: &mut dyn Write,
) -> io::Result<()> {
    writeln!(out, "  {title}")?;
    for holder in holders.iter().take(LISTED) {
        writeln!(out, "{}", holder.row(&label(&holder.label), WIDTH))?;
    }
    let shown: f64 = holders.iter().take(LISTED).map(|holder| holder.share).sum();
    match all.saturating_sub(LISTED) {
        0 => Ok(()),
        more => {
            let rest = format!("{:.1} %", (1.0 - shown).max(0.0) * 100.0);
            writeln!(out, "  {:>12} {rest:>7}   in {} more", "", Grouped(more as u64))
        }
    }
}

fn holes(summary: &Summary, out: &mut dyn Write) -> io::Result<()> {
    let holes = &summary.holes;
    let moment = match holes.why {
        Some("failed") => "when the last request failed",
        Some("most_reserved") => "just before most was reserved",
        Some(_) => "just before most was in use",
        None => "at the start",
    };
    writeln!(out, "  idle {} {moment} ({})", size(holes.free_bytes), holes.when)?;
    if holes.whole_segments > 0 {
        let (segments, bytes) = (count(holes.whole_segments, "segment"), size(holes.whole_segments_bytes));
        writeln!(out, "  {bytes:>12} in {segments} with nothing in them, which can be given back")?;
    }
    if holes.holes > 0 {
        let (number, bytes) = (count(holes.holes, "hole"), size(holes.holes_bytes));
        writeln!(out, "  {bytes:>12} in {number} between blocks; the largest, and what pins them:")?;
    }
    for hole in holes.largest.iter().take(3) {
        let (bytes, segment) = (size(hole.bytes), size(hole.segment_bytes));
        writeln!(out, "  {:>12} {bytes} in a segment of {segment}, stream {}", "-", hole.stream)?;
        for (side, block) in [("below", &hole.below), ("above", &hole.above)] {
            if let Some(block) = block {
                let start = format!("  {:>12} {side} it ", "");
                writeln!(out, "{start}{}", block.line(WIDTH - start.len()))?;
            }
        }
    }
    if !holes.pending.is_empty() {
        let list: Vec<String> = (holes.pending.iter())
            .map(|p| format!("stream {}: {} in {}", p.stream, size(p.bytes), count(p.blocks, "block")))
            .collect();
        writeln!(out, "  pending     {}", cut(&list.join("; "), WIDTH - 14))?;
    }
    writeln!(out)
}

fn steps(summary: &Summary, out: &mut dyn Write) -> io::Result<()> {
    let Some(steps) = &summary.steps else {
        return writeln!(out, "  steps       fewer than two are marked, and no sequence of requests repeats");
    };
    let (count, requests) = (Grouped(steps.count as u64), Grouped(steps.allocs_median));
    let last = steps.end_event.saturating_sub(1);
    let events = format!("events {} to {}", Grouped(steps.first_event), Grouped(last));
    let what = match steps.source {
        "step_events" => format!("steps       {count} marked, of {requests} requests"),
        "annotations" => format!("steps       {count} annotated, of {requests} requests"),
        "same_requests" => format!("repeats     the same {requests} requests {count} times ({events})"),
        _ => format!("repeats     the same {requests} calls {count} times, sizes differ ({events})"),
    };
    writeln!(out, "  {what};")?;
    let peak = match steps.peak_live_highest_bytes == steps.peak_live_median_bytes {
        true => format!("peak live {} in each", size(steps.peak_live_median_bytes)),
        false => {
            let (median, highest) = (steps.peak_live_median_bytes, steps.peak_live_highest_bytes);
            format!("peak live {} in most, at most {}", size(median), size(highest))
        }
    };
    match steps.growth_per_step_bytes {
        None => writeln!(out, "              {peak}"),
        Some(0) => writeln!(out, "              {peak}; no growth in most"),
        Some(growth) if steps.looks_like_leak => {
            let growth = size(growth.unsigned_abs());
            writeln!(out, "              {peak}")?;
            writeln!(
                out,
                "              LEAK? each ends with more live bytes than the one before, {growth} more. Kept from:"
            )?;
            for holder in steps.kept.iter().take(3) {
                writeln!(out, "{}", holder.row(&holder.label.line(), WIDTH))?;
            }
            Ok(())
        }
        Some(growth) => {
            let (sign, growth) = (if growth < 0 { "-" } else { "+" }, size(growth.unsigned_abs()));
            writeln!(out, "              {peak}; live {sign}{growth} each, up and down")
        }
    }
}

fn failures(summary: &Summary, out: &mut dyn Write) -> io::Result<()> {
    let stated = &summary.out_of_memory.stated;
    match &summary.out_of_memory.last {
        None if stated.count > 0 => {
            let (count, last) = match stated.count {
                1 => ("1 request".to_owned(), ""),
                several => (format!("{} requests", Grouped(several)), "; the last"),
            };
            writeln!(
                out,
                "  failures    the file says that {count} failed{last}: {} on stream {}",
                size(stated.last_bytes),
                stated.last_stream
            )?;
            let path = cut(&summary.input.path, WIDTH - 66);
            writeln!(out, "              gpumem explain-oom {path} --capacity SIZE says why")?;
        }
        None => writeln!(out, "  failures    none: no request ran out of memory")?,
        Some(failed) => {
            let count = summary.out_of_memory.count;
            writeln!(
                out,
                "  failures    {} ran out of memory{}: {} on stream {} ({}),",
                if count == 1 { "1 request".to_owned() } else { format!("{} requests", Grouped(count)) },
                if count == 1 { "" } else { "; the last" },
                size(failed.bytes),
                failed.stream,
                failed.when
            )?;
            writeln!(out, "              {}", cut(&failed.stack.line(), WIDTH - 14))?;
            writeln!(out, "              gpumem explain-oom {} says why", cut(&summary.input.path, WIDTH - 50))?;
        }
    }
    if summary.inconsistencies.is_empty() {
        return Ok(());
    }
    let total = summary.inconsistencies.iter().fold(0_u64, |sum, kind| sum.saturating_add(kind.count));
    writeln!(
        out,
        "  WARNING     {} things in the file contradict each other; figures are a best guess:",
        Grouped(total)
    )?;
    for kind in &summary.inconsistencies {
        writeln!(
            out,
            "  {:>21} {} (first: event {})",
            Grouped(kind.count),
            kind.what,
            Grouped(kind.first_event.saturating_add(1))
        )?;
    }
    Ok(())
}
