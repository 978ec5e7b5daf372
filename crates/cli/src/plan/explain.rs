//! `--explain`: everything known about one tensor, in words.

use std::io::{self, Write};
use std::path::Path;

use coloring::{Buffer, PlacedBuffer, Plan, Problem, Request, buffer_ids, count_conflicts};
use lifetime::{Bound, BufferId, Bytes, Explanation, HalfStep, LiveRange, OpAt, Subject as Asked, TierRule, explain};

use super::Report;
use crate::failure::Failure;
use crate::load::Loaded;
use crate::quantity::Grouped;

/// What was asked about and found.
pub(super) struct Subject {
    asked: String,
    /// Its number in the plan.
    number: usize,
    facts: Option<Explanation>,
}

/// Most ops and buffers listed.
const LISTED: usize = 10;

/// Finds every tensor asked about before planning begins: a misspelt name shouldn't cost a minute.
pub(super) fn find(
    names: &[String],
    loaded: &Loaded,
    ids: &[String],
    request: &Request,
) -> Result<Vec<Subject>, Failure> {
    names.iter().map(|name| find_one(name, loaded, ids, request)).collect()
}

fn find_one(name: &str, loaded: &Loaded, ids: &[String], request: &Request) -> Result<Subject, Failure> {
    let asked = name.to_owned();
    let Some((graph, analysis)) = &loaded.graph else {
        let by_id = ids.iter().position(|id| id == name);
        let number = by_id.or_else(|| request.buffers.iter().position(|b| b.name == name));
        return match number {
            Some(number) => Ok(Subject { asked, number, facts: None }),
            None => Err(Failure::input(format!("{}: no buffer `{name}`{}", loaded.source.path, similar(name, ids)))),
        };
    };
    let in_file = |error: lifetime::Error| Failure::from(error).in_file(Path::new(&loaded.source.path));
    // A name first, then what the file calls the tensor, then what the plan calls the buffer.
    let all_ids = buffer_ids(graph, analysis);
    let by_id = || {
        let of_plan = || all_ids.iter().position(|id| id == name).map(|index| Asked::Buffer(BufferId(index as u32)));
        graph.tensor_called(name).map(Asked::Tensor).or_else(of_plan)
    };
    let facts = match (explain(graph, analysis, Asked::Name(name)), by_id()) {
        (Ok(facts), _) => facts,
        (Err(_), Some(subject)) => explain(graph, analysis, subject).map_err(in_file)?,
        (Err(error), None) => return Err(in_file(error)),
    };
    let id = &all_ids[facts.buffer.index()];
    match ids.iter().position(|other| other == id) {
        Some(number) => Ok(Subject { asked, number, facts: Some(facts) }),
        None => Err(Failure::input(format!("`{name}` is {}, which --tiers leaves out", facts.tier))),
    }
}

/// Identifiers like one that isn't there, in words.
fn similar(name: &str, ids: &[String]) -> String {
    const SUGGESTED: usize = 5;
    let asked = name.to_lowercase();
    let is_similar = |id: &&str| {
        let id = id.to_lowercase();
        !asked.is_empty() && (id.contains(&asked) || (!id.is_empty() && asked.contains(&id)))
    };
    let mut found: Vec<&str> = ids.iter().map(String::as_str).filter(is_similar).collect();
    // The nearest in length differ least.
    found.sort_by_key(|id| (id.len().abs_diff(name.len()), *id));
    found.truncate(SUGGESTED);
    if found.is_empty() { String::new() } else { format!("; similar ones: {}", found.join(", ")) }
}

/// Says what is known of each.
pub(super) fn write_all(subjects: &[Subject], report: &Report<'_>, out: &mut impl Write) -> io::Result<()> {
    subjects.iter().try_for_each(|subject| write(subject, report, out))
}

fn write(subject: &Subject, report: &Report<'_>, out: &mut impl Write) -> io::Result<()> {
    let plan = &report.planned.plan;
    let b = &plan.buffers[subject.number];
    writeln!(out, "\n{}", subject.asked)?;
    let is_owner = subject.facts.as_ref().is_none_or(|facts| facts.tensor == facts.tensors.first().copied());
    if !is_owner {
        writeln!(out, "  lies in    {}, whose bytes it shares", b.name)?;
    } else if b.name != subject.asked {
        writeln!(out, "  name       {}", b.name)?;
    }
    writeln!(out, "  bytes      {} ({} B)", b.bytes, Grouped(b.bytes.0))?;
    match &subject.facts {
        Some(facts) => write_facts(facts, report, out)?,
        None => {
            writeln!(out, "  tier       {}: judged by its life alone, for lack of a graph", b.tier)?;
            writeln!(out, "  live       {}", b.live_in_words())?;
        }
    }
    write_place(subject.number, report, out)
}

