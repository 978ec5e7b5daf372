//! `--conflicts`: the conflict graph in a file.

use std::io::Write;
use std::path::Path;

use coloring::{Plan, count_conflicts, list_conflicts};

use crate::failure::Failure;

/// Most conflicts written; beyond that no tool draws them, and the file would be larger than the disk soon.
const MOST: u64 = 2_000_000;

/// Writes the conflicts of a plan's buffers as CSV (`first,second`, by identifier) or, for a `path` that ends in `.dot`,
/// as a graph for Graphviz.
pub(super) fn write(path: &Path, plan: &Plan, out: &mut impl Write) -> Result<(), Failure> {
    let problem = plan.problem();
    match count_conflicts(&problem)? {
        Some(count) if count <= MOST => {}
        Some(count) => {
            return Err(Failure::input(format!(
                "{}: not written: {count} conflicts are over the limit of {MOST}; --tiers narrows the plan",
                path.display()
            )));
        }
        None => return Err(Failure::input(format!("{}: not written: too many buffers with gaps", path.display()))),
    }
    let mut pairs = Vec::new();
    list_conflicts(&problem, |a, b| {
        pairs.push((a, b));
        true
    })?;
    pairs.sort_unstable();
    let is_dot = path.extension().is_some_and(|ending| ending == "dot");
    let written = if is_dot { write_dot(plan, &pairs, out) } else { write_csv(plan, &pairs, out) };
    written.map_err(|source| Failure::unwritten(path, &source))
}

fn write_csv(plan: &Plan, pairs: &[(u32, u32)], out: &mut impl Write) -> std::io::Result<()> {
    writeln!(out, "first,second")?;
    for &(a, b) in pairs {
        let id = |i: u32| quoted(&plan.buffers[i as usize].id, '"', "\"\"");
        writeln!(out, "{},{}", id(a), id(b))?;
    }
    Ok(())
}

fn write_dot(plan: &Plan, pairs: &[(u32, u32)], out: &mut impl Write) -> std::io::Result<()> {
    writeln!(out, "graph conflicts {{\n  node [shape=box];")?;
    for (i, b) in plan.buffers.iter().enumerate() {
        let label = b.name.replace('\\', "\\\\").replace('"', "\\\"").replace(['\n', '\r'], " ");
        writeln!(out, "  {i} [label=\"{label}\\n{}\"];", b.bytes)?;
    }
    for &(a, b) in pairs {
        writeln!(out, "  {a} -- {b};")?;
    }
    writeln!(out, "}}")
}

/// The text as it is, or in quotes where CSV asks for them.
fn quoted(text: &str, quote: char, twice: &str) -> String {
    if text.contains([',', '"', '\n', '\r']) || text.starts_with('#') || text.is_empty() {
        format!("{quote}{}{quote}", text.replace(quote, twice))
    } else {
        text.to_owned()
    }
}
