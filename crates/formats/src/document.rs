//! A file read: what it holds, and what it was.

use std::fmt;
use std::fs::File;
use std::io::Read;
use std::path::Path;

use coloring::Plan;
use lifetime::Graph;
use records::{History, Trace};

use crate::detect::{self, Found};
use crate::input::Input;
use crate::{Compression, Error, Limits, NamedProblem, Result};
#[cfg(feature = "foreign")]
use crate::{corpus_graph, corpus_hlo, dsa_csv, rmm_log, torch_snapshot, trace_csv};
use crate::{gpumem_graph, gpumem_plan, gpumem_trace, json};

/// A format that files are read in.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Format {
    /// Buffers with live ranges, as CSV.
    DsaCsv,
    /// A framework's graph from the corpus.
    CorpusGraph,
    /// A compiled, scheduled HLO computation from the corpus.
    CorpusHlo,
    /// Our own graph.
    Graph,
    /// Our own plan.
    Plan,
    /// What a program asked for, as CSV.
    TraceCsv,
    /// A snapshot of PyTorch's CUDA memory, as a pickle.
    TorchSnapshot,
    /// What a program asked for, in our own binary form.
    Trace,
    /// What RMM's logging resource adaptor writes.
    RmmLog,
}

impl Format {
    /// Every format.
    pub const ALL: [Self; 9] = [
        Self::DsaCsv,
        Self::CorpusGraph,
        Self::CorpusHlo,
        Self::Graph,
        Self::Plan,
        Self::TraceCsv,
        Self::TorchSnapshot,
        Self::Trace,
        Self::RmmLog,
    ];

    /// All of them in words, for messages.
    #[cfg(feature = "foreign")]
    pub(crate) const LIST: &'static str = "DSA CSV, trace CSV, gpumem-trace/1, gpumem-graph/1, gpumem-plan/1, \
        gpumem-corpus-graph/1, gpumem-corpus-hlo/1, PyTorch memory snapshots and RMM logs (docs/formats.md)";

    /// The same, where what other tools write is left out.
    #[cfg(not(feature = "foreign"))]
    pub(crate) const LIST: &'static str = "gpumem-trace/1, gpumem-graph/1 and gpumem-plan/1 (docs/formats.md)";

    /// What the `format` field of a JSON file says; for others a word of ours.
    pub fn name(self) -> &'static str {
        match self {
            Self::DsaCsv => "dsa-csv",
            Self::CorpusGraph => "gpumem-corpus-graph/1",
            Self::CorpusHlo => "gpumem-corpus-hlo/1",
            Self::Graph => "gpumem-graph/1",
            Self::Plan => "gpumem-plan/1",
            Self::TraceCsv => "trace-csv",
            Self::TorchSnapshot => "torch-snapshot",
            Self::Trace => "gpumem-trace/1",
            Self::RmmLog => "rmm-log",
        }
    }

    /// Whether it is a JSON object with a `format` field.
    fn is_json(self) -> bool {
        matches!(self, Self::CorpusGraph | Self::CorpusHlo | Self::Graph | Self::Plan)
    }

    /// The JSON format with this name.
    pub(crate) fn from_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|format| format.is_json() && format.name() == name)
    }
}

impl fmt::Display for Format {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// What a file holds.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum Content {
    /// Buffers to be placed.
    Problem(NamedProblem),
    /// A computation graph. References are sound; whether it makes sense as a program is for `lifetime` to say.
    Graph(Graph),
    /// A finished plan. Whether it is valid is for `coloring` to say.
    Plan(Plan),
    /// What a program asked for. Sound: see [`Trace`].
    Trace(Trace),
    /// What an allocator did. Where it contradicts itself, its defects say so.
    History(History),
}

impl Content {
    /// What it is, in words for a message that says what can't be done with it.
    pub fn kind(&self) -> &'static str {
        match self {
            Self::Problem(_) => "a list of buffers with live ranges",
            Self::Graph(_) => "a graph",
            Self::Plan(_) => "a plan",
            Self::Trace(_) => "a trace of requests",
            Self::History(_) => "an allocator's history",
        }
    }
}

/// A file read.
#[derive(Clone, Debug)]
pub struct Document {
    /// What it holds.
    pub content: Content,
    /// The format it was in.
    pub format: Format,
    /// How it was compressed.
    pub compression: Compression,
    /// Bytes of the file.
    pub stored_bytes: u64,
    /// Bytes of its text, after decompression.
    pub text_bytes: u64,
    /// What a person should know of it: columns not looked at, where it was cut.
    pub notes: Vec<String>,
}