fn write_facts(facts: &Explanation, report: &Report<'_>, out: &mut impl Write) -> io::Result<()> {
    writeln!(out, "  tier       {}: {}", facts.tier, rule_in_words(facts, report))?;
    let (birth, death) = (facts.range.birth, facts.range.death);
    writeln!(out, "  live       half-steps [{}, {}) of {}", birth.0, death.0, facts.end.0)?;
    let bound = |bound: &Bound, step: &str, op: &str| match bound {
        Bound::Step => step.to_owned(),
        Bound::Op(at) => format!("{op} {}", op_in_words(at)),
    };
    writeln!(out, "    from     {}", bound(&facts.born_by, "the beginning of the step", "made by"))?;
    writeln!(out, "    until    {}", bound(&facts.dies_by, "the end of the step", "last used by"))?;
    let users: Vec<String> = facts.used_by.iter().take(LISTED).map(op_in_words).collect();
    for (k, user) in users.iter().enumerate() {
        writeln!(out, "  {}  {user}", if k == 0 { "used by  " } else { "         " })?;
    }
    if facts.used_by.len() > LISTED {
        writeln!(out, "             and {} more ops", facts.used_by.len() - LISTED)?;
    }
    for taken in &facts.in_place {
        writeln!(out, "  in place   {} writes its result over an input", op_in_words(&taken.op))?;
    }
    if facts.tensors.len() > 1 {
        writeln!(out, "  shared by  {} tensors (views and results in place)", facts.tensors.len())?;
    }
    if facts.namesakes > 0 {
        writeln!(out, "  note       {} further tensors have this name; ask by identifier for those", facts.namesakes)?;
    }
    Ok(())
}

fn op_in_words(at: &OpAt) -> String {
    if at.name == at.kind {
        format!("{} (op {})", at.name, at.position)
    } else {
        format!("{} (op {}, {})", at.name, at.position, at.kind)
    }
}

fn rule_in_words(facts: &Explanation, report: &Report<'_>) -> String {
    match facts.rule {
        TierRule::Hint => "the graph asks for it".to_owned(),
        TierRule::Kind => {
            let kind = report.loaded.graph.as_ref().and_then(|(graph, _)| {
                let owner = facts.tensors.first()?;
                Some(format!("{:?}", graph.tensors.get(owner.index())?.kind))
            });
            format!("it lives across steps, by its kind ({})", kind.unwrap_or_default())
        }
        TierRule::AcrossTurningPoint { .. } => {
            let ops: Vec<String> = facts.decided_by.iter().map(op_in_words).collect();
            match ops.as_slice() {
                [producer, loss, reader] => {
                    format!("made by {producer} before the loss {loss}, held for {reader} after it")
                }
                [loss, reader] => format!("handed in before the loss {loss}, held for {reader} after it"),
                _ => "made before the loss and read after it".to_owned(),
            }
        }
        TierRule::LongLived { share_ppm } => {
            format!("live over {:.1} % of the step", f64::from(share_ppm) / 10_000.0)
        }
        TierRule::Rest => "made and used up on one side of the turning point, in a small part of the step".to_owned(),
    }
}

/// Where it lies, what it conflicts with at the tightest moment of its life, and what lies next to it.
fn write_place(number: usize, report: &Report<'_>, out: &mut impl Write) -> io::Result<()> {
    let plan = &report.planned.plan;
    let b = &plan.buffers[number];
    let end = b.offset.0 + b.bytes.0;
    let pinned = if b.fixed { ", pinned by the file" } else { "" };
    writeln!(out, "  lies at    [{}, {end}) of {}{pinned}", b.offset.0, plan.peak.0)?;
    let others = plan.buffers.iter().enumerate().filter(|&(i, _)| i != number).map(|(_, other)| other);
    let together: Vec<&PlacedBuffer> = others.filter(|other| hold_bytes_together(b, other)).collect();
    let unordered = separated_from(number, plan);
    let (moment, load, at_peak) = tightest_within(b, &together);
    writeln!(
        out,
        "  conflicts  {} buffers in all; at {}, the tightest moment of its life, {} ({})",
        Grouped((together.len() + unordered.len()) as u64),
        moment_in_words(report.loaded, moment),
        Grouped(at_peak.len() as u64),
        load
    )?;
    for other in at_peak.iter().take(LISTED) {
        writeln!(out, "             {:>12}  {:<10}  {}", other.bytes.to_string(), other.tier.name(), other.name)?;
    }
    if at_peak.len() > LISTED {
        writeln!(out, "             and {} more", at_peak.len() - LISTED)?;
    }
    if !unordered.is_empty() {
        let names: Vec<&str> = unordered.iter().take(LISTED).map(|other| other.name.as_str()).collect();
        let more = match unordered.len().saturating_sub(LISTED) {
            0 => String::new(),
            more => format!(" and {more} more"),
        };
        writeln!(out, "             and in no order with {}{more}: no event orders their streams", names.join(", "))?;
    }
    let beside = || together.iter().chain(&unordered);
    let below = beside().filter(|o| o.offset.0 + o.bytes.0 <= b.offset.0).max_by_key(|o| o.offset.0 + o.bytes.0);
    let above = beside().filter(|o| o.offset.0 >= end).min_by_key(|o| o.offset.0);
    let gap = |bytes: u64| if bytes == 0 { "touching it".to_owned() } else { format!("{} away", Bytes(bytes)) };
    match below {
        Some(o) => writeln!(out, "  below it   {}, {}", o.name, gap(b.offset.0 - o.offset.0 - o.bytes.0))?,
        None => writeln!(out, "  below it   the bottom, {}", gap(b.offset.0))?,
    }
    match above {
        Some(o) => writeln!(out, "  above it   {}, {}", o.name, gap(o.offset.0 - end)),
        None => writeln!(out, "  above it   the top, {}", gap(plan.peak.0 - end)),
    }
}

