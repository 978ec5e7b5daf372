//! `--explain`: everything known about one tensor, in words.

use std::io::{self, Write};

use coloring::{PlacedBuffer, Request};
use lifetime::{Bound, Bytes, Explanation, HalfStep, OpAt, Subject as Asked, TensorId, TierRule, explain};

use super::Report;
use crate::failure::Failure;
use crate::load::{Loaded, range_in_words};
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
            None => Err(Failure::input(format!("{}: no buffer `{name}`", loaded.source.path))),
        };
    };
    let in_file = |error: lifetime::Error| Failure::input(format!("{}: {error}", loaded.source.path));
    let facts = match explain(graph, analysis, Asked::Name(name)) {
        Ok(facts) => facts,
        // A number that is no name is an identifier.
        Err(error) => match name.parse().map(|id| explain(graph, analysis, Asked::Tensor(TensorId(id)))) {
            Ok(Ok(facts)) => facts,
            _ => return Err(in_file(error)),
        },
    };
    let buffer = &analysis.buffers[facts.buffer.index()];
    let id = match buffer.source {
        lifetime::BufferSource::Storage(tensor) => tensor.0.to_string(),
        lifetime::BufferSource::Workspace(op) => format!("op{}", op.0),
    };
    match ids.iter().position(|other| *other == id) {
        Some(number) => Ok(Subject { asked, number, facts: Some(facts) }),
        None => Err(Failure::input(format!("`{name}` is {}, which --tiers leaves out", facts.tier))),
    }
}

/// Says what is known.
pub(super) fn write(subject: &Subject, report: &Report<'_>, out: &mut impl Write) -> io::Result<()> {
    let plan = &report.planned.plan;
    let b = &plan.buffers[subject.number];
    writeln!(out, "\n{}", subject.asked)?;
    if b.name != subject.asked {
        writeln!(out, "  lies in    {}, whose bytes it shares", b.name)?;
    }
    writeln!(out, "  bytes      {} ({} B)", b.bytes, Grouped(b.bytes.0))?;
    match &subject.facts {
        Some(facts) => write_facts(facts, report, out)?,
        None => {
            writeln!(out, "  tier       {}: judged by its life alone, for lack of a graph", b.tier)?;
            writeln!(out, "  live       {}", range_in_words(b.range.birth, b.range.death, &b.gaps))?;
        }
    }
    write_place(subject.number, report, out)
}

fn write_facts(facts: &Explanation, report: &Report<'_>, out: &mut impl Write) -> io::Result<()> {
    writeln!(out, "  tier       {}: {}", facts.tier, rule_in_words(facts, report))?;
    let (birth, death) = (facts.range.birth, facts.range.death);
    writeln!(out, "  live       half-steps {} of {}", range_in_words(birth, death, &[]), facts.end.0)?;
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
        writeln!(out, "  note       {} further tensors have this name; ask by number for those", facts.namesakes)?;
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
    let together: Vec<&PlacedBuffer> = plan
        .buffers
        .iter()
        .enumerate()
        .filter(|&(i, other)| i != number && other.range.overlaps(b.range))
        .map(|(_, other)| other)
        .collect();
    let (moment, load, at_peak) = tightest_within(b, &together);
    writeln!(
        out,
        "  conflicts  {} buffers in all; at {}, the tightest moment of its life, {} ({})",
        Grouped(together.len() as u64),
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
    let below = together.iter().filter(|o| o.offset.0 + o.bytes.0 <= b.offset.0).max_by_key(|o| o.offset.0 + o.bytes.0);
    let above = together.iter().filter(|o| o.offset.0 >= end).min_by_key(|o| o.offset.0);
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

/// The moment of a buffer's life at which most bytes are live, how many, and what else is live then, largest first.
fn tightest_within<'a>(b: &PlacedBuffer, together: &[&'a PlacedBuffer]) -> (HalfStep, Bytes, Vec<&'a PlacedBuffer>) {
    let mut changes: Vec<(u64, i128)> = Vec::with_capacity(2 * together.len());
    for other in together {
        changes.push((other.range.birth.max(b.range.birth).0, i128::from(other.bytes.0)));
        changes.push((other.range.death.0, -i128::from(other.bytes.0)));
    }
    changes.sort_unstable();
    let (mut load, mut highest, mut at) = (0_i128, 0_i128, b.range.birth.0);
    for (moment, change) in changes {
        load += change;
        if load > highest && moment < b.range.death.0 {
            (highest, at) = (load, moment);
        }
    }
    let mut live: Vec<&PlacedBuffer> =
        together.iter().copied().filter(|o| o.range.birth.0 <= at && at < o.range.death.0).collect();
    live.sort_by(|x, y| y.bytes.cmp(&x.bytes).then_with(|| x.id.cmp(&y.id)));
    let load = u64::try_from(highest).unwrap_or(u64::MAX).saturating_add(b.bytes.0);
    (HalfStep(at), Bytes(load), live)
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
