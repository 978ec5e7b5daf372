//! What is replayed, and on what.

use std::fmt;

use device::CostModel;
use pools::{Backing, HandOver};

/// How requests are served.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Policy {
    /// One arena, lowest hole that is large enough.
    FirstFit,
    /// One arena, smallest hole that is large enough.
    BestFit,
    /// A model of PyTorch's caching allocator.
    Caching,
    /// The same with expandable segments.
    CachingExpandable,
    /// Our own allocator, itself.
    Gpumem,
}

impl Policy {
    /// Every policy.
    pub const ALL: [Self; 5] = [Self::Gpumem, Self::FirstFit, Self::BestFit, Self::Caching, Self::CachingExpandable];

    /// Its name on the command line.
    pub fn name(self) -> &'static str {
        match self {
            Self::FirstFit => "first-fit",
            Self::BestFit => "best-fit",
            Self::Caching => "caching",
            Self::CachingExpandable => "caching-expandable",
            Self::Gpumem => "gpumem",
        }
    }

    /// The policy with this [`name`](Self::name).
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|policy| policy.name() == name)
    }

    /// What it is, for people. Models are called models.
    pub fn in_words(self) -> &'static str {
        match self {
            Self::FirstFit => "first fit in one arena",
            Self::BestFit => "best fit in one arena",
            Self::Caching => "model of PyTorch's caching allocator",
            Self::CachingExpandable => "model of PyTorch's caching allocator with expandable segments",
            Self::Gpumem => "gpumem's own allocator",
        }
    }

    /// Whether it models somebody else's allocator.
    pub fn is_model(self) -> bool {
        matches!(self, Self::Caching | Self::CachingExpandable)
    }
}

impl fmt::Display for Policy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// Settings of the model of PyTorch's caching allocator, as `PYTORCH_CUDA_ALLOC_CONF` has them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct CachingSettings {
    /// `expandable_segments`.
    pub is_expandable: bool,
    /// `max_split_size_mb`, in bytes: blocks of at least this size are never split. Above 20 MiB, as the real one asks.
    pub max_split_bytes: Option<u64>,
    /// `roundup_power2_divisions`: sizes between two powers of two; 0 and 1 turn it off. A power of two.
    pub roundup_power2_divisions: u32,
}

/// What our allocator is told of work on streams.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Reading {
    /// Waits, synchronizations and recorded uses only: a use may last until the free, and so may work of the home stream.
    #[default]
    Blind,
    /// Each piece of work as well, as a shim in front of the driver sees it: the rows are all the work there is, and a stream
    /// on which nothing was queued since a wait for it is over with the block.
    Seen,
}

impl Reading {
    /// Both.
    pub const ALL: [Self; 2] = [Self::Blind, Self::Seen];

    /// Its name on the command line.
    pub fn name(self) -> &'static str {
        match self {
            Self::Blind => "blind",
            Self::Seen => "seen",
        }
    }
}

/// What a choice is called on the command line and in reports.
pub fn hand_over_name(hand_over: HandOver) -> &'static str {
    match hand_over {
        HandOver::Recorded => "recorded",
        HandOver::All => "all",
        HandOver::Off => "off",
    }
}

/// What a choice is called on the command line and in reports.
pub fn backing_name(backing: Backing) -> &'static str {
    match backing {
        Backing::Auto => "auto",
        Backing::Segments => "segments",
        Backing::Range => "range",
    }
}

/// Settings of our allocator. What isn't here is as by default.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct GpumemSettings {
    /// What it is told of work.
    pub reading: Reading,
    /// Which blocks may pass between streams.
    pub hand_over: HandOver,
    /// Where memory comes from.
    pub backing: Backing,
    /// Never more than this is held from the device.
    pub hard_bytes: Option<u64>,
    /// Above this, idle memory is given back before more is taken.
    pub soft_bytes: Option<u64>,
}

/// How a trace is replayed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Settings {
    /// How requests are served.
    pub policy: Policy,
    /// Further settings of the two caching policies. `is_expandable` is set by the policy.
    pub caching: CachingSettings,
    /// Further settings of our allocator.
    pub gpumem: GpumemSettings,
    /// Bytes of the device; `None` for more than any trace needs.
    pub capacity_bytes: Option<u64>,
    /// How often the trace is run; what it leaves live is freed in between. At least 1.
    pub passes: u32,
    /// For traces without sync rows: work is finished when this many further steps have ended. 0 finishes it with its own.
    pub lag_steps: u32,
    /// Whether the history is kept: segments, blocks and addresses of the last pass that was run.
    pub keeps_history: bool,
    /// Whether holes are looked at after each row.
    pub measures_fragmentation: bool,
    /// Whether times are modelled: [`Figures::makespan_ns`](crate::Figures::makespan_ns).
    pub models_time: bool,
    /// What driver calls cost.
    pub costs: CostModel,
    /// Whether the simulated device checks each use of memory against the order of streams.
    pub checks_order: bool,
    /// Whether a policy that can verifies all its invariants at each step's end and after each pass. Slow.
    pub checks_policy: bool,
}

impl Settings {
    /// One pass under this policy, without limit, everything measured, no history kept.
    pub fn new(policy: Policy) -> Self {
        Self {
            policy,
            caching: CachingSettings::default(),
            gpumem: GpumemSettings::default(),
            capacity_bytes: None,
            passes: 1,
            lag_steps: 1,
            keeps_history: false,
            measures_fragmentation: true,
            models_time: true,
            costs: CostModel::default(),
            checks_order: true,
            checks_policy: false,
        }
    }
}
