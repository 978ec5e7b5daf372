//! A trace on our own allocator over real memory: every block gets a pattern, and nobody else's bytes may ever be found in
//! it.
//!
//! The device is the host device, whose streams are real queues that finish late. Work is queued as a program would:
//! a block is written by its home stream when it is handed out and by each stream that uses it, always with the same value, at
//! both ends and every 64 KiB; before its free a copy of those places is queued on its home stream. If the allocator hands memory out
//! too early, a late write of the one before lands in the new block, and its copy tells.

use std::sync::Arc;
use std::time::Duration;

use device::{Completion, Device, DevicePtr, HostDevice, HostOptions, Place, StreamId};
use pools::Allocator;

use crate::program::{Ask, StreamIndex};
use crate::{Error, GpumemSettings, Program, Result};

/// Bytes of a place that is written and looked at.
const PLACE: u64 = 16;
/// Distance of places within a block.
const APART: u64 = 64 << 10;
/// Bytes of copies that are kept before they are looked at.
const COPIES: u64 = 16 << 20;

/// How contents are checked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct ContentSettings {
    /// Sizes are divided by this, so that traces of large devices fit into the host's memory. At least 1.
    pub scale: u64,
    /// Bytes of the device after scaling; `None` for half of the machine's memory.
    pub capacity_bytes: Option<u64>,
    /// Settings of the allocator. What it is told of work is always the blind reading.
    pub gpumem: GpumemSettings,
    /// Each piece of work finishes up to this many microseconds late; with 0 as its queue comes to it.
    pub longest_us: u64,
    /// For how late it finishes.
    pub seed: u64,
    /// Leaves the allocator ignorant of uses by other streams, to show that the check finds what goes wrong then.
    pub forgets_uses: bool,
}

impl Default for ContentSettings {
    fn default() -> Self {
        Self {
            scale: 1,
            capacity_bytes: None,
            gpumem: GpumemSettings::default(),
            longest_us: 20,
            seed: 1,
            forgets_uses: false,
        }
    }
}

/// What came of it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct ContentOutcome {
    /// The row of the request that could not be served and the allocator's words, if one couldn't; what was handed out
    /// before was checked.
    pub failed: Option<(u64, String)>,
    /// Blocks whose contents were checked.
    pub blocks: u64,
    /// Places in them that were compared.
    pub places: u64,
    /// The most bytes held from the device, after scaling.
    pub peak_reserved_bytes: u64,
    /// Most bytes live, after scaling.
    pub peak_live_bytes: u64,
}

/// A block with its pattern.
#[derive(Clone, Copy, Debug)]
struct Held {
    ptr: DevicePtr,
    bytes: u64,
    home: StreamId,
    value: u8,
}

/// A copy that was queued, and what it has to be.
#[derive(Clone, Copy, Debug)]
struct Copied {
    row: u64,
    /// Where in the block.
    offset: u64,
    /// Where in the copies.
    at: u64,
    bytes: u64,
    value: u8,
}

/// Runs a trace on our allocator over the host device and checks the contents of every block. `rows_done` is called now and then with how
/// many rows are done.
///
/// # Errors
/// [`Error::Contents`] if a block held what it shouldn't; [`Error::Device`] and [`Error::BadSetting`] if the host has not
/// the memory or the settings can't be.
pub fn check_contents(
    program: &Program<'_>,
    settings: &ContentSettings,
    rows_done: &mut dyn FnMut(u64),
) -> Result<ContentOutcome> {
    let refused = |source| Error::Device { row: 0, source };
    let mut options = HostOptions::default();
    options.capacity_bytes = settings.capacity_bytes.map(|bytes| bytes.saturating_add(COPIES + (2 << 20)));
    options.completion = Completion::Late { longest: Duration::from_micros(settings.longest_us), seed: settings.seed };
    let device = Arc::new(HostDevice::new(options).map_err(refused)?);
    let copies = device.alloc(COPIES).map_err(refused)?;
    let streams: Vec<StreamId> =
        program.streams.iter().map(|_| device.create_stream()).collect::<device::Result<_>>().map_err(refused)?;
    let mut wanted = pools::Settings::default();
    wanted.hand_over = settings.gpumem.hand_over;
    wanted.backing = settings.gpumem.backing;
    wanted.budget = pools::Budget { hard_bytes: settings.gpumem.hard_bytes, soft_bytes: settings.gpumem.soft_bytes };
    let pools = Allocator::new(device.clone() as Arc<dyn Device>, wanted)
        .map_err(|error| Error::BadSetting { what: error.to_string() })?;
    let run = Run {
        scale: settings.scale.max(1),
        forgets_uses: settings.forgets_uses,
        device,
        pools,
        streams,
        held: vec![None; program.slots],
        copies,
        copied: Vec::new(),
        next_copy: 0,
        outcome: ContentOutcome::default(),
        live: 0,
        next_value: 0,
    };
    run.all(program, rows_done)
}

