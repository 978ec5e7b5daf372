//! From a dict to what it stands for: an event, block, segment, frame or annotation.

use records::{Block, BlockState, Event, Frame, NameId, Segment, SegmentKind, StackId, Stage};

use super::MAX_DEVICE;
use super::problem::SnapshotProblem as Problem;
use super::store::{AnnotationPart, BlockPart, SegmentPart, Store};
use super::value::Value;
use super::words::{self, Word};

/// The part that a dict with these keys and values stands for; `None` if it is just a dict. Keys that aren't known are
/// passed over, so that newer files are read.
pub(super) fn dict(store: &mut Store, pairs: &[Value]) -> Result<Option<Value>, Problem> {
    let kind = pairs.iter().step_by(2).find_map(|key| match word(*key)? {
        word @ (Word::Action | Word::TotalSize | Word::State | Word::Filename | Word::Stage) => Some(word),
        Word::Blocks => Some(Word::TotalSize),
        Word::RealSize => Some(Word::State),
        Word::Line => Some(Word::Filename),
        _ => None,
    });
    match kind {
        Some(Word::Action) => event(store, pairs),
        Some(Word::TotalSize) => segment(store, pairs),
        Some(Word::State) => block(store, pairs),
        Some(Word::Filename) => Ok(frame(store, pairs)),
        Some(Word::Stage) => annotation(store, pairs),
        _ => return Ok(None),
    }
    .map(Some)
}

/// The word that a value is.
pub(super) fn word(value: Value) -> Option<Word> {
    match value {
        Value::Text(text) => Word::of(text),
        _ => None,
    }
}

/// Words and values of a dict.
fn fields(pairs: &[Value]) -> impl Iterator<Item = (Word, Value)> + '_ {
    pairs.as_chunks::<2>().0.iter().filter_map(|[key, value]| Some((word(*key)?, *value)))
}

