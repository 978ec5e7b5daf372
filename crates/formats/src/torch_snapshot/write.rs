//! Writing.

use std::io::{self, BufWriter, Write};

use hashbrown::HashMap;
use records::{
    Action, Annotation, Block, BlockState, DeviceHistory, Event, FrameId, History, MemoryMap, NameId, Segment,
    SegmentKind, StackId, Stage,
};

use super::MAX_DEVICE;
use super::pickle::{Pickle, Place};
use super::settings::{self, Setting};
use super::words::Word;
use crate::{Error, Format, Result};

/// Writes a history as a PyTorch memory snapshot: a pickle of protocol 4 with the fields of `torch.cuda.memory._snapshot()`,
/// which torch's own viewers open. Reading it back gives the same history, except that a segment for any request counts
/// as one for large requests, and that notes and defects are worked out anew.
///
/// Where a device doesn't state its end, the state after its last event is written.
///
/// # Errors
/// The writer failed, or the number of a device is above 65 535: the format has a list with a place for each.
pub fn write_snapshot(history: &History, out: impl Write) -> Result<()> {
    if let Some(device) = history.devices.iter().map(|device| device.device).find(|device| *device > MAX_DEVICE) {
        return Err(Error::NotCarried { format: Format::TorchSnapshot, what: format!("a device numbered {device}") });
    }
    let write = || {
        let mut pickle = Pickle::new(BufWriter::with_capacity(256 << 10, out))?;
        Writer::new(history).top(&mut pickle)?;
        pickle.stop()
    };
    write().map_err(|source| Error::Io { file: history.name.clone(), action: "write", source })
}

/// What was written so far, by where it is in the memo.
struct Writer<'h> {
    history: &'h History,
    words: [Place; Word::COUNT],
    actions: [Place; Action::ALL.len()],
    names: Vec<Place>,
    frames: Vec<Place>,
    stacks: Vec<Place>,
}

impl<'h> Writer<'h> {
    fn new(history: &'h History) -> Self {
        Self {
            history,
            words: [None; Word::COUNT],
            actions: [None; Action::ALL.len()],
            names: vec![None; history.names.len() + 1],
            frames: vec![None; history.stacks.frame_count()],
            stacks: vec![None; history.stacks.len() + 1],
        }
    }

    fn top<W: Write>(&mut self, out: &mut Pickle<W>) -> io::Result<()> {
        let history = self.history;
        out.dict(|out| {
            self.word(out, Word::Segments)?;
            let ends: Vec<(u32, Vec<Segment>)> = history.devices.iter().map(|d| (d.device, end(d))).collect();
            let segments = ends.iter().flat_map(|(device, end)| end.iter().map(|segment| (*device, segment)));
            out.list(segments, |out, (device, segment)| self.segment(out, device, segment))?;
            self.word(out, Word::DeviceTraces)?;
            let of_device: HashMap<u32, &[Event]> =
                history.devices.iter().map(|device| (device.device, device.events.as_slice())).collect();
            let with_events = of_device.iter().filter(|(_, events)| !events.is_empty());
            let count = with_events.map(|(device, _)| u64::from(*device) + 1).max().unwrap_or(0);
            out.list(0..count, |out, device| {
                let events = u32::try_from(device).ok().and_then(|device| of_device.get(&device).copied());
                out.list(events.unwrap_or_default(), |out, event| self.event(out, event))
            })?;
            self.word(out, Word::AllocatorSettings)?;
            self.settings(out)?;
            self.word(out, Word::Annotations)?;
            out.list(&history.annotations, |out, annotation| self.annotation(out, annotation))?;
            self.word(out, Word::Gpumem)?;
            self.ours(out)
        })
    }

    fn word<W: Write>(&mut self, out: &mut Pickle<W>, word: Word) -> io::Result<()> {
        out.shared_text(&mut self.words[word as usize], word.text())
    }

    fn number<W: Write>(&mut self, out: &mut Pickle<W>, word: Word, number: u64) -> io::Result<()> {
        self.word(out, word)?;
        out.int(number)
    }

    fn name<W: Write>(&mut self, out: &mut Pickle<W>, name: NameId) -> io::Result<()> {
        let text = self.history.names.get(name);
        match self.names.get_mut(name.0 as usize) {
            Some(place) => out.shared_text(place, text),
            None => out.text(text),
        }
    }

