//! How a report reaches the person: as text, as JSON, or both.

use std::io::{self, Write};
use std::path::Path;

use formats::Output;
use serde::Serialize;

use crate::failure::Failure;
use crate::tame::{Tame, TameJson};
use crate::targets::{check_targets, is_stdout};

/// Refuses a place for the JSON that can't be written, before the work.
pub(crate) fn check_json(json: Option<&Path>, inputs: &[&Path]) -> Result<(), Failure> {
    let target = json.filter(|_| !is_stdout(json)).map(|path| ("--json", path));
    check_targets(inputs, target.as_slice())
}

/// Prints the text, and writes the JSON if asked for; with `--json -` standard output holds the JSON only.
pub(crate) fn answer(
    json: Option<&Path>,
    report: &impl Serialize,
    text: impl FnOnce(&mut dyn Write) -> io::Result<()>,
) -> Result<(), Failure> {
    let to_json = |out: &mut dyn Write| {
        serde_json::to_writer_pretty(&mut *out, report)?;
        writeln!(out)
    };
    answer_with(json, to_json, text)
}

/// The same for a report that writes its own JSON, with a line end.
pub(crate) fn answer_with(
    json: Option<&Path>,
    to_json: impl FnOnce(&mut dyn Write) -> io::Result<()>,
    text: impl FnOnce(&mut dyn Write) -> io::Result<()>,
) -> Result<(), Failure> {
    if is_stdout(json) {
        let mut out = TameJson(io::BufWriter::new(io::stdout().lock()));
        to_json(&mut out)?;
        out.flush()?;
        return Ok(());
    }
    if let Some(path) = json {
        let mut out = Output::create(path)?;
        to_json(&mut out).map_err(|source| Failure::unwritten(path, &source))?;
        out.finish().map_err(Failure::writing(path))?;
    }
    let mut out = Tame(io::BufWriter::new(io::stdout().lock()));
    text(&mut out)?;
    out.flush()?;
    Ok(())
}
