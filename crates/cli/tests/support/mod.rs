//! What several test files use: the command as a process, its report as a value, files to feed it.

#![allow(dead_code, unreachable_pub, clippy::unwrap_used, clippy::expect_used, clippy::panic)]

pub mod snapshots;

use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::io::Read;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use serde::Deserialize;
use tempfile::TempDir;

/// The repository's root.
pub fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// A bundled example, as an argument.
pub fn example(name: &str) -> String {
    text_of(&root().join("examples").join(name))
}

/// A folder of the shared data; `None`, with a note, where there is none.
pub fn shared(folder: &str) -> Option<PathBuf> {
    let base = std::env::var_os("GPUMEM_SHARED").map_or_else(|| root().join("../shared/data"), PathBuf::from);
    let path = base.join(folder);
    if !path.is_dir() {
        println!("not run: shared data absent");
        return None;
    }
    Some(path)
}

/// All files below `folder` whose names end in `ending`, in order.
pub fn files(folder: &Path, ending: &str) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            found.extend(files(&path, ending));
        } else if path.to_str().unwrap().ends_with(ending) {
            found.push(path);
        }
    }
    found.sort();
    found
}

/// A path as an argument.
pub fn text_of(path: &Path) -> String {
    path.to_str().unwrap().to_owned()
}

/// What a run of the command left behind.
#[derive(Debug)]
pub struct Ran {
    pub code: i32,
    pub stdout: String,
    pub stderr: String,
}

impl Ran {
    /// # Panics
    /// If the process was killed by a signal, or panicked.
    pub fn of(output: Output) -> Self {
        let stderr = String::from_utf8(output.stderr).unwrap();
        let code = output.status.code().unwrap_or_else(|| panic!("{}: {stderr}", output.status));
        assert!(!stderr.contains("panicked") && !stderr.contains("internal error"), "{stderr}");
        Self { code, stdout: String::from_utf8(output.stdout).unwrap(), stderr }
    }

    /// # Panics
    /// If it did not end well.
    pub fn ok(self) -> Self {
        assert_eq!(self.code, 0, "{}", self.stderr);
        self
    }

    /// The message of a refusal: exit code 2, one line on standard error, nothing on standard output.
    ///
    /// # Panics
    /// If it is anything else.
    pub fn refusal(self) -> String {
        assert_eq!(self.code, 2, "{self:?}");
        self.sole_message()
    }

    /// The message of an answer that is no: exit code 1, a message on standard error.
    ///
    /// # Panics
    /// If it is anything else.
    pub fn no(self) -> String {
        assert_eq!(self.code, 1, "{self:?}");
        self.stderr.strip_prefix("gpumem: ").unwrap_or_else(|| panic!("{self:?}")).trim_end().to_owned()
    }

    fn sole_message(self) -> String {
        assert_eq!(self.stdout, "", "{self:?}");
        let message = self.stderr.strip_prefix("gpumem: ").unwrap_or_else(|| panic!("{self:?}"));
        let line = message.strip_suffix('\n').unwrap_or_else(|| panic!("{self:?}"));
        assert!(!line.contains(char::is_control), "more than one line: {self:?}");
        line.to_owned()
    }

    /// The report on standard output.
    ///
    /// # Panics
    /// If there is none, or anything else beside it.
    pub fn report(&self) -> Report {
        serde_json::from_str(&self.stdout).unwrap_or_else(|error| panic!("{error}: {self:?}"))
    }
}

/// The command, to be started.
pub fn command<S: AsRef<OsStr>>(args: impl IntoIterator<Item = S>) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_gpumem"));
    command.args(args).stdin(Stdio::null());
    command
}

/// Runs the command.
pub fn gpumem<S: AsRef<OsStr>>(args: impl IntoIterator<Item = S>) -> Ran {
    Ran::of(command(args).output().unwrap())
}

/// A folder of a test's own, gone when dropped.
pub struct Folder(TempDir);

impl Folder {
    pub fn new() -> Self {
        Self(tempfile::tempdir().unwrap())
    }

    /// The path of a file in it.
    pub fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    /// Writes a file.
    pub fn write(&self, name: &str, content: impl AsRef<[u8]>) {
        std::fs::write(self.path(name), content).unwrap();
    }

    /// The content of a file.
    pub fn bytes(&self, name: &str) -> Vec<u8> {
        std::fs::read(self.path(name)).unwrap_or_else(|error| panic!("{name}: {error}"))
    }

    /// The content of a text file.
    pub fn text(&self, name: &str) -> String {
        String::from_utf8(self.bytes(name)).unwrap()
    }

    /// The content of a JSON file.
    pub fn json(&self, name: &str) -> serde_json::Value {
        serde_json::from_slice(&self.bytes(name)).unwrap()
    }

    /// Names of all files in it, in order.
    pub fn names(&self) -> Vec<String> {
        let entries = std::fs::read_dir(self.0.path()).unwrap();
        let mut names: Vec<String> = entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
        names.sort();
        names
    }

    /// The command in this folder, to be started; so that messages name files as they were given.
    pub fn command(&self, args: &[&str]) -> Command {
        let mut command = command(args);
        command.current_dir(self.0.path());
        command
    }

    /// Runs the command in this folder; an argument string is cut at spaces.
    pub fn run(&self, args: &str) -> Ran {
        Ran::of(self.command(&args.split_whitespace().collect::<Vec<_>>()).output().unwrap())
    }
}

/// The text of a gzip file.
pub fn gunzip(path: &Path) -> String {
    let mut text = String::new();
    let file = std::fs::File::open(path).unwrap();
    flate2::read::MultiGzDecoder::new(file).read_to_string(&mut text).unwrap();
    text
}

/// `gpumem-report/1`, every field of it.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Report {
    pub format: String,
    pub name: String,
    pub input: Input,
    pub buffers: usize,
    pub zero_byte: Vec<String>,
    pub sum_bytes: u64,
    pub max_load_bytes: u64,
    pub lower_bound_bytes: u64,
    pub bound_kind: String,
    pub peak_bytes: u64,
    pub gap: f64,
    pub status: String,
    pub capacity_bytes: Option<u64>,
    pub deterministic: bool,
    pub solver: String,
    pub nodes: u64,
    pub wall_seconds: f64,
    pub cpu_seconds: f64,
    pub read_seconds: f64,
    pub analysis_seconds: f64,
    pub planning_seconds: f64,
    pub conflict_edges: Option<u64>,
    pub max_clique_bytes: u64,
    pub given_order_load_bytes: Option<u64>,
    pub arena_base_bytes: u64,
    pub tiers: BTreeMap<String, Count>,
    pub holes: Holes,
    pub baselines: BTreeMap<String, u64>,
    pub placements: Vec<Placement>,
}

#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Input {
    pub path: String,
    pub format: String,
    pub compression: String,
    pub stored_bytes: u64,
    pub text_bytes: u64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Count {
    pub count: usize,
    pub bytes: u64,
}

#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Holes {
    pub pieces_mean_before: f64,
    pub pieces_mean_after: f64,
    pub largest_free_min_before: u64,
    pub largest_free_min_after: u64,
}

#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Placement {
    pub id: String,
    pub name: String,
    pub offset: u64,
    pub bytes: u64,
    pub birth: u64,
    pub death: u64,
    pub tier: String,
}

impl Report {
    /// The placement with this name.
    ///
    /// # Panics
    /// If there is none.
    pub fn named(&self, name: &str) -> &Placement {
        self.placements.iter().find(|p| p.name == name).unwrap_or_else(|| panic!("no placement {name}"))
    }
}
