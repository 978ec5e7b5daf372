//! What is replayed, and on what.

use std::fmt;

use device::CostModel;

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
}

impl Policy {
    /// Every policy.
    pub const ALL: [Self; 4] = [Self::FirstFit, Self::BestFit, Self::Caching, Self::CachingExpandable];

    /// Its name on the command line.
    pub fn name(self) -> &'static str {
        match self {
            Self::FirstFit => "first-fit",
            Self::BestFit => "best-fit",
            Self::Caching => "caching",
            Self::CachingExpandable => "caching-expandable",
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

/// How a trace is replayed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Settings {
    /// How requests are served.
    pub policy: Policy,
    /// Further settings of the two caching policies. `is_expandable` is set by the policy.
    pub caching: CachingSettings,
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
}

impl Settings {
    /// One pass under this policy, without limit, everything measured, no history kept.
    pub fn new(policy: Policy) -> Self {
        Self {
            policy,
            caching: CachingSettings::default(),
            capacity_bytes: None,
            passes: 1,
            lag_steps: 1,
            keeps_history: false,
            measures_fragmentation: true,
            models_time: true,
            costs: CostModel::default(),
            checks_order: true,
        }
    }
}
