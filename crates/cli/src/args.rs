//! What can be asked on the command line.

use std::num::NonZeroU64;
use std::path::PathBuf;

use clap::{Parser, Subcommand};
use lifetime::{Order, Tier};
use memviz::{ColorBy, Theme};

use crate::diff::At;
use crate::memviz::{StepRange, View};
use crate::quantity::{Seconds, Size};
use crate::replay::ReplayArgs;

/// Makes deep-learning models fit in less GPU memory.
#[derive(Debug, Parser)]
#[command(name = "gpumem", version, max_term_width = 100)]
pub(crate) struct Args {
    #[command(subcommand)]
    pub(crate) command: Command,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    Plan(Box<PlanArgs>),
    Verify(VerifyArgs),
    Convert(ConvertArgs),
    Replay(Box<ReplayArgs>),
    Summary(SummaryArgs),
    ExplainOom(ExplainOomArgs),
    Diff(DiffArgs),
    Memviz(MemvizArgs),
}

/// Plan where each buffer of a graph lies, and show how good the plan is
///
/// FILE is a computation graph, a list of buffers with live ranges (CSV), or an earlier plan; the format is recognised by
/// content, plain, gzip or zstd (docs/formats.md). Exit code 1 means that no plan within --capacity was found.
#[derive(Debug, clap::Args)]
pub(crate) struct PlanArgs {
    /// The graph, CSV or plan to read
    pub(crate) file: PathBuf,
    /// Bytes the plan may take (4096, 16M, 1.5G, 80G; binary units)
    #[arg(long, value_name = "SIZE")]
    pub(crate) capacity: Option<Size>,
    /// Multiple that every offset is rounded to [default: 256 for graphs, the file's own for CSV]
    #[arg(long, value_name = "SIZE", value_parser = parse_alignment)]
    pub(crate) alignment: Option<u64>,
    /// Order of the ops: as given, or one chosen to lower the peak (never worse)
    #[arg(long, value_name = "given|memory", default_value = "given", value_parser = parse_order)]
    pub(crate) order: Order,
    /// Work to spend on improving the plan, in nodes of the exact search; equal limits give equal plans
    #[arg(long, value_name = "N", default_value_t = 4_000_000)]
    pub(crate) node_limit: u64,
    /// Stop after this many seconds as well; the plan then depends on the machine
    #[arg(long, value_name = "SECONDS")]
    pub(crate) time_limit: Option<Seconds>,
    /// Threads to use; 0 takes one per core
    #[arg(long, value_name = "N", default_value_t = 0, value_parser = clap::value_parser!(u16).range(..=1024))]
    pub(crate) threads: u16,
    /// Seed of whatever is random
    #[arg(long, value_name = "N", default_value_t = 0)]
    pub(crate) seed: u64,
    /// Tiers to plan, a list of persistent, cyclic, temporary [default: all]
    #[arg(long, value_name = "LIST", value_delimiter = ',', value_parser = parse_tier)]
    pub(crate) tiers: Vec<Tier>,
    /// Plan anew what the file pins by its `offset` column
    #[arg(long)]
    pub(crate) ignore_offsets: bool,
    /// Write all figures and placements as JSON; `-` is standard output, which then holds nothing else
    #[arg(long, value_name = "PATH")]
    pub(crate) json: Option<PathBuf>,
    /// Write the plan, to be checked by `gpumem verify` and loaded later (.gz and .zst compress)
    #[arg(long, value_name = "PATH")]
    pub(crate) plan_out: Option<PathBuf>,
    /// Draw the plan as a page: one file, no network
    #[arg(long, value_name = "PATH")]
    pub(crate) html: Option<PathBuf>,
    /// Draw the plan as a PNG
    #[arg(long, value_name = "PATH")]
    pub(crate) png: Option<PathBuf>,
    /// Draw the plan as an SVG
    #[arg(long, value_name = "PATH")]
    pub(crate) svg: Option<PathBuf>,
    /// Write the conflict graph, up to 2 000 000 conflicts; the ending says how
    #[arg(long, value_name = "PATH.csv|.dot", value_parser = parse_conflicts)]
    pub(crate) conflicts: Option<PathBuf>,
    /// Explain a tensor: its tier and why, its live range and what bounds it, its conflicts, its place. May be repeated
    #[arg(long, value_name = "TENSOR")]
    pub(crate) explain: Vec<String>,
    /// Don't compare with other planners' rules
    #[arg(long)]
    pub(crate) no_baselines: bool,
    /// Print nothing but errors and what was asked for
    #[arg(long, short)]
    pub(crate) quiet: bool,
}

