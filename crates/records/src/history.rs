//! What an allocator did.

use crate::{Defects, NameId, Names, StackId, Stacks};

/// What happened at an event.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[non_exhaustive]
pub enum Action {
    /// A block was handed out.
    #[default]
    Alloc,
    /// The host dropped a block; streams may still use it.
    FreeRequested,
    /// The block can be handed out again.
    FreeCompleted,
    /// A segment was taken from the device.
    SegmentAlloc,
    /// A segment was given back to the device.
    SegmentFree,
    /// Part of an expandable segment got memory.
    SegmentMap,
    /// Part of an expandable segment lost its memory.
    SegmentUnmap,
    /// A request failed.
    OutOfMemory,
    /// Somebody took a snapshot.
    Snapshot,
    /// A step ended, or one with a name began.
    Step,
}

impl Action {
    /// Every action.
    pub const ALL: [Self; 10] = [
        Self::Alloc,
        Self::FreeRequested,
        Self::FreeCompleted,
        Self::SegmentAlloc,
        Self::SegmentFree,
        Self::SegmentMap,
        Self::SegmentUnmap,
        Self::OutOfMemory,
        Self::Snapshot,
        Self::Step,
    ];

    /// The word for it, as PyTorch's snapshots have it; `step` is ours.
    pub fn name(self) -> &'static str {
        match self {
            Self::Alloc => "alloc",
            Self::FreeRequested => "free_requested",
            Self::FreeCompleted => "free_completed",
            Self::SegmentAlloc => "segment_alloc",
            Self::SegmentFree => "segment_free",
            Self::SegmentMap => "segment_map",
            Self::SegmentUnmap => "segment_unmap",
            Self::OutOfMemory => "oom",
            Self::Snapshot => "snapshot",
            Self::Step => "step",
        }
    }

    /// The action with this [`name`](Self::name).
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|action| action.name() == name)
    }
}

/// One thing an allocator did.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Event {
    /// What.
    pub action: Action,
    /// Address of the block or segment. For [`Action::OutOfMemory`] the bytes that were free on the device.
    pub address: u64,
    /// Bytes asked for by a block, bytes of a segment, or the request that failed.
    pub bytes: u64,
    /// The stream, as the allocator names it.
    pub stream: u64,
    /// When, in ns since a moment of the file's choice; 0 if not known.
    pub time_ns: u64,
    /// From where.
    pub stack: StackId,
    /// Who asked, or what a step is called.
    pub tag: NameId,
}

/// What became of a block.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum BlockState {
    /// Handed out.
    #[default]
    Live,
    /// Dropped by the host, may still be used by a stream.
    Pending,
    /// Can be handed out.
    Free,
}

/// A piece of a segment.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Block {
    /// Where it begins.
    pub address: u64,
    /// Bytes it takes up.
    pub bytes: u64,
    /// Bytes asked for; of a free block whatever it was last asked for.
    pub requested_bytes: u64,
    /// What became of it.
    pub state: BlockState,
    /// Stream it was handed out on.
    pub stream: u64,
    /// From where it was asked for.
    pub stack: StackId,
    /// Who asked.
    pub tag: NameId,
}

/// Which requests a segment serves.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[non_exhaustive]
pub enum SegmentKind {
    /// Requests up to 1 MiB.
    Small,
    /// Larger requests.
    Large,
    /// Any.
    #[default]
    Any,
}

impl SegmentKind {
    /// What a segment that an event names must be, since events don't say: those for small requests have 2 MiB, and
    /// expandable ones serve what their pool serves.
    pub fn of_event(event: &Event) -> Self {
        match event.action {
            Action::SegmentMap | Action::SegmentUnmap => Self::Any,
            _ if event.bytes <= 2 << 20 => Self::Small,
            _ => Self::Large,
        }
    }
}

/// A reservation from the device; of an expandable segment, one run of addresses that have memory.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Segment {
    /// Where it begins.
    pub address: u64,
    /// Bytes held.
    pub bytes: u64,
    /// Stream it serves.
    pub stream: u64,
    /// Which requests it serves.
    pub kind: SegmentKind,
    /// Whether it can grow and shrink where it is.
    pub is_expandable: bool,
    /// Private pool it belongs to; (0, 0) is the common one.
    pub pool: (u64, u64),
    /// From where it was asked for.
    pub stack: StackId,
    /// Its blocks by address. Free bytes need no block.
    pub blocks: Vec<Block>,
}

/// What happened on one device.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct DeviceHistory {
    /// Number of the device.
    pub device: u32,
    /// Bytes of the device, if known: nothing beyond it could be reserved.
    pub capacity_bytes: Option<u64>,
    /// Multiple that the allocator rounds requests up to; 0 is taken as 1.
    pub granule_bytes: u64,
    /// Segments before the first event, by address.
    pub start: Vec<Segment>,
    /// What happened, in order.
    pub events: Vec<Event>,
    /// Segments after the last event as the file states them, by address; empty if it doesn't.
    pub end: Vec<Segment>,
    /// What in the file contradicts itself, as far as it was seen while reading.
    pub defects: Defects,
}

/// Whether an annotation opens or closes something.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Stage {
    /// It begins.
    Start,
    /// It ends.
    End,
}

/// Something the program said about itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Annotation {
    /// Beginning or end.
    pub stage: Stage,
    /// Of what.
    pub name: NameId,
    /// On which device.
    pub device: u32,
    /// When, in ns on the events' clock.
    pub time_ns: u64,
}

/// What an allocator did on all its devices.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct History {
    /// What the run is called.
    pub name: String,
    /// Whose doing it was, in words.
    pub allocator: String,
    /// Its settings, as it states them.
    pub settings: Vec<(String, String)>,
    /// The devices on which something was reserved or happened.
    pub devices: Vec<DeviceHistory>,
    /// What the program said about itself, in order.
    pub annotations: Vec<Annotation>,
    /// What a reader has to say about the file, for people: text it had to repair, events it left out.
    pub notes: Vec<String>,
    /// The strings that events and frames name.
    pub names: Names,
    /// The stacks that events and blocks name.
    pub stacks: Stacks,
}
