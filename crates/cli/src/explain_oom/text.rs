//! The explanation as a person reads it, within 100 columns: the verdict, the numbers, what was in the way, what would
//! have passed, what to do.

use std::io::{self, Write};

use comfy_table::{CellAlignment, Table, presets};

use super::Explanation;
use super::facts::{Facts, ReleaseFacts, WindowFacts};
use super::policies::{Trial, Trials};
use crate::quantity::Grouped;
use crate::report::{BlockFacts, count, cut, size, size_exact, wrap};

/// Columns of the screen.
const WIDTH: usize = 100;
/// Blocks and groups listed.
const LISTED: usize = 5;

/// Writes it.
pub(super) fn write(explanation: &Explanation, out: &mut dyn Write) -> io::Result<()> {
    let facts = &explanation.facts;
    writeln!(out, "{}", cut(&explanation.name, WIDTH))?;
    if let Some(modelled) = &explanation.modelled {
        let note = format!(
            "The file is a trace: it says what was asked for, not where it lay. Everything below is of a replay on a {}.",
            modelled.policy
        );
        paragraph(&note, out)?;
    }
    if explanation.devices > 1 {
        let (device, all) = (explanation.device, count(explanation.devices, "device"));
        paragraph(&format!("This is about device {device}; the file has {all}, and --device N shows another."), out)?;
    }
    writeln!(out)?;
    paragraph(&explanation.verdict.headline, out)?;
    for sentence in &explanation.verdict.sentences {
        paragraph(sentence, out)?;
    }
    if explanation.inconsistencies > 0 {
        let times = Grouped(explanation.inconsistencies);
        paragraph(&format!("The file contradicts itself {times} times; gpumem summary says how. Take care."), out)?;
    }
    writeln!(out)?;
    request(facts, out)?;
    numbers(facts, out)?;
    if explanation.verdict.cause.is_about_places() && !facts.is_without_segments() {
        in_the_way(facts, out)?;
    }
    holders(facts, out)?;
    trials(&explanation.trials, explanation.modelled.is_some(), out)?;
    if !explanation.advice.is_empty() {
        writeln!(out, "What to do, what helps most first:")?;
    }
    for (number, advice) in explanation.advice.iter().enumerate() {
        let mut lines = wrap(&advice.text, WIDTH - 5).into_iter();
        writeln!(out, "  {}. {}", number + 1, lines.next().unwrap_or_default())?;
        for line in lines {
            writeln!(out, "     {line}")?;
        }
    }
    Ok(())
}

fn paragraph(text: &str, out: &mut dyn Write) -> io::Result<()> {
    for line in wrap(text, WIDTH - 2) {
        writeln!(out, "  {line}")?;
    }
    Ok(())
}

fn request(facts: &Facts, out: &mut dyn Write) -> io::Result<()> {
    let request = &facts.request;
    writeln!(out, "  request   {} on stream {}: {}", size_exact(request.bytes), request.stream, request.when)?;
    writeln!(out, "            {}", cut(&request.stack.line(), WIDTH - 12))?;
    if !request.tag.is_empty() {
        writeln!(out, "            {}", cut(&request.tag, WIDTH - 12))?;
    }
    writeln!(out)
}

fn numbers(facts: &Facts, out: &mut dyn Write) -> io::Result<()> {
    let (limit, sums, idle) = (&facts.limit, &facts.sums, &facts.idle);
    let mut table = Table::new();
    table.load_style(presets::NOTHING);
    let mut line = |name: &str, bytes: u64, note: String| {
        table.add_row(vec![format!(" {name}"), size(bytes), format!("{} B", Grouped(bytes)), note]);
    };
    let source = match limit.source {
        "failed_request" => "what it held + what the device had left",
        "option" => "stated by --capacity",
        "file" => "of the device, as the file states",
        _ => "what it held before; no limit is known",
    };
    if let (Some(device), Some(outside)) = (limit.device_bytes, limit.outside_bytes)
        && limit.source == "failed_request"
        && outside > 0
    {
        let note = match limit.is_device_stated {
            true => format!("{} of it held by others", size(outside)),
            false => format!("known to have been there; {} of it now held by others", size(outside)),
        };
        line("device", device, note);
    }
    if !facts.is_without_segments() || limit.source != "reserved_before" {
        line("limit", limit.bytes, source.to_owned());
    }
    line("live", sums.live_bytes, "asked for and in use".to_owned());
    line("allocated", sums.allocated_bytes, "the same after rounding".to_owned());
    if sums.pending_bytes > 0 {
        line("pending", sums.pending_bytes, "freed, but streams may still use it".to_owned());
    }
    line("reserved", sums.reserved_bytes, "held from the device".to_owned());
    line("idle", idle.bytes, format!("held and unused, in {}", count(idle.pieces, "piece")));
    if idle.whole_segments > 0 {
        let note = format!("of it in {}, which can be given back", count(idle.whole_segments, "empty segment"));
        line("", idle.whole_segments_bytes, note);
    }
    for (bytes, note) in [
        (idle.own_bytes, "of it between blocks, in segments this request may use"),
        (idle.other_streams_bytes, "of it between blocks of other streams"),
        (idle.other_sizes_bytes, "of it between blocks, in segments for other sizes"),
        (idle.private_pools_bytes, "of it in private pools"),
    ] {
        if bytes > 0 {
            line("", bytes, note.to_owned());
        }
    }
    line("largest", idle.own_largest_bytes, "largest piece this request may use".to_owned());
    if limit.source != "reserved_before" {
        line("left", limit.device_free_bytes, "left on the device".to_owned());
    }
    line("needed", facts.needed_bytes, "by an allocator without any waste, for this request".to_owned());
    if facts.perfect_bytes > facts.needed_bytes {
        line("", facts.perfect_bytes, "by the same, for everything up to here".to_owned());
    }
    for column in [1, 2] {
        if let Some(column) = table.column_mut(column) {
            column.set_cell_alignment(CellAlignment::Right);
        }
    }
    for row in table.lines() {
        writeln!(out, "{}", row.trim_end())?;
    }
    writeln!(out)
}

