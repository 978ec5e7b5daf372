//! What can be asked of `gpumem replay`.

use std::path::PathBuf;
use std::str::FromStr;

use device::{CostModel, DriverCall, Price};
use replay::{Backing, HandOver, Policy, Reading, backing_name, hand_over_name};

use crate::quantity::Size;

/// Run a trace again on another allocator, without a GPU
///
/// TRACE is what a program asked for, as CSV, binary trace or allocator log, or a PyTorch memory snapshot
/// (docs/formats.md). Streams finish where sync rows say so. Policies named after other allocators are models of them;
/// `gpumem` is this project's allocator itself. Exit code 1 means that a request could not be served.
#[derive(Debug, clap::Args)]
pub(crate) struct ReplayArgs {
    /// The trace or snapshot to read
    pub(crate) trace: PathBuf,
    /// How requests are served: gpumem, first-fit, best-fit, caching, caching-expandable
    #[arg(long, value_name = "POLICY", default_value = "caching", value_parser = parse_policy)]
    pub(crate) policy: Policy,
    /// For the caching policies: blocks of at least this size are never split (over 20M)
    #[arg(long, value_name = "SIZE")]
    pub(crate) max_split_size: Option<Size>,
    /// For the caching policies: sizes between two powers of two (a power of two; 0 turns it off)
    #[arg(long, value_name = "N", default_value_t = 0)]
    pub(crate) roundup_power2_divisions: u32,
    /// For policy gpumem: where memory comes from: auto (virtual memory), range, segments
    #[arg(long, value_name = "BACKING", default_value = "auto", value_parser = parse_backing)]
    pub(crate) backing: Backing,
    /// For policy gpumem: which blocks pass between streams without a recorded use: recorded, all, off
    #[arg(long, value_name = "WHICH", default_value = "recorded", value_parser = parse_hand_over)]
    pub(crate) hand_over: HandOver,
    /// For policy gpumem: what it is told of work on streams: blind (waits and uses), seen (each piece of work)
    #[arg(long, value_name = "HOW", default_value = "blind", value_parser = parse_reading)]
    pub(crate) reading: Reading,
    /// For policy gpumem: never more than this is held from the device
    #[arg(long, value_name = "SIZE")]
    pub(crate) hard_budget: Option<Size>,
    /// For policy gpumem: above this, idle memory is given back before more is taken
    #[arg(long, value_name = "SIZE")]
    pub(crate) soft_budget: Option<Size>,
    /// Bytes of the device (16G), or a multiple of peak live (1.05x) [default: no limit]
    #[arg(long, value_name = "SIZE|RATIOx")]
    pub(crate) capacity: Option<Capacity>,
    /// Search for the smallest device on which every request is served, to 0.2 %
    #[arg(long)]
    pub(crate) min_capacity: bool,
    /// Run the trace this often in a row; what it leaves live is freed in between
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=10_000))]
    pub(crate) passes: u32,
    /// For traces without sync rows: steps by which the device lags behind the host
    #[arg(long, value_name = "STEPS", default_value_t = 1)]
    pub(crate) lag: u32,
    /// Leave out the `use` rows of these streams (5,16-31)
    #[arg(long, value_name = "STREAMS", value_delimiter = ',', value_parser = parse_streams)]
    pub(crate) drop_use: Vec<Streams>,
    /// Price of a kind of driver call in ns: for the call, for each handle in it, for each MiB in it (map=0,5000,200);
    /// what is left out costs nothing. The kinds are those of `driver_calls` in the JSON
    #[arg(long = "price", value_name = "KIND=NS[,NS[,NS]]", value_parser = parse_price)]
    pub(crate) prices: Vec<(DriverCall, Price)>,
    /// Run it on real memory of the host instead, on policy gpumem, and check the contents of every block: at both ends and
    /// every 64 KiB
    #[arg(long, conflicts_with_all = ["min_capacity", "passes", "lag", "prices", "log", "html", "snapshot", "json", "reading"])]
    pub(crate) contents: bool,
    /// For --contents: divide all sizes by this, so that a large device's trace fits into the host's memory
    #[arg(long, value_name = "N", default_value_t = 1, requires = "contents",
        value_parser = clap::value_parser!(u64).range(1..=1 << 30))]
    pub(crate) scale: u64,
    /// Which device of the trace, if it is about several
    #[arg(long, value_name = "N")]
    pub(crate) device: Option<u32>,
    /// Write each placement and each change of memory as CSV (.gz and .zst compress)
    #[arg(long, value_name = "PATH")]
    pub(crate) log: Option<PathBuf>,
    /// Draw what the policy did as a page: one file, no network; of the last pass
    #[arg(long, value_name = "PATH")]
    pub(crate) html: Option<PathBuf>,
    /// Write what the policy did as a PyTorch memory snapshot, which other viewers open; of the last pass
    #[arg(long, value_name = "PATH")]
    pub(crate) snapshot: Option<PathBuf>,
    /// Write all figures as JSON; `-` is standard output, which then holds nothing else
    #[arg(long, value_name = "PATH")]
    pub(crate) json: Option<PathBuf>,
    /// Print nothing but errors
    #[arg(long, short)]
    pub(crate) quiet: bool,
}

/// How much memory the device has.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Capacity {
    /// So many bytes.
    Bytes(u64),
    /// So many times peak live.
    OfPeakLive(f64),
}

impl Capacity {
    /// In bytes, for a trace with this peak.
    pub(crate) fn bytes(self, peak_live_bytes: u64) -> u64 {
        match self {
            Self::Bytes(bytes) => bytes,
            Self::OfPeakLive(ratio) => (peak_live_bytes as f64 * ratio).ceil() as u64,
        }
    }
}

