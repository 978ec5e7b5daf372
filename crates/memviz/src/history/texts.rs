//! The strings, frames and stacks that a page shows, each once. Their number and length are bounded, so that the size
//! of a page follows its events.

use std::collections::HashMap;

use records::{FrameId, History, NameId, StackId};

use crate::{escape::readable, numbers::cut};

/// Longer names are cut.
const MAX_NAME_BYTES: usize = 400;
/// Most bytes of text; names that come when it is spent are empty.
const MAX_TEXT_BYTES: usize = 12 << 20;
/// Most frames of a stack, the innermost ones.
const MAX_FRAMES: usize = 96;
/// Most frames of all stacks together; stacks that come when they are spent are left out.
const MAX_CALLS: usize = 3_000_000;

/// Stands for a tag or stack that was left out.
pub(crate) const LEFT_OUT: u32 = u32::MAX;

/// Collects texts in the order in which they are first needed; 0 is the empty one of each kind.
pub(crate) struct Texts<'a> {
    history: &'a History,
    names: Vec<String>,
    name_of: HashMap<NameId, u32>,
    text_bytes: usize,
    frames: Vec<[u32; 3]>,
    frame_of: HashMap<FrameId, u32>,
    stacks: Vec<Vec<u32>>,
    stack_of: HashMap<StackId, u32>,
    calls: usize,
}

impl<'a> Texts<'a> {
    /// None yet.
    pub(crate) fn new(history: &'a History) -> Self {
        Self {
            history,
            names: vec![String::new()],
            name_of: HashMap::from([(NameId::EMPTY, 0)]),
            text_bytes: 0,
            frames: Vec::new(),
            frame_of: HashMap::new(),
            stacks: vec![Vec::new()],
            stack_of: HashMap::from([(StackId::EMPTY, 0)]),
            calls: 0,
        }
    }

    /// The index of a name.
    pub(crate) fn name(&mut self, id: NameId) -> u32 {
        if let Some(&known) = self.name_of.get(&id) {
            return known;
        }
        let text = self.history.names.get(id);
        let shown = readable(&cut(text, MAX_NAME_BYTES)).into_owned();
        let index = if shown.is_empty() || self.text_bytes + shown.len() > MAX_TEXT_BYTES {
            0
        } else {
            self.text_bytes += shown.len();
            self.names.push(shown);
            (self.names.len() - 1) as u32
        };
        self.name_of.insert(id, index);
        index
    }

    /// The index of a stack, or [`LEFT_OUT`].
    pub(crate) fn stack(&mut self, id: StackId) -> u32 {
        if let Some(&known) = self.stack_of.get(&id) {
            return known;
        }
        let frames = self.history.stacks.frames(id);
        let shown = &frames[..frames.len().min(MAX_FRAMES)];
        if self.calls + shown.len() > MAX_CALLS {
            return LEFT_OUT;
        }
        self.calls += shown.len();
        let stack = shown.iter().map(|&frame| self.frame(frame)).collect();
        self.stacks.push(stack);
        let index = (self.stacks.len() - 1) as u32;
        self.stack_of.insert(id, index);
        index
    }

    fn frame(&mut self, id: FrameId) -> u32 {
        if let Some(&known) = self.frame_of.get(&id) {
            return known;
        }
        let frame = self.history.stacks.frame(id);
        let row = [self.name(frame.function), self.name(frame.file), frame.line];
        self.frames.push(row);
        let index = (self.frames.len() - 1) as u32;
        self.frame_of.insert(id, index);
        index
    }

    /// The names by index.
    pub(crate) fn names(&self) -> &[String] {
        &self.names
    }

    /// Function, file and line of each frame.
    pub(crate) fn frames(&self) -> &[[u32; 3]] {
        &self.frames
    }

    /// Frames of each stack, innermost first.
    pub(crate) fn stacks(&self) -> &[Vec<u32>] {
        &self.stacks
    }
}
