//! The blocks of a history from birth to death, for writers that show them one by one.

use std::borrow::Cow;
use std::collections::BTreeMap;

use records::{Action, BlockState, DeviceHistory, Event, Frame, FrameId, History, NameId, StackId, Telling, clip};

/// Most bytes of a name that is written at each use.
const MAX_NAME_BYTES: usize = 240;

/// When something happened: at which event of its device, and when in ns.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct When {
    pub(crate) event: u64,
    pub(crate) time_ns: u64,
}

/// A block. What came before the record began, or never came, is `None`.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Life {
    pub(crate) address: u64,
    /// Bytes it took up.
    pub(crate) bytes: u64,
    pub(crate) requested_bytes: u64,
    pub(crate) stream: u64,
    pub(crate) stack: StackId,
    pub(crate) tag: NameId,
    pub(crate) born: Option<When>,
    /// The host dropped it.
    pub(crate) dropped: Option<When>,
    /// It could be handed out again, or another block was put in its place.
    pub(crate) ended: Option<When>,
}

/// Times of a device's events, each at least the one before it. Where none is known, an event takes a microsecond.
pub(crate) fn times(device: &DeviceHistory) -> Vec<u64> {
    if device.events.iter().all(|event| event.time_ns == 0) {
        return (0..device.events.len() as u64).map(|number| number * 1000).collect();
    }
    let first = device.events.iter().map(|event| event.time_ns).find(|&time| time != 0).unwrap_or_default();
    let mut latest = first;
    let mut next = |event: &Event| {
        latest = latest.max(event.time_ns);
        latest
    };
    device.events.iter().map(&mut next).collect()
}

/// All blocks of a device in order of birth, with the times of [`times`].
pub(crate) fn lives(device: &DeviceHistory, times: &[u64]) -> Vec<Life> {
    let granule = device.granule_bytes.max(1);
    let mut lives: Vec<Life> = Vec::new();
    let mut here: BTreeMap<u64, usize> = BTreeMap::new();
    for block in device.start.iter().flat_map(|segment| &segment.blocks) {
        if block.state == BlockState::Free {
            continue;
        }
        here.insert(block.address, lives.len());
        lives.push(Life {
            address: block.address,
            bytes: block.bytes,
            requested_bytes: block.requested_bytes,
            stream: block.stream,
            stack: block.stack,
            tag: block.tag,
            born: None,
            dropped: None,
            ended: None,
        });
    }
    for ((event, &time_ns), number) in device.events.iter().zip(times).zip(0..) {
        let now = Some(When { event: number, time_ns });
        match event.action {
            Action::Alloc => {
                if let Some(before) = here.insert(event.address, lives.len()) {
                    lives[before].ended = now;
                }
                lives.push(Life {
                    address: event.address,
                    bytes: event.bytes.checked_next_multiple_of(granule).unwrap_or(event.bytes),
                    requested_bytes: event.bytes,
                    stream: event.stream,
                    stack: event.stack,
                    tag: event.tag,
                    born: now,
                    dropped: None,
                    ended: None,
                });
            }
            Action::FreeRequested => {
                if let Some(&index) = here.get(&event.address) {
                    lives[index].dropped = lives[index].dropped.or(now);
                }
            }
            Action::FreeCompleted => {
                if let Some(index) = here.remove(&event.address) {
                    lives[index].dropped = lives[index].dropped.or(now);
                    lives[index].ended = now;
                }
            }
            _ => {}
        }
    }
    lives
}

/// Says where requests come from.
pub(crate) struct Teller<'a> {
    history: &'a History,
    telling: Telling,
}

impl<'a> Teller<'a> {
    pub(crate) fn new(history: &'a History) -> Self {
        Self { history, telling: Telling::new(&history.stacks, &history.names) }
    }

    /// At most `count` telling calls of a stack, innermost first.
    pub(crate) fn calls(&self, stack: StackId, count: usize) -> String {
        let frames = self.telling.frames(&self.history.stacks, stack, count);
        let calls: Vec<String> = frames.into_iter().map(|frame| self.call(frame)).collect();
        calls.join(" < ")
    }

    fn call(&self, frame: FrameId) -> String {
        let Frame { function, file, line } = self.history.stacks.frame(frame);
        let [function, file] = [function, file].map(|name| self.name(name));
        match (&*file, line) {
            ("", _) => function.into_owned(),
            (file, 0) => format!("{function} ({file})"),
            (file, line) => format!("{function} ({file}:{line})"),
        }
    }

    /// A name, or the beginning of one that is too long to be repeated.
    pub(crate) fn name(&self, name: NameId) -> Cow<'a, str> {
        clip(self.history.names.get(name), MAX_NAME_BYTES)
    }

    /// What a block is called: its tag, or who asked for it.
    pub(crate) fn label(&self, life: &Life) -> String {
        let tag = self.name(life.tag);
        let label = if tag.is_empty() { self.calls(life.stack, 1) } else { tag.into_owned() };
        if label.is_empty() { "block".to_owned() } else { label }
    }
}
