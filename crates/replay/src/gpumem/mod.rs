//! Our own allocator under replay: `pools::Allocator` itself, on the simulated device. No model.
//!
//! What it is told: each request, free and recorded use; each wait between streams, each synchronization, each step's end.
//! Under [`Reading::Seen`] also of each piece of work, as a shim in front of the driver sees it. It is driven by one
//! thread, so that one set of magazines serves each stream.
//!
//! What it does to memory is heard at the device, not from the allocator's own events: a sink of those would make
//! each request take the long way, without magazines. So the figures are those of the fast path, whether or not a
//! history is kept. A block that was freed while streams may still use it counts as pending until the allocator
//! itself has found that they don't: it looks only when a request finds nothing else.

mod watched;

use std::sync::Arc;

use device::error::codes;
use device::{Attempt, Device, DevicePtr, Failure, SimDevice, StreamId};
use pools::Allocator;
use records::{Action, BlockState};

use self::watched::{Deed, Watched};
use crate::policy::{Effects, Handle, Move, Placement, Policy};
use crate::{Error, Reading, Result, Settings};

/// A block that was handed out.
#[derive(Clone, Copy, Debug)]
struct Given {
    ptr: DevicePtr,
    bytes: u64,
    stream: StreamId,
    /// Whether another stream uses it.
    is_shared: bool,
}

/// The allocator.
#[derive(Debug)]
pub(crate) struct Gpumem {
    allocator: Allocator,
    device: Arc<Watched>,
    given: Vec<Given>,
    spare: Vec<u32>,
    /// Freed and not known to be free for others.
    pending: Vec<Given>,
    reading: Reading,
    /// Whether anybody wants to know when blocks can be handed out again.
    tells_blocks: bool,
}

impl Gpumem {
    pub(crate) fn new(device: &Arc<SimDevice>, settings: &Settings) -> Result<Self> {
        let tells_blocks = settings.keeps_history || settings.measures_fragmentation;
        let settings = &settings.gpumem;
        let device = Arc::new(Watched::new(Arc::clone(device)));
        let mut pools = pools::Settings::default();
        pools.hand_over = settings.hand_over;
        pools.backing = settings.backing;
        pools.sees_all_work = settings.reading == Reading::Seen;
        pools.budget = pools::Budget { hard_bytes: settings.hard_bytes, soft_bytes: settings.soft_bytes };
        let allocator = Allocator::new(Arc::clone(&device) as Arc<dyn Device>, pools)
            .map_err(|error| Error::BadSetting { what: error.to_string() })?;
        Ok(Self {
            allocator,
            device,
            given: Vec::new(),
            spare: Vec::new(),
            pending: Vec::new(),
            reading: settings.reading,
            tells_blocks,
        })
    }

    fn is_pending(&self, block: &Given) -> bool {
        self.allocator.state_at(block.ptr) == Some(BlockState::Pending)
    }

    /// Tells of blocks that others can have now, and of all that was done to memory. Blocks first: memory leaves only
    /// where nothing is in use.
    fn tell(&mut self, stream: StreamId, effects: &mut Effects) {
        if !self.pending.is_empty() {
            let (still, over) = std::mem::take(&mut self.pending).into_iter().partition(|block| self.is_pending(block));
            self.pending = still;
            let over: Vec<Given> = over;
            for block in over {
                effects.push(Action::FreeCompleted, block.ptr.0, block.bytes, block.stream);
            }
        }
        for deed in self.device.take() {
            match deed {
                Deed::Alloc { address, bytes } => effects.push(Action::SegmentAlloc, address, bytes, stream),
                Deed::Free { address, bytes } => effects.push(Action::SegmentFree, address, bytes, stream),
                Deed::Map { address, bytes, handle } => {
                    // The range is of all streams: a block may lie across what two of them brought.
                    effects.push(Action::SegmentMap, address, bytes, StreamId::DEFAULT);
                    effects.moves.push(Move { is_map: true, handle: Some(handle), address, bytes });
                }
                Deed::Unmap { address, bytes, handle } => {
                    effects.push(Action::SegmentUnmap, address, bytes, StreamId::DEFAULT);
                    effects.moves.push(Move { is_map: false, handle: Some(handle), address, bytes });
                }
                Deed::Wait { of } => effects.waits.push(of),
            }
        }
    }
}

