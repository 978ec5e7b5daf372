//! What can go wrong, with the facts.

use std::fmt;

use device::{DevicePtr, StreamId};

use crate::{Tag, Tier};

/// A result of this crate.
pub type Result<T> = std::result::Result<T, Error>;

/// What went wrong.
///
/// Errors of requests and frees are made without host memory, so that running out doesn't make it worse.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// No memory for a request.
    #[error("{0}")]
    OutOfMemory(Shortage),
    /// More than any device has.
    #[error("a request for {bytes} bytes: no device has that many; the most is {most}")]
    TooLarge {
        /// Bytes asked for.
        bytes: u64,
        /// The most that can be asked for.
        most: u64,
    },
    /// An alignment that isn't a power of two, or is beyond all use.
    #[error("alignment of {align} bytes: it has to be a power of two of at most {most}, or 0 for the usual 512")]
    BadAlignment {
        /// Bytes asked for.
        align: u64,
        /// The most that can be asked for.
        most: u64,
    },
    /// An address that this allocator didn't hand out.
    #[error("{attempt} {ptr}: no block of this allocator begins there")]
    ForeignPointer {
        /// What was attempted, in a word.
        attempt: &'static str,
        /// The address.
        ptr: DevicePtr,
    },
    /// An address inside a block.
    #[error("{attempt} {ptr}: it lies {into} bytes into the block at {block}; give the address that alloc returned")]
    InteriorPointer {
        /// What was attempted, in a word.
        attempt: &'static str,
        /// The address.
        ptr: DevicePtr,
        /// Where the block begins.
        block: DevicePtr,
        /// How far into the block the address lies, in bytes.
        into: u64,
    },
    /// A block that was freed already.
    #[error("{attempt} {ptr}: the block there was freed already")]
    DoubleFree {
        /// What was attempted, in a word.
        attempt: &'static str,
        /// The address.
        ptr: DevicePtr,
    },
    /// A block with more references than are counted.
    #[error("retain {ptr}: it has {references} references, the most there can be")]
    TooManyReferences {
        /// The block.
        ptr: DevicePtr,
        /// How many it has.
        references: u32,
    },
    /// A stream that isn't recorded as a user of a block.
    #[error("end of use of {ptr} by {stream}: no such use was recorded")]
    NoSuchUse {
        /// The block.
        ptr: DevicePtr,
        /// The stream.
        stream: StreamId,
    },
    /// Somebody wrote outside a block, or into a freed one.
    #[error("{0}")]
    Guard(Box<crate::GuardReport>),
    /// The device refused something.
    #[error(transparent)]
    Device(#[from] device::Error),
    /// This process is a fork of the one that made the allocator. Device state doesn't survive a fork.
    #[error("this process is a fork of the one that made the allocator; make a new one, or start processes by spawn")]
    Forked,
    /// A setting that can't be.
    #[error("setting {name} = {value}: {problem}")]
    BadSetting {
        /// Which.
        name: &'static str,
        /// What it was set to.
        value: u64,
        /// What is wrong with it.
        problem: &'static str,
    },
    /// The device can't do what a setting asks for.
    #[error("{what}: {problem}")]
    Unsupported {
        /// What was asked for.
        what: &'static str,
        /// Why not.
        problem: &'static str,
    },
    /// A table of the allocator is full.
    #[error("no room for another {what}: there are {most} already")]
    TooMany {
        /// Of what.
        what: &'static str,
        /// How many there can be.
        most: u64,
    },
    /// An invariant doesn't hold: a bug of ours.
    #[error("broken invariant: {invariant} (at {at:#x})")]
    Broken {
        /// Which.
        invariant: &'static str,
        /// An address or number that shows it.
        at: u64,
    },
}