/// Check a saved plan without trusting whoever made it
///
/// PLAN is a plan, or a CSV file with an offset in every row. With FILE, its buffers are also derived anew from that graph
/// or CSV and compared. Exit code 1 means that the plan is wrong.
#[derive(Debug, clap::Args)]
pub(crate) struct VerifyArgs {
    /// The plan
    pub(crate) plan: PathBuf,
    /// What it was made from
    pub(crate) file: Option<PathBuf>,
    /// Don't ask the plan to obey FILE's `offset` column
    #[arg(long, requires = "file")]
    pub(crate) ignore_offsets: bool,
    /// Print nothing but errors
    #[arg(long, short)]
    pub(crate) quiet: bool,
}

/// Convert between formats, as far as one can carry what the other says
///
/// Graphs become gpumem-graph/1 (OUT ends in .json) or a CSV of buffers with live ranges (.csv); CSV files with an offset
/// in every row become plans, and plans become CSV files. Traces, logs of RMM and snapshots become traces: as a CSV, or
/// binary (.gmtrace). Snapshots become snapshots (.pickle) in today's form. A further .gz or .zst compresses.
#[derive(Debug, clap::Args)]
pub(crate) struct ConvertArgs {
    /// The file to read
    pub(crate) input: PathBuf,
    /// The file to write
    pub(crate) output: PathBuf,
    /// For a graph that becomes a CSV: tiers to keep [default: all]
    #[arg(long, value_name = "LIST", value_delimiter = ',', value_parser = parse_tier)]
    pub(crate) tiers: Vec<Tier>,
}

/// Sum up a recorded run on one screen: peaks, who held them, fragmentation, holes, steps, failures
///
/// FILE is a PyTorch memory snapshot or a trace of requests (docs/formats.md). A trace has no addresses; it is replayed on
/// a model of PyTorch's caching allocator, and the report says so.
#[derive(Debug, clap::Args)]
pub(crate) struct SummaryArgs {
    /// The snapshot or trace
    pub(crate) file: PathBuf,
    /// Device to look at [default: the one on which a request failed last, else the one with most events]
    #[arg(long, value_name = "N")]
    pub(crate) device: Option<u32>,
    /// Write the figures as JSON; `-` is standard output, which then holds nothing else
    #[arg(long, value_name = "PATH")]
    pub(crate) json: Option<PathBuf>,
}

/// Explain why a run ran out of memory, or how close it came, and what would have helped
///
/// FILE is a PyTorch memory snapshot or a trace of requests. The last request that failed is looked at; if none did, the
/// tightest one. The requests up to it are then replayed under other policies and settings, to see which would have passed.
#[derive(Debug, clap::Args)]
pub(crate) struct ExplainOomArgs {
    /// The snapshot or trace
    pub(crate) file: PathBuf,
    /// Bytes of the device (80G; binary units), where the file doesn't say or something else is wanted
    #[arg(long, value_name = "SIZE")]
    pub(crate) capacity: Option<Size>,
    /// Device to look at [default: the one on which a request failed last, else the one with most events]
    #[arg(long, value_name = "N")]
    pub(crate) device: Option<u32>,
    /// Don't replay the requests under other policies and settings
    #[arg(long)]
    pub(crate) no_replay: bool,
    /// Write the figures as JSON; `-` is standard output, which then holds nothing else
    #[arg(long, value_name = "PATH")]
    pub(crate) json: Option<PathBuf>,
}

