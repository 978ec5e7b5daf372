//! The figures as a person reads them.

use std::io::{self, Write};

use comfy_table::{CellAlignment, Table, presets};
use device::DriverCall;
use lifetime::Bytes;
use replay::{FailedRequest, Figures, Policy, backing_name, hand_over_name};

use super::Report;
use crate::quantity::{Grouped, Took};

/// Writes the whole report.
pub(super) fn write(report: &Report<'_>, out: &mut dyn Write) -> io::Result<()> {
    let (outcome, settings, trace) = (&report.outcome, &report.settings, report.trace);
    writeln!(out, "{}", trace.name)?;
    let rows = Grouped(trace.rows.len() as u64);
    let streams = match report.streams {
        1 => "1 stream".to_owned(),
        several => format!("{several} streams"),
    };
    write!(out, "  read      {} ({}): {rows} rows, {streams}", report.path, report.format)?;
    writeln!(out, "{}", if trace.is_cut { "; the file is cut, this is what could be read" } else { "" })?;
    write!(out, "  policy    {}: {}", settings.policy.name(), settings.policy.in_words())?;
    if let Some(bytes) = settings.caching.max_split_bytes.filter(|_| settings.policy.is_model()) {
        write!(out, ", max split size {}", Bytes(bytes))?;
    }
    if settings.caching.roundup_power2_divisions > 1 && settings.policy.is_model() {
        write!(out, ", {} divisions", settings.caching.roundup_power2_divisions)?;
    }
    if settings.policy == Policy::Gpumem {
        let gpumem = &settings.gpumem;
        let (hand_over, backing) = (hand_over_name(gpumem.hand_over), backing_name(gpumem.backing));
        write!(out, ", hand over {hand_over}, backing {backing}, {} reading", gpumem.reading.name())?;
        for (what, bytes) in [("hard", gpumem.hard_bytes), ("soft", gpumem.soft_bytes)] {
            if let Some(bytes) = bytes {
                write!(out, ", {what} budget {}", Bytes(bytes))?;
            }
        }
    }
    writeln!(out)?;
    match settings.capacity_bytes {
        Some(bytes) => {
            let ratio = ratio(bytes, report.peak_live_bytes);
            writeln!(out, "  capacity  {} ({ratio} of peak live)", size(bytes))?;
        }
        None => writeln!(out, "  capacity  no limit")?,
    }
    let streams = match report.has_syncs {
        true => "finish at the trace's sync rows".to_owned(),
        false if settings.lag_steps == 0 => "finish with each step".to_owned(),
        false => format!("finish {} after the host's", steps(settings.lag_steps)),
    };
    writeln!(out, "  streams   {streams}")?;
    writeln!(out)?;
    match outcome.failed {
        Some(failed) => writeln!(out, "  out of memory in row {}", failed.row)?,
        None => writeln!(out, "  every request was served")?,
    }
    writeln!(out)?;
    write_figures(report, out)?;
    if let Some(found) = report.min_capacity {
        match found {
            Some(bytes) => writeln!(
                out,
                "\n  smallest capacity on which every request is served: {} ({} of peak live), to 0.2 %",
                size(bytes),
                ratio(bytes, report.peak_live_bytes)
            )?,
            None => writeln!(out, "\n  no capacity up to twelve times peak live, or to 32 TiB, is enough")?,
        }
    }
    writeln!(out, "\n  took {}; driver seconds and times are modelled, not measured", Took(report.wall))
}

fn write_figures(report: &Report<'_>, out: &mut dyn Write) -> io::Result<()> {
    let outcome = &report.outcome;
    let mut columns = vec![("", &outcome.all)];
    if let Some(steady) = &outcome.steady {
        columns = vec![("all passes", &outcome.all), ("last pass", steady)];
    }
    let mut table = Table::new();
    table.load_style(presets::NOTHING);
    if columns.len() > 1 {
        table.set_header(std::iter::once("").chain(columns.iter().map(|column| column.0)));
    }
    let mut line = |name: &str, value: &dyn Fn(&Figures) -> String| {
        table.add_row(std::iter::once(format!(" {name}")).chain(columns.iter().map(|column| value(column.1))));
    };
    line("allocs", &|f| Grouped(f.allocs).to_string());
    line("frees", &|f| Grouped(f.frees).to_string());
    line("peak live", &|f| size(f.peak_live_bytes));
    line("  rounded to 512 B", &|f| size(f.peak_live_rounded_bytes));
    line("  with what streams hold", &|f| size(f.peak_live_plus_held_bytes));
    line("peak reserved", &|f| size(f.peak_reserved_bytes));
    line("reserved over live", &|f| format!("{:.4}", f.reserved_over_live()));
    line("fragmentation, end", &|f| format!("{:.1} %", f.fragmentation_percent.end));
    line("fragmentation, highest", &|f| format!("{:.1} %", f.fragmentation_percent.highest));
    line("host waits", &|f| Grouped(f.host_waits).to_string());
    line("stream waits", &|f| Grouped(f.stream_waits).to_string());
    line("driver seconds", &|f| format!("{:.3}", f.driver_calls.modelled_driver_seconds()));
    line("time over unlimited", &|f| format!("{:.4}", f.makespan_over_unlimited()));
    for call in DriverCall::ALL {
        if columns.iter().any(|column| column.1.driver_calls.of(*call).calls > 0) {
            line(&format!("calls: {}", call.name().replace('_', " ")), &|f| {
                let count = f.driver_calls.of(*call);
                match count.handles == count.calls || count.handles == 0 {
                    true => Grouped(count.calls).to_string(),
                    false => format!("{} ({} handles)", Grouped(count.calls), Grouped(count.handles)),
                }
            });
        }
    }
    for column in table.column_iter_mut().skip(1) {
        column.set_cell_alignment(CellAlignment::Right);
    }
    for row in table.lines() {
        writeln!(out, " {}", row.trim_end())?;
    }
    Ok(())
}

/// Why the replay ended, for the last line.
pub(super) fn failure_in_words(failed: &FailedRequest, report: &Report<'_>) -> String {
    let capacity = report.settings.capacity_bytes.map_or_else(|| "no limit".to_owned(), size);
    let pass = if report.settings.passes > 1 { format!(" of pass {}", failed.pass + 1) } else { String::new() };
    format!(
        "out of memory in row {}{pass}: block {} of {} on stream {}; capacity {capacity}, live {}, reserved {}, largest \
         hole {}",
        failed.row,
        failed.id,
        size(failed.bytes),
        failed.stream,
        size(failed.live_bytes),
        size(failed.reserved_bytes),
        size(failed.largest_free_bytes)
    )
}

/// Bytes in a unit that suits them, and exactly.
fn size(bytes: u64) -> String {
    format!("{} = {} B", Bytes(bytes), Grouped(bytes))
}

fn ratio(above: u64, below: u64) -> String {
    if below == 0 { "-".to_owned() } else { format!("{:.4}x", above as f64 / below as f64) }
}

fn steps(count: u32) -> String {
    if count == 1 { "one step".to_owned() } else { format!("{count} steps") }
}
