//! Where values live, and how dicts become what they stand for.

use records::{Block, Event, FrameId, NameId, Names, Segment, StackId, Stacks, Stage};

use super::convert;
use super::problem::SnapshotProblem as Problem;
use super::value::{Object, Open, Plain, Value};
use super::words;
use crate::Limits;

/// A block as the file has it.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct BlockPart {
    pub(super) block: Block,
    pub(super) has_address: bool,
    pub(super) has_request: bool,
    pub(super) has_stream: bool,
}

/// A segment as the file has it.
#[derive(Debug)]
pub(super) struct SegmentPart {
    pub(super) segment: Segment,
    pub(super) device: u32,
    pub(super) blocks: Value,
    pub(super) is_taken: bool,
}

/// An annotation as the file has it; `stage` is `None` where it isn't known.
#[derive(Clone, Copy, Debug)]
pub(super) struct AnnotationPart {
    pub(super) stage: Option<Stage>,
    pub(super) name: NameId,
    pub(super) device: u32,
    pub(super) time_ns: u64,
}

/// A mistake in a part. It counts only if the part turns out to be one of the snapshot's, and only then is its place known.
#[derive(Clone, Debug)]
pub(super) struct Mistake {
    pub(super) part: Value,
    pub(super) field: &'static str,
    pub(super) problem: Problem,
    pub(super) offset: u64,
}

/// All values of a pickle.
#[derive(Debug)]
pub(super) struct Store {
    objects: Vec<Object>,
    pub(super) plain: Vec<Plain>,
    pub(super) events: Vec<Event>,
    pub(super) blocks: Vec<BlockPart>,
    pub(super) segments: Vec<SegmentPart>,
    pub(super) annotations: Vec<AnnotationPart>,
    pub(super) mistakes: Vec<Mistake>,
    /// Every text of the file, the words first.
    pub(super) texts: Names,
    /// Texts that made it into the result, and under which name.
    named: Vec<NameId>,
    pub(super) names: Names,
    pub(super) stacks: Stacks,
    frames: Vec<FrameId>,
    /// Texts that weren't UTF-8.
    pub(super) repaired: u64,
    /// Values kept in lists and dicts without a form of their own.
    kept: u64,
    /// Where the current opcode is.
    pub(super) offset: u64,
    pub(super) limits: Limits,
}

/// The dict without items.
pub(super) const EMPTY_DICT: Value = Value::Dict(0);

impl Store {
    pub(super) fn new(limits: &Limits) -> Self {
        Self {
            objects: Vec::new(),
            plain: vec![Plain { items: Vec::new(), depth: 1 }],
            events: Vec::new(),
            blocks: Vec::new(),
            segments: Vec::new(),
            annotations: Vec::new(),
            mistakes: Vec::new(),
            texts: words::texts(),
            named: Vec::new(),
            names: Names::default(),
            stacks: Stacks::default(),
            frames: Vec::new(),
            repaired: 0,
            kept: 0,
            offset: 0,
            limits: limits.clone(),
        }
    }

    /// A text of the file.
    pub(super) fn text(&mut self, bytes: &[u8]) -> Value {
        Value::Text(match std::str::from_utf8(bytes) {
            Ok(text) => self.texts.intern(text),
            Err(_) => {
                self.repaired += 1;
                self.texts.intern(&String::from_utf8_lossy(bytes))
            }
        })
    }

    /// The name in the result of a text of the file.
    pub(super) fn name(&mut self, text: NameId) -> NameId {
        let index = text.0 as usize;
        if index >= self.named.len() {
            self.named.resize(index + 1, NameId::EMPTY);
        }
        if self.named[index].is_empty() {
            self.named[index] = self.names.intern(self.texts.get(text));
        }
        self.named[index]
    }

    /// A new list or dict.
    pub(super) fn open(&mut self, is_dict: bool) -> Result<Value, Problem> {
        let index = next(self.objects.len(), self.limits.max_memo_entries, "lists and dicts")?;
        self.objects.push(Object::New { is_dict, is_shared: false });
        Ok(Value::Object(index))
    }

    /// Notes that `value` is now in two places.
    pub(super) fn share(&mut self, value: Value) {
        if let Value::Object(index) = value {
            match &mut self.objects[index as usize] {
                Object::New { is_shared, .. } => *is_shared = true,
                Object::Open(open) => open.is_shared = true,
                Object::Done(_) => {}
            }
        }
    }