/// Reads the file at `path`, in whatever format it is.
///
/// # Errors
/// The file can't be read, isn't recognised, is damaged, is over a limit, or has a mistake in it; the error says
/// where.
pub fn read_path(path: impl AsRef<Path>, limits: &Limits) -> Result<Document> {
    let path = path.as_ref();
    let file = path.display().to_string();
    match File::open(path) {
        Ok(source) => read_from(file, source, limits),
        Err(source) => Err(Error::Io { file, action: "open", source }),
    }
}

/// Reads `bytes`, in whatever format they are. `name` stands for the file in messages.
///
/// # Errors
/// As [`read_path`].
pub fn read_bytes(name: &str, bytes: &[u8], limits: &Limits) -> Result<Document> {
    read_from(name.to_owned(), bytes, limits)
}

/// Reads a stream to its end, in whatever format it is. `name` stands for the file in messages.
///
/// # Errors
/// As [`read_path`].
pub fn read_stream(name: &str, source: impl Read, limits: &Limits) -> Result<Document> {
    read_from(name.to_owned(), source, limits)
}

fn read_from(file: String, source: impl Read, limits: &Limits) -> Result<Document> {
    let mut input = Input::open(file, source, limits)?;
    let mark_bytes = detect::mark_bytes(input.head());
    let mut found = detect::detect(&input.head()[mark_bytes..], input.head_is_all());
    if found == Found::NotYet {
        input.read_all()?;
        found = detect::detect(&input.head()[mark_bytes..], true);
    }
    input.skip(mark_bytes);
    let file = input.file().to_owned();
    let format = match found {
        Found::Ours(format) => format,
        Found::Nothing => return Err(Error::Empty { file }),
        Found::UnknownFormat(found) => {
            return Err(Error::UnknownFormat { file, found: crate::error::tame(&found) });
        }
        Found::NoFormat => return Err(Error::NoFormat { file }),
        Found::Else(found) => return Err(Error::Unrecognised { file, found }),
        Found::Broken | Found::NotYet => {
            input.read_all()?;
            // Parsed for its error, with line and column.
            return Err(json::parse::<serde::de::IgnoredAny>(input.text(), &file)
                .err()
                .unwrap_or(Error::NoFormat { file }));
        }
    };
    let mut notes = Vec::new();
    let content = match format {
        Format::Graph => Content::Graph(gpumem_graph::read(&mut input)?),
        Format::Plan => Content::Plan(gpumem_plan::read(&mut input)?),
        Format::Trace => Content::Trace(gpumem_trace::read(&mut input, limits, &mut notes)?),
        _ => read_foreign(format, &mut input, limits, &mut notes)?,
    };
    Ok(Document {
        content,
        format,
        compression: input.compression(),
        stored_bytes: input.stored_bytes(),
        text_bytes: input.text_bytes(),
        notes,
    })
}

/// Reads what another tool has written.
#[cfg(feature = "foreign")]
fn read_foreign(format: Format, input: &mut Input<'_>, limits: &Limits, notes: &mut Vec<String>) -> Result<Content> {
    Ok(match format {
        Format::DsaCsv => Content::Problem(dsa_csv::read(input, limits)?),
        Format::CorpusGraph => Content::Graph(corpus_graph::read(input)?),
        Format::CorpusHlo => Content::Graph(corpus_hlo::read(input)?),
        Format::RmmLog => Content::Trace(rmm_log::read(input, limits, notes)?),
        Format::TraceCsv => Content::Trace(trace_csv::read(input, limits, notes)?),
        Format::TorchSnapshot => {
            let history = torch_snapshot::read(input, limits)?;
            notes.extend_from_slice(&history.notes);
            Content::History(history)
        }
        Format::Graph | Format::Plan | Format::Trace => {
            return Err(Error::NotBuiltIn { file: input.file().to_owned(), format });
        }
    })
}

#[cfg(not(feature = "foreign"))]
fn read_foreign(format: Format, input: &mut Input<'_>, _: &Limits, _: &mut Vec<String>) -> Result<Content> {
    Err(Error::NotBuiltIn { file: input.file().to_owned(), format })
}

/// The file's name without folders, `.gz`, `.zst` and what says its format: the name of what is in it, if it says
/// nothing better itself.
pub(crate) fn stem(file: &str) -> String {
    let mut name = file.rsplit(['/', '\\']).next().unwrap_or(file);
    let suffixes = [".gz", ".zst", ".csv", ".json", ".graph", ".plan", ".gmtrace", ".trace", ".pickle", ".pkl"];
    for suffix in suffixes {
        name = name.strip_suffix(suffix).filter(|rest| !rest.is_empty()).unwrap_or(name);
    }
    name.to_owned()
}