/// Whether two buffers hold bytes at one moment.
fn hold_bytes_together(a: &PlacedBuffer, b: &PlacedBuffer) -> bool {
    if !a.range.overlaps(b.range) {
        return false;
    }
    if a.gaps.is_empty() && b.gaps.is_empty() {
        return true;
    }
    let buffers = [a, b].map(|placed| Buffer { fixed: None, ..placed.to_buffer() }).to_vec();
    let conflicts = count_conflicts(&Problem { buffers, ..Problem::default() });
    !matches!(conflicts, Ok(Some(0)))
}

/// Buffers that are used on other streams, and are dead when this one is live only as far as the order of issue goes.
fn separated_from(number: usize, plan: &Plan) -> Vec<&PlacedBuffer> {
    let other = |&(a, b): &(u32, u32)| match number {
        n if n == a as usize => Some(b),
        n if n == b as usize => Some(a),
        _ => None,
    };
    plan.separations.iter().filter_map(other).filter_map(|i| plan.buffers.get(i as usize)).collect()
}

/// The moment of a buffer's life at which most bytes are live, how many, and what else is live then, largest first.
fn tightest_within<'a>(b: &PlacedBuffer, together: &[&'a PlacedBuffer]) -> (HalfStep, Bytes, Vec<&'a PlacedBuffer>) {
    let mut changes: Vec<(u64, i128)> = Vec::with_capacity(2 * together.len() + 2);
    for other in std::iter::once(b).chain(together.iter().copied()) {
        let mut change = |at: HalfStep, bytes: i128| changes.push((at.max(b.range.birth).0, bytes));
        change(other.range.birth, i128::from(other.bytes.0));
        change(other.range.death, -i128::from(other.bytes.0));
        for gap in &other.gaps {
            let given = i128::from(other.bytes.0) - i128::from(gap.kept.map_or(0, |(from, to)| to.0 - from.0));
            change(gap.range.birth, -given);
            change(gap.range.death, given);
        }
    }
    changes.sort_unstable();
    let (mut load, mut highest, mut at) = (0_i128, 0_i128, b.range.birth.0);
    for (moment, change) in changes {
        load += change;
        if load > highest && moment < b.range.death.0 {
            (highest, at) = (load, moment);
        }
    }
    let is_within = |range: LiveRange| range.birth.0 <= at && at < range.death.0;
    let is_live =
        |o: &&PlacedBuffer| is_within(o.range) && !o.gaps.iter().any(|gap| gap.kept.is_none() && is_within(gap.range));
    let mut live: Vec<&PlacedBuffer> = together.iter().copied().filter(is_live).collect();
    live.sort_by(|x, y| y.bytes.cmp(&x.bytes).then_with(|| x.id.cmp(&y.id)));
    (HalfStep(at), Bytes(u64::try_from(highest).unwrap_or(u64::MAX)), live)
}

/// A moment, with the op that runs then if there is a graph.
pub(super) fn moment_in_words(loaded: &Loaded, moment: HalfStep) -> String {
    let op = loaded.graph.as_ref().and_then(|(graph, analysis)| {
        let op = analysis.order.get(usize::try_from(moment.0 / 2).ok()?)?;
        graph.ops.get(op.index())
    });
    match op {
        Some(op) => format!("half-step {} ({}, {})", moment.0, op.name, op.kind),
        None => format!("time {}", moment.0),
    }
}
