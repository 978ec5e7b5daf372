//! What became of the blocks of a trace so far, so that a trace that is read is sound.

use std::fmt;

use hashbrown::HashMap;
use records::{Operation, Row};

use crate::limits::add_below_limit;

/// A place in a file of rows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Place {
    /// A line, from 1.
    Line(u64),
    /// A row, from 0.
    Row(u64),
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Line(line) => write!(f, "line {line}"),
            Self::Row(row) => write!(f, "row {row}"),
        }
    }
}

/// What a row does to a block that can't be done.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum BlockFault {
    /// The id of a block that hasn't been freed is given to another.
    #[error("block {id} is live since {place}, so its id can't be given to another")]
    Live {
        /// The block.
        id: u64,
        /// Where it was asked for.
        place: Place,
    },
    /// The id of a block whose free is under way is given to another.
    #[error("the free of block {id}, asked for on {place}, is not finished, so its id can't be given to another")]
    Pending {
        /// The block.
        id: u64,
        /// Where its free was asked for.
        place: Place,
    },
    /// There was never such a block.
    #[error("there is no block {id}")]
    Unknown {
        /// The id.
        id: u64,
    },
    /// The block was freed before.
    #[error("block {id} was freed on {place} already")]
    Freed {
        /// The block.
        id: u64,
        /// Where.
        place: Place,
    },
    /// The free of a block that nobody freed is finished.
    #[error("block {id}, live since {place}, has not been freed, so its free can't be finished")]
    NotFreed {
        /// The block.
        id: u64,
        /// Where it was asked for.
        place: Place,
    },
    /// More bytes are live than can be added up.
    #[error("with this block of {bytes} bytes, 2^63 bytes or more are live")]
    SumOverflow {
        /// Of the block.
        bytes: u64,
    },
}

impl BlockFault {
    /// Which of the two is at fault.
    pub(crate) fn pick<T>(&self, id: T, bytes: T) -> T {
        match self {
            Self::SumOverflow { .. } => bytes,
            _ => id,
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    Live,
    /// The first of two rows that free it was there.
    Requested,
    /// Freed by a row of its own.
    Freed,
    /// Both rows were there.
    Completed,
}

#[derive(Clone, Copy, Debug)]
struct Block {
    bytes: u64,
    state: State,
    /// Where it got into that state.
    place: PackedPlace,
}

/// Of a place only its number, since all places of a file are of one kind. 32 bits, so that a block takes 24 bytes;
/// a text has fewer lines than 2^32, or is refused as having too many rows.
type PackedPlace = u32;

/// All blocks that a trace has had so far.
#[derive(Debug, Default)]
pub(crate) struct Blocks {
    blocks: HashMap<u64, Block>,
    live_bytes: u64,
}

fn pack(place: Place) -> PackedPlace {
    match place {
        Place::Line(number) | Place::Row(number) => u32::try_from(number).unwrap_or(u32::MAX),
    }
}

/// A place of the same kind as `like`.
fn unpack(number: PackedPlace, like: Place) -> Place {
    match like {
        Place::Line(_) => Place::Line(u64::from(number)),
        Place::Row(_) => Place::Row(u64::from(number)),
    }
}

impl Blocks {
    /// Follows a row in which a free is what it says it is.
    pub(crate) fn follow(&mut self, row: &Row, place: Place) -> Result<(), BlockFault> {
        match row.operation {
            Operation::Alloc => self.alloc(row.id, row.bytes, place),
            Operation::Free => self.free_whole(row.id, place),
            Operation::FreeCompleted => self.complete_free(row.id, place),
            Operation::Use => self.check_live(row.id, place),
            _ => Ok(()),
        }
    }

    /// Block `id` is asked for.
    fn alloc(&mut self, id: u64, bytes: u64, place: Place) -> Result<(), BlockFault> {
        let sum = add_below_limit(self.live_bytes, bytes).ok_or(BlockFault::SumOverflow { bytes })?;
        let block = Block { bytes, state: State::Live, place: pack(place) };
        match self.blocks.entry(id) {
            hashbrown::hash_map::Entry::Vacant(entry) => drop(entry.insert(block)),
            hashbrown::hash_map::Entry::Occupied(mut entry) => {
                let before = unpack(entry.get().place, place);
                match entry.get().state {
                    State::Live => return Err(BlockFault::Live { id, place: before }),
                    State::Requested => return Err(BlockFault::Pending { id, place: before }),
                    State::Freed | State::Completed => drop(entry.insert(block)),
                }
            }
        }
        self.live_bytes = sum;
        Ok(())
    }

    /// Block `id` is freed, or the free of it that was requested before is finished: which of them the row meant.
    pub(crate) fn free(&mut self, id: u64, place: Place) -> Result<Operation, BlockFault> {
        if self.blocks.get(&id).is_some_and(|block| block.state == State::Requested) {
            return self.complete_free(id, place).map(|()| Operation::FreeCompleted);
        }
        self.free_whole(id, place).map(|()| Operation::Free)
    }

    /// Block `id` is freed.
    fn free_whole(&mut self, id: u64, place: Place) -> Result<(), BlockFault> {
        self.leave(id, State::Freed, place)
    }

    /// Block `id` is freed, and another row will say when that is finished.
    pub(crate) fn request_free(&mut self, id: u64, place: Place) -> Result<(), BlockFault> {
        self.leave(id, State::Requested, place)
    }

    /// Block `id` is no longer live.
    fn leave(&mut self, id: u64, state: State, place: Place) -> Result<(), BlockFault> {
        let block = self.blocks.get_mut(&id).ok_or(BlockFault::Unknown { id })?;
        if block.state != State::Live {
            return Err(BlockFault::Freed { id, place: unpack(block.place, place) });
        }
        self.live_bytes = self.live_bytes.saturating_sub(block.bytes);
        (block.state, block.place) = (state, pack(place));
        Ok(())
    }

    /// The free of block `id` is finished.
    fn complete_free(&mut self, id: u64, place: Place) -> Result<(), BlockFault> {
        let block = self.blocks.get_mut(&id).ok_or(BlockFault::Unknown { id })?;
        let before = unpack(block.place, place);
        match block.state {
            State::Live => return Err(BlockFault::NotFreed { id, place: before }),
            State::Completed => return Err(BlockFault::Freed { id, place: before }),
            State::Requested | State::Freed => (block.state, block.place) = (State::Completed, pack(place)),
        }
        Ok(())
    }

    /// Block `id` is used.
    fn check_live(&self, id: u64, place: Place) -> Result<(), BlockFault> {
        match self.blocks.get(&id) {
            None => Err(BlockFault::Unknown { id }),
            Some(block) if block.state == State::Live => Ok(()),
            Some(block) => Err(BlockFault::Freed { id, place: unpack(block.place, place) }),
        }
    }
}