impl FromStr for Capacity {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let Some(ratio) = text.strip_suffix(['x', 'X']) else {
            return text.parse().map(|Size(bytes)| Self::Bytes(bytes));
        };
        match ratio.parse::<f64>() {
            Ok(ratio) if ratio > 0.0 && ratio <= 1e6 => Ok(Self::OfPeakLive(ratio)),
            _ => Err(format!("`{ratio}` is not a multiple of peak live: a number above 0, up to a million")),
        }
    }
}

/// A range of streams.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Streams {
    first: i64,
    last: i64,
}

impl Streams {
    pub(crate) fn contains(self, stream: i64) -> bool {
        (self.first..=self.last).contains(&stream)
    }
}

fn parse_streams(text: &str) -> Result<Streams, String> {
    let number = |part: &str| {
        part.trim().parse::<i64>().ok().filter(|stream| *stream >= 0).ok_or_else(|| format!("`{part}` is no stream"))
    };
    let (first, last) = match text.split_once('-') {
        Some((first, last)) => (number(first)?, number(last)?),
        None => (number(text)?, number(text)?),
    };
    if first > last {
        return Err(format!("`{text}` has no stream in it"));
    }
    Ok(Streams { first, last })
}

/// A price keeps whether the call waits for the device, which is a matter of its kind.
fn parse_price(text: &str) -> Result<(DriverCall, Price), String> {
    let (kind, prices) = text.split_once('=').ok_or("a price is KIND=NS, KIND=NS,NS or KIND=NS,NS,NS")?;
    let call = DriverCall::from_name(kind).ok_or_else(|| {
        let names: Vec<&str> = DriverCall::ALL.iter().map(|call| call.name()).collect();
        format!("`{kind}` is no kind of driver call: {}", names.join(", "))
    })?;
    let numbers: Result<Vec<u64>, _> = prices.split(',').map(str::parse).collect();
    let numbers = numbers.map_err(|_| format!("`{prices}` is not a price: whole numbers of ns, joined by commas"))?;
    if numbers.len() > 3 {
        return Err(format!("`{prices}` has more than three prices: for the call, a handle, a MiB"));
    }
    let at = |index: usize| numbers.get(index).copied().unwrap_or(0);
    let stalls_device = CostModel::default().price(call).stalls_device;
    Ok((call, Price { base_ns: at(0), per_handle_ns: at(1), per_mib_ns: at(2), stalls_device }))
}

fn parse_policy(text: &str) -> Result<Policy, String> {
    parse_choice(text, "a policy", &Policy::ALL, Policy::name)
}

/// The choice with this name; an error names all of them.
fn parse_choice<T: Copy>(text: &str, what: &str, all: &[T], name: impl Fn(T) -> &'static str) -> Result<T, String> {
    all.iter().copied().find(|choice| name(*choice) == text).ok_or_else(|| {
        let names: Vec<&str> = all.iter().map(|choice| name(*choice)).collect();
        format!("{what} is one of {}", names.join(", "))
    })
}

fn parse_backing(text: &str) -> Result<Backing, String> {
    parse_choice(text, "a backing", &[Backing::Auto, Backing::Range, Backing::Segments], backing_name)
}

fn parse_hand_over(text: &str) -> Result<HandOver, String> {
    parse_choice(text, "what passes", &[HandOver::Recorded, HandOver::All, HandOver::Off], hand_over_name)
}

fn parse_reading(text: &str) -> Result<Reading, String> {
    parse_choice(text, "a reading", &Reading::ALL, Reading::name)
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    #[test]
    fn capacities_are_sizes_or_multiples_of_peak_live() {
        assert_eq!("16G".parse(), Ok(Capacity::Bytes(16 << 30)));
        assert_eq!("1.05x".parse::<Capacity>().unwrap().bytes(1000), 1050);
        for bad in ["x", "0x", "-1x", "nanx", "1e9x", "", "big"] {
            assert!(bad.parse::<Capacity>().is_err(), "{bad}");
        }
    }

    #[test]
    fn prices_are_of_known_calls() {
        let (call, price) = parse_price("unmap=1,20,300").unwrap();
        assert_eq!(call, DriverCall::Unmap);
        assert_eq!(price, Price { base_ns: 1, per_handle_ns: 20, per_mib_ns: 300, stalls_device: true });
        assert_eq!(parse_price("alloc=7").unwrap().1, Price::per_call(7));
        for bad in ["alloc", "alloc=", "malloc=1", "alloc=1,2,3,4", "alloc=-1", "alloc=1.5"] {
            assert!(parse_price(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn choices_go_by_name_and_a_wrong_one_hears_all_names() {
        assert_eq!(parse_policy("gpumem"), Ok(Policy::Gpumem));
        assert_eq!(parse_hand_over("off"), Ok(HandOver::Off));
        assert_eq!(parse_backing("segments"), Ok(Backing::Segments));
        assert_eq!(parse_reading("seen"), Ok(Reading::Seen));
        assert_eq!(parse_reading("some"), Err("a reading is one of blind, seen".to_owned()));
    }

    #[test]
    fn streams_are_numbers_and_ranges() {
        assert!(parse_streams("16-31").unwrap().contains(31));
        assert!(!parse_streams("5").unwrap().contains(6));
        for bad in ["", "-1", "3-1", "a", "1-b"] {
            assert!(parse_streams(bad).is_err(), "{bad}");
        }
    }
}
