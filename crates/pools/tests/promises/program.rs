//! Random programs: what frameworks do with streams, events and memory, and what they must be able to rely on.

use std::collections::BTreeMap;

use device::{DevicePtr, StreamId};
use pools::{Allocator, Error, Precision, Settings, Tag, Tier};

use crate::machine::Machine;

pub(crate) const MIB: u64 = 1 << 20;

/// Xorshift (Marsaglia, 2003): good enough to pick steps.
pub(crate) struct Random(u64);

impl Random {
    pub(crate) fn new(seed: u64) -> Self {
        let mut random = Self(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1);
        random.next();
        random
    }

    pub(crate) fn next(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0.wrapping_mul(0x2545_f491_4f6c_dd1d) >> 8
    }

    pub(crate) fn below(&mut self, bound: u64) -> u64 {
        self.next() % bound.max(1)
    }

    pub(crate) fn chance(&mut self, one_in: u64) -> bool {
        self.below(one_in) == 0
    }
}

/// The seed to start from: `GPUMEM_SEED`, or a fixed one. Printed, so that a failure can be repeated.
pub(crate) fn seed() -> u64 {
    let seed = std::env::var("GPUMEM_SEED").ok().and_then(|text| text.parse().ok()).unwrap_or(20_261_129);
    println!("seed: {seed} (set GPUMEM_SEED for another)");
    seed
}

#[derive(Clone, Debug)]
pub(crate) struct Live {
    pub(crate) ptr: DevicePtr,
    pub(crate) bytes: u64,
    pub(crate) stream: StreamId,
    pub(crate) users: Vec<StreamId>,
    pub(crate) references: u32,
    pub(crate) value: u8,
}

/// A program and what it holds.
pub(crate) struct Program<'a> {
    machine: &'a dyn Machine,
    pub(crate) pools: Allocator,
    streams: Vec<StreamId>,
    pub(crate) live: Vec<Live>,
    ranges: BTreeMap<u64, u64>,
    random: Random,
    events: u64,
    most_bytes: u64,
    has_many_streams: bool,
}

impl<'a> Program<'a> {
    pub(crate) fn new(machine: &'a dyn Machine, settings: Settings, seed: u64, most_bytes: u64) -> Result<Self, Error> {
        let pools = Allocator::new(machine.device(), settings)?;
        let mut streams: Vec<StreamId> = (0..2).map(|_| machine.create_stream()).collect();
        streams.push(StreamId::DEFAULT);
        Ok(Self {
            machine,
            pools,
            streams,
            live: Vec::new(),
            ranges: BTreeMap::new(),
            random: Random::new(seed),
            events: 0,
            most_bytes,
            has_many_streams: false,
        })
    }

    /// Streams come and go.
    pub(crate) fn with_many_streams(mut self) -> Self {
        self.has_many_streams = true;
        self
    }

    fn stream(&mut self) -> StreamId {
        let at = self.random.below(self.streams.len() as u64) as usize;
        self.streams[at]
    }

    fn any_live(&mut self) -> Option<usize> {
        if self.live.is_empty() { None } else { Some(self.random.below(self.live.len() as u64) as usize) }
    }

    fn bytes(&mut self) -> u64 {
        match self.random.below(8) {
            0..=3 => self.random.below(5000),
            4..=6 => self.random.below(3 * MIB),
            _ => self.random.below(self.most_bytes),
        }
    }

    /// One random step. An error is the allocator's answer to it; whatever may not happen fails here.
    pub(crate) fn step(&mut self) -> Result<(), Error> {
        match self.random.below(100) {
            0..=37 => self.alloc(),
            38..=68 => self.free(),
            69..=76 => self.use_elsewhere(),
            77..=84 => self.order(),
            85..=88 => {
                let stream = self.stream();
                self.machine.observe(stream);
                self.pools.synchronized(Some(stream))
            }
            89..=91 => {
                let Some(at) = self.any_live() else { return Ok(()) };
                self.live[at].references += 1;
                assert_eq!(self.pools.retain(self.live[at].ptr)?, self.live[at].references);
                Ok(())
            }
            92..=93 => {
                let keep = self.random.below(2 * self.most_bytes);
                self.pools.trim(keep).map(drop)
            }
            94..=95 => self.pools.step(),
            96..=97 => self.record_and_wait(),
            98 => self.end_a_use(),
            _ if self.has_many_streams => self.change_streams(),
            _ => Ok(()),
        }
    }

    fn alloc(&mut self) -> Result<(), Error> {
        let bytes = self.bytes();
        let align = if self.random.chance(8) { 1 << self.random.below(23) } else { 0 };
        let stream = self.stream();
        let tag = Tag {
            tier: Tier::ALL[self.random.below(3) as usize],
            precision: Precision::ALL[self.random.below(4) as usize],
            owner: self.random.below(3) as u32,
            ..Tag::NONE
        };
        let tag = if self.random.chance(4) { tag.with_op("hot") } else { tag };
        let ptr = self.pools.alloc_tagged(bytes, align, stream, tag)?;
        assert_eq!(ptr.0 % align.max(512), 0, "aligned as asked");
        let end = ptr.0 + bytes.max(1);
        let below = self.ranges.range(..end).next_back();
        assert!(below.is_none_or(|(_, below_end)| *below_end <= ptr.0), "blocks overlap");
        self.ranges.insert(ptr.0, end);
        let value = self.random.next() as u8;
        self.machine.use_block(stream, ptr, bytes, true, value);
        self.live.push(Live { ptr, bytes, stream, users: Vec::new(), references: 1, value });
        Ok(())
    }