/// Compare two recorded runs: what grew, by stack and by tag
///
/// A and B are PyTorch memory snapshots or traces of requests. Stacks are matched by function, file and line; where only
/// lines moved, by function and file.
#[derive(Debug, clap::Args)]
pub(crate) struct DiffArgs {
    /// The earlier run, or the one that is well
    #[arg(value_name = "A")]
    pub(crate) before: PathBuf,
    /// The later run, or the one that isn't
    #[arg(value_name = "B")]
    pub(crate) after: PathBuf,
    /// Moment to compare: when most bytes were live, or after the last event
    #[arg(long, value_name = "peak|end", default_value = "peak")]
    pub(crate) at: At,
    /// Device to look at [default: the one with most events]
    #[arg(long, value_name = "N")]
    pub(crate) device: Option<u32>,
    /// Write the figures as JSON; `-` is standard output, which then holds nothing else
    #[arg(long, value_name = "PATH")]
    pub(crate) json: Option<PathBuf>,
}

/// Draw a recorded run: bytes over time, every block at its address, the state at any moment
///
/// FILE is a PyTorch memory snapshot or a trace of requests; a trace is replayed on a model of PyTorch's caching allocator
/// first. --from, --to and --steps choose what is drawn; all other events only make the state at the beginning.
#[derive(Debug, clap::Args)]
pub(crate) struct MemvizArgs {
    /// The snapshot or trace
    pub(crate) file: PathBuf,
    /// The file to write; the ending says what it is: a page (.html), events for Perfetto (.json), tables (.sqlite, .db)
    #[arg(long, short, value_name = "PATH")]
    pub(crate) output: Option<PathBuf>,
    /// What --output is, where the ending doesn't say
    #[arg(long, value_name = "html|chrome|sqlite", requires = "output")]
    pub(crate) format: Option<View>,
    /// Draw a still picture as a PNG
    #[arg(long, value_name = "PATH")]
    pub(crate) png: Option<PathBuf>,
    /// Draw a still picture as an SVG
    #[arg(long, value_name = "PATH")]
    pub(crate) svg: Option<PathBuf>,
    /// Number of the first event drawn
    #[arg(long, value_name = "EVENT")]
    pub(crate) from: Option<u64>,
    /// Number after the last event drawn
    #[arg(long, value_name = "EVENT")]
    pub(crate) to: Option<u64>,
    /// First and last step drawn, as `gpumem summary` numbers them
    #[arg(long, value_name = "A..B")]
    pub(crate) steps: Option<StepRange>,
    /// Device to draw [default: all; with --steps the one with most events]
    #[arg(long, value_name = "N")]
    pub(crate) device: Option<u32>,
    /// Bytes of the device that a trace is replayed on; where memory runs out, the picture ends
    #[arg(long, value_name = "SIZE")]
    pub(crate) capacity: Option<Size>,
    /// Colours of the picture
    #[arg(long, value_name = "auto|light|dark", default_value = "auto", value_parser = parse_theme)]
    pub(crate) theme: Theme,
    /// What colours tell apart at first
    #[arg(long, value_name = "life|stream|tag|stack|size", default_value = "life", value_parser = parse_color_by)]
    pub(crate) color_by: ColorBy,
}

fn parse_theme(text: &str) -> Result<Theme, String> {
    Theme::from_name(text).ok_or_else(|| "a theme is `auto`, `light` or `dark`".to_owned())
}

fn parse_color_by(text: &str) -> Result<ColorBy, String> {
    let known = || ColorBy::ALL.map(ColorBy::name).join("`, `");
    ColorBy::from_name(text).ok_or_else(|| format!("it is one of `{}`", known()))
}

fn parse_alignment(text: &str) -> Result<u64, String> {
    let Size(bytes) = text.parse()?;
    match NonZeroU64::new(bytes) {
        Some(bytes) if bytes.get() <= formats::MAX_ALIGNMENT => Ok(bytes.get()),
        _ => Err("an alignment is at least 1 byte and at most 2^62".to_owned()),
    }
}

fn parse_order(text: &str) -> Result<Order, String> {
    Order::from_name(text).ok_or_else(|| "an order is `given` or `memory`".to_owned())
}

fn parse_tier(text: &str) -> Result<Tier, String> {
    Tier::from_name(text).ok_or_else(|| "a tier is `persistent`, `cyclic` or `temporary`".to_owned())
}

fn parse_conflicts(text: &str) -> Result<PathBuf, String> {
    let path = PathBuf::from(text);
    match path.extension().and_then(|ending| ending.to_str()) {
        Some("csv" | "dot") => Ok(path),
        _ => Err("the name must end in .csv or .dot".to_owned()),
    }
}