fn in_the_way(facts: &Facts, out: &mut dyn Write) -> io::Result<()> {
    match &facts.window {
        Some(WindowFacts { blocks: 0, segment_bytes, .. }) => {
            let segment = size(*segment_bytes);
            paragraph(&format!("A segment of {segment} has a hole that is large enough."), out)?;
        }
        Some(window) => {
            let text = format!(
                "In the way: the best place for it is a range in a segment of {} (stream {}), where {} of {} would have \
                 to go:",
                size(window.segment_bytes),
                window.stream,
                count(window.blocks, "block"),
                size_exact(window.blocked_bytes)
            );
            paragraph(&text, out)?;
            blocks(&window.largest, window.blocks, out)?;
        }
        None => {
            let bytes = size(facts.request.rounded_bytes);
            paragraph(&format!("No segment is as large as the request ({bytes}): it needs a new one."), out)?;
        }
    }
    // Where the best place is the only segment that would have to go, it is the same blocks again.
    let is_same =
        |release: &ReleaseFacts| facts.window.as_ref().is_some_and(|w| w.blocked_bytes == release.blocked_bytes);
    if let Some(release) = facts.release.as_ref().filter(|release| !is_same(release)) {
        let segments = format!("{} ({})", count(release.segments, "segment"), size(release.bytes));
        if release.blocks == 0 {
            paragraph(&format!("For a new one, {segments} with nothing in them can be given back."), out)?;
        } else {
            let (number, bytes) = (count(release.blocks, "block"), size_exact(release.blocked_bytes));
            let verb = if release.blocks == 1 { "prevents that" } else { "prevent that" };
            paragraph(
                &format!("For a new one, {segments} would have to be given back; {number} of {bytes} {verb}:"),
                out,
            )?;
            blocks(&release.largest, release.blocks, out)?;
        }
    }
    writeln!(out)
}

fn blocks(listed: &[BlockFacts], count: u64, out: &mut dyn Write) -> io::Result<()> {
    for block in listed.iter().take(LISTED) {
        writeln!(out, "    {}", block.line(WIDTH - 4))?;
    }
    match count.saturating_sub(listed.len().min(LISTED) as u64) {
        0 => Ok(()),
        more => writeln!(out, "    and {} more", Grouped(more)),
    }
}

fn holders(facts: &Facts, out: &mut dyn Write) -> io::Result<()> {
    if facts.by_stack.is_empty() {
        return Ok(());
    }
    paragraph(&format!("Who held the {} live:", size(facts.sums.live_bytes)), out)?;
    for holder in facts.by_stack.iter().take(LISTED) {
        writeln!(out, "{}", holder.row(&holder.label.line(), WIDTH))?;
    }
    if facts.by_tag.iter().any(|holder| !holder.label.is_empty()) {
        writeln!(out, "  by tag")?;
        for holder in facts.by_tag.iter().take(LISTED) {
            let tag = if holder.label.is_empty() { "(no tag)" } else { &holder.label };
            writeln!(out, "{}", holder.row(tag, WIDTH))?;
        }
    }
    writeln!(out)
}

fn trials(trials: &Trials, is_modelled: bool, out: &mut dyn Write) -> io::Result<()> {
    if let Some(reason) = &trials.missing {
        return paragraph(&format!("Would it have passed otherwise? {reason}"), out).and_then(|()| writeln!(out));
    }
    match trials.capacity_bytes {
        Some(capacity) => {
            writeln!(out, "  Would it have passed with {}? The requests, replayed:", size_exact(capacity))?
        }
        None => writeln!(out, "  How much would other allocators have reserved? The requests, replayed:")?,
    }
    let mut table = Table::new();
    table.load_style(presets::NOTHING);
    // What each needs at least is not searched for in long recordings.
    let needs = if trials.trials.iter().any(|trial| trial.min_capacity_bytes.is_some()) { "needs" } else { "" };
    let stops = if trials.trials.iter().any(|trial| trial.failed.is_some()) { "stops at request" } else { "" };
    table.set_header(vec!["  ", "", "reserved", needs, stops]);
    for trial in &trials.trials {
        let Trial { name, is_recorded, passes, peak_reserved_bytes, min_capacity_bytes, failed, .. } = trial;
        let verdict = match (passes, trials.capacity_bytes) {
            (_, None) => "",
            (true, _) => "passes",
            (false, _) => "fails",
        };
        let at = match failed {
            Some(failed) => {
                format!("{} of {} ({})", Grouped(failed.request), Grouped(trials.requests), size(failed.bytes))
            }
            None => String::new(),
        };
        let least = min_capacity_bytes.map(size).unwrap_or_default();
        let as_recorded = match (is_recorded, is_modelled) {
            (true, false) => " (as recorded)",
            (true, true) => " (as above)",
            (false, _) => "",
        };
        table.add_row(vec![
            format!("  {}{name}{as_recorded}", if trial.is_variant { "  " } else { "" }),
            verdict.to_owned(),
            size(*peak_reserved_bytes),
            least,
            at,
        ]);
    }
    for column in [2, 3] {
        if let Some(column) = table.column_mut(column) {
            column.set_cell_alignment(CellAlignment::Right);
        }
    }
    for row in table.lines() {
        writeln!(out, "{}", row.trim_end())?;
    }
    paragraph(&trials.notes.join(" "), out)?;
    writeln!(out)
}