    fn time<W: Write>(&mut self, out: &mut Pickle<W>, time_ns: u64) -> io::Result<()> {
        self.number(out, Word::TimeUs, time_ns / 1000)?;
        // Beside what others know, so that nothing is lost.
        if time_ns.is_multiple_of(1000) { Ok(()) } else { self.number(out, Word::TimeNs, time_ns) }
    }

    fn stack<W: Write>(&mut self, out: &mut Pickle<W>, stack: StackId) -> io::Result<()> {
        self.word(out, Word::Frames)?;
        let frames = self.history.stacks.frames(stack);
        let index = if frames.is_empty() { 0 } else { stack.0 as usize };
        if out.again(self.stacks[index])? {
            return Ok(());
        }
        out.list(frames, |out, frame| self.frame(out, *frame))?;
        self.stacks[index] = out.memoize()?;
        Ok(())
    }

    fn frame<W: Write>(&mut self, out: &mut Pickle<W>, id: FrameId) -> io::Result<()> {
        let place = self.frames.get(id.0 as usize).copied().flatten();
        if out.again(place)? {
            return Ok(());
        }
        let frame = self.history.stacks.frame(id);
        out.dict(|out| {
            self.word(out, Word::Name)?;
            self.name(out, frame.function)?;
            self.word(out, Word::Filename)?;
            self.name(out, frame.file)?;
            self.number(out, Word::Line, u64::from(frame.line))
        })?;
        let place = out.memoize()?;
        if let Some(known) = self.frames.get_mut(id.0 as usize) {
            *known = place;
        }
        Ok(())
    }

    fn event<W: Write>(&mut self, out: &mut Pickle<W>, event: &Event) -> io::Result<()> {
        out.dict(|out| {
            self.word(out, Word::Action)?;
            let index = Action::ALL.iter().position(|action| *action == event.action);
            match index {
                Some(index) => out.shared_text(&mut self.actions[index], event.action.name())?,
                None => out.text(event.action.name())?,
            }
            let is_oom = event.action == Action::OutOfMemory;
            self.number(out, if is_oom { Word::DeviceFree } else { Word::Addr }, event.address)?;
            self.number(out, Word::Size, event.bytes)?;
            self.number(out, Word::Stream, event.stream)?;
            self.time(out, event.time_ns)?;
            self.word(out, Word::CompileContext)?;
            self.word(out, Word::NotCompiled)?;
            self.word(out, Word::UserMetadata)?;
            self.name(out, event.tag)?;
            self.stack(out, event.stack)
        })
    }

    fn segment<W: Write>(&mut self, out: &mut Pickle<W>, device: u32, segment: &Segment) -> io::Result<()> {
        let sum = |is_counted: fn(&Block) -> bool, bytes: fn(&Block) -> u64| {
            let counted = segment.blocks.iter().filter(|block| is_counted(block));
            counted.fold(0_u64, |sum, block| sum.saturating_add(bytes(block)))
        };
        let is_active = |block: &Block| block.state != BlockState::Free;
        out.dict(|out| {
            self.number(out, Word::Device, u64::from(device))?;
            self.number(out, Word::Address, segment.address)?;
            self.number(out, Word::TotalSize, segment.bytes)?;
            let allocated = sum(|block| block.state == BlockState::Live, |block| block.bytes);
            self.number(out, Word::AllocatedSize, allocated)?;
            self.number(out, Word::ActiveSize, sum(is_active, |block| block.bytes))?;
            self.number(out, Word::RequestedSize, sum(is_active, |block| block.requested_bytes))?;
            self.number(out, Word::Stream, segment.stream)?;
            self.word(out, Word::SegmentType)?;
            self.word(out, if segment.kind == SegmentKind::Small { Word::Small } else { Word::Large })?;
            self.word(out, Word::PoolId)?;
            out.pair(|out| {
                out.int(segment.pool.0)?;
                out.int(segment.pool.1)
            })?;
            self.word(out, Word::IsExpandable)?;
            out.truth(segment.is_expandable)?;
            self.stack(out, segment.stack)?;
            self.word(out, Word::Blocks)?;
            let blocks = without_gaps(segment);
            out.list(&blocks, |out, block| self.block(out, segment, block))
        })
    }