/// Why there was no memory for a request, and who holds it. Plain data: making one takes no host memory.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Shortage {
    /// Bytes asked for.
    pub requested_bytes: u64,
    /// Alignment asked for, in bytes.
    pub align_bytes: u64,
    /// Stream that asked.
    pub stream: u64,
    /// What the request said about itself.
    pub tag: Tag,
    /// The largest block that the stream could have had, in bytes.
    pub largest_free_bytes: u64,
    /// Bytes held from the device that nothing uses, in all.
    pub idle_bytes: u64,
    /// Of these, what belongs to other streams and may not pass to this one yet.
    pub idle_elsewhere_bytes: u64,
    /// Bytes freed by the host that streams may still use.
    pub pending_bytes: u64,
    /// Bytes requested and not freed.
    pub live_bytes: u64,
    /// Bytes held from the device.
    pub reserved_bytes: u64,
    /// Bytes free on the device, if it said so.
    pub device_free_bytes: Option<u64>,
    /// All bytes of the device.
    pub device_total_bytes: u64,
    /// The hard budget.
    pub budget_bytes: Option<u64>,
    /// Live bytes by tier, in the order of [`Tier::ALL`].
    pub tiers: [u64; 3],
    /// The tags that hold most, with their bytes.
    pub holders: [(Tag, u64); 3],
}

/// Bytes for people.
struct Size(u64);

impl fmt::Display for Size {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        const UNITS: [&str; 5] = ["bytes", "KiB", "MiB", "GiB", "TiB"];
        let mut value = self.0 as f64;
        let mut unit = 0;
        while value >= 1024.0 && unit + 1 < UNITS.len() {
            value /= 1024.0;
            unit += 1;
        }
        if unit == 0 { write!(f, "{} bytes", self.0) } else { write!(f, "{value:.2} {}", UNITS[unit]) }
    }
}

impl Shortage {
    fn advise(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.requested_bytes > self.device_total_bytes {
            return write!(f, "the request is for more than the whole device: a smaller one, or a larger device");
        }
        let room = self.budget_bytes.map(|budget| budget.saturating_sub(self.reserved_bytes));
        if room.is_some_and(|room| room < self.requested_bytes)
            && self.device_free_bytes.is_some_and(|free| free >= self.requested_bytes)
        {
            return write!(f, "the budget is what stands in the way: the device has room");
        }
        if self.idle_bytes.saturating_sub(self.idle_elsewhere_bytes) >= self.requested_bytes {
            return write!(
                f,
                "enough is idle, in pieces: free or move what lies between, use virtual memory (backing = range), or \
                 tag long-lived blocks as persistent"
            );
        }
        if self.idle_elsewhere_bytes >= self.requested_bytes {
            return write!(
                f,
                "enough is idle on other streams: tell the allocator of waits and synchronizations (or turn on \
                 hand_over)"
            );
        }
        if self.pending_bytes >= self.requested_bytes {
            return write!(f, "enough is freed and still in use by streams: synchronize them, or end uses earlier");
        }
        write!(f, "less has to be live at once: a smaller batch, recomputation, or spilling")
    }
}

impl fmt::Display for Shortage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "out of memory: a request for {} on stream {:#x}", Size(self.requested_bytes), self.stream)?;
        if self.align_bytes > 512 {
            write!(f, ", aligned to {}", Size(self.align_bytes))?;
        }
        if let Some(op) = crate::op_name(self.tag.op) {
            write!(f, ", by {op}")?;
        }
        write!(
            f,
            ". Largest free block {}; held and idle {} (of it on other streams {}); freed and pending {}; live {}; held \
             from the device {}",
            Size(self.largest_free_bytes),
            Size(self.idle_bytes),
            Size(self.idle_elsewhere_bytes),
            Size(self.pending_bytes),
            Size(self.live_bytes),
            Size(self.reserved_bytes),
        )?;
        match self.device_free_bytes {
            Some(free) => write!(f, "; device {} free of {}", Size(free), Size(self.device_total_bytes))?,
            None => write!(f, "; device of {}", Size(self.device_total_bytes))?,
        }
        if let Some(budget) = self.budget_bytes {
            write!(f, "; budget {}", Size(budget))?;
        }
        f.write_str(". Live by tier: ")?;
        for (index, tier) in Tier::ALL.into_iter().enumerate() {
            let comma = if index > 0 { ", " } else { "" };
            write!(f, "{comma}{} {}", tier.name(), Size(self.tiers[index]))?;
        }
        for (index, (tag, bytes)) in self.holders.iter().filter(|(_, bytes)| *bytes > 0).enumerate() {
            f.write_str(if index == 0 { ". Largest holders: " } else { ", " })?;
            write!(f, "{} {}", crate::TagText(*tag), Size(*bytes))?;
        }
        f.write_str(". What would help: ")?;
        self.advise(f)
    }
}
