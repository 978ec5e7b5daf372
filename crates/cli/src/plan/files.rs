//! The files a plan is written to: all of them, or none.

use std::fs;
use std::path::Path;

use formats::{Output, write_plan};
use memviz::{PictureOptions, write_html, write_png, write_svg};

use super::{Report, conflicts, json};
use crate::args::PlanArgs;
use crate::failure::Failure;

/// Whether `--json` means standard output.
pub(super) fn is_stdout(json: Option<&Path>) -> bool {
    json == Some(Path::new("-"))
}

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
    let mut seen: Vec<(&str, &Path)> = Vec::new();
    for (option, path) in targets(args) {
        if let Some((earlier, _)) = seen.iter().find(|(_, other)| *other == path) {
            return Err(Failure::input(format!("{}: named by both {earlier} and {option}", path.display())));
        }
        seen.push((option, path));
        let is_input = |path: &Path| {
            fs::canonicalize(path).is_ok_and(|full| fs::canonicalize(&args.file).is_ok_and(|f| f == full))
        };
        if is_input(path) {
            return Err(Failure::input(format!("{}: {option} would overwrite the input", path.display())));
        }
        // Opening a pipe only to close it again would look like an end to its reader.
        let is_special = fs::metadata(path).is_ok_and(|found| !found.is_file() && !found.is_dir());
        if !is_special {
            // Dropped, it leaves no trace.
            Output::create(path)?;
        }
    }
    Ok(())
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