    fn free(&mut self) -> Result<(), Error> {
        let Some(at) = self.any_live() else { return Ok(()) };
        let live = self.live[at].clone();
        if live.references == 1 {
            self.verify(at);
            self.ranges.remove(&live.ptr.0);
            self.live.swap_remove(at);
        } else {
            self.live[at].references -= 1;
        }
        let is_known = self.streams.contains(&live.stream);
        match self.random.below(3) {
            0 => assert_eq!(self.pools.release(live.ptr)?, live.references - 1),
            1 if is_known => self.pools.free(live.ptr, Some(live.stream))?,
            _ => self.pools.free(live.ptr, None)?,
        }
        Ok(())
    }

    fn verify(&mut self, at: usize) {
        let Live { ptr, bytes, stream, value, .. } = self.live[at];
        let stream = if self.streams.contains(&stream) { stream } else { StreamId::DEFAULT };
        self.machine.verify(stream, ptr, bytes, value);
    }

    /// Every byte of every live block is as the program left it, and the allocator knows the block.
    pub(crate) fn verify_all(&mut self) {
        self.machine.observe_all();
        for at in 0..self.live.len() {
            self.verify(at);
            let info = self.pools.block(self.live[at].ptr).unwrap();
            assert_eq!(info.requested_bytes, self.live[at].bytes);
            assert_eq!(info.references, self.live[at].references);
        }
    }

    fn use_elsewhere(&mut self) -> Result<(), Error> {
        let (Some(at), stream) = (self.any_live(), self.stream()) else { return Ok(()) };
        let Live { ptr, bytes, stream: home, value, .. } = self.live[at];
        if !self.streams.contains(&home) {
            return Ok(());
        }
        self.pools.record_use(ptr, stream)?;
        self.live[at].users.push(stream);
        // As a program would: the other stream's work comes after home's so far.
        if home != stream {
            self.machine.order(home, stream);
            self.pools.stream_wait(home, stream)?;
        }
        self.machine.use_block(stream, ptr, bytes, false, value);
        Ok(())
    }

    fn end_a_use(&mut self) -> Result<(), Error> {
        let Some(at) = self.any_live() else { return Ok(()) };
        let Live { ptr, stream: home, ref users, .. } = self.live[at];
        let Some(&user) = users.last().filter(|user| **user != home && self.streams.contains(user)) else {
            return Ok(());
        };
        self.pools.use_done(ptr, user)
    }

    fn order(&mut self) -> Result<(), Error> {
        let (of, by) = (self.stream(), self.stream());
        if of == by {
            return Ok(());
        }
        self.machine.order(of, by);
        self.pools.stream_wait(of, by)
    }

    fn record_and_wait(&mut self) -> Result<(), Error> {
        let (of, by) = (self.stream(), self.stream());
        if of == by {
            return Ok(());
        }
        self.events += 1;
        self.pools.event_record(self.events, of)?;
        self.machine.order(of, by);
        self.pools.event_wait(self.events, by)?;
        if self.random.chance(2) {
            self.pools.event_destroyed(self.events)?;
        }
        Ok(())
    }

    fn change_streams(&mut self) -> Result<(), Error> {
        if self.streams.len() < 4 || self.random.chance(2) {
            self.streams.push(self.machine.create_stream());
        } else {
            let at = self.random.below(self.streams.len() as u64) as usize;
            if self.streams[at] != StreamId::DEFAULT {
                let stream = self.streams.swap_remove(at);
                self.pools.stream_destroyed(stream)?;
                self.machine.destroy_stream(stream);
            }
        }
        Ok(())
    }

    /// What holds whenever the program is quiet.
    pub(crate) fn check(&self) {
        self.pools.check().unwrap();
        self.machine.check();
        let figures = self.pools.statistics();
        let live: u64 = self.live.iter().map(|live| self.pools.block(live.ptr).unwrap().requested_bytes).sum();
        assert_eq!(figures.live.current_bytes, live);
        for (less, more) in
            [(figures.live, figures.allocated), (figures.allocated, figures.active), (figures.active, figures.reserved)]
        {
            assert!(less.current_bytes <= more.current_bytes, "{figures:?}");
        }
        assert_eq!(figures.reserved.current_bytes, self.machine.taken_bytes(), "held as the device says");
    }

    /// Frees everything, and all bytes come back.
    pub(crate) fn end(mut self) {
        self.verify_all();
        for live in std::mem::take(&mut self.live) {
            for _ in 0..live.references {
                self.pools.free(live.ptr, None).unwrap();
            }
        }
        self.machine.observe_all();
        self.pools.synchronized(None).unwrap();
        self.pools.trim(0).unwrap();
        self.check();
        let figures = self.pools.statistics();
        assert_eq!((figures.reserved.current_bytes, figures.active.current_bytes), (0, 0));
        assert_eq!((figures.handles, figures.segments), (0, 0));
        drop(self.pools);
        assert_eq!(self.machine.taken_bytes(), 0);
        self.machine.check();
    }
}
