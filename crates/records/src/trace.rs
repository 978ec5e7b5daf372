//! What a program asked for.

use crate::{NameId, Names, StackId, Stacks};

/// What a row of a trace says.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[non_exhaustive]
pub enum Operation {
    /// Block `id` of `bytes` is asked for on `stream`.
    #[default]
    Alloc,
    /// The host drops block `id`; work already queued on its streams may still use it.
    Free,
    /// The recorded allocator had block `id` back from its streams. A replay decides that for itself.
    FreeCompleted,
    /// Block `id` is also used by work on `stream`.
    Use,
    /// `stream` is made to wait for everything queued on the stream `id` so far.
    Wait,
    /// `stream` became busy with something after its last record.
    Work,
    /// The host has seen all work of `stream` finish; [`Row::ALL_STREAMS`] stands for the device.
    Sync,
    /// End of step `id`, or the beginning of what `tag` names.
    Step,
    /// A place in the step that `tag` names.
    Mark,
    /// The recorded allocator took a segment at address `id` from the device. A replay decides that for itself.
    SegmentAlloc,
    /// The recorded allocator gave the segment at address `id` back.
    SegmentFree,
    /// A request of `bytes` failed in the recorded run.
    OutOfMemory,
    /// Somebody took a snapshot here.
    Snapshot,
}

impl Operation {
    /// Every operation.
    pub const ALL: [Self; 13] = [
        Self::Alloc,
        Self::Free,
        Self::FreeCompleted,
        Self::Use,
        Self::Wait,
        Self::Work,
        Self::Sync,
        Self::Step,
        Self::Mark,
        Self::SegmentAlloc,
        Self::SegmentFree,
        Self::OutOfMemory,
        Self::Snapshot,
    ];

    /// The word for it in files. `free_completed` is ours: files in which frees come in pairs call it `free`.
    pub fn name(self) -> &'static str {
        match self {
            Self::Alloc => "alloc",
            Self::Free => "free",
            Self::FreeCompleted => "free_completed",
            Self::Use => "use",
            Self::Wait => "wait",
            Self::Work => "work",
            Self::Sync => "sync",
            Self::Step => "step",
            Self::Mark => "mark",
            Self::SegmentAlloc => "segment_alloc",
            Self::SegmentFree => "segment_free",
            Self::OutOfMemory => "oom",
            Self::Snapshot => "snapshot",
        }
    }

    /// The operation with this [`name`](Self::name).
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|operation| operation.name() == name)
    }
}

/// One operation.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Row {
    /// What happens.
    pub operation: Operation,
    /// The block; for [`Operation::Wait`] the stream waited for, for segments the address, for steps their number. The
    /// id of a block is used once while the block is live; a later block may have it again.
    pub id: u64,
    /// Bytes asked for; on the other operations that name a block, its bytes or 0.
    pub bytes: u64,
    /// The stream, as the file numbers them; a sync may say [`Row::ALL_STREAMS`].
    pub stream: i64,
    /// The device.
    pub device: u32,
    /// The thread that asked; 0 if not known.
    pub thread: u32,
    /// Who asked, or what the step or mark is called.
    pub tag: NameId,
    /// From where.
    pub stack: StackId,
    /// When, in ns since a moment of the file's choice; 0 if not known.
    pub time_ns: u64,
}

impl Row {
    /// The stream of a sync that is about every stream of the device.
    pub const ALL_STREAMS: i64 = -1;
}

/// What a program asked for, in order.
///
/// A trace that was read is sound: no block is freed or used that isn't live, and no id is given to two live blocks.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Trace {
    /// What it is called.
    pub name: String,
    /// The operations in order.
    pub rows: Vec<Row>,
    /// The strings that rows name.
    pub names: Names,
    /// The stacks that rows name.
    pub stacks: Stacks,
    /// What the file says about itself, for people.
    pub comments: Vec<String>,
    /// The file ended in the middle: what is here is all that could be read.
    pub is_cut: bool,
}

impl Trace {
    /// Whether a sync row says when streams finish. If not, they finish by the passing of steps.
    pub fn has_syncs(&self) -> bool {
        self.rows.iter().any(|row| row.operation == Operation::Sync)
    }
}