    /// `value` as it is for good: from now on it can't be changed. In a list, a dict is what its keys say that it stands
    /// for; anywhere else it is just a dict.
    pub(super) fn settle(&mut self, value: Value, is_in_list: bool) -> Result<Value, Problem> {
        let Value::Object(index) = value else { return Ok(value) };
        let object = &mut self.objects[index as usize];
        let (settled, is_shared) = match std::mem::replace(object, Object::Done(Value::None)) {
            Object::Done(settled) => (settled, true),
            Object::New { is_dict, is_shared } => (if is_dict { EMPTY_DICT } else { Value::Empty }, is_shared),
            Object::Open(open) if open.is_dict => {
                let part = if is_in_list { convert::dict(self, &open.items)? } else { None };
                match part {
                    Some(part) => {
                        self.kept -= open.items.len() as u64;
                        (part, open.is_shared)
                    }
                    None => (Value::Dict(self.keep(open.items)?), open.is_shared),
                }
            }
            Object::Open(open) => (self.list(open.items)?, open.is_shared),
        };
        self.objects[index as usize] = Object::Done(settled);
        if !is_shared {
            self.release(index);
        }
        Ok(settled)
    }

    /// Forgets what only the stack had, if it was the last one made.
    pub(super) fn forget(&mut self, value: Value) {
        if let Value::Object(index) = value {
            let is_shared = match &self.objects[index as usize] {
                Object::New { is_shared, .. } => *is_shared,
                Object::Open(open) => open.is_shared,
                Object::Done(_) => true,
            };
            if !is_shared {
                self.release(index);
            }
        }
    }

    fn release(&mut self, index: u32) {
        if index as usize + 1 == self.objects.len()
            && let Some(Object::Open(open)) = self.objects.pop()
        {
            self.kept -= open.items.len() as u64;
        }
    }

    /// A list of items that are settled and counted.
    fn list(&mut self, items: Vec<Value>) -> Result<Value, Problem> {
        let count = items.len() as u64;
        if let Some(stack) = self.stack_of(&items) {
            self.kept -= count;
            return Ok(stack);
        }
        Ok(Value::List(self.keep(items)?))
    }

    /// The stack that `items` are, if they are frames.
    fn stack_of(&mut self, items: &[Value]) -> Option<Value> {
        self.frames.clear();
        for item in items {
            let Value::Frame(frame) = item else { return None };
            self.frames.push(*frame);
        }
        Some(match self.stacks.intern(&self.frames) {
            StackId::EMPTY => Value::Empty,
            stack => Value::Stack(stack),
        })
    }

    fn keep(&mut self, items: Vec<Value>) -> Result<u32, Problem> {
        let below = items.iter().map(|item| self.depth(*item)).max().unwrap_or(0);
        if u64::from(below) >= self.limits.max_nesting {
            return Err(Problem::TooDeep { limit: self.limits.max_nesting });
        }
        let index = next(self.plain.len(), u64::from(u32::MAX), "lists and dicts")?;
        self.plain.push(Plain { items, depth: below + 1 });
        Ok(index)
    }

    fn depth(&self, value: Value) -> u32 {
        match value {
            Value::List(index) | Value::Dict(index) => self.plain[index as usize].depth,
            _ => 0,
        }
    }

    fn count_kept(&mut self, more: usize) -> Result<(), Problem> {
        self.kept += more as u64;
        match self.kept > self.limits.max_values {
            true => Err(Problem::TooMany { what: "values in lists and dicts", limit: self.limits.max_values }),
            false => Ok(()),
        }
    }

    /// A tuple of `items`.
    pub(super) fn tuple(&mut self, items: &mut [Value]) -> Result<Value, Problem> {
        for item in &mut *items {
            *item = self.settle(*item, true)?;
        }
        if let Some(stack) = self.stack_of(items) {
            return Ok(stack);
        }
        self.count_kept(items.len())?;
        Ok(Value::List(self.keep(items.to_vec())?))
    }

    /// Whether `value` is a list that is being filled.
    pub(super) fn is_open_list(&self, value: Value) -> bool {
        let Value::Object(index) = value else { return false };
        match &self.objects[index as usize] {
            Object::New { is_dict, .. } => !is_dict,
            Object::Open(open) => !open.is_dict,
            Object::Done(_) => false,
        }
    }

