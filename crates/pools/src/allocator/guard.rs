//! Red zones behind blocks and poison in freed ones: finds whoever writes where it may not.
//!
//! Each block is followed by a zone of known bytes, so that running over the end is seen, and running below the beginning
//! as damage to the zone before. Freed bytes are overwritten, and looked at when they are handed out again, at each step
//! and at the end. Both need the
//! device to have finished with the bytes, so frees wait for the streams: this is for finding bugs, not for speed.

use std::backtrace::Backtrace;
use std::collections::BTreeMap;
use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Mutex};

use device::{DevicePtr, Place, StreamId};
use hashbrown::HashMap;

use super::{Allocator, Shared};
use crate::block::{BlockId, Kind, State};
use crate::request::Request;
use crate::shard::Waits;
use crate::sync::locked;
use crate::{Error, Result, Tag};

/// Bytes of a red zone, besides what rounding leaves.
const ZONE: u64 = 512;
const ZONE_BYTE: u8 = 0xfd;
const POISON_BYTE: u8 = 0xdd;
/// Bytes that are read or written at once.
const PIECE: u64 = 1 << 20;

/// What a guard found.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum GuardFinding {
    /// Bytes behind a live block were written.
    Overrun,
    /// Bytes of a freed block were written.
    UseAfterFree,
}

/// Who wrote where it may not, as far as it can be told.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct GuardReport {
    /// What was found.
    pub finding: GuardFinding,
    /// The block.
    pub ptr: DevicePtr,
    /// Bytes it was asked for with.
    pub requested_bytes: u64,
    /// The first wrong byte, counted from the block's beginning.
    pub offset_bytes: u64,
    /// What was found there.
    pub found: u8,
    /// What should be there.
    pub expected: u8,
    /// Its home stream.
    pub stream: StreamId,
    /// What its request said about itself.
    pub tag: Tag,
    /// From where it was asked for, or freed.
    pub stack: String,
}

impl fmt::Display for GuardReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (what, hint, stack) = match self.finding {
            GuardFinding::Overrun => (
                "bytes behind a live block were written",
                "the block was overrun, or the one behind it was written below its beginning",
                "asked for",
            ),
            GuardFinding::UseAfterFree => {
                ("bytes of a freed block were written", "somebody still used it after its free", "freed")
            }
        };
        write!(
            f,
            "{what}: block {} of {} bytes, byte {} is {:#04x} instead of {:#04x}; {hint}. {} on {}",
            self.ptr,
            self.requested_bytes,
            self.offset_bytes,
            self.found,
            self.expected,
            crate::TagText(self.tag),
            self.stream,
        )?;
        write!(f, ". It was {stack} at:\n{}", self.stack)
    }
}

impl std::error::Error for GuardReport {}

/// Who is told of findings that no call can return: those at the allocator's end.
pub type GuardCallback = Arc<dyn Fn(&GuardReport) + Send + Sync>;

/// A freed block whose bytes were overwritten.
#[derive(Clone, Debug)]
struct Poisoned {
    /// Where the block began: what is left of it may begin later.
    block: u64,
    bytes: u64,
    requested: u64,
    stream: StreamId,
    tag: Tag,
    stack: Arc<str>,
}

/// What guards remember.
#[derive(Default)]
pub(super) struct Guards {
    stacks: Mutex<HashMap<BlockId, Arc<str>>>,
    poisoned: Mutex<BTreeMap<u64, Poisoned>>,
    callback: Mutex<Option<GuardCallback>>,
}

/// A request with room for a red zone.
pub(super) fn widened(request: &Request) -> Request {
    Request { bytes: request.bytes.saturating_add(ZONE), ..*request }
}

impl Allocator {
    /// Who is told of what guards find when the allocator ends; until then calls return it. `None`: nobody.
    pub fn on_guard_finding(&self, callback: Option<GuardCallback>) {
        if self.0.check_process().is_err() {
            return;
        }
        let earlier = std::mem::replace(&mut *locked(&self.0.guards.callback), callback);
        drop(earlier);
    }

    /// Looks at all red zones, and at freed bytes that nobody has yet. Waits for the device.
    ///
    /// # Errors
    /// [`Error::Guard`] with the first finding; [`Error::Unsupported`] without `guard = on`.
    pub fn check_guards(&self) -> Result<()> {
        self.0.check_process()?;
        if !self.0.settings.guard {
            return Err(Error::Unsupported { what: "checking guards", problem: "guard = off" });
        }
        self.0.check_all_guards()
    }
}

