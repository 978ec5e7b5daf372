//! The files a plan is written to: all of them, or none.

use std::path::Path;

use formats::{Output, write_plan};
use memviz::{PictureOptions, write_html, write_png, write_svg};

use super::{Report, conflicts, json};
use crate::args::PlanArgs;
use crate::failure::Failure;
use crate::targets::{check_targets, is_stdout};

/// Every file asked for, with the option that asks.
fn targets(args: &PlanArgs) -> impl Iterator<Item = (&'static str, &Path)> {
    let all = [
        ("--plan-out", &args.plan_out),
        ("--conflicts", &args.conflicts),
        ("--html", &args.html),
        ("--png", &args.png),
        ("--svg", &args.svg),
        ("--json", &args.json),
    ];
    let asked = all.into_iter().filter_map(|(option, path)| Some((option, path.as_deref()?)));
    asked.filter(|&(option, path)| option != "--json" || !is_stdout(Some(path)))
}

/// Refuses what can't be written before a minute is spent on planning.
pub(super) fn check(args: &PlanArgs) -> Result<(), Failure> {
    check_targets(&[&args.file], &targets(args).collect::<Vec<_>>())
}

/// Writes every file asked for. They appear under their names once all of them could be written.
pub(super) fn write(args: &PlanArgs, report: &Report<'_>) -> Result<(), Failure> {
    let plan = &report.planned.plan;
    let picture = PictureOptions::default();
    let mut whole = Vec::new();
    for (option, path) in targets(args) {
        let mut out = Output::create(path)?;
        match option {
            "--plan-out" => write_plan(plan, &mut out).map_err(Failure::writing(path))?,
            "--conflicts" => conflicts::write(path, plan, &mut out)?,
            "--html" => write_html(plan, &picture, &mut out).map_err(Failure::drawing(path))?,
            "--png" => write_png(plan, &picture, &mut out).map_err(Failure::drawing(path))?,
            "--svg" => write_svg(plan, &picture, &mut out).map_err(Failure::drawing(path))?,
            _ => json::write(report, &mut out).map_err(|source| Failure::unwritten(path, &source))?,
        }
        whole.push((path, out));
    }
    for (path, out) in whole {
        out.finish().map_err(Failure::writing(path))?;
    }
    Ok(())
}