    /// Puts `items` into a list, or keys and values into a dict; gives what then stands on the stack. `is_in_list`: the
    /// target is a list's item.
    pub(super) fn fill(
        &mut self,
        target: Value,
        items: &mut [Value],
        is_dict: bool,
        is_in_list: bool,
        name: &'static str,
    ) -> Result<Value, Problem> {
        if is_dict && items.len() % 2 == 1 {
            return Err(Problem::OddItems);
        }
        for item in &mut *items {
            *item = self.settle(*item, !is_dict)?;
        }
        let Value::Object(index) = target else {
            return Err(match target {
                Value::Empty | Value::Stack(_) | Value::List(_) => Problem::Changed { name },
                other if is_dict && self.is_dict(other) => Problem::Changed { name },
                other => Problem::WrongTarget { name, found: other.found() },
            });
        };
        match &mut self.objects[index as usize] {
            Object::New { is_dict: is, .. } if *is != is_dict => return Err(wrong_target(name, *is)),
            Object::Open(open) if open.is_dict != is_dict => return Err(wrong_target(name, open.is_dict)),
            Object::Done(_) => return Err(Problem::Changed { name }),
            _ if items.is_empty() => return Ok(target),
            &mut Object::New { is_shared, .. } => {
                // The usual case: a dict comes in one piece. What it stands for is made of it at once, as a writer may
                // hold a million of them on the stack before it puts them into a list.
                if is_dict
                    && is_in_list
                    && items.len() > 2
                    && let Some(part) = convert::dict(self, items)?
                {
                    self.objects[index as usize] = Object::Done(part);
                    if !is_shared {
                        self.release(index);
                        return Ok(part);
                    }
                    return Ok(target);
                }
                self.count_kept(items.len())?;
                let open = Open { items: items.to_vec(), is_dict, is_shared };
                self.objects[index as usize] = Object::Open(Box::new(open));
            }
            Object::Open(open) => {
                open.items.extend_from_slice(items);
                self.count_kept(items.len())?;
            }
        }
        Ok(target)
    }

    fn is_dict(&self, value: Value) -> bool {
        use Value::{Annotation, Block, Dict, Event, Frame, Segment, StrangeEvent};
        matches!(value, Dict(_) | Event(_) | StrangeEvent(_) | Block(_) | Segment(_) | Annotation(_) | Frame(_))
    }

    /// What a list or tuple holds; `None` for anything else.
    pub(super) fn items(&self, value: Value) -> Option<&[Value]> {
        match value {
            Value::Empty => Some(&[]),
            Value::List(index) => Some(&self.plain[index as usize].items),
            _ => None,
        }
    }

    /// Notes a mistake in a part.
    pub(super) fn mistake(&mut self, part: Value, field: &'static str, problem: Problem) {
        self.mistakes.push(Mistake { part, field, problem, offset: self.offset });
    }

    /// Adds an event.
    pub(super) fn add_event(&mut self, event: Event) -> Result<Value, Problem> {
        let index = next(self.events.len(), self.limits.max_events, "events")?;
        self.events.push(event);
        Ok(Value::Event(index))
    }

    /// Adds a block.
    pub(super) fn add_block(&mut self, block: BlockPart) -> Result<Value, Problem> {
        let index = next(self.blocks.len(), self.limits.max_values, "blocks")?;
        self.blocks.push(block);
        Ok(Value::Block(index))
    }

    /// Adds a segment.
    pub(super) fn add_segment(&mut self, segment: SegmentPart) -> Result<Value, Problem> {
        let index = next(self.segments.len(), self.limits.max_values, "segments")?;
        self.segments.push(segment);
        Ok(Value::Segment(index))
    }

    /// Adds an annotation.
    pub(super) fn add_annotation(&mut self, annotation: AnnotationPart) -> Result<Value, Problem> {
        let index = next(self.annotations.len(), self.limits.max_values, "annotations")?;
        self.annotations.push(annotation);
        Ok(Value::Annotation(index))
    }
}

/// The index of the next of `what`, of which there are `count`.
fn next(count: usize, limit: u64, what: &'static str) -> Result<u32, Problem> {
    match u32::try_from(count) {
        Ok(index) if (count as u64) < limit => Ok(index),
        _ => Err(Problem::TooMany { what, limit }),
    }
}

fn wrong_target(name: &'static str, is_dict: bool) -> Problem {
    Problem::WrongTarget { name, found: if is_dict { "a dict" } else { "a list" } }
}
