//! The files a command writes, looked at before it does anything.

use std::fs;
use std::path::{Path, PathBuf};

use formats::Output;

use crate::failure::Failure;

/// Whether a path means standard output.
pub(crate) fn is_stdout(path: Option<&Path>) -> bool {
    path == Some(Path::new("-"))
}

/// The one path of a file, which need not be there yet, whatever way it is named.
fn real(path: &Path) -> Option<PathBuf> {
    fs::canonicalize(path).ok().or_else(|| {
        let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
        Some(fs::canonicalize(folder).ok()?.join(path.file_name()?))
    })
}

/// Refuses what can't be written before a minute is spent: files named twice, files that are an input, folders that
/// can't be written to. `targets` are files with the option that asks for each; `-` isn't one.
pub(crate) fn check_targets(inputs: &[&Path], targets: &[(&str, &Path)]) -> Result<(), Failure> {
    let is_same = |a: &Path, b: &Path| real(a).is_some_and(|a| real(b).is_some_and(|b| a == b));
    for (number, &(option, path)) in targets.iter().enumerate() {
        if let Some((earlier, _)) = targets[..number].iter().find(|(_, other)| is_same(path, other)) {
            return Err(Failure::input(format!("{}: named by both {earlier} and {option}", path.display())));
        }
        if inputs.iter().any(|input| is_same(path, input)) {
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