    fn block<W: Write>(&mut self, out: &mut Pickle<W>, segment: &Segment, block: &Block) -> io::Result<()> {
        out.dict(|out| {
            self.number(out, Word::Address, block.address)?;
            self.number(out, Word::Size, block.bytes)?;
            self.number(out, Word::RequestedSize, block.requested_bytes)?;
            self.word(out, Word::State)?;
            self.word(
                out,
                match block.state {
                    BlockState::Live => Word::Active,
                    BlockState::Pending => Word::ActivePendingFree,
                    BlockState::Free => Word::Inactive,
                },
            )?;
            if block.stream != segment.stream {
                self.number(out, Word::Stream, block.stream)?;
            }
            if !block.tag.is_empty() {
                self.word(out, Word::UserMetadata)?;
                self.name(out, block.tag)?;
            }
            self.stack(out, block.stack)
        })
    }

    fn settings<W: Write>(&mut self, out: &mut Pickle<W>) -> io::Result<()> {
        let groups = settings::groups(&self.history.settings);
        out.dict(|out| {
            for (name, group) in &groups {
                out.text(name)?;
                match group {
                    Setting::One(value) => setting(out, name, value)?,
                    Setting::Several(inner) => out.dict(|out| {
                        for (name, value) in inner {
                            out.text(name)?;
                            setting(out, name, value)?;
                        }
                        Ok(())
                    })?,
                }
            }
            Ok(())
        })
    }

    fn annotation<W: Write>(&mut self, out: &mut Pickle<W>, annotation: &Annotation) -> io::Result<()> {
        out.dict(|out| {
            self.word(out, Word::Stage)?;
            self.word(out, if annotation.stage == Stage::Start { Word::Start } else { Word::End })?;
            self.word(out, Word::Name)?;
            self.name(out, annotation.name)?;
            self.number(out, Word::Device, u64::from(annotation.device))?;
            self.time(out, annotation.time_ns)
        })
    }

    /// What the format has no place for.
    fn ours<W: Write>(&mut self, out: &mut Pickle<W>) -> io::Result<()> {
        let history = self.history;
        out.dict(|out| {
            self.word(out, Word::Name)?;
            out.text(&history.name)?;
            self.word(out, Word::Allocator)?;
            out.text(&history.allocator)?;
            self.word(out, Word::Device)?;
            out.list(&history.devices, |out, device| out.int(u64::from(device.device)))?;
            self.word(out, Word::Granule)?;
            out.list(&history.devices, |out, device| out.int(device.granule_bytes))?;
            self.word(out, Word::Capacity)?;
            out.list(&history.devices, |out, device| match device.capacity_bytes {
                Some(bytes) => out.int(bytes),
                None => out.none(),
            })
        })
    }
}

fn setting<W: Write>(out: &mut Pickle<W>, name: &str, value: &str) -> io::Result<()> {
    // Torch writes its own line of settings as text, whatever is in it.
    let is_text = name == "PYTORCH_CUDA_ALLOC_CONF";
    match value {
        _ if is_text => out.text(value),
        "True" => out.truth(true),
        "False" => out.truth(false),
        "None" => out.none(),
        _ => match (value.parse::<u64>(), value.parse::<i64>(), value.parse::<f64>()) {
            (Ok(number), _, _) if number.to_string() == value => out.int(number),
            (_, Ok(number), _) if number.to_string() == value => out.negative(number),
            (_, _, Ok(number)) if format!("{number:?}") == value => out.float(number),
            _ => out.text(value),
        },
    }
}

/// The segments after the last event.
fn end(device: &DeviceHistory) -> Vec<Segment> {
    if !device.end.is_empty() {
        return device.end.clone();
    }
    let mut map = MemoryMap::new(device);
    device.events.iter().for_each(|event| map.apply(event));
    map.segments().collect()
}

/// The blocks of a segment with free ones between them, as viewers add up sizes to get addresses.
fn without_gaps(segment: &Segment) -> Vec<Block> {
    let mut blocks = Vec::with_capacity(2 * segment.blocks.len() + 1);
    let mut next = segment.address;
    let fill = |from: u64, to: u64, blocks: &mut Vec<Block>| {
        if from < to {
            let free = Block { address: from, bytes: to - from, state: BlockState::Free, ..Block::default() };
            blocks.push(Block { stream: segment.stream, ..free });
        }
    };
    for block in &segment.blocks {
        fill(next, block.address, &mut blocks);
        blocks.push(*block);
        next = next.max(block.address.saturating_add(block.bytes));
    }
    fill(next, segment.address.saturating_add(segment.bytes), &mut blocks);
    blocks
}
