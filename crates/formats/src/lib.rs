//! Reads and writes every file the world hands us: graphs, placement problems and plans; traces of what programs asked
//! for and histories of what allocators did. Imported by the command.
//!
//! # What it promises
//! A file is recognised by what it holds, never by its name, plain, gzip or zstd. What is read is sound: every
//! reference leads somewhere, sizes and their sum fit into 64 bits, live ranges aren't empty. What is refused is
//! refused with the place (file, line, column, value, name) and the reason, and nothing is half done. What is written
//! reads back as the same value, and the same value always gives the same bytes.
//!
//! Whether a graph makes sense as a program is for `lifetime` to say, whether a plan is valid for `coloring`.
//!
//! # The idea
//! One module a format, each with a reader from text to our types: [`coloring::Problem`], [`lifetime::Graph`],
//! [`coloring::Plan`], [`records::Trace`], [`records::History`]. Around them stand the stream that decompresses and counts (`input`), the recognition
//! (`detect`) and the pieces that JSON readers share (`json`, `ids`, `words`). A new format is a module, a
//! [`Format`] and a line in `detect` and `document`. `docs/formats.md` describes every format.
//!
//! # What it costs
//! A CSV file is read row by row. A JSON file's text is held while it is read, and strings are borrowed from it. Nothing
//! is allocated because a file says how long it is; [`Limits`] bound the rest.
//!
//! Feature `foreign`, on by default, is what other tools write and read: everything but `gpumem-graph`, `gpumem-plan` and
//! `gpumem-trace`. The library for programs is built without.
//!
//! # Example
#![cfg_attr(feature = "foreign", doc = "```")]
#![cfg_attr(not(feature = "foreign"), doc = "```ignore")]
//! use formats::{Content, Limits, read_bytes};
//!
//! let document = read_bytes("two.csv", b"id,lower,upper,size\na,0,2,64\nb,1,3,32\n", &Limits::default())?;
//! assert_eq!(document.format.name(), "dsa-csv");
//! let Content::Problem(problem) = document.content else { unreachable!() };
//! assert_eq!(problem.ids, ["a", "b"]);
//!
//! let error = read_bytes("bad.csv", b"id,lower,upper,size\na,3,2,64\n", &Limits::default()).unwrap_err();
//! assert_eq!(
//!     error.to_string(),
//!     "bad.csv: line 2: column `upper`: upper 2 is not above lower 3, so the live range is empty"
//! );
//! # Ok::<(), formats::Error>(())
//! ```

#![forbid(unsafe_code)]
// What only readers of foreign formats use isn't worth a mark at each place.
#![cfg_attr(not(feature = "foreign"), allow(dead_code))]

mod blocks;
#[cfg(feature = "foreign")]
mod chrome;
#[cfg(feature = "foreign")]
mod corpus_graph;
#[cfg(feature = "foreign")]
mod corpus_hlo;
#[cfg(feature = "foreign")]
mod csv;
mod detect;
mod document;
#[cfg(feature = "foreign")]
mod dsa_csv;
mod error;
mod gaps;
mod gpumem_graph;
mod gpumem_plan;
mod gpumem_trace;
mod graph_checks;
mod ids;
mod input;
mod json;
mod limits;
#[cfg(feature = "foreign")]
mod lives;
mod output;
mod problem;
#[cfg(feature = "foreign")]
mod rmm_log;
#[cfg(feature = "foreign")]
mod sqlite;
#[cfg(feature = "foreign")]
mod torch_snapshot;
#[cfg(feature = "foreign")]
mod trace_csv;
mod words;

pub use blocks::{BlockFault, Place};
#[cfg(feature = "foreign")]
pub use chrome::write_chrome;
pub use document::{Content, Document, Format, read_bytes, read_path, read_stream};
#[cfg(feature = "foreign")]
pub use dsa_csv::write_csv;
pub use error::{CsvError, CsvProblem, Error, Fault, GapFault, InvalidError, JsonError, Result};
pub use gpumem_graph::write_graph;
pub use gpumem_plan::write_plan;
pub use gpumem_trace::write_trace;
pub use input::Compression;
pub use limits::{Limits, MAX_ALIGNMENT, MAX_BYTES, SUM_LIMIT};
pub use output::Output;
pub use problem::NamedProblem;
#[cfg(feature = "foreign")]
pub use sqlite::write_sqlite;
#[cfg(feature = "foreign")]
pub use torch_snapshot::{SnapshotError, SnapshotProblem, write_snapshot};
#[cfg(feature = "foreign")]
pub use trace_csv::write_trace_csv;
