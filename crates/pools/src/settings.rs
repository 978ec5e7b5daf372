//! What can be set about an allocator.

use crate::{Error, Result};

/// Which blocks may pass from one stream to another without a recorded use (rule 7 of `docs/order.md`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum HandOver {
    /// A block leaves its home stream once the taker is ordered behind a request that the home stream made after the
    /// free. Safe for programs that use a block on another stream without a record and make the home stream wait for
    /// it before its next request.
    #[default]
    Recorded,
    /// A block leaves its home stream once the taker is ordered behind its free. For programs that record every use.
    All,
    /// Blocks stay with their home stream.
    Off,
}

/// Where memory comes from.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Backing {
    /// Virtual memory where the device has it, else segments.
    #[default]
    Auto,
    /// Separate reservations of plain memory.
    Segments,
    /// One range of addresses for each end of the arena, which grows where it is.
    Range,
}

/// Bounds on what is held from the device, in bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Budget {
    /// Never more than this is held from the device.
    pub hard_bytes: Option<u64>,
    /// Above this, idle memory is given back before more is taken.
    pub soft_bytes: Option<u64>,
}

/// A pool for one operator.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OpPool {
    /// The operator's name, as tags have it.
    pub op: String,
    /// Bytes that are set apart for it when it first asks. What doesn't fit comes from the common pool.
    pub bytes: u64,
}

/// See each field. `Settings::default()` suits training on one device.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Settings {
    /// Bounds on what is held from the device.
    pub budget: Budget,
    /// Bytes taken from the device at the start.
    pub initial_bytes: u64,
    /// Memory is taken in multiples of this many bytes; a power of two of at least 64 KiB.
    pub segment_bytes: u64,
    /// How much of the device may be held without being used, in percent of all it has.
    pub cached_limit_percent: u32,
    /// Fragmentation in percent from which a step's end tidies up, if a request failed or memory was taken since.
    pub defragment_percent: u32,
    /// Free bytes below which fragmentation doesn't matter.
    pub defragment_floor_bytes: u64,
    /// Whether freed blocks of up to 1 MiB stay with the thread that freed them.
    pub magazines: bool,
    /// Idle bytes in all magazines together, as a part of what is held: one in this many.
    pub magazine_share: u64,
    /// Whether red zones follow blocks and freed bytes are poisoned. Slow; needs a device that keeps bytes.
    pub guard: bool,
    /// Which blocks may pass between streams.
    pub hand_over: HandOver,
    /// Whether the caller says of all work that it was queued (`work_queued`), so that a use counts as of the last record.
    pub sees_all_work: bool,
    /// Pools for hot operators.
    pub op_pools: Vec<OpPool>,
    /// Whether each precision has free blocks of its own.
    pub separate_precisions: bool,
    /// Where memory comes from.
    pub backing: Backing,
    /// Whether a request that would fail may make its stream wait for others.
    pub stream_waits: bool,
    /// Whether a request that would fail may make the host wait, after the callback had its chance.
    pub host_waits: bool,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            budget: Budget::default(),
            initial_bytes: 0,
            segment_bytes: 2 << 20,
            cached_limit_percent: 80,
            defragment_percent: 30,
            defragment_floor_bytes: 256 << 20,
            magazines: true,
            magazine_share: 512,
            guard: false,
            hand_over: HandOver::default(),
            sees_all_work: false,
            op_pools: Vec::new(),
            separate_precisions: false,
            backing: Backing::default(),
            stream_waits: true,
            host_waits: true,
        }
    }
}

impl Budget {
    pub(crate) fn check(&self) -> Result<()> {
        match (self.soft_bytes, self.hard_bytes) {
            (Some(soft), Some(hard)) if soft > hard => Err(Error::BadSetting {
                name: "budget.soft_bytes",
                value: soft,
                problem: "it is above the hard budget",
            }),
            _ => Ok(()),
        }
    }
}

impl Settings {
    pub(crate) fn check(&self) -> Result<()> {
        let bad = |name, value, problem| Err(Error::BadSetting { name, value, problem });
        self.budget.check()?;
        if !self.segment_bytes.is_power_of_two() || !(64 << 10..=1 << 40).contains(&self.segment_bytes) {
            return bad("segment_bytes", self.segment_bytes, "it has to be a power of two from 64 KiB to 1 TiB");
        }
        for (name, percent) in
            [("cached_limit_percent", self.cached_limit_percent), ("defragment_percent", self.defragment_percent)]
        {
            if percent > 100 {
                return bad(name, u64::from(percent), "it has to be a percentage from 0 to 100");
            }
        }
        if self.magazine_share == 0 {
            return bad("magazine_share", 0, "it has to be at least 1");
        }
        if self.op_pools.len() > 1000 {
            return bad("op_pools", self.op_pools.len() as u64, "there can be 1000 of them");
        }
        Ok(())
    }
}
