//! The comparison as a person reads it, within 100 columns.

use std::io::{self, Write};

use comfy_table::{CellAlignment, Table, presets};

use super::facts::{Change, Changes, Difference, change};
use crate::quantity::Grouped;
use crate::report::{StackLabel, count, cut, size};

/// Columns of the screen.
const WIDTH: usize = 100;
/// Rows of each list.
const LISTED: usize = 12;

/// Writes it.
pub(super) fn write(difference: &Difference, out: &mut dyn Write) -> io::Result<()> {
    let (before, after) = (&difference.before, &difference.after);
    let moment = if difference.at == "peak" { "when most bytes were live" } else { "at the end" };
    writeln!(out, "  A  {}", cut(&before.name, WIDTH - 5))?;
    writeln!(out, "  B  {}\n", cut(&after.name, WIDTH - 5))?;
    for (side, name) in [(before, "A"), (after, "B")] {
        if let Some(modelled) = &side.modelled {
            writeln!(
                out,
                "  {name} is a trace, replayed on a {}; its live bytes don't depend on that",
                modelled.policy
            )?;
        }
        if side.inconsistencies > 0 {
            let things = count(side.inconsistencies, "time");
            writeln!(out, "  WARNING: {name} contradicts itself {things}; gpumem summary says how")?;
        }
    }
    let mut table = Table::new();
    table.load_style(presets::NOTHING);
    table.set_header(vec!["", "A", "B", "change", ""]);
    let rows = [
        ("peak live", before.peak_live_bytes, after.peak_live_bytes),
        ("peak allocated", before.peak_allocated_bytes, after.peak_allocated_bytes),
        ("peak active", before.peak_active_bytes, after.peak_active_bytes),
        ("peak reserved", before.peak_reserved_bytes, after.peak_reserved_bytes),
        ("live at the end", before.end_live_bytes, after.end_live_bytes),
    ];
    for (name, a, b) in rows {
        table.add_row(vec![format!(" {name}"), size(a), size(b), signed(change(a, b)), relative(a, b)]);
    }
    let (a, b) = (before.requests, after.requests);
    let requests = change(a, b);
    let sign = if requests < 0 { "-" } else { "+" };
    table.add_row(vec![
        " requests".to_owned(),
        Grouped(a).to_string(),
        Grouped(b).to_string(),
        format!("{sign}{}", Grouped(requests.unsigned_abs())),
        relative(a, b),
    ]);
    for column in 1..=4 {
        if let Some(column) = table.column_mut(column) {
            column.set_cell_alignment(CellAlignment::Right);
        }
    }
    for row in table.lines() {
        writeln!(out, "{}", row.trim_end())?;
    }
    writeln!(out, "\n  Live bytes {moment}, A: {}; B: {}", before.when, after.when)?;
    writeln!(out, "\n  {:>12} {:>12} {:>13}  by stack", "A", "B", "change")?;
    list(&difference.by_stack, StackLabel::line, out)?;
    if difference.by_tag.listed.iter().any(|change| !change.label.is_empty()) {
        writeln!(out, "\n  {:>12} {:>12} {:>13}  by tag", "A", "B", "change")?;
        let tag = |tag: &String| if tag.is_empty() { "(no tag)".to_owned() } else { tag.clone() };
        list(&difference.by_tag, tag, out)?;
    }
    Ok(())
}

fn list<L>(changes: &Changes<L>, label: impl Fn(&L) -> String, out: &mut dyn Write) -> io::Result<()> {
    let is_changed = |change: &&Change<L>| change.change_bytes != 0;
    let changed = changes.listed.iter().filter(is_changed);
    for change in changed.clone().take(LISTED) {
        let start = format!(
            "  {:>12} {:>12} {:>13}  ",
            size(change.before_bytes),
            size(change.after_bytes),
            signed(change.change_bytes)
        );
        let moved = if change.lines_moved { " (lines moved)" } else { "" };
        let room = WIDTH.saturating_sub(start.chars().count() + moved.len());
        writeln!(out, "{start}{}{moved}", cut(&label(&change.label), room))?;
    }
    if changed.clone().next().is_none() {
        writeln!(out, "  {:>12} {:>12} {:>13}  none of {} changed", "", "", "", count(changes.count as u64, "group"))?;
    }
    let rest = changed.clone().skip(LISTED).fold(changes.rest_bytes, |sum, c| sum.saturating_add(c.change_bytes));
    // The largest changes come first: where the last one listed is none, the others are none either.
    let unlisted = match changes.listed.last() {
        Some(last) if last.change_bytes != 0 => changes.count - changes.listed.len(),
        _ => 0,
    };
    let more = changed.count().saturating_sub(LISTED) + unlisted;
    match more {
        0 => Ok(()),
        more => writeln!(out, "  {:>12} {:>12} {:>13}  in {} more", "", "", signed(rest), Grouped(more as u64)),
    }
}

fn signed(bytes: i64) -> String {
    match bytes {
        0 => "0 B".to_owned(),
        bytes => format!("{}{}", if bytes < 0 { "-" } else { "+" }, size(bytes.unsigned_abs())),
    }
}

fn relative(before: u64, after: u64) -> String {
    match before {
        0 => String::new(),
        before => format!("{:+.1} %", (after as f64 / before as f64 - 1.0) * 100.0),
    }
}
