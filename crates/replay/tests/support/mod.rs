//! Where the shared traces are.

// Not every test file uses all of it.
#![allow(dead_code, unreachable_pub)]

use std::path::{Path, PathBuf};

use formats::{Content, Limits, read_path};
use records::Trace;

/// A file or folder of the shared data; `None`, with a note, where there is none.
pub fn shared(name: &str) -> Option<PathBuf> {
    let base = std::env::var_os("GPUMEM_SHARED")
        .map_or_else(|| PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../../shared/data"), PathBuf::from);
    let path = base.join(name);
    if !path.exists() {
        println!("not run: shared data absent");
        return None;
    }
    Some(path)
}

/// The traces of a folder of the shared data, by name.
pub fn traces_in(folder: &str) -> Option<Vec<PathBuf>> {
    let entries = std::fs::read_dir(shared(folder)?).unwrap();
    let mut paths: Vec<PathBuf> = entries.map(|entry| entry.unwrap().path()).collect();
    paths.retain(|path| path.to_string_lossy().trim_end_matches(".gz").ends_with(".csv"));
    paths.sort();
    Some(paths)
}

/// Reads a trace.
pub fn trace_at(path: &Path) -> Trace {
    let Content::Trace(trace) = read_path(path, &Limits::default()).unwrap().content else {
        panic!("{} is no trace", path.display());
    };
    trace
}
