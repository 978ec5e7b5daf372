//! Call stacks, each kept once.

use std::hash::BuildHasher;

use hashbrown::{DefaultHashBuilder, HashMap, HashTable};

use crate::NameId;

/// One call.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Frame {
    /// Name of the function.
    pub function: NameId,
    /// File it is in.
    pub file: NameId,
    /// Line in that file; 0 if not known.
    pub line: u32,
}

/// A frame in [`Stacks`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct FrameId(pub u32);

/// A stack in [`Stacks`]. The default is the empty stack, which every table has.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct StackId(pub u32);

impl StackId {
    /// No stack known.
    pub const EMPTY: Self = Self(0);

    /// Whether no stack is known.
    pub fn is_empty(self) -> bool {
        self == Self::EMPTY
    }
}

/// A table of stacks: innermost call first, equal stacks get equal ids.
#[derive(Clone, Debug, Default)]
pub struct Stacks {
    frames: Vec<Frame>,
    frame_ids: HashMap<Frame, FrameId>,
    /// Frames of all stacks, one after the other.
    calls: Vec<FrameId>,
    /// End of each stack but the empty one in `calls`.
    ends: Vec<usize>,
    table: HashTable<u32>,
    hasher: DefaultHashBuilder,
}

impl Stacks {
    /// The id of `frame`. A table that is full (2^32 frames) gives the last one.
    pub fn intern_frame(&mut self, frame: Frame) -> FrameId {
        let next = FrameId(u32::try_from(self.frames.len()).unwrap_or(u32::MAX));
        let frames = &mut self.frames;
        *self.frame_ids.entry(frame).or_insert_with(|| {
            frames.push(frame);
            next
        })
    }

    /// The id of the stack with these frames, innermost first. A table that is full (2^32 - 1 stacks) gives the empty
    /// stack.
    pub fn intern(&mut self, frames: &[FrameId]) -> StackId {
        if frames.is_empty() {
            return StackId::EMPTY;
        }
        let hash = self.hasher.hash_one(frames);
        let (calls, ends) = (&self.calls, &self.ends);
        if let Some(&index) = self.table.find(hash, |&index| stack_at(calls, ends, index) == frames) {
            return StackId(index + 1);
        }
        let Ok(index) = u32::try_from(self.ends.len()) else { return StackId::EMPTY };
        if index == u32::MAX {
            return StackId::EMPTY;
        }
        self.calls.extend_from_slice(frames);
        self.ends.push(self.calls.len());
        let (calls, ends, hasher) = (&self.calls, &self.ends, &self.hasher);
        self.table.insert_unique(hash, index, |&index| hasher.hash_one(stack_at(calls, ends, index)));
        StackId(index + 1)
    }

    /// The frame with this id; an empty one where there is none.
    pub fn frame(&self, id: FrameId) -> Frame {
        self.frames.get(id.0 as usize).copied().unwrap_or_default()
    }

    /// The frames of a stack, innermost first.
    pub fn frames(&self, id: StackId) -> &[FrameId] {
        match id.0.checked_sub(1) {
            Some(index) if (index as usize) < self.ends.len() => stack_at(&self.calls, &self.ends, index),
            _ => &[],
        }
    }

    /// How many stacks there are, the empty one not counted.
    pub fn len(&self) -> usize {
        self.ends.len()
    }

    /// Whether only the empty stack is there.
    pub fn is_empty(&self) -> bool {
        self.ends.is_empty()
    }

    /// How many distinct frames there are.
    pub fn frame_count(&self) -> usize {
        self.frames.len()
    }

    /// Frames of all stacks together: what the table costs.
    pub fn call_count(&self) -> usize {
        self.calls.len()
    }

    /// All stacks but the empty one, in order of their ids.
    pub fn ids(&self) -> impl Iterator<Item = StackId> + use<> {
        (1..=self.ends.len() as u32).map(StackId)
    }
}

/// Equal tables give the same frames and stacks the same ids.
impl PartialEq for Stacks {
    fn eq(&self, other: &Self) -> bool {
        self.ends == other.ends && self.calls == other.calls && self.frames == other.frames
    }
}

impl Eq for Stacks {}

fn stack_at<'a>(calls: &'a [FrameId], ends: &[usize], index: u32) -> &'a [FrameId] {
    let index = index as usize;
    let start = index.checked_sub(1).map_or(0, |before| ends[before]);
    &calls[start..ends[index]]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn equal_stacks_have_equal_ids_and_come_back() {
        let mut stacks = Stacks::default();
        let frames: Vec<FrameId> = (0..5).map(|line| stacks.intern_frame(Frame { line, ..Frame::default() })).collect();
        assert_eq!(stacks.intern_frame(Frame { line: 3, ..Frame::default() }), frames[3]);
        let short = stacks.intern(&frames[1..3]);
        let long = stacks.intern(&frames);
        assert_ne!(short, long);
        assert_eq!(stacks.intern(&frames[1..3]), short);
        assert_eq!(stacks.frames(long), frames);
        assert_eq!(stacks.frame(frames[4]).line, 4);
        assert_eq!(stacks.intern(&[]), StackId::EMPTY);
        assert!(stacks.frames(StackId(99)).is_empty());
    }
}
