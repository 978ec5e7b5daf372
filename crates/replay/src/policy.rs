//! What every policy can do, and what it tells of its doings.

use device::{Device, HandleId, StreamId};
use records::{Action, Event};

/// A block that a policy handed out, by a number of its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Handle(pub(crate) u32);

/// Where a request ended up.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Placement {
    pub(crate) handle: Handle,
    pub(crate) address: u64,
}

/// What a policy did besides answering, collected in order.
#[derive(Debug, Default)]
pub(crate) struct Effects {
    /// Segments taken, grown, shrunk and given back, and blocks that can be handed out again.
    pub(crate) events: Vec<Event>,
    /// Streams that the requesting stream was made to wait for.
    pub(crate) waits: Vec<StreamId>,
    /// Addresses that got or lost memory, a handle at a time.
    pub(crate) moves: Vec<Move>,
}

/// Memory that came to an address or left it. Plain segments are known by their address.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Move {
    pub(crate) is_map: bool,
    pub(crate) handle: Option<HandleId>,
    pub(crate) address: u64,
    pub(crate) bytes: u64,
}

impl Effects {
    pub(crate) fn push(&mut self, action: Action, address: u64, bytes: u64, stream: StreamId) {
        self.events.push(Event { action, address, bytes, stream: stream.0, ..Event::default() });
        if matches!(action, Action::SegmentAlloc | Action::SegmentFree) {
            self.moves.push(Move { is_map: action == Action::SegmentAlloc, handle: None, address, bytes });
        }
    }

    /// Whole handles came to `address` and what follows it, or left.
    pub(crate) fn push_handles(&mut self, is_map: bool, address: u64, bytes_each: u64, handles: &[HandleId]) {
        self.moves.extend((0u64..).zip(handles).map(|(index, handle)| Move {
            is_map,
            handle: Some(*handle),
            address: address + index * bytes_each,
            bytes: bytes_each,
        }));
    }

    pub(crate) fn clear(&mut self) {
        self.events.clear();
        self.waits.clear();
        self.moves.clear();
    }
}

/// An allocator under replay.
///
/// Where a call fails for lack of memory, the policy has done all that it would do before giving up, and stays usable.
pub(crate) trait Policy {
    /// Hands out `bytes` (at least 1) for work on `stream`.
    fn alloc(
        &mut self,
        device: &dyn Device,
        bytes: u64,
        stream: StreamId,
        effects: &mut Effects,
    ) -> device::Result<Placement>;

    /// The host drops a block.
    fn free(&mut self, device: &dyn Device, handle: Handle, effects: &mut Effects) -> device::Result<()>;

    /// A block is also used by work on `stream`.
    fn record_use(&mut self, handle: Handle, stream: StreamId) -> device::Result<()>;

    /// The host has seen a stream, or all of them, finish.
    fn synchronized(&mut self, _stream: Option<StreamId>) -> device::Result<()> {
        Ok(())
    }

    /// The program has made `by` wait for all that was queued on `of`.
    fn ordered(&mut self, _of: StreamId, _by: StreamId) -> device::Result<()> {
        Ok(())
    }

    /// The program has queued work on `stream`.
    fn work_queued(&mut self, _stream: StreamId) -> device::Result<()> {
        Ok(())
    }

    /// A step of the program has ended.
    fn step_ended(&mut self, _effects: &mut Effects) -> device::Result<()> {
        Ok(())
    }

    /// Verifies all invariants, if it can.
    fn check(&self) -> device::Result<()> {
        Ok(())
    }
}