struct Run {
    scale: u64,
    forgets_uses: bool,
    device: Arc<HostDevice>,
    pools: Allocator,
    streams: Vec<StreamId>,
    held: Vec<Option<Held>>,
    copies: DevicePtr,
    copied: Vec<Copied>,
    next_copy: u64,
    outcome: ContentOutcome,
    live: u64,
    next_value: u8,
}

impl Run {
    fn all(mut self, program: &Program<'_>, rows_done: &mut dyn FnMut(u64)) -> Result<ContentOutcome> {
        for (index, instruction) in (0_u64..).zip(&program.instructions) {
            if index % 4096 == 0 {
                rows_done(index);
            }
            let row = u64::from(instruction.row);
            self.step(row, instruction.ask)?;
            if self.outcome.failed.is_some() {
                break;
            }
        }
        let rows = program.trace.rows.len() as u64;
        for slot in 0..self.held.len() {
            self.free(rows, slot)?;
        }
        self.look(rows)?;
        self.pools.check().map_err(|error| Error::BadSetting { what: error.to_string() })?;
        self.outcome.peak_reserved_bytes = self.pools.statistics().reserved.peak_bytes;
        rows_done(program.instructions.len() as u64);
        Ok(self.outcome)
    }

    fn step(&mut self, row: u64, ask: Ask) -> Result<()> {
        let device_refused = |source| Error::Device { row, source };
        let stream_of = |streams: &[StreamId], index: StreamIndex| streams[index.0 as usize];
        match ask {
            Ask::Alloc { slot, bytes, stream } => {
                let home = stream_of(&self.streams, stream);
                return self.alloc(row, slot.0 as usize, bytes.div_ceil(self.scale), home);
            }
            Ask::Free { slot } => self.free(row, slot.0 as usize)?,
            Ask::Use { slot, stream, .. } => {
                if let Some(held) = self.held[slot.0 as usize] {
                    let stream = stream_of(&self.streams, stream);
                    if !self.forgets_uses {
                        self.pools.record_use(held.ptr, stream).map_err(|error| refused(row, error))?;
                    }
                    // Its work comes behind what home has queued for the block so far, as a program sees to. The allocator
                    // isn't told: it may know less.
                    if stream != held.home {
                        self.device.order_streams(held.home, stream).map_err(device_refused)?;
                    }
                    self.write(row, &held, stream)?;
                }
            }
            Ask::Wait { of, by } => {
                let (of, by) = (stream_of(&self.streams, of), stream_of(&self.streams, by));
                if of != by {
                    self.device.order_streams(of, by).map_err(device_refused)?;
                    self.pools.stream_wait(of, by).map_err(|error| refused(row, error))?;
                }
            }
            Ask::Work { .. } => {}
            Ask::Sync { stream } => {
                let stream = stream.map(|stream| stream_of(&self.streams, stream));
                match stream {
                    Some(stream) => self.device.synchronize_stream(stream),
                    None => self.device.synchronize(),
                }
                .map_err(device_refused)?;
                self.pools.synchronized(stream).map_err(|error| refused(row, error))?;
            }
            Ask::Step => self.pools.step().map_err(|error| refused(row, error))?,
        }
        Ok(())
    }

