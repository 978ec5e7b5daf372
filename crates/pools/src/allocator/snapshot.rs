//! All blocks of a moment.

use device::{DevicePtr, StreamId};

use super::{Allocator, Shared};
use crate::Tag;
use crate::block::Kind;
use crate::pool::PERSISTENT;
use crate::span::Source;
use crate::sync::locked;

/// What is known about a live block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct BlockInfo {
    /// Where it begins.
    pub ptr: DevicePtr,
    /// Bytes asked for.
    pub requested_bytes: u64,
    /// Bytes it takes up.
    pub bytes: u64,
    /// Its home stream.
    pub stream: StreamId,
    /// What its request said about itself.
    pub tag: Tag,
    /// References to it.
    pub references: u32,
}

/// A block in a snapshot.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct SnapshotBlock {
    /// Where it begins.
    pub address: u64,
    /// Bytes it takes up.
    pub bytes: u64,
    /// Bytes asked for, or last asked for.
    pub requested_bytes: u64,
    /// What became of it.
    pub state: records::BlockState,
    /// Whether it is free and kept in a magazine.
    pub is_cached: bool,
    /// Home stream, by the clocks' number.
    stream: u32,
    /// What its request said about itself.
    pub tag: Tag,
}

/// Memory held from the device in one piece.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct SnapshotSpan {
    /// Where it begins.
    pub address: u64,
    /// Bytes that blocks lie in.
    pub bytes: u64,
    /// Whether it can grow where it is.
    pub is_range: bool,
    /// Whether persistent blocks lie in it.
    pub is_persistent: bool,
}

/// All blocks of a moment, in no order. Taken without stopping anybody: each block is as it was at some moment while the
/// snapshot was taken, and one that was cut or joined meanwhile may be in it twice or not at all; [`Snapshot::into_segments`] leaves out what
/// overlaps.
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct Snapshot {
    /// Memory held, by address.
    pub spans: Vec<SnapshotSpan>,
    /// Blocks: live, pending, free.
    pub blocks: Vec<SnapshotBlock>,
    /// What streams are called, by the clocks' number.
    streams: Vec<(u32, StreamId)>,
}

impl Allocator {
    /// All blocks. Takes 64 bytes of host memory a block; requests go on meanwhile. Empty in a forked child.
    #[must_use]
    pub fn snapshot(&self) -> Snapshot {
        if self.0.check_process().is_err() {
            return Snapshot::default();
        }
        self.0.snapshot()
    }
}

impl Allocator {
    /// What became of the block that begins at an address: still live, pending, or free. `None` if none begins there now, as
    /// when it was joined with free bytes before it. For tools that follow one block after its free; a look, no lock.
    #[must_use]
    pub fn state_at(&self, ptr: DevicePtr) -> Option<records::BlockState> {
        let tables = &self.0.arena.tables;
        let id = tables.map.find(ptr.0);
        let block = tables.blocks.get(id);
        if id == crate::block::NIL || block.address() != ptr.0 {
            return None;
        }
        state_of(block.kind())
    }
}

/// What a kind of block is to others; `None` for what is no block, or is on its way.
fn state_of(kind: Kind) -> Option<records::BlockState> {
    match kind {
        Kind::Live => Some(records::BlockState::Live),
        Kind::Pending => Some(records::BlockState::Pending),
        Kind::Free | Kind::Cached => Some(records::BlockState::Free),
        Kind::Vacant | Kind::Fence | Kind::Moving => None,
    }
}

impl Shared {
    fn snapshot(&self) -> Snapshot {
        let spans: Vec<_> = locked(&self.arena.spans)
            .values()
            .map(|span| SnapshotSpan {
                address: span.base,
                bytes: span.bytes,
                is_range: matches!(span.source, Source::Handles(_)),
                is_persistent: span.pool == PERSISTENT,
            })
            .collect();
        let table = &self.arena.tables.blocks;
        let end = table.end();
        let mut blocks = Vec::with_capacity(end as usize);
        for id in 1..end {
            let block = table.get(id);
            let kind = block.kind();
            let Some(state) = state_of(kind) else { continue };
            let (address, bytes) = (block.address(), block.bytes());
            blocks.push(SnapshotBlock {
                address,
                bytes,
                requested_bytes: bytes.saturating_sub(u64::from(block.pad())),
                state,
                is_cached: kind == Kind::Cached,
                stream: block.stream(),
                tag: Tag::unpack(block.tag()),
            });
        }
        Snapshot { spans, blocks, streams: self.marks.names() }
    }
}

impl Snapshot {
    /// The snapshot as segments with their blocks, by address, as pictures and reports take them. `names` gets the
    /// operators' names.
    #[must_use]
    pub fn into_segments(mut self, names: &mut records::Names) -> Vec<records::Segment> {
        self.blocks.sort_unstable_by_key(|block| block.address);
        let mut segments: Vec<records::Segment> = self
            .spans
            .iter()
            .map(|span| records::Segment {
                address: span.address,
                bytes: span.bytes,
                is_expandable: span.is_range,
                pool: (u64::from(span.is_persistent), 0),
                ..records::Segment::default()
            })
            .collect();
        let mut end = 0;
        for block in &self.blocks {
            let at = segments.partition_point(|segment| segment.address <= block.address);
            let Some(segment) = at.checked_sub(1).and_then(|at| segments.get_mut(at)) else { continue };
            let block_end = block.address.saturating_add(block.bytes);
            if block.address < end || block_end > segment.address + segment.bytes {
                continue;
            }
            end = block_end;
            let name = crate::op_name(block.tag.op);
            let stream = self.streams.iter().find(|(number, _)| *number == block.stream);
            segment.blocks.push(records::Block {
                address: block.address,
                bytes: block.bytes,
                requested_bytes: block.requested_bytes,
                state: block.state,
                stream: stream.map_or(0, |(_, id)| id.0),
                tag: name.map_or_else(Default::default, |name| names.intern(&name)),
                ..records::Block::default()
            });
        }
        segments
    }
}