impl Shared {
    /// Gives a new block its red zone, and looks at the bytes it was made of. If that fails nobody has the block.
    pub(super) fn guard_alloc(&self, id: BlockId) -> Result<()> {
        let block = self.arena.tables.blocks.get(id);
        let (address, end) = (block.address(), block.end());
        let finding = self.check_poison(address, end);
        let finding = finding.and_then(|()| self.fill(address + block.requested(), end, ZONE_BYTE));
        if finding.is_err() {
            block.set_state(State::of(Kind::Moving));
            self.put_back_moving(id, block);
            return finding;
        }
        let stack: Arc<str> = Backtrace::force_capture().to_string().into();
        locked(&self.guards.stacks).insert(id, stack);
        block.set_state(State::LIVE.with(State::IS_GUARDED));
        Ok(())
    }

    /// Looks at a dropped block's red zone and overwrites the block. The caller has made it `Moving`.
    pub(super) fn guard_free(&self, id: BlockId, home: u32, waits: &Waits) -> Result<()> {
        let block = self.arena.tables.blocks.get(id);
        for stream in std::iter::once(home).chain(waits.iter().map(|(stream, _)| *stream)) {
            let finished = self.marks.with_name(stream, |name| {
                let notice = self.arena.clocks.begin_synchronize(stream);
                self.supply.device.synchronize_stream(name)?;
                self.arena.clocks.commit(notice);
                Ok::<(), Error>(())
            });
            finished.transpose()?;
        }
        let finding = self.check_zone(id);
        let (address, bytes) = (block.address(), block.bytes());
        self.fill(address, address + bytes, POISON_BYTE)?;
        locked(&self.guards.stacks).remove(&id);
        let poisoned = Poisoned {
            block: address,
            bytes,
            requested: block.requested(),
            stream: self.marks.name(home),
            tag: Tag::unpack(block.tag()),
            stack: Backtrace::force_capture().to_string().into(),
        };
        locked(&self.guards.poisoned).insert(address, poisoned);
        finding
    }

    /// All live blocks' zones, and all poison.
    pub(super) fn check_all_guards(&self) -> Result<()> {
        let notice = self.arena.begin_synchronize_device();
        self.supply.device.synchronize()?;
        self.arena.commit(notice);
        for id in 1..self.arena.tables.blocks.end() {
            self.check_live(id)?;
        }
        let poisoned: Vec<u64> = locked(&self.guards.poisoned).keys().copied().collect();
        poisoned.into_iter().try_for_each(|at| self.check_freed(at))
    }

    /// At the end nobody is there to return a finding to.
    pub(super) fn report_guards(&self) {
        let Some(callback) = locked(&self.guards.callback).clone() else { return };
        let tell = |finding| {
            if let Err(Error::Guard(report)) = finding {
                // This may run while a panic unwinds: another one would end the process.
                let _ = catch_unwind(AssertUnwindSafe(|| callback(&report)));
            }
        };
        for id in 1..self.arena.tables.blocks.end() {
            tell(self.check_live(id));
        }
        let poisoned: Vec<u64> = locked(&self.guards.poisoned).keys().copied().collect();
        for at in poisoned {
            tell(self.check_freed(at));
        }
    }

    /// A block's zone, if it is live; other threads may free it meanwhile.
    fn check_live(&self, id: BlockId) -> Result<()> {
        let block = self.arena.tables.blocks.get(id);
        // Of the requests that this number was ever given to, each has a stack of its own.
        let request = || {
            let is_live = block.kind() == Kind::Live && block.state().has(State::IS_GUARDED);
            is_live.then(|| locked(&self.guards.stacks).get(&id).cloned()).flatten()
        };
        while let Some(before) = request() {
            let finding = self.check_zone(id);
            if finding.is_ok() || request().is_some_and(|now| Arc::ptr_eq(&now, &before)) {
                return finding;
            }
        }
        Ok(())
    }

