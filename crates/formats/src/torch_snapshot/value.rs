//! Values of a pickle, as small as they can be.

use records::{FrameId, NameId, StackId};

/// A value. What a snapshot is made of has a form of its own; all else is a list or a dict of values.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Value {
    None,
    Bool(bool),
    Int(u64),
    Negative(i64),
    /// A whole number above 2^64 - 1.
    Huge,
    Float(f64),
    Text(NameId),
    Bytes,
    Set,
    /// A list or dict that may not be complete yet. Only on the stack and in the memo.
    Object(u32),
    /// A list or tuple of nothing.
    Empty,
    /// A list of frames.
    Stack(StackId),
    Frame(FrameId),
    Event(u32),
    /// An event whose action isn't known: the action.
    StrangeEvent(NameId),
    Block(u32),
    Segment(u32),
    Annotation(u32),
    /// A list or tuple of anything else.
    List(u32),
    /// A dict of anything else.
    Dict(u32),
}

impl Value {
    /// What it is, for messages.
    pub(super) fn found(self) -> &'static str {
        match self {
            Self::None => "None",
            Self::Bool(_) => "a truth value",
            Self::Int(_) | Self::Negative(_) | Self::Huge => "a whole number",
            Self::Float(_) => "a fraction",
            Self::Text(_) => "text",
            Self::Bytes => "bytes",
            Self::Set => "a set",
            Self::Object(_) => "a list or dict",
            Self::Empty => "an empty list",
            Self::Stack(_) => "a list of frames",
            Self::Frame(_) => "a frame",
            Self::Event(_) | Self::StrangeEvent(_) => "an event",
            Self::Block(_) => "a block",
            Self::Segment(_) => "a segment",
            Self::Annotation(_) => "an annotation",
            Self::List(_) => "a list",
            Self::Dict(_) => "a dict",
        }
    }
}

/// A list, tuple or dict that has no form of its own.
#[derive(Debug, Default)]
pub(super) struct Plain {
    /// Items; of a dict, keys and values by turns.
    pub(super) items: Vec<Value>,
    /// How deep lists and dicts lie in it, itself counted.
    pub(super) depth: u32,
}

/// A list or dict as it grows.
#[derive(Debug)]
pub(super) enum Object {
    /// Nothing in it yet.
    New { is_dict: bool, is_shared: bool },
    /// Being filled.
    Open(Box<Open>),
    /// Part of another, and never changed again.
    Done(Value),
}

/// A list or dict being filled.
#[derive(Debug)]
pub(super) struct Open {
    /// Items; of a dict, keys and values by turns. None of them is [`Value::Object`].
    pub(super) items: Vec<Value>,
    pub(super) is_dict: bool,
    /// The memo or a second place on the stack has it too.
    pub(super) is_shared: bool,
}

const _: () = assert!(size_of::<Value>() == 16 && size_of::<Option<Value>>() == 16 && size_of::<Object>() == 16);