/// An error in the device's words: the driver of a replay knows no others.
fn refused(error: pools::Error, bytes: u64) -> device::Error {
    let full = |reason, free_bytes, total_bytes| device::Error::OutOfMemory {
        failure: Box::new(Failure::new(Attempt::Alloc { bytes }, codes::OUT_OF_MEMORY, reason)),
        free_bytes,
        total_bytes,
    };
    match error {
        pools::Error::OutOfMemory(shortage) => {
            let free_bytes = shortage.device_free_bytes.unwrap_or(0);
            full("the allocator found no room", free_bytes, shortage.device_total_bytes)
        }
        pools::Error::TooLarge { .. } => full("no device has as much", 0, 0),
        pools::Error::Device(error) => error,
        error => device::Error::Internal { what: error.to_string() },
    }
}

impl Policy for Gpumem {
    fn alloc(
        &mut self,
        _device: &dyn Device,
        bytes: u64,
        stream: StreamId,
        effects: &mut Effects,
    ) -> device::Result<Placement> {
        let served = self.allocator.alloc(bytes, 0, stream);
        self.tell(stream, effects);
        let ptr = served.map_err(|error| refused(error, bytes))?;
        let given = Given { ptr, bytes, stream, is_shared: false };
        let index = match self.spare.pop() {
            Some(index) => {
                self.given[index as usize] = given;
                index
            }
            None => {
                self.given.push(given);
                (self.given.len() - 1) as u32
            }
        };
        Ok(Placement { handle: Handle(index), address: ptr.0 })
    }

    fn free(&mut self, _device: &dyn Device, handle: Handle, effects: &mut Effects) -> device::Result<()> {
        let given = self.given[handle.0 as usize];
        self.allocator.free(given.ptr, None).map_err(|error| refused(error, given.bytes))?;
        self.spare.push(handle.0);
        if !self.tells_blocks {
            return Ok(());
        }
        // It is looked at before anything else can have it.
        if given.is_shared && self.is_pending(&given) {
            self.pending.push(given);
        } else {
            effects.push(Action::FreeCompleted, given.ptr.0, given.bytes, given.stream);
        }
        Ok(())
    }

    fn record_use(&mut self, handle: Handle, stream: StreamId) -> device::Result<()> {
        let given = &mut self.given[handle.0 as usize];
        given.is_shared |= given.stream != stream;
        self.allocator.record_use(given.ptr, stream).map_err(|error| refused(error, given.bytes))
    }

    fn synchronized(&mut self, stream: Option<StreamId>) -> device::Result<()> {
        self.allocator.synchronized(stream).map_err(|error| refused(error, 0))
    }

    fn ordered(&mut self, of: StreamId, by: StreamId) -> device::Result<()> {
        self.allocator.stream_wait(of, by).map_err(|error| refused(error, 0))
    }

    fn work_queued(&mut self, stream: StreamId) -> device::Result<()> {
        match self.reading {
            Reading::Seen => self.allocator.work_queued(stream).map_err(|error| refused(error, 0)),
            Reading::Blind => Ok(()),
        }
    }

    fn step_ended(&mut self, effects: &mut Effects) -> device::Result<()> {
        self.allocator.step().map_err(|error| refused(error, 0))?;
        self.tell(StreamId::DEFAULT, effects);
        Ok(())
    }

    fn check(&self) -> device::Result<()> {
        self.allocator.check().map_err(|error| refused(error, 0))
    }
}