    /// What is left of a freed block, if nobody has it yet. A finding is told once.
    fn check_freed(&self, at: u64) -> Result<()> {
        let find = || locked(&self.guards.poisoned).get(&at).cloned();
        while let Some(poisoned) = find() {
            let finding = self.check_piece(at, at + poisoned.bytes, &poisoned);
            if finding.is_ok() {
                return Ok(());
            }
            let mut all = locked(&self.guards.poisoned);
            let stands = |now: &Poisoned| Arc::ptr_eq(&now.stack, &poisoned.stack) && now.bytes == poisoned.bytes;
            if all.get(&at).is_some_and(stands) {
                all.remove(&at);
                return finding;
            }
        }
        Ok(())
    }

    /// Forgets poison in memory that goes back to the device.
    pub(super) fn forget_poison(&self, address: u64, bytes: u64) {
        self.take_poison(address, address.saturating_add(bytes));
    }

    fn check_zone(&self, id: BlockId) -> Result<()> {
        let block = self.arena.tables.blocks.get(id);
        let (address, requested) = (block.address(), block.requested());
        let Some((at, found)) = self.first_other(address + requested, block.end(), ZONE_BYTE)? else { return Ok(()) };
        let stack = locked(&self.guards.stacks).get(&id).map_or_else(String::new, |stack| stack.to_string());
        Err(Error::Guard(Box::new(GuardReport {
            finding: GuardFinding::Overrun,
            ptr: DevicePtr(address),
            requested_bytes: requested,
            offset_bytes: at - address,
            found,
            expected: ZONE_BYTE,
            stream: self.marks.name(block.stream()),
            tag: Tag::unpack(block.tag()),
            stack,
        })))
    }

    /// Looks at poison in `[address, end)`, which is about to be used, and forgets it.
    fn check_poison(&self, address: u64, end: u64) -> Result<()> {
        let taken = self.take_poison(address, end);
        taken.iter().try_for_each(|(at, p)| self.check_piece(*at.max(&address), (at + p.bytes).min(end), p))
    }

    /// Takes out what was poisoned in `[address, end)`. What lies outside stays.
    fn take_poison(&self, address: u64, end: u64) -> Vec<(u64, Poisoned)> {
        let mut poisoned = locked(&self.guards.poisoned);
        let first = poisoned.range(..=address).next_back().map_or(address, |(at, _)| *at);
        let found: Vec<u64> =
            poisoned.range(first..end).filter(|(at, p)| *at + p.bytes > address).map(|(at, _)| *at).collect();
        let taken: Vec<_> = found.iter().filter_map(|at| poisoned.remove(at).map(|p| (*at, p))).collect();
        for (at, p) in &taken {
            if *at < address {
                poisoned.insert(*at, Poisoned { bytes: address - at, ..p.clone() });
            }
            if at + p.bytes > end {
                poisoned.insert(end, Poisoned { bytes: at + p.bytes - end, ..p.clone() });
            }
        }
        taken
    }

    /// Poison in `[from, to)`, which is part of a freed block.
    fn check_piece(&self, from: u64, to: u64, p: &Poisoned) -> Result<()> {
        let Some((wrong, found)) = self.first_other(from, to, POISON_BYTE)? else { return Ok(()) };
        Err(Error::Guard(Box::new(GuardReport {
            finding: GuardFinding::UseAfterFree,
            ptr: DevicePtr(p.block),
            requested_bytes: p.requested,
            offset_bytes: wrong - p.block,
            found,
            expected: POISON_BYTE,
            stream: p.stream,
            tag: p.tag,
            stack: p.stack.to_string(),
        })))
    }

    /// The first byte of `[from, to)` that isn't `expected`.
    fn first_other(&self, from: u64, to: u64, expected: u8) -> Result<Option<(u64, u8)>> {
        let mut buffer = vec![0; PIECE.min(to - from) as usize];
        let mut at = from;
        while at < to {
            let piece = &mut buffer[..PIECE.min(to - at) as usize];
            self.supply.device.read(Place::Device(DevicePtr(at)), piece)?;
            if let Some(wrong) = piece.iter().position(|byte| *byte != expected) {
                return Ok(Some((at + wrong as u64, piece[wrong])));
            }
            at += piece.len() as u64;
        }
        Ok(None)
    }

    fn fill(&self, from: u64, to: u64, byte: u8) -> Result<()> {
        let buffer = vec![byte; PIECE.min(to - from) as usize];
        let mut at = from;
        while at < to {
            let piece = &buffer[..PIECE.min(to - at) as usize];
            self.supply.device.write(Place::Device(DevicePtr(at)), piece)?;
            at += piece.len() as u64;
        }
        Ok(())
    }
}