    fn alloc(&mut self, row: u64, slot: usize, bytes: u64, home: StreamId) -> Result<()> {
        let ptr = match self.pools.alloc(bytes, 0, home) {
            Ok(ptr) => ptr,
            Err(pools::Error::OutOfMemory(shortage)) => {
                self.outcome.failed = Some((row, shortage.to_string()));
                return Ok(());
            }
            Err(error) => return Err(refused(row, error)),
        };
        // Neighbours in time differ, and zero is what untouched memory holds.
        self.next_value = self.next_value % 251 + 1;
        let held = Held { ptr, bytes, home, value: self.next_value };
        self.write(row, &held, home)?;
        self.held[slot] = Some(held);
        self.live += bytes;
        self.outcome.peak_live_bytes = self.outcome.peak_live_bytes.max(self.live);
        Ok(())
    }

    fn free(&mut self, row: u64, slot: usize) -> Result<()> {
        let Some(held) = self.held[slot].take() else { return Ok(()) };
        for (offset, bytes) in places(held.bytes) {
            if self.next_copy + bytes > COPIES {
                self.look(row)?;
            }
            let to = Place::Device(DevicePtr(self.copies.0 + self.next_copy));
            let from = Place::Device(DevicePtr(held.ptr.0 + offset));
            self.device.copy(to, from, bytes, held.home).map_err(|source| Error::Device { row, source })?;
            self.copied.push(Copied { row, offset, at: self.next_copy, bytes, value: held.value });
            self.next_copy += bytes;
        }
        self.live -= held.bytes;
        self.outcome.blocks += 1;
        self.pools.free(held.ptr, None).map_err(|error| refused(row, error))
    }

    /// Queues a write of the block's value on a stream.
    fn write(&self, row: u64, held: &Held, stream: StreamId) -> Result<()> {
        for (offset, bytes) in places(held.bytes) {
            let place = Place::Device(DevicePtr(held.ptr.0 + offset));
            self.device.fill(place, held.value, bytes, stream).map_err(|source| Error::Device { row, source })?;
        }
        Ok(())
    }

    /// Waits for all copies, without telling the allocator, and compares them.
    fn look(&mut self, row: u64) -> Result<()> {
        let device_refused = |source| Error::Device { row, source };
        self.device.synchronize().map_err(device_refused)?;
        let mut found = vec![0; self.next_copy as usize];
        self.device.read(Place::Device(self.copies), &mut found).map_err(device_refused)?;
        for copied in self.copied.drain(..) {
            let place = &found[copied.at as usize..(copied.at + copied.bytes) as usize];
            if let Some(wrong) = place.iter().position(|byte| *byte != copied.value) {
                return Err(Error::Contents {
                    row: copied.row,
                    offset: copied.offset + wrong as u64,
                    expected: copied.value,
                    found: place[wrong],
                });
            }
            self.outcome.places += 1;
        }
        self.next_copy = 0;
        Ok(())
    }
}

fn refused(row: u64, error: pools::Error) -> Error {
    match error {
        pools::Error::Device(source) => Error::Device { row, source },
        error => Error::Allocator { row, what: error.to_string() },
    }
}

/// Where a block is written: offset and bytes, without overlaps.
fn places(bytes: u64) -> impl Iterator<Item = (u64, u64)> {
    let last = bytes.saturating_sub(PLACE);
    let spaced = (0..last).step_by(APART as usize).map(move |offset| (offset, PLACE.min(last - offset)));
    spaced.chain(std::iter::once((last, bytes - last)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places_are_both_ends_and_every_64_kib() {
        let of = |bytes| places(bytes).collect::<Vec<_>>();
        assert_eq!(of(1), [(0, 1)]);
        assert_eq!(of(16), [(0, 16)]);
        assert_eq!(of(20), [(0, 4), (4, 16)]);
        assert_eq!(of(APART * 2), [(0, 16), (APART, 16), (APART * 2 - 16, 16)]);
    }
}