/// The first mistake of a part.
#[derive(Default)]
struct First(Option<(&'static str, Problem)>);

impl First {
    /// What `result` has; a default and a note if it is a mistake.
    fn take<T: Default>(&mut self, word: Word, result: Result<T, Problem>) -> T {
        result.unwrap_or_else(|problem| {
            self.0.get_or_insert((word.text(), problem));
            T::default()
        })
    }

    fn need(&mut self, word: Word, is_there: bool) {
        if !is_there {
            self.0.get_or_insert((word.text(), Problem::Missing));
        }
    }

    fn note(self, store: &mut Store, part: Value) -> Value {
        if let Some((field, problem)) = self.0 {
            store.mistake(part, field, problem);
        }
        part
    }
}

fn event(store: &mut Store, pairs: &[Value]) -> Result<Value, Problem> {
    use records::Action;

    let mut event = Event::default();
    let mut first = First::default();
    let (mut has_address, mut has_bytes) = (false, false);
    let mut strange = None;
    let (mut metadata, mut category, mut context) = (NameId::EMPTY, NameId::EMPTY, NameId::EMPTY);
    for (word, value) in fields(pairs) {
        match word {
            Word::Action => match value {
                Value::Text(text) => match words::action(text) {
                    Some(action) => event.action = action,
                    None => strange = Some(text),
                },
                other => first.take(word, Err(expected("text", other))),
            },
            Word::Addr | Word::DeviceFree => {
                event.address = first.take(word, number(value));
                has_address = true;
            }
            Word::Size => {
                event.bytes = first.take(word, number(value));
                has_bytes = true;
            }
            Word::Stream => event.stream = first.take(word, stream(value)),
            Word::TimeUs if event.time_ns == 0 => event.time_ns = first.take(word, time_ns(value)),
            Word::TimeNs => event.time_ns = first.take(word, number(value)),
            Word::Frames => event.stack = first.take(word, stack(value)),
            Word::UserMetadata => metadata = tag(value),
            Word::Category => category = tag(value),
            Word::CompileContext => context = tag(value),
            _ => {}
        }
    }
    if let Some(action) = strange {
        return Ok(Value::StrangeEvent(action));
    }
    if !matches!(event.action, Action::OutOfMemory | Action::Snapshot | Action::Step) {
        first.need(Word::Addr, has_address);
        first.need(Word::Size, has_bytes);
    }
    let tag = [metadata, category, context].into_iter().find(|tag| !tag.is_empty());
    event.tag = tag.map_or(NameId::EMPTY, |tag| store.name(tag));
    let part = store.add_event(event)?;
    Ok(first.note(store, part))
}

fn block(store: &mut Store, pairs: &[Value]) -> Result<Value, Problem> {
    let mut part = BlockPart { block: Block { state: BlockState::Free, ..Block::default() }, ..BlockPart::default() };
    let block = &mut part.block;
    let mut first = First::default();
    let (mut has_bytes, mut has_state, mut is_history) = (false, false, false);
    let mut tag_text = NameId::EMPTY;
    for (word, value) in fields(pairs) {
        match word {
            Word::Address | Word::Addr => {
                block.address = first.take(word, number(value));
                part.has_address = true;
            }
            Word::Size => {
                block.bytes = first.take(word, number(value));
                has_bytes = true;
            }
            // A block of a file from before 2.1 has a list of what it was handed out for, the latest first.
            Word::RealSize => {
                block.requested_bytes = first.take(word, number(value));
                (part.has_request, is_history) = (true, true);
            }
            Word::RequestedSize => {
                block.requested_bytes = first.take(word, number(value));
                part.has_request = true;
            }
            Word::History => match store.items(value) {
                Some(&[Value::Block(index), ..]) => {
                    let latest = store.blocks[index as usize].block;
                    (block.requested_bytes, part.has_request) = (latest.requested_bytes, true);
                    block.stack = latest.stack;
                }
                Some([]) => {}
                _ => first.take(word, Err(expected("a list of what the block was handed out for", value))),
            },
            Word::State => {
                block.state = first.take(word, state(store, value)).0;
                has_state = true;
            }
            Word::Stream => {
                block.stream = first.take(word, stream(value));
                part.has_stream = true;
            }
            Word::Frames => block.stack = first.take(word, stack(value)),
            Word::UserMetadata => tag_text = tag(value),
            _ => {}
        }
    }
    if !is_history {
        first.need(Word::Size, has_bytes);
        first.need(Word::State, has_state);
    }
    if !tag_text.is_empty() {
        part.block.tag = store.name(tag_text);
    }
    let part = store.add_block(part)?;
    Ok(first.note(store, part))
}

fn segment(store: &mut Store, pairs: &[Value]) -> Result<Value, Problem> {
    let mut part = SegmentPart { segment: Segment::default(), device: 0, blocks: Value::Empty, is_taken: false };
    let segment = &mut part.segment;
    let mut first = First::default();
    let (mut has_address, mut has_bytes) = (false, false);
    for (word, value) in fields(pairs) {
        match word {
            Word::Address => {
                segment.address = first.take(word, number(value));
                has_address = true;
            }
            Word::TotalSize => {
                segment.bytes = first.take(word, number(value));
                has_bytes = true;
            }
            Word::Device => part.device = first.take(word, device(value)),
            Word::Stream => segment.stream = first.take(word, stream(value)),
            Word::SegmentType => {
                segment.kind = match self::word(value) {
                    Some(Word::Small) => SegmentKind::Small,
                    Some(Word::Large) => SegmentKind::Large,
                    _ => SegmentKind::Any,
                }
            }
            Word::IsExpandable => {
                segment.is_expandable = first.take(
                    word,
                    match value {
                        Value::Bool(is) => Ok(is),
                        other => Err(expected("True or False", other)),
                    },
                )
            }
            Word::PoolId => {
                segment.pool = first.take(
                    word,
                    match store.items(value) {
                        Some(&[a, b]) => stream(a).and_then(|a| Ok((a, stream(b)?))),
                        _ => Err(expected("two numbers", value)),
                    },
                )
            }
            Word::Frames => segment.stack = first.take(word, stack(value)),
            Word::Blocks => match value {
                Value::Empty | Value::List(_) => part.blocks = value,
                other => first.take(word, Err(expected("a list of blocks", other))),
            },
            _ => {}
        }
    }
    first.need(Word::Address, has_address);
    first.need(Word::TotalSize, has_bytes);
    let part = store.add_segment(part)?;
    Ok(first.note(store, part))
}

/// Lines and names aren't worth refusing a file for: what isn't there stays empty.
fn frame(store: &mut Store, pairs: &[Value]) -> Value {
    let mut frame = Frame::default();
    for (word, value) in fields(pairs) {
        match (word, value) {
            (Word::Name, Value::Text(text)) => frame.function = store.name(text),
            (Word::Filename, Value::Text(text)) => frame.file = store.name(text),
            (Word::Line, Value::Int(line)) => frame.line = u32::try_from(line).unwrap_or(0),
            _ => {}
        }
    }
    Value::Frame(store.stacks.intern_frame(frame))
}

fn annotation(store: &mut Store, pairs: &[Value]) -> Result<Value, Problem> {
    let mut part = AnnotationPart { stage: None, name: NameId::EMPTY, device: 0, time_ns: 0 };
    let mut first = First::default();
    for (word, value) in fields(pairs) {
        match word {
            Word::Stage => {
                part.stage = match self::word(value) {
                    Some(Word::Start) => Some(Stage::Start),
                    Some(Word::End) => Some(Stage::End),
                    _ => None,
                }
            }
            Word::Name => part.name = store.name(tag(value)),
            Word::Device => part.device = first.take(word, device(value)),
            Word::TimeUs if part.time_ns == 0 => part.time_ns = first.take(word, time_ns(value)),
            Word::TimeNs => part.time_ns = first.take(word, number(value)),
            _ => {}
        }
    }
    let part = store.add_annotation(part)?;
    Ok(first.note(store, part))
}

pub(super) fn expected(expected: &'static str, found: Value) -> Problem {
    Problem::Expected { expected, found: found.found() }
}

/// A number of bytes or an address.
pub(super) fn number(value: Value) -> Result<u64, Problem> {
    match value {
        Value::Int(number) => Ok(number),
        Value::Negative(number) => Err(Problem::Negative(number)),
        Value::Huge => Err(Problem::TooLarge { value: "a number of more than 64 bits".to_owned(), max: u64::MAX }),
        other => Err(expected("a whole number", other)),
    }
}

/// A stream or another id, which some writers take for a signed number.
fn stream(value: Value) -> Result<u64, Problem> {
    match value {
        Value::Negative(id) => Ok(id.cast_unsigned()),
        other => number(other),
    }
}

pub(super) fn device(value: Value) -> Result<u32, Problem> {
    let number = number(value)?;
    let device = u32::try_from(number).ok().filter(|device| *device <= MAX_DEVICE);
    device.ok_or_else(|| Problem::TooLarge { value: number.to_string(), max: u64::from(MAX_DEVICE) })
}

fn time_ns(value: Value) -> Result<u64, Problem> {
    if value == Value::None {
        return Ok(0);
    }
    let time_us = number(value)?;
    time_us.checked_mul(1000).ok_or_else(|| Problem::TooLarge { value: time_us.to_string(), max: u64::MAX / 1000 })
}

fn stack(value: Value) -> Result<StackId, Problem> {
    match value {
        Value::Stack(stack) => Ok(stack),
        Value::Empty | Value::None => Ok(StackId::EMPTY),
        other => Err(expected("a list of frames", other)),
    }
}

/// The text of a tag; what torch writes where nobody gave one is none.
fn tag(value: Value) -> NameId {
    match value {
        Value::Text(text) if Word::of(text) != Some(Word::NotCompiled) => text,
        _ => NameId::EMPTY,
    }
}

/// A state, free where there is none.
struct State(BlockState);

impl Default for State {
    fn default() -> Self {
        Self(BlockState::Free)
    }
}

fn state(store: &Store, value: Value) -> Result<State, Problem> {
    Ok(State(match (word(value), value) {
        (Some(Word::Active), _) => BlockState::Live,
        (Some(Word::ActivePendingFree | Word::ActiveAwaitingFree), _) => BlockState::Pending,
        (Some(Word::Inactive), _) => BlockState::Free,
        (_, Value::Text(text)) => return Err(Problem::UnknownState(store.texts.get(text).to_owned())),
        (_, other) => return Err(expected("text", other)),
    }))
}
